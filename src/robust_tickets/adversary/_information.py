"""InfoBERT's two bounds on mutual information, over all tokens of a batch at once and without reading a value back from the device.

The released code walks over sentences, tokens and chunks in Python. How many tokens there are is only known on the device, so here every
array has a width that follows from the batch's shape, and what lies beyond the tokens is masked. Rows are looked up with
``F.embedding``, whose gradient adds repeated rows in a fixed order on CPU and on CUDA; that of plain indexing does not on CPU.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

UNITS = 300  # of the critic's hidden layer, as in the released code
NEVER = -1e30  # a score that logsumexp does not see; -inf would make NaN gradients where a whole row is masked


class Critic(nn.Module):
    """softplus(MLP([token; sentence] -> 300 -> 1)): how well a token and a sentence go together.

    The first matrix lies here as its two halves: one product per token and one per sentence instead of one per pair. Initialised as
    ``nn.Linear`` is, U(+-1/sqrt(inputs)), from ``generator``.
    """

    def __init__(self, width: int, generator: torch.Generator, dtype: torch.dtype) -> None:
        super().__init__()
        self.token = skip_init(nn.Linear, width, UNITS, bias=False, dtype=dtype)
        self.sentence = skip_init(nn.Linear, width, UNITS, dtype=dtype)
        self.score = skip_init(nn.Linear, UNITS, 1, dtype=dtype)
        with torch.no_grad():
            for module, inputs in ((self.token, 2 * width), (self.sentence, 2 * width), (self.score, UNITS)):
                for parameter in module.parameters():
                    parameter.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)

    def forward(self, token: Tensor, sentence: Tensor) -> Tensor:
        """Scores of (already halved) tokens and sentences, which broadcast against one another."""
        return F.softplus(self.score(F.relu(token + sentence))).squeeze(-1)


def upper_bound(embedded: Tensor, real: Tensor, draws: Tensor) -> Tensor:
    """mean_n |T_n - T_pi(n)|^2 / 2 over the real tokens T of the batch; pi(n) is a real token drawn with replacement.

    ``real`` is (batch, tokens), true off the padding; ``draws`` has one number in [0, 1) for every position: pi(n) is the
    floor(draw * N)-th real token in reading order.
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

    Each sentence's n real tokens are ranked by their gradient's norm, ascending, equal ones by position; ranks from ceil(low * n) to
    before ceil(high * n) are kept.
    """
    norms = torch.linalg.vector_norm(gradient, dim=2).masked_fill(~real, torch.inf)
    ranked = norms.argsort(dim=1, stable=True)
    count = real.sum(dim=1, keepdim=True, dtype=torch.float64)  # as Python's floats round
    first, end = (low * count).ceil().long(), (high * count).ceil().long()
    slots = first + torch.arange(most_anchored(real.shape[1], low, high), device=real.device)
    return ranked.gather(1, slots.clamp_max(real.shape[1] - 1)), slots < end


def lower_bound(
    critic: Critic, embedded: Tensor, sentences: Tensor, places: Tensor, kept: Tensor, draws: Tensor, size: int
) -> Tensor:
    """InfoNCE between kept tokens and their sentences: the mean over chunks of mean_i c(i, i) - mean_i log(1/m sum_j c(i, j)).

    A pair is a kept token and its sentence. Pairs are shuffled by ascending ``draws`` (one for every slot) and cut into chunks of
    ``size``; the last chunk may be shorter (m pairs) and counts as much as the others. c(i, j) is the exponential of the critic's score
    of the i-th sentence and the j-th token. Without any pair the bound is 0.
    """
    slots = places.shape[1]
    shuffled = draws.masked_fill(~kept.flatten(), torch.inf).argsort(stable=True)  # kept pairs first
    chunks = -(-len(shuffled) // size)
    shuffled = F.pad(shuffled, (0, chunks * size - len(shuffled)))
    valid = (torch.arange(chunks * size, device=draws.device) < kept.sum()).view(chunks, size)
    rows = torch.arange(len(places), device=draws.device).unsqueeze(1)
    flat = (rows * embedded.shape[1] + places).flatten()[shuffled]
    token = critic.token(F.embedding(flat.view(chunks, size), embedded.flatten(0, 1)))
    sentence = F.embedding((shuffled // slots).view(chunks, size), critic.sentence(sentences))
    scores = critic(token.unsqueeze(1), sentence.unsqueeze(2))  # (chunk, sentence i, token j)
    matched = scores.diagonal(dim1=1, dim2=2)
    contrast = scores.masked_fill(~valid.unsqueeze(1), NEVER).logsumexp(dim=2)
    pairs = valid.sum(dim=1)
    some = pairs.clamp_min(1).to(scores.dtype)
    bounds = torch.where(valid, matched - contrast, 0.0).sum(dim=1) / some + some.log()
    return bounds.sum() / (pairs > 0).sum().clamp_min(1)
