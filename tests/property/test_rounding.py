"""Rounded widths: multiples, by score, the total as close as it can be; off changes nothing; the three forms of the ticket agree."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.backbone.layout import layout_of
from robust_tickets.errors import TicketsError
from robust_tickets.prune.compact import compact, zero_outside
from robust_tickets.prune.gates import Gates
from robust_tickets.registry import BACKBONES
from robust_tickets.search.random import RandomTicket
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.ticket.topk import draw, removed_count, rounded
from tiny import tiny_classifier

UNITS = {"heads": 64, "neurons": 16}
multiples = st.sampled_from([8, 16, 64])
scores = st.lists(
    st.integers(1, 150).flatmap(
        lambda n: st.lists(st.integers(-3, 3).map(float), min_size=n, max_size=n).map(np.array)
    ),
    min_size=1,
    max_size=4,
)
scopes = st.sampled_from(["global", "layer"])


def ticket(layers: list[np.ndarray], **how: Any) -> Ticket:
    heads = [np.arange(4.0)] * len(layers)
    return Ticket.from_scores(family="bert", scores={"heads": heads, "neurons": layers}, unit_weights=UNITS, **how)


@given(scores, multiples, scopes, st.floats(0, 0.6))
def test_every_layer_keeps_a_multiple_or_all(
    layers: list[np.ndarray], multiple: Any, scope: Any, removed: float
) -> None:
    total = sum(map(len, layers))
    assume(total - removed_count(total, removed) >= len(layers))
    before = draw(layers, removed, scope=scope)
    after = rounded(before, layers, multiple, scope=scope)
    for old, new, score in zip(before, after, layers, strict=True):
        kept = int(new.sum())
        assert kept == len(new) or (kept > 0 and kept % multiple == 0)
        assert abs(kept - int(old.sum())) < multiple
        assert (new & ~old).sum() == 0 or (old & ~new).sum() == 0  # some are added or some dropped, never both
        if (added := new & ~old).any():
            assert score[added].min() >= max(score[~new], default=-np.inf)
        if (dropped := old & ~new).any():
            assert score[dropped].max() <= score[new].min()
        assert not new.flags.writeable


def choices(count: int, size: int, multiple: int) -> set[int]:
    """The widths on either side of ``count``."""
    if count == size:
        return {size}
    allowed = {*range(multiple, size + 1, multiple), size}
    return {max((a for a in allowed if a <= count), default=min(allowed)), min(a for a in allowed if a >= count)}


@given(
    st.lists(
        st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(1, 8 * n), st.just(8 * n))), min_size=1, max_size=5
    )
)
def test_the_total_is_as_close_as_it_can_be(layers: list[tuple[int, int]]) -> None:
    """Where widths are multiples themselves, no other choice between the two neighbours of each layer has a closer total."""
    masks = [np.arange(size) < count for count, size in layers]
    found = [int(m.sum()) for m in rounded(masks, [np.zeros(size) for _, size in layers], 8)]
    total = sum(count for count, _ in layers)
    best = min(
        abs(sum(some) - total) for some in itertools.product(*(choices(count, size, 8) for count, size in layers))
    )
    assert abs(sum(found) - total) == best
    ups = [count % 8 for (count, _), kept in zip(layers, found, strict=True) if kept > count and count > 8]
    downs = [count % 8 for (count, _), kept in zip(layers, found, strict=True) if kept < count]
    assert not ups or not downs or min(ups) >= max(downs)  # those with the larger remainders go up


def test_within_layers_each_goes_to_its_nearest() -> None:
    masks = [np.arange(64) < 21] * 3  # two of three up would be closest in total
    flat = [np.zeros(64)] * 3
    assert [int(m.sum()) for m in rounded(masks, flat, 8, scope="layer")] == [24, 24, 24]
    assert [int(m.sum()) for m in rounded(masks, flat, 8)] == [24, 24, 16]
    assert [int(m.sum()) for m in rounded([np.arange(64) < 20], flat[:1], 8)] == [16]  # as near: the smaller
    drawn = ticket(flat, neurons=43 / 64, neuron_scope="layer", round_to=8)
    assert [int(m.sum()) for m in drawn.masks["neurons"]] == [24, 24, 24]


@given(scores, st.floats(0, 0.6), scopes)
def test_off_is_as_before_bit_for_bit(layers: list[np.ndarray], removed: float, scope: Any) -> None:
    try:
        plain = ticket(layers, neurons=removed, neuron_scope=scope)
    except TicketsError:
        return
    off = ticket(layers, neurons=removed, neuron_scope=scope, round_to=1)
    again = plain.draw(round_to=8).draw(round_to=1)
    assert plain == off == again
    assert plain.provenance == off.provenance == again.provenance
    assert "round_to" not in plain.provenance["draw"]
    assert plain.rounding == ""


@pytest.mark.parametrize("family", BACKBONES.names())
def test_compact_gated_and_zeros_agree(family: str) -> None:
    clf = tiny_classifier(family, neurons=40)
    found = RandomTicket(heads=0.3, neurons=0.4, round_to=16, seed=3)(clf).ticket
    small = compact(clf, found)
    widths = layout_of(small.model).neurons_of(small.model)
    assert all(n % 16 == 0 or n == 40 for n in widths)
    assert min(widths) < 40
    texts = ["a good film", "the plot was very poor"]
    expected = small.logits(texts)
    with Gates(clf.model) as gates:
        gates.set_masks(found.masks)
        torch.testing.assert_close(clf.logits(texts), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(zero_outside(clf, found).logits(texts), expected, rtol=1e-4, atol=1e-4)


def test_a_random_twin_has_the_same_counts() -> None:
    clf = tiny_classifier(neurons=40)
    found = RandomTicket(neurons=0.4, round_to=8)(clf).ticket
    twin = RandomTicket(match="layer", seed=1)(clf, like=found).ticket
    assert [m.sum() for m in twin.masks["neurons"]] == [m.sum() for m in found.masks["neurons"]]
    exact = RandomTicket(neurons=0.4)(clf).ticket
    assert all(
        m.sum() % 8 == 0
        for m in RandomTicket(match="layer", seed=1, round_to=8)(clf, like=exact).ticket.masks["neurons"]
    )


def test_a_rounded_ticket_notes_it_and_stays_rounded() -> None:
    made = ticket([np.arange(64.0), np.arange(64.0) + 0.5], neurons=0.3, round_to=16)
    assert made.provenance["draw"]["round_to"] == 16
    assert made.provenance["rounded"] == {"round_to": 16, "neurons": (90, 96)}
    assert made.rounding
    assert [int(m.sum()) for m in made.draw(neurons=0.5).masks["neurons"]] == [32, 32]
    assert made.draw(heads=0.25).kept("neurons") == made.kept("neurons")
    for wrong in (0, 7, -8, 8.5, "8", None):
        with refused("settings.choice"):
            rounded([np.ones(9, dtype=bool)], [np.zeros(9)], wrong)  # type: ignore[arg-type]
