"""EarlyBERT (Chen et al., ACL 2021, "EarlyBERT: Efficient BERT Training via Early-bird Lottery Tickets"): the search without an adversary.

The same coefficients and L1 term as EarlyRobust on plain cross-entropy, and the ticket drawn at a fixed 0.2 epoch. Defaults are the
released GLUE script's: L1 1e-4 on both kinds, AdamW 2e-5 without weight decay or warm-up, a linear schedule made for 3 epochs of which 1 is
run, batches of 32, heads 1/3 in every layer, neurons 0.4 over all layers. As nothing after the drawing point reaches the ticket, the
search ends there. Its re-training is ``FineTune(lr=4e-5, epochs=2)``; there the released code leaves the coefficients trainable, here
they are gone.

``EarlyBERT.for_task("imdb")`` is the baseline of EarlyRobust's paper: EarlyRobust's sparsity and batches (and 10 epochs of
fine-tuning). That paper does not state the scope of its heads; this keeps EarlyBERT's. "EarlyRobust without adversary" is another run:
heads drawn globally, Table 6's L1 weights, the stopping rule. Early-Bird's own rule (You et al., ICLR 2020) is ``stop="early_bird"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from robust_tickets.adversary.objective import Adversary
from robust_tickets.config import component
from robust_tickets.search.earlyrobust import TABLE6, EarlyRobust


@dataclass(frozen=True, kw_only=True)
class EarlyBERT(EarlyRobust):
    """``EarlyBERT()(classifier, task)`` finds a ticket and leaves the classifier as it was. ``heads``, ``neurons``: fractions removed."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {"heads": 1 / 6, "neurons": row["neurons"], "batch_size": row["batch_size"]}
        for name, row in TABLE6.items()
    }

    heads: float = 1 / 3
    neurons: float = 0.4
    head_l1: float = 1e-4
    neuron_l1: float = 1e-4
    adversary: Adversary | None = component("adversaries")
    head_scope: Literal["global", "layer"] = "layer"
    stop: Literal["paper", "official", "early_bird", "fixed"] = "fixed"
    at_epoch: float = 0.2
    epochs: int = 1
    horizon: int = 3
    lr: float = 2e-5
    weight_decay: float = 0.0
    warmup: float = 0.0


REGISTERED = EarlyBERT
