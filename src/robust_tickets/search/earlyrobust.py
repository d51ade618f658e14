"""EarlyRobust (Xi et al., EMNLP 2022, "Efficient Adversarial Training with Robust Early-Bird Tickets"), stage 1.

Slimming coefficients on heads and neurons are trained with the model under FreeLB and an L1 term; once the masks they draw stop changing,
five times in a row, the search ends. The ticket is that of the first of the five; everything else is thrown away. Fine-tuning starts from
theta_0, its head included.

Defaults are the paper's (§4.4, Table 6) and, where it is silent, its released code: AdamW 2e-5, weight decay 1e-2 (coefficients too),
linear warm-up over 10 % of one epoch and decay to its end, clip 1, K 5, eps0 .05, no projection. L1 weights and step size are IMDB's
unless ``EarlyRobust.for_task("sst2")`` picks a row of Table 6; batches are GLUE's 32, IMDB and AG News have 8 there.

Where the released code differs from the paper, the paper is the default and the code a switch. ``stop="official"``: an anchor and its
next five points; ``at="before"``: and drawn one update before the anchor's masks were compared. ``stop="fixed"``: the shipped script's
0.2 epoch, ``at_epoch``. ``rule="quantile"``: strict quantile, over-prunes under ties. ``loader_shuffle=False``: file order; IMDB's first
12,500 rows have one label. ``FreeLB(token_types=False)``. Its silent fall-back when nothing converges is not offered: that is reported and
recorded. Ablations: ``adversary=None``, ``head_l1=0, neuron_l1=0``, ``head_scope="layer"``, ``neuron_scope="layer"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Adversary
from robust_tickets.config import component
from robust_tickets.search.base import Found, SearchRun
from robust_tickets.search.coefficient_search import CoefficientSearch, MaskTrace

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# Table 6 (L1 weights, step size) and §4.4 (neurons removed), with the released scripts' batch sizes
TABLE6: dict[str, dict[str, float]] = {
    "imdb": {"head_l1": 1e-5, "neuron_l1": 2e-4, "step_size": 0.01, "neurons": 0.4, "batch_size": 8},
    "sst2": {"head_l1": 1e-4, "neuron_l1": 3e-4, "step_size": 0.02, "neurons": 0.3, "batch_size": 32},
    "ag_news": {"head_l1": 3e-4, "neuron_l1": 5e-5, "step_size": 0.01, "neurons": 0.2, "batch_size": 8},
    "qnli": {"head_l1": 2e-4, "neuron_l1": 3e-4, "step_size": 0.01, "neurons": 0.3, "batch_size": 32},
    "qqp": {"head_l1": 1e-5, "neuron_l1": 1e-5, "step_size": 0.01, "neurons": 0.3, "batch_size": 32},
}


@dataclass(frozen=True, kw_only=True)
class EarlyRobust(CoefficientSearch):
    """``EarlyRobust()(classifier, task)`` finds a ticket and leaves the classifier as it was. ``heads``, ``neurons``: fractions removed."""

    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        name: {**{k: v for k, v in row.items() if k != "step_size"}, "adversary": {"step_size": row["step_size"]}}
        for name, row in TABLE6.items()
    }

    heads: float = 1 / 6
    neurons: float = 0.3
    head_l1: float = 1e-5
    neuron_l1: float = 2e-4
    adversary: Adversary | None = component("adversaries", FreeLB())

    def search(self, theta: PreTrainedModel, run: SearchRun) -> Found:
        """Train coefficients c with theta under the adversary until the masks they draw stop changing."""
        from robust_tickets.prune.gates import Gates

        with Gates(theta) as c:  # c = 1 on every head and neuron of a copy of theta_0
            masks = run.remember(MaskTrace(c, draw=partial(self.draw, theta), at=self.mini_epochs(run)))
            for step in run.steps(
                {"model": theta, "gates": c},
                under=self.adversary,
                penalty=lambda: c.l1(self.head_l1, self.neuron_l1),  # L1 once, in the last pass
            ):
                # every mini-epoch: the rule of ``stop``
                if masks.record(step, run.loss) and self.stopping(masks) is not None:
                    run.stop()
            return self.found(masks, run)  # the ticket drawn at the point that the rule names


REGISTERED = EarlyRobust
