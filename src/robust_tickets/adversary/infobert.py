"""InfoBERT (Wang et al., ICLR 2021): FreeLB's loop with two bounds on mutual information.

    K times:  T, z   <- the first layer's input (after norm and dropout) and the last layer's [CLS], at E[ids] + delta
              loss   <- task / K + beta / K * mean_n |T_n - T_pi(n)|^2 / 2   upper bound of the tokens' information
              g      <- gradient of the loss with respect to delta
              local  <- tokens of each sentence whose |g_t| has rank ceil(low n) .. ceil(high n) - 1, ascending
              loss   <- loss - alpha / K * InfoNCE((T_t, z) of local tokens t)   lower bound of that about the sentence
              backward; delta <- FreeLB's move along g

The critic of InfoNCE (``Critic``) is trained with the model, by the same optimiser. Rank, ascent and bounds are over
all tokens that are not padding, [CLS] and [SEP] among them.

Both bounds are computed over all tokens of a batch at once, and no value is read back from the device: an array's width
follows from the batch's shape, and what lies beyond the tokens is masked. Rows are looked up with ``F.embedding``,
whose gradient adds repeated rows in a fixed order on CPU and on CUDA; that of plain indexing does not on CPU.

| point          | here (default)                              | released code                                      | switch               |
|----------------|---------------------------------------------|----------------------------------------------------|----------------------|
| g              | gradient to delta alone, then one backward  | two whole backward passes; the same gradients      |                      |
| tokens, chunks | all at once                                 | loops in Python; the same numbers                  |                      |
| shuffle        | drawn anew from the step's generator        | one fixed seed                                     | none                 |
| chunk          | as many pairs as the batch has sentences    | the training batch size                            | ``chunk=n``          |
| dropout        | fresh in each pass (as Flooding-X's copy)   | one mask in all passes; none in the attention      | ``dropout="shared"`` |
| token types    | reach every pass                            | there too; lost in Flooding-X's copy               | ``token_types=False``|
| clipping       | model and critic together                   | the model alone                                    | none                 |
| critic's biases| not decayed, as all biases                  | decayed                                            | none                 |

Defaults: the released code's (K 3, step .04, init .08, no projection, alpha = beta = .005, ranks .5 to .9). ``alpha=0``
and ``beta=0`` switch a bound off; with both it is FreeLB.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from robust_tickets.adversary.embedding import EmbeddingPerturbation
from robust_tickets.adversary.objective import Ground, Kind, Objective, Seen
from robust_tickets.config import setting
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import torch_generator

UNITS = 300  # of the critic's hidden layer, as in the released code
NEVER = -1e30  # a score that logsumexp does not see; -inf would make NaN gradients where a whole row is masked


class Critic(nn.Module):
    """softplus(MLP([token; sentence] -> 300 -> 1)): how well a token and a sentence go together.

    The first matrix lies here as its two halves: one product per token and one per sentence instead of one per pair.
    Initialised as ``nn.Linear`` is, U(+-1/sqrt(inputs)), from ``generator``.
    """

    def __init__(self, width: int, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        linear: Callable[..., nn.Linear] = partial(skip_init, nn.Linear, dtype=dtype)
        self.token = linear(width, UNITS, bias=False)
        self.sentence = linear(width, UNITS)
        self.score = linear(UNITS, 1)
        with torch.no_grad():
            for module, inputs in ((self.token, 2 * width), (self.sentence, 2 * width), (self.score, UNITS)):
                for parameter in module.parameters():
                    parameter.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)

    def forward(self, token: Tensor, sentence: Tensor) -> Tensor:
        """Scores of (already halved) tokens and sentences, which broadcast against one another."""
        return F.softplus(self.score(F.relu(token + sentence))).squeeze(-1)


def upper_bound(embedded: Tensor, real: Tensor, draws: Tensor) -> Tensor:
    """mean_n |T_n - T_pi(n)|^2 / 2 over the real tokens T of the batch; pi(n) is a real token drawn with replacement.

    ``real`` is (batch, tokens), true off the padding; ``draws`` has one number in [0, 1) for every position: pi(n) is
    the floor(draw * N)-th real token in reading order.
    """
    tokens, real = embedded.flatten(0, 1), real.flatten()
    count = real.sum()
    order = (~real).to(torch.uint8).argsort(stable=True)  # real tokens first, in reading order
    partner = order[(draws * count).long().minimum(count - 1)]
    squares = (tokens - F.embedding(partner, tokens)).square().sum(dim=-1) / 2
    return torch.where(real, squares, 0.0).sum() / count.clamp_min(1)


@lru_cache(maxsize=4096)
def most_anchored(tokens: int, low: float, high: float) -> int:
    """The most tokens that any sentence of at most ``tokens`` tokens keeps; at least 1, so that no array is empty."""
    return max(1, *(math.ceil(high * n) - math.ceil(low * n) for n in range(tokens + 1)))


def anchored(gradient: Tensor, real: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Positions of the tokens that are neither hardly nor most fragile, (batch, slots), and which slots hold one.

    Each sentence's n real tokens are ranked by their gradient's norm, ascending, equal ones by position; ranks from
    ceil(low * n) to before ceil(high * n) are kept.
    """
    norms = torch.linalg.vector_norm(gradient, dim=2).masked_fill(~real, torch.inf)
    ranked = norms.argsort(dim=1, stable=True)
    count = real.sum(dim=1, keepdim=True, dtype=torch.float64)  # as Python's floats round
    first, end = (low * count).ceil().long(), (high * count).ceil().long()
    slots = first + torch.arange(most_anchored(real.shape[1], low, high), device=real.device)
    return ranked.gather(1, slots.clamp_max(real.shape[1] - 1)), slots < end


def lower_bound(
    critic: Critic, embedded: Tensor, sentences: Tensor, positions: Tensor, kept: Tensor, draws: Tensor, size: int
) -> Tensor:
    """InfoNCE of kept tokens and their sentences: mean_i c(i, i) - mean_i log(1/m sum_j c(i, j)), over chunks.

    A pair is a kept token and its sentence. Pairs are shuffled by ascending ``draws`` (one for every slot) and cut into
    chunks of ``size``; the last chunk may be shorter (m pairs) and counts as much as the others. c(i, j) is the
    exponential of the critic's score of the i-th sentence and the j-th token. Without any pair the bound is 0.
    """
    slots = positions.shape[1]
    shuffled = draws.masked_fill(~kept.flatten(), torch.inf).argsort(stable=True)  # kept pairs first
    chunks = -(-len(shuffled) // size)
    shuffled = F.pad(shuffled, (0, chunks * size - len(shuffled)))
    valid = (torch.arange(chunks * size, device=draws.device) < kept.sum()).view(chunks, size)
    rows = torch.arange(len(positions), device=draws.device).unsqueeze(1)
    flat = (rows * embedded.shape[1] + positions).flatten()[shuffled]
    token = critic.token(F.embedding(flat.view(chunks, size), embedded.flatten(0, 1)))
    sentence = F.embedding((shuffled // slots).view(chunks, size), critic.sentence(sentences))
    scores = critic(token.unsqueeze(1), sentence.unsqueeze(2))  # (chunk, sentence i, token j)
    matched = scores.diagonal(dim1=1, dim2=2)
    contrast = scores.masked_fill(~valid.unsqueeze(1), NEVER).logsumexp(dim=2)
    pairs = valid.sum(dim=1)
    some = pairs.clamp_min(1).to(scores.dtype)
    bounds = torch.where(valid, matched - contrast, 0.0).sum(dim=1) / some + some.log()
    return bounds.sum() / (pairs > 0).sum().clamp_min(1)


@dataclass(frozen=True, kw_only=True)
class InfoBERT(EmbeddingPerturbation):
    """``low`` and ``high`` are fractions of a sentence's tokens."""

    # its lower bound ties tokens to the sentence's vector ([CLS]), which masked-language modelling does not train
    defined_for: ClassVar[tuple[Kind, ...]] = ("classification",)

    steps: int = setting(3, at_least=1)
    step_size: float = 0.04
    init: float = 0.08
    alpha: float = setting(5e-3, at_least=0)  # weight of the lower bound
    beta: float = setting(5e-3, at_least=0)  # weight of the upper bound
    low: float = setting(0.5, at_least=0, at_most=1)
    high: float = setting(0.9, at_least=0, at_most=1)
    # pairs that are contrasted with one another; 0: as many as the batch has sentences
    chunk: int = setting(0, at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            message = f"InfoBERT needs 0 <= low < high <= 1, got low={self.low}, high={self.high}"
            raise TicketsError(message, hint="the released code has .5 and .9", code="adversary.ranks")

    @property
    def passes(self) -> float:
        """The gradient to delta costs a third of a pass more (forward 1, to the inputs 1, to the weights 1)."""
        return self.steps * 4 / 3 if self.alpha else float(self.steps)

    def begin(self, ground: Ground) -> Critic:
        dtype = torch.promote_types(ground.words.dtype, torch.float32)
        return Critic(ground.model.config.hidden_size, torch_generator(ground.seed, "infobert", "critic"), dtype)

    def __call__(self, objective: Objective) -> Tensor:
        """Accumulate the step's gradients; returns the mean task loss over the passes, detached."""
        objective, rewind = self.seen(objective), self.rewinding(objective)
        delta = self.start(objective)
        total = torch.zeros((), device=delta.device)
        for k in range(1, self.steps + 1):
            last = k == self.steps
            delta.requires_grad_(not last or self.alpha > 0)  # the last pass ranks tokens, but moves delta no more
            rewind()
            with objective.seeing() as seen:
                task = objective.loss(delta)
            total = total + task.detach()
            loss = task / self.steps
            if self.beta:
                loss = loss + self.beta / self.steps * self.upper(objective, seen)
            gradient = None
            if self.alpha:
                (gradient,) = torch.autograd.grad(loss, delta, retain_graph=True)
                loss = loss - self.alpha / self.steps * self.lower(objective, seen, gradient)
            objective.backward(loss + (objective.penalty() if last else 0.0))
            if last:
                break
            gradient = delta.grad if gradient is None else gradient
            assert gradient is not None
            delta = self.move(objective, delta, gradient)
        return total / self.steps

    def upper(self, objective: Objective, seen: Seen) -> Tensor:
        real = objective.inputs["attention_mask"].bool()
        return upper_bound(_wide(seen.embedded), real, _draws(objective, real.numel()))

    def lower(self, objective: Objective, seen: Seen, gradient: Tensor) -> Tensor:
        assert isinstance(objective.memory, Critic)
        real = objective.inputs["attention_mask"].bool()
        positions, kept = anchored(gradient, real, self.low, self.high)
        draws, size = _draws(objective, positions.numel()), self.chunk or len(real)
        return lower_bound(objective.memory, _wide(seen.embedded), _wide(seen.last[:, 0]), positions, kept, draws, size)


def _draws(objective: Objective, count: int) -> Tensor:
    """Numbers in [0, 1) from the step's own generator."""
    return torch.rand(count, generator=objective.generator, device=objective.words.device, dtype=torch.float64)


def _wide(hidden: Tensor) -> Tensor:
    """In fp32 or better: squared distances and exponentials are not for half precision."""
    return hidden.to(torch.promote_types(hidden.dtype, torch.float32))


REGISTERED = InfoBERT
