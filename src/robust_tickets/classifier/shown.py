"""A classifier in one line, for notebooks: what it is, how large, and what was cut from it."""

from __future__ import annotations

from typing import Any

from robust_tickets.backbone.layout import has_layout, layout_of


def shown(clf: Any) -> str:
    """``Classifier('minilm', bert, 22,713,986 parameters, kept: heads=60/72, …)``: a compact model is not to look like the whole one."""
    parts = [repr(clf.identity)]
    if clf.model is not None:
        parts.append(str(clf.model.config.model_type).removeprefix("ticket-"))
        parts.append(f"{sum(p.numel() for p in clf.model.parameters()):,} parameters")
        if units := _kept(clf.model):
            parts.append("kept: " + ", ".join(f"{group}={left}/{size}" for group, (left, size) in units.items()))
    return f"Classifier({', '.join(parts)}, labels={list(clf.labels)}, max_length={clf.max_length})"


def _kept(model: Any) -> dict[str, tuple[int, int]]:
    """Units left and units of the whole model, of the groups that a ticket cut."""
    from robust_tickets.backbone.weight_masks import masks_of

    found: dict[str, tuple[int, int]] = {}
    config = model.config
    for group, size in layout_of(config).sizes(config).items() if has_layout(config) else ():
        if (kept := getattr(config, f"kept_{group}", None)) is not None:
            found[group] = sum(map(len, kept)), size * config.num_hidden_layers
    if masks := masks_of(model):
        found["weights"] = sum(int(mask.sum()) for mask in masks.values()), sum(mask.numel() for mask in masks.values())
    return found
