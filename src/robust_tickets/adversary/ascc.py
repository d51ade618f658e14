"""ASCC (Dong, Luu, Ji and Liu, ICLR 2021): adversarial sparse convex combinations of synonyms' embeddings.

    mix_t(w)  =  sum_k softmax(w_t)_k E[c_tk]          over the candidates c_tk of word t, itself among them
    ascend      KL(f(mix(w)) || f(x)) - sparsity · H(w)      in w; H: mean entropy of swappable words' weights
    descend     CE(f(x), y) + alpha · KL(f(mix(w)) || f(x))

The entropy makes a mix sparse, near to a real word; its gradient is 0 where all weights are equal, so with one step
from 0 (the default) ``sparsity`` changes nothing, and it is the step's length that makes the mix sparse. In the ascent
the candidates' embeddings are constants; in the descent they have gradients, and so do both sides of the divergence.
``w`` starts at 0, the candidates' mean.

| point      | here (default)                            | switch                      | who does the other                         |
|------------|-------------------------------------------|-----------------------------|--------------------------------------------|
| ascent     | one step of 10 along the unit gradient    | ``ascent="adam", steps=10`` | the authors' code, TextDefender (5 steps)  |
| Adam's rate| 10, the authors' for LSTM and CNN         | ``step=1.0``                | both codes on BERT                         |
| sparsity   | 10, TextDefender's                        | ``sparsity=15``             | the authors' code                          |
| divergence | KL(adversarial || clean), as in the paper | ``divergence="clean"``      | both codes: KL(clean || adversarial)       |
| start      | 0                                         | ``init=0.1``                | both codes: a little noise                 |
| dropout    | on in all passes                          |                             | the authors' code: off in the ascent       |
| sums       | means over texts, and over swappable words|                             | the authors' code: a sum, and all positions   |

TextDefender is the benchmark of Li et al. (EMNLP 2021). One normalised step instead of ten of Adam is a choice made
here: in a pilot on SST-2 it was enough, at a tenth of the ascent's cost. alpha 4 and at most 8 candidates a word are
the authors'. The step holds two passes' activations at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from robust_tickets.adversary.objective import Objective
from robust_tickets.adversary.words import WordSpace, table_of
from robust_tickets.config import setting

TINY = 1e-8  # floor of a gradient's norm
NEVER = -1e4  # the weight of a place that holds no candidate: its softmax is exactly 0
BETAS, EPS = (0.9, 0.999), 1e-8  # Adam's


@dataclass(frozen=True, kw_only=True)
class ASCC(WordSpace):
    """``step`` is the length of a normalised step, or Adam's learning rate."""

    candidates: int = 8
    steps: int = setting(1, at_least=1)
    step: float = setting(10.0, at_least=0)
    ascent: Literal["normalised", "adam"] = "normalised"
    sparsity: float = setting(10.0, at_least=0)
    alpha: float = setting(4.0, at_least=0)
    divergence: Literal["adversarial", "clean"] = "adversarial"  # the first argument of KL
    init: float = setting(0.0, at_least=0)  # standard deviation of the first weights

    @property
    def passes(self) -> float:
        """Clean and adversarial pass, and an ascent without gradients of the weights: two thirds of a pass each."""
        return 2 + self.steps * 2 / 3

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the loss, detached."""
        clean = objective.logits()
        weights = self.ascend(objective, clean.detach())
        adversarial = objective.logits(self.mixed(objective, weights, objective.words))
        loss = objective.loss_fn(clean, objective.labels) + self.alpha * self.apart(objective, adversarial, clean)
        objective.backward(loss + objective.penalty())
        return loss.detach()

    def ascend(self, objective: Objective, clean: Tensor) -> Tensor:
        """The weights that drive the model furthest from ``clean``, its own logits; (batch, tokens, candidates)."""
        words, table = table_of(objective), objective.words.detach()
        shape = (*objective.inputs["input_ids"].shape, words.most)
        start = torch.randn(shape, generator=objective.generator, device=table.device, dtype=table.dtype)
        w = self.init * start
        positions = words.swappable(objective.inputs, objective.labels)
        first, second = torch.zeros_like(w), torch.zeros_like(w)
        for k in range(1, self.steps + 1):
            w = w.detach().requires_grad_()
            apart = self.apart(objective, objective.logits(self.mixed(objective, w, table)), clean)
            log_weights = self.log_softmax(objective, w)
            entropy = -(log_weights.exp() * log_weights).sum(-1)
            sparse = (entropy * positions).sum() / positions.sum().clamp_min(1)
            (gradient,) = torch.autograd.grad(apart - self.sparsity * sparse, w)
            if self.ascent == "normalised":
                move = gradient / torch.linalg.vector_norm(gradient, dim=-1, keepdim=True).clamp_min(TINY)
            else:
                first = BETAS[0] * first + (1 - BETAS[0]) * gradient
                second = BETAS[1] * second + (1 - BETAS[1]) * gradient**2
                move = first / (1 - BETAS[0] ** k) / ((second / (1 - BETAS[1] ** k)).sqrt() + EPS)
            w = w.detach() + self.step * move
        return w

    def mixed(self, objective: Objective, w: Tensor, table: Tensor) -> Tensor:
        """The mix of every word minus its own embedding, zero where nothing may be swapped."""
        words, ids = table_of(objective), objective.inputs["input_ids"]
        shares = self.log_softmax(objective, w).exp()
        # a weighted sum of rows that never holds (batch, tokens, candidates, width) numbers
        mix = F.embedding_bag(words.of(ids).flatten(0, 1), table, per_sample_weights=shares.flatten(0, 1), mode="sum")
        # not table[ids]: on several CPU threads the gradient of plain indexing adds repeated rows in any order
        return (mix.view(*ids.shape, -1) - F.embedding(ids, table)) * words.swappable(
            objective.inputs, objective.labels
        ).unsqueeze(-1)

    def log_softmax(self, objective: Objective, w: Tensor) -> Tensor:
        """Over the candidates that a word has."""
        words, ids = table_of(objective), objective.inputs["input_ids"]
        has = torch.arange(words.most, device=ids.device) < words.counts[ids].unsqueeze(-1)
        return w.masked_fill(~has, NEVER).log_softmax(-1)

    def apart(self, objective: Objective, adversarial: Tensor, clean: Tensor) -> Tensor:
        """The mean divergence of two sets of logits."""
        wide = torch.promote_types(clean.dtype, torch.float32)
        p, q = (logits.to(wide).log_softmax(-1) for logits in (adversarial, clean))
        if self.divergence == "clean":
            p, q = q, p
        return objective.mean((p.exp() * (p - q)).sum(-1))


REGISTERED = ASCC
