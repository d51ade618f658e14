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

from robust_tickets.layout import Layout, encoder_of, layout_of
from robust_tickets.prune.configuration import kept_by, made, ticket_config
from robust_tickets.registry import BACKBONES

MAPPINGS = ("MODEL_MAPPING", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING", "MODEL_FOR_MASKED_LM_MAPPING")


class Cut(NamedTuple):
    """One tensor that pruning touches: the indices it keeps along one dimension."""

    name: str  # in the model's state dict
    group: str  # "heads" or "neurons"
    dim: int
    kept: torch.Tensor


def cuts(model: Any, layout: Layout, kept: dict[str, list[list[int]]]) -> Iterator[Cut]:
    """Every tensor of a dense ``model`` that loses rows or columns when each layer keeps ``kept``."""
    encoder, size = encoder_of(model), layout.head_size(model)
    prefix = "" if encoder is model else f"{model.base_model_prefix}."
    for i, layer in enumerate(layout.layers_of(model)):
        rows = torch.tensor([h * size + j for h in kept["heads"][i] for j in range(size)])
        neurons = torch.tensor(kept["neurons"][i])
        at = f"{prefix}{layout.layers}.{i}."
        inner = ((layout.query, "heads", rows), (layout.key, "heads", rows), (layout.value, "heads", rows), (layout.up, "neurons", neurons))
        for path, group, index in inner:
            yield Cut(f"{at}{path}.weight", group, 0, index)
            if layer.get_submodule(path).bias is not None:
                yield Cut(f"{at}{path}.bias", group, 0, index)
        yield Cut(f"{at}{layout.attention_output}.weight", "heads", 1, rows)
        yield Cut(f"{at}{layout.down}.weight", "neurons", 1, neurons)


def shrink(model: Any) -> None:
    """Cut a freshly built stock model down to what its config keeps, in place."""
    kept, layout = kept_by(model.config), layout_of(model)
    heads = layout.heads_of(model)
    for cut in cuts(model, layout, kept):
        path, _, leaf = cut.name.rpartition(".")
        module = model.get_submodule(path)
        old = getattr(module, leaf)
        setattr(module, leaf, nn.Parameter(old.detach().index_select(cut.dim, cut.kept.to(old.device)), requires_grad=old.requires_grad))
        if leaf == "weight":
            module.out_features, module.in_features = module.weight.shape
    for i, layer in enumerate(layout.layers_of(model)):
        if len(kept["heads"][i]) < heads[i]:
            attention = layer.get_submodule(layout.query.rpartition(".")[0])
            for name, value in (
                ("num_attention_heads", len(kept["heads"][i])),
                ("all_head_size", len(kept["heads"][i]) * layout.head_size(model)),
            ):
                if hasattr(attention, name):
                    setattr(attention, name, value)
            layout.heads_changed(model, i, kept["heads"][i])


_classes: dict[Any, Any] = {}  # stock class -> ticket class


def ticket_class(stock: Any) -> Any:
    """The pruned twin of a stock model class; always the same one."""
    config_class = ticket_config(stock.config_class.model_type)  # may itself come here: ask it before looking
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


def register() -> None:
    """Teach the auto classes the models of every ticket config made so far; harmless twice."""
    from transformers.models.auto import modeling_auto

    for config_class in made():
        for mapping in (getattr(modeling_auto, mapping) for mapping in MAPPINGS):
            if config_class.stock_class in mapping and config_class not in mapping:
                mapping.register(config_class, ticket_class(mapping[config_class.stock_class]))


def twin_of(model: Any) -> Any:
    """The ticket class of a stock model, registered with the auto classes; a ticket model's own class."""
    register()
    return ticket_class(stock_of(model))


def stock_of(model: Any) -> Any:
    """The stock class of a ticket model; a stock model's own class."""
    own: Any = type(model)
    return getattr(own, "stock_class", own)


def __getattr__(name: str) -> Any:
    """``TicketBertForMaskedLM`` and its like, by name: what pickling and documentation tools ask a module for."""
    if name.startswith("Ticket"):
        from transformers.models.auto import modeling_auto

        for backbone in BACKBONES.names():
            config_class = ticket_config(BACKBONES.get(backbone).family)
            for mapping in (getattr(modeling_auto, mapping) for mapping in MAPPINGS):
                if config_class in mapping and mapping[config_class].__name__ == name:
                    return mapping[config_class]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
