"""InfoBERT's bounds as loops over sentences, tokens and chunks: what the package computes at once, for tests and the benchmark.

The conventions are the package's: partners are the floor(draw * N)-th token in reading order, pairs are shuffled by ascending draw, the
last chunk may be shorter and counts as much as the others.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def upper_bound(embedded: Tensor, mask: Tensor, draws: Tensor) -> Tensor:
    flat = [(i, t) for i in range(mask.shape[0]) for t in range(mask.shape[1]) if int(mask[i, t])]
    tokens = torch.stack([embedded[i, t] for i, t in flat])
    squares = []
    for n, (i, t) in enumerate(flat):
        partner = min(int(float(draws[i * mask.shape[1] + t]) * len(flat)), len(flat) - 1)
        squares.append(((tokens[n] - tokens[partner]) ** 2).sum() / 2)
    return torch.stack(squares).mean()


def anchored(gradient: Tensor, mask: Tensor, low: float, high: float) -> list[list[int]]:
    kept = []
    for i in range(mask.shape[0]):
        real = [t for t in range(mask.shape[1]) if int(mask[i, t])]
        ranked = sorted(real, key=lambda t: float(gradient[i, t].norm()))
        kept.append([ranked[r] for r in range(math.ceil(low * len(real)), math.ceil(high * len(real)))])
    return kept


def score(critic: Any, token: Tensor, sentence: Tensor) -> Tensor:
    """softplus(MLP) of concatenated vectors, any leading shape."""
    first = torch.cat([critic.token.weight, critic.sentence.weight], dim=1)
    hidden = torch.relu(torch.cat([token, sentence], dim=-1) @ first.T + critic.sentence.bias)
    return torch.nn.functional.softplus(hidden @ critic.score.weight.T + critic.score.bias).squeeze(-1)


def lower_bound(critic: Any, embedded: Tensor, sentences: Tensor, kept: list[list[int]], draws: Tensor, slots: int, size: int) -> Tensor:
    """``slots`` is how many draws each sentence has; its r-th kept token takes its r-th draw."""
    pairs = [(float(draws[i * slots + r]), embedded[i, t], sentences[i]) for i, places in enumerate(kept) for r, t in enumerate(places)]
    pairs.sort(key=lambda pair: pair[0])
    bounds = []
    for at in range(0, len(pairs), size):
        tokens = torch.stack([token for _, token, _ in pairs[at : at + size]])
        told = torch.stack([sentence for _, _, sentence in pairs[at : at + size]])
        m = len(tokens)
        matched = score(critic, tokens, told)
        everyone = score(critic, tokens.unsqueeze(0).expand(m, m, -1), told.unsqueeze(1).expand(m, m, -1))  # [sentence i, token j]
        bounds.append(matched.mean() - (everyone.logsumexp(dim=1).mean() - math.log(m)))
    return torch.stack(bounds).mean() if bounds else embedded.sum() * 0
