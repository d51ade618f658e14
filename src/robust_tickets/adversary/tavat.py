"""TAVAT (Li and Qiu, AAAI 2021, arXiv 2004.14543): FreeLB with a second perturbation kept per word.

A table Delta (vocabulary x width) starts as U(-1, 1) * init / sqrt(width) and is saved with every checkpoint. In a
batch, position t of sentence i has delta_it (of the instance, FreeLB's) + eta_it (of the token):

    eta <- Delta[ids], 0 at padding, divided by its norm over the whole batch
    K times:  loss at E[ids] + delta + eta, backward at weight 1/K; after the K-th: Delta[ids] += eta, and done
              g        <- gradient of the loss at the sum (so delta and eta share it)
              delta_i  <- delta_i  + step_size * g_i  / |g_i|          one norm per sentence
              eta_it   <- eta_it   + step_size * g_it / |g_it|         one norm per token
              eta_it   <- eta_it * |eta_it| / max_s |eta_is|           tokens that moved little count less
              both     <- both * min(1, max_norm / |delta_i + eta_i|)  one factor per sentence, for the sum

A word that occurs n times in a batch adds n rows to its row of Delta, so Delta grows; what is read is divided by the
batch's norm. [CLS] and [SEP] are words like others. Norms have a floor of 1e-8, so a table of zeros stays one.

| point         | here (default)                    | released code                                                 | switch               |
|---------------|-----------------------------------|---------------------------------------------------------------|----------------------|
| loss          | mean of the K passes, as FreeLB's | their sum: gradients K times as large, then clipped           | ``sum_passes=True``  |
| padding       | never perturbed, in no norm       | eta there is in both norms and in Delta's [PAD] row           | none                 |
| ``max_norm=0``| no projection                     | deltas shrink to 0                                            | none                 |
| dropout       | fresh in each pass                | the same                                                      | ``dropout="shared"`` |

Defaults: the released code's command for SST-2 (K 2, step .05, init .2, max_norm .5). Its others, as
step/init/max_norm: MNLI .1/.3/.4, QQP .2/.32/.7, QNLI .02/.1/.3, MRPC .05/.1/.2, RTE .02/.16/.14, with K 2; CoLA
.02/.1/.2 with K 3. The method is only written with l2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from robust_tickets.adversary.embedding import TINY, EmbeddingPerturbation
from robust_tickets.adversary.objective import Ground, Objective
from robust_tickets.config import setting
from robust_tickets.seeds import torch_generator


class TokenTable(nn.Module):
    """Delta: what every word of the vocabulary has been perturbed by."""

    table: Tensor

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table)


@dataclass(frozen=True, kw_only=True)
class TAVAT(EmbeddingPerturbation):
    """FreeLB's passes; Delta takes a table of the word embeddings' size, on the device and in checkpoints."""

    steps: int = setting(2, at_least=1)
    step_size: float = 0.05
    init: float = 0.2
    max_norm: float = 0.5
    norm: Literal["l2"] = "l2"
    sum_passes: bool = False

    @property
    def passes(self) -> int:
        return self.steps

    def begin(self, ground: Ground) -> TokenTable:
        words = ground.words
        unit = torch.rand(words.shape, generator=torch_generator(ground.seed, "tavat", "table"), dtype=words.dtype)
        return TokenTable((unit * 2 - 1) * (self.init / words.shape[1] ** 0.5))

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients and update Delta; returns the mean loss over the passes, detached."""
        objective, rewind = self.seen(objective), self.rewinding(objective)
        assert isinstance(objective.memory, TokenTable)
        table, ids = objective.memory.table, objective.inputs["input_ids"]
        instance, token = self.start(objective), self.read(table, ids) * objective.mask
        token = token / torch.linalg.vector_norm(token).clamp_min(TINY)
        total = torch.zeros((), device=token.device)
        for k in range(1, self.steps + 1):
            last = k == self.steps
            delta = (instance + token).requires_grad_(not last)
            rewind()
            loss = objective.loss(delta)
            objective.backward(loss / (1 if self.sum_passes else self.steps) + (objective.penalty() if last else 0.0))
            total = total + loss.detach()
            if last:
                break
            assert delta.grad is not None
            instance, token = self.move_both(instance, token, delta.grad * objective.mask)
        add_rows(table, ids.flatten(), token.flatten(0, 1))
        return total / self.steps

    def read(self, table: Tensor, ids: Tensor) -> Tensor:
        return table.index_select(0, ids.flatten()).view(*ids.shape, -1)

    def move_both(self, instance: Tensor, token: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """One ascent of each, the re-weighting of tokens, and the projection of their sum."""
        instance = self.ascend(instance, gradient)
        token = token + self.step_size * gradient / _norms(gradient).clamp_min(TINY)
        lengths = _norms(token)
        token = token * (lengths / lengths.amax(dim=1, keepdim=True).clamp_min(TINY))
        if self.max_norm == 0:
            return instance, token
        factor = (self.max_norm / self.size(instance + token).clamp_min(TINY)).clamp_max(1.0)
        return instance * factor, token * factor


def _norms(delta: Tensor) -> Tensor:
    """The norm of each token, shape (batch, tokens, 1)."""
    norms: Tensor = torch.linalg.vector_norm(delta, dim=2, keepdim=True)
    return norms


def add_rows(table: Tensor, ids: Tensor, rows: Tensor) -> None:
    """``table[ids] += rows`` in place, where rows of repeated ids add up, in the same order in every run.

    An accumulating ``index_put_`` sorts on CUDA but adds from several threads, in any order, on CPU; ``index_add_`` is
    the other way round.
    """
    if table.device.type == "cuda":
        table.index_put_((ids,), rows, accumulate=True)
    else:
        table.index_add_(0, ids, rows)


REGISTERED = TAVAT
