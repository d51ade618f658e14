"""Pruned models that reload: config and model classes that keep fewer heads and neurons in each layer.

``Ticket<Family>Config``, ``Ticket<Family>Model``, ``…ForSequenceClassification`` and ``…ForMaskedLM`` are made from the
family's stock classes, found through transformers' auto mappings, so that a new backbone brings its own. A ticket class
builds the stock model and then cuts its projections; on the meta device, where ``from_pretrained`` builds models, this
costs nothing. No modelling code is forked and no remote code is needed.

``kept_heads`` and ``kept_neurons`` of a config hold, per layer, the kept indices counted in the dense model: enough to
rebuild the uneven shapes and to expand them again. In config.json a layer is one text, ``"0-5,7,9-12"``; both forms are
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from robust_tickets.backbone.layout import Layout, layout_of, prefix_of
from robust_tickets.errors import TicketsError
from robust_tickets.registry import BACKBONES

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PREFIX = "ticket-"
GROUPS = ("heads", "neurons")
LOADED_BY = "import robust_tickets.auto"  # written into config.json, for readers who have transformers alone
DAMAGED = "the config is damaged or belongs to another model"

AUTO = {
    "AutoModel": "MODEL_MAPPING",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING",
}

_configs: dict[str, Any] = {}  # family -> config class
_classes: dict[Any, Any] = {}  # stock class -> ticket class


def ticket_config(family: str) -> Any:
    """The config class of ``family``'s pruned models; always the same one."""
    if family not in _configs:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        stock = CONFIG_MAPPING[family]
        body = {
            "__module__": __name__,
            "__doc__": f"{stock.__name__} and, per layer, the heads and neurons that a ticket kept.",
            "__annotations__": {"kept_heads": list | None, "kept_neurons": list | None},  # of indices, or their text
            "model_type": PREFIX + family,
            "kept_heads": None,  # None: all of them
            "kept_neurons": None,
            "stock_class": stock,
            "__post_init__": _read_texts,
            "to_dict": _write_texts,
        }
        _configs[family] = type(f"Ticket{stock.__name__}", (stock,), body)
    return _configs[family]


def _read_texts(self: Any, **kwargs: Any) -> None:
    """``__post_init__`` of every ticket config: texts become lists of indices."""
    self.stock_class.__post_init__(self, **kwargs)
    for group, size in layout_of(self).sizes(self).items():
        kept = getattr(self, f"kept_{group}")
        if isinstance(kept, list):
            read = [from_text(layer, size) if isinstance(layer, str) else layer for layer in kept]
            setattr(self, f"kept_{group}", read)


def _write_texts(self: Any) -> dict[str, Any]:
    """``to_dict`` of every ticket config: lists of indices become texts, and the line that loads the model is added."""
    values: dict[str, Any] = self.stock_class.to_dict(self)
    for group in GROUPS:
        kept = values.get(f"kept_{group}")
        if kept is not None:
            values[f"kept_{group}"] = [layer if isinstance(layer, str) else to_text(layer) for layer in kept]
    return {**values, "loaded_by": LOADED_BY}


def to_text(indices: Sequence[int]) -> str:
    """Rising indices as text: ``[0, 1, 2, 5]`` is ``"0-2,5"``."""
    runs: list[list[int]] = []
    for i in indices:
        if runs and runs[-1][1] + 1 == i:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_text(text: str, size: int) -> list[int]:
    """The indices that ``to_text`` wrote, all below ``size``: no text asks for more memory than the model has."""
    indices: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last) if dash else (first, first)
        digits = all(end.isascii() and end.isdigit() and len(end) < 10 for end in ends)
        if not digits or not int(ends[0]) <= int(ends[1]) < size:
            message = f"kept indices in the config: {part!r:.40} in {text!r:.40} is no index and no range below {size}"
            raise TicketsError(message, hint=DAMAGED, code="config.kept")
        indices.extend(range(int(ends[0]), int(ends[1]) + 1))
        if len(indices) > size:  # overlapping ranges, refused by kept_by
            break
    return indices


def kept_by(config: Any) -> dict[str, list[list[int]]]:
    """What each layer of a pruned (or dense) model keeps of the dense one; refuses a config that cannot be true."""
    layers, sizes = config.num_hidden_layers, layout_of(config).sizes(config)
    return {group: _checked(group, getattr(config, f"kept_{group}", None), layers, sizes[group]) for group in GROUPS}


def _checked(group: str, kept: Any, layers: int, size: int) -> list[list[int]]:
    if kept is None:
        return [list(range(size)) for _ in range(layers)]
    if not isinstance(kept, Sequence) or len(kept) != layers:
        found = len(kept) if isinstance(kept, Sequence) else type(kept).__name__
        message = f"kept_{group} in the config must hold one list for each of the {layers} layers, got {found}"
        raise TicketsError(message, hint=DAMAGED, code="config.kept")
    for layer, indices in enumerate(kept):
        whole = isinstance(indices, Sequence) and all(type(i) is int for i in indices)
        if not whole or not indices or list(indices) != sorted(set(indices)) or indices[0] < 0 or indices[-1] >= size:
            message = f"kept_{group} in the config, layer {layer}: not rising indices below {size}: {indices!r:.80}"
            raise TicketsError(message, hint=DAMAGED, code="config.kept")
    return [list(indices) for indices in kept]


def convert(config: Any, config_class: Any, **changes: Any) -> Any:
    """``config`` as another class of its family, with ``changes``."""
    own = ("model_type", "architectures", "transformers_version", "kept_heads", "kept_neurons", "loaded_by")
    values = {name: value for name, value in config.to_dict().items() if name not in own}
    new = config_class.from_dict({**values, **changes})
    new._attn_implementation = config._attn_implementation
    new.name_or_path = config.name_or_path
    return new


class Cut(NamedTuple):
    """A tensor that pruning cuts: the indices it keeps along one dimension, and the size of that dimension before."""

    name: str  # in the model's state dict
    dim: int
    kept: torch.Tensor
    size: int


def cuts(
    model: PreTrainedModel, layout: Layout, kept: dict[str, list[list[int]]], of: dict[str, list[int]] | None = None
) -> Iterator[Cut]:
    """Every tensor of ``model`` that loses rows or columns when each layer keeps ``kept``.

    The indices count units among ``of`` many in each layer: by default those that the model has now. A fused projection
    keeps the same rows in each of its blocks.
    """
    of, prefix = of or layout.units_of(model), prefix_of(model)
    wide = {"heads": layout.head_size(model), "neurons": 1}
    for i, layer in enumerate(layout.layers_of(model)):
        length = {group: of[group][i] * wide[group] for group in wide}
        units = {
            group: [unit * wide[group] + j for unit in kept[group][i] for j in range(wide[group])] for group in wide
        }
        at = f"{prefix}{layout.layers}.{i}."
        for path, (group, blocks) in layout.rows_of(layer).items():
            rows = torch.tensor([block * length[group] + unit for block in range(blocks) for unit in units[group]])
            yield Cut(f"{at}{path}.weight", 0, rows, blocks * length[group])
            if layer.get_submodule(path).bias is not None:
                yield Cut(f"{at}{path}.bias", 0, rows, blocks * length[group])
        for path, group in layout.columns_of().items():
            yield Cut(f"{at}{path}.weight", 1, torch.tensor(units[group]), length[group])


def shrink(model: PreTrainedModel) -> None:
    """Cut a freshly built stock model down to what its config keeps, in place."""
    kept, layout = kept_by(model.config), layout_of(model)
    heads = layout.heads_of(model)
    for cut in cuts(model, layout, kept):
        path, _, leaf = cut.name.rpartition(".")
        module = model.get_submodule(path)
        old = module.get_parameter(leaf)
        small = old.detach().index_select(cut.dim, cut.kept.to(old.device))
        setattr(module, leaf, nn.Parameter(small, requires_grad=old.requires_grad))
        if leaf == "weight":
            linear: Any = module
            linear.out_features, linear.in_features = small.shape
    for i, layer in enumerate(layout.layers_of(model)):
        left = len(kept["heads"][i])
        if left < heads[i]:
            attention = layer.get_submodule(layout.query.rpartition(".")[0])
            counts = dict.fromkeys(layout.head_counts, left)
            widths = dict.fromkeys(layout.head_widths, left * layout.head_size(model))
            for name, value in {**counts, **widths}.items():
                if hasattr(attention, name):
                    setattr(attention, name, value)
            layout.heads_changed(model, i, kept["heads"][i])


def ticket_class(stock: Any) -> Any:
    """The pruned twin of a stock model class; always the same one."""
    config_class = ticket_config(stock.config_class.model_type)
    if stock not in _classes:

        def build(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
            stock.__init__(self, config, *args, **kwargs)
            shrink(self)

        body = {
            "__module__": __name__,
            "__doc__": f"{stock.__name__} with the heads and neurons that its config keeps.",
            "__init__": build,
            "config_class": config_class,
            "stock_class": stock,
        }
        _classes[stock] = type(f"Ticket{stock.__name__}", (stock,), body)
    return _classes[stock]


def auto_classes(stock_config: Any) -> Iterator[tuple[Any, Any]]:
    """transformers' auto classes that have a model for ``stock_config``, each with that model's class."""
    import transformers
    from transformers.models.auto import modeling_auto

    for auto, mapping in AUTO.items():
        if stock_config in (models := getattr(modeling_auto, mapping)):
            yield getattr(transformers, auto), models[stock_config]


def twin_of(model: PreTrainedModel) -> Any:
    """The ticket class of a stock model, registered with the auto classes; a ticket model's own class."""
    import robust_tickets.auto  # noqa: F401  # so that the saved twin loads again

    return ticket_class(stock_of(model))


def stock_of(model: PreTrainedModel) -> Any:
    """The stock class of a ticket model; a stock model's own class."""
    own: Any = type(model)
    return getattr(own, "stock_class", own)


def __getattr__(name: str) -> Any:
    """``TicketBertConfig``, ``TicketBertForMaskedLM`` and the others by name, for pickling and documentation tools."""
    if name.startswith("Ticket"):
        for backbone in BACKBONES.names():
            config_class = ticket_config(BACKBONES.get(backbone).family)
            if config_class.__name__ == name:
                return config_class
            for _, stock in auto_classes(config_class.stock_class):
                if name == f"Ticket{stock.__name__}":
                    return ticket_class(stock)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
