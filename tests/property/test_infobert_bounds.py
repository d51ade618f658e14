"""The bounds of InfoBERT over all tokens at once equal loops over sentences, tokens and chunks, whatever the lengths."""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import infobert_loops as loops
from robust_tickets.adversary.infobert import Critic, anchored, lower_bound, most_anchored, upper_bound

WIDTH = 6
BOUNDS = st.sampled_from([(0.5, 0.9), (0.0, 1.0), (0.2, 0.3), (0.9, 1.0), (0.0, 0.1)])


def _mask(lengths: list[int], left: bool) -> torch.Tensor:
    mask = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in zip(mask, lengths, strict=True):
        row[len(row) - length if left else 0 : len(row) if left else length] = 1
    return mask


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 23), min_size=1, max_size=6),
    bounds=BOUNDS,
    size=st.integers(1, 9),
    seed=st.integers(0, 2**32),
    left=st.booleans(),
    ties=st.booleans(),
)
@example(lengths=[1], bounds=(0.5, 0.9), size=1, seed=0, left=False, ties=False)  # nothing is kept
@example(lengths=[1, 1, 1], bounds=(0.9, 1.0), size=2, seed=0, left=False, ties=True)
@example(lengths=[20, 10, 2], bounds=(0.5, 0.9), size=4, seed=0, left=False, ties=True)  # three chunks are full
def test_bounds_equal_the_loops(
    lengths: list[int], bounds: tuple[float, float], size: int, seed: int, left: bool, ties: bool
) -> None:
    draw = torch.Generator().manual_seed(seed)
    mask = _mask(lengths, left)
    rows, tokens = mask.shape
    embedded, gradient = (torch.randn(rows, tokens, WIDTH, generator=draw, dtype=torch.float64) for _ in range(2))
    if ties:
        gradient = gradient[:, :, :1].sign().expand_as(gradient)
    sentences = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
    critic = Critic(WIDTH, draw, torch.float64)
    leaves = [embedded.requires_grad_(), sentences.requires_grad_(), *critic.parameters()]
    slots = most_anchored(tokens, *bounds)
    partners, shuffle = (torch.rand(rows * n, generator=draw, dtype=torch.float64) for n in (tokens, slots))

    places, kept = anchored(gradient, mask.bool(), *bounds)
    expected = loops.anchored(gradient, mask, *bounds)
    assert [row[keep].tolist() for row, keep in zip(places, kept, strict=True)] == expected
    assert places.shape == kept.shape == (rows, slots)

    _same(upper_bound(embedded, mask.bool(), partners), loops.upper_bound(embedded, mask, partners), leaves)
    got = lower_bound(critic, embedded, sentences, places, kept, shuffle, size)
    _same(got, loops.lower_bound(critic, embedded, sentences, expected, shuffle, slots, size), leaves)


def _same(got: torch.Tensor, expected: torch.Tensor, leaves: list[torch.Tensor]) -> None:
    """Value and gradients."""
    assert torch.allclose(got, expected, rtol=0, atol=1e-10)
    for one, other in zip(
        *(torch.autograd.grad(v, leaves, retain_graph=True, allow_unused=True) for v in (got, expected)), strict=True
    ):
        zero = torch.zeros((), dtype=torch.float64)
        assert torch.allclose(zero if one is None else one, zero if other is None else other, rtol=0, atol=1e-10)


def test_draws_near_one_stay_inside() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    assert upper_bound(torch.randn(2, 3, 4), mask, torch.ones(6, dtype=torch.float64)).isfinite()
