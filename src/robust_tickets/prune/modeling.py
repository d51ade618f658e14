"""Pruned models that reload: stock classes with fewer heads and neurons in each layer, as their config says.

``Ticket<Family>Model``, ``…ForSequenceClassification`` and ``…ForMaskedLM`` are made from the family's stock classes, found through
transformers' own auto mappings. A ticket class builds the stock model and then cuts its projections; on the meta device, where
``from_pretrained`` builds models, this costs nothing. No modelling code is forked and no remote code is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from robust_tickets.backbone.layout import Layout, encoder_of, layout_of
from robust_tickets.prune.configuration import kept_by, ticket_config
from robust_tickets.registry import BACKBONES

AUTO = {
    "AutoModel": "MODEL_MAPPING",
    "AutoModelForSequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "AutoModelForMaskedLM": "MODEL_FOR_MASKED_LM_MAPPING",
}


class Cut(NamedTuple):
    """One tensor that pruning touches: the indices it keeps along one dimension, and how long that dimension is when nothing is cut."""

    name: str  # in the model's state dict
    dim: int
    kept: torch.Tensor
    size: int


def cuts(
    model: Any, layout: Layout, kept: dict[str, list[list[int]]], of: dict[str, list[int]] | None = None
) -> Iterator[Cut]:
    """Every tensor of ``model`` that loses rows or columns when each layer keeps ``kept``.

    The indices count units among ``of`` many in each layer: by default those that the model has now. A fused projection keeps the same
    rows in each of its blocks.
    """
    of = of or {"heads": layout.heads_of(model), "neurons": layout.neurons_of(model)}
    prefix = "" if encoder_of(model) is model else f"{model.base_model_prefix}."
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


def shrink(model: Any) -> None:
    """Cut a freshly built stock model down to what its config keeps, in place."""
    kept, layout = kept_by(model.config), layout_of(model)
    heads = layout.heads_of(model)
    for cut in cuts(model, layout, kept):
        path, _, leaf = cut.name.rpartition(".")
        module = model.get_submodule(path)
        old = getattr(module, leaf)
        setattr(
            module,
            leaf,
            nn.Parameter(old.detach().index_select(cut.dim, cut.kept.to(old.device)), requires_grad=old.requires_grad),
        )
        if leaf == "weight":
            module.out_features, module.in_features = module.weight.shape
    for i, layer in enumerate(layout.layers_of(model)):
        left = len(kept["heads"][i])
        if left < heads[i]:
            attention = layer.get_submodule(layout.query.rpartition(".")[0])
            counts, widths = (
                dict.fromkeys(layout.head_counts, left),
                dict.fromkeys(layout.head_widths, left * layout.head_size(model)),
            )
            for name, value in {**counts, **widths}.items():
                if hasattr(attention, name):
                    setattr(attention, name, value)
            layout.heads_changed(model, i, kept["heads"][i])


_classes: dict[Any, Any] = {}  # stock class -> ticket class


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


def twin_of(model: Any) -> Any:
    """The ticket class of a stock model, registered with the auto classes; a ticket model's own class."""
    import robust_tickets.auto  # noqa: F401  # who saves the twin can load it again

    return ticket_class(stock_of(model))


def stock_of(model: Any) -> Any:
    """The stock class of a ticket model; a stock model's own class."""
    own: Any = type(model)
    return getattr(own, "stock_class", own)


def __getattr__(name: str) -> Any:
    """``TicketBertForMaskedLM`` and its like, by name: what pickling and documentation tools ask a module for."""
    if name.startswith("Ticket"):
        for backbone in BACKBONES.names():
            for _, stock in auto_classes(ticket_config(BACKBONES.get(backbone).family).stock_class):
                if name == f"Ticket{stock.__name__}":
                    return ticket_class(stock)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
