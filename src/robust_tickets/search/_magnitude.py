"""What the magnitude methods share: the absolute weights of the prunable matrices, one round's training, the papers' sparsities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Chen et al.'s released code: 3 epochs a round, no weight decay, no warm-up, gradient norm clipped to 1
ROUND: dict[str, Any] = {"epochs": 3, "lr": 2e-5, "batch_size": 32, "weight_decay": 0.0, "warmup": 0.0, "clip": 1.0}

# the sparsities of "LTH" in RobustT's Table 1; its text says that they equal RobustT's own, but SST-2 has 60 % against 30 % there
LTH: Mapping[str, Mapping[str, Any]] = {
    "imdb": {"sparsity": 0.2},
    "ag_news": {"sparsity": 0.4},
    "sst2": {"sparsity": 0.6},
}


def magnitudes(clf: Any) -> tuple[str, dict[str, np.ndarray]]:
    """The family of ``clf``, and |w| of every matrix that unstructured tickets mask, by its name in the encoder."""
    from robust_tickets.backbone.layout import layout_of

    model = clf.needs_model("pruned")
    layout = layout_of(model)
    return layout.family, {
        name: module.weight.detach().float().abs().cpu().numpy() for name, module in layout.matrices_of(model).items()
    }


def origin(method: Mapping[str, Any], clf: Any, task: Any) -> dict[str, Any]:
    """Where a ticket came from, for its provenance."""
    about: dict[str, Any] = {"method": dict(method), "model": {"identity": clf.identity, "digest": clf.digest}}
    return about if task is None else {**about, "task": {"name": task.name, "digest": task.digest}}
