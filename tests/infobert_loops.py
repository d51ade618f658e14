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
    tokens, drawn = [], []
    for i, real in enumerate(places(mask)):
        tokens.append(embedded[i, real])
        drawn += [float(draws[i * mask.shape[1] + t]) for t in real]
    everything = torch.cat(tokens)
    partners = [min(int(draw * len(drawn)), len(drawn) - 1) for draw in drawn]
    return ((everything - everything[partners]) ** 2 / 2).sum(dim=1).mean()


def anchored(gradient: Tensor, mask: Tensor, low: float, high: float) -> list[list[int]]:
    kept = []
    for i, real in enumerate(places(mask)):
        ranked = torch.sort(gradient[i, real].norm(dim=1), stable=True).indices
        kept.append([real[int(ranked[r])] for r in range(math.ceil(low * len(real)), math.ceil(high * len(real)))])
    return kept


def places(mask: Tensor) -> list[list[int]]:
    """Positions of each sentence's real tokens."""
    return [[t for t, real in enumerate(row) if real] for row in mask.tolist()]


def score(critic: Any, token: Tensor, sentence: Tensor) -> Tensor:
    """softplus(MLP) of concatenated vectors, any leading shape."""
    first = torch.cat([critic.token.weight, critic.sentence.weight], dim=1)
    hidden = torch.relu(torch.cat([token, sentence], dim=-1) @ first.T + critic.sentence.bias)
    return torch.nn.functional.softplus(hidden @ critic.score.weight.T + critic.score.bias).squeeze(-1)


def lower_bound(
    critic: Any, embedded: Tensor, sentences: Tensor, kept: list[list[int]], draws: Tensor, slots: int, size: int
) -> Tensor:
    """``slots`` is how many draws each sentence has; its r-th kept token takes its r-th draw."""
    pairs = [
        (float(draws[i * slots + r]), embedded[i, t], sentences[i])
        for i, places in enumerate(kept)
        for r, t in enumerate(places)
    ]
    pairs.sort(key=lambda pair: pair[0])
    bounds = []
    for at in range(0, len(pairs), size):
        tokens = torch.stack([token for _, token, _ in pairs[at : at + size]])
        told = torch.stack([sentence for _, _, sentence in pairs[at : at + size]])
        m = len(tokens)
        matched = score(critic, tokens, told)
        everyone = score(
            critic, tokens.unsqueeze(0).expand(m, m, -1), told.unsqueeze(1).expand(m, m, -1)
        )  # [sentence i, token j]
        bounds.append(matched.mean() - (everyone.logsumexp(dim=1).mean() - math.log(m)))
    return torch.stack(bounds).mean() if bounds else embedded.sum() * 0
