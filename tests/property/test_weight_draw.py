"""Draws of single weights: exact, stable under ties, nested, the same as sorting; their scores in a file that may be missing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from refusing import refused
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.ticket.topk import draw_weights, keep_best, removed_count

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=6)
TIED = st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0])  # few values, so that most draws cut through a tie
ANY = st.floats(width=32, allow_nan=False, allow_infinity=False)
SCORES = st.lists(
    SHAPES.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=st.one_of(TIED, ANY))), min_size=1, max_size=4
)
SPARSITY = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.9]), st.floats(0, 0.99))


def by_sorting(scores: list[np.ndarray], sparsity: float) -> list[np.ndarray]:
    """The definition: sort all in float64, highest first, earlier positions first among equals; the rest goes."""
    flat = np.concatenate([s.reshape(-1) for s in scores]).astype(np.float64)
    keep = len(flat) - removed_count(len(flat), sparsity)
    mask = np.zeros(len(flat), dtype=bool)
    mask[np.argsort(-flat, kind="stable")[:keep]] = True
    parts = np.split(mask, np.cumsum([s.size for s in scores])[:-1])
    return [part.reshape(s.shape) for part, s in zip(parts, scores, strict=True)]


@settings(max_examples=100)
@given(SCORES, SPARSITY)
def test_a_draw_is_what_sorting_gives(scores: list[np.ndarray], sparsity: float) -> None:
    drawn = draw_weights(scores, sparsity)
    assert all(np.array_equal(a, b) for a, b in zip(drawn, by_sorting(scores, sparsity), strict=True))
    each = draw_weights(scores, sparsity, scope="matrix")
    assert all(np.array_equal(a, by_sorting([s], sparsity)[0]) for a, s in zip(each, scores, strict=True))


@settings(max_examples=60)
@given(SCORES, SPARSITY, SPARSITY)
def test_a_sparser_draw_keeps_part_of_what_a_denser_one_keeps(scores: list[np.ndarray], a: float, b: float) -> None:
    for scope in ("global", "matrix"):
        sparse, dense = (draw_weights(scores, s, scope=scope) for s in (max(a, b), min(a, b)))  # type: ignore[arg-type]
        assert all((d | ~s).all() for s, d in zip(sparse, dense, strict=True))


@settings(max_examples=20, deadline=None)
@given(SCORES, SPARSITY)
def test_tickets_of_weights_come_back_with_their_scores(scores: list[np.ndarray], sparsity: float) -> None:
    names = [f"m{i}.weight" for i in range(len(scores))]
    ticket = Ticket.from_weight_scores(
        family="bert", names=names, scores=scores, sparsity=sparsity, provenance={"method": "test"}
    )
    total = sum(s.size for s in scores)
    assert sum(int((~m).sum()) for m in ticket.masks["weights"]) == removed_count(total, sparsity)
    with tempfile.TemporaryDirectory() as folder:
        again = Ticket.load(ticket.save(folder))
        assert again == ticket
        assert (
            again.provenance
            == ticket.provenance
            == {"method": "test", "draw": {"sparsity": sparsity, "scope": "global"}}
        )
        assert again.draw() == ticket
        assert again.draw(sparsity=0.5) == ticket.draw(sparsity=0.5)
        assert again.draw(scope="matrix") == ticket.draw(scope="matrix")
        assert all(np.array_equal(a, b) for a, b in zip(again.scores["weights"], ticket.scores["weights"], strict=True))


def one(**changes: Any) -> Ticket:
    scores = [np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(12, 18, dtype=np.float32).reshape(2, 3)]
    return Ticket.from_weight_scores(
        **{"family": "bert", "names": ["a", "b"], "scores": scores, "sparsity": 0.5, **changes}
    )


def test_without_its_scores_a_ticket_is_whole_but_not_drawn_from(tmp_path: Path) -> None:
    ticket = one()
    ticket.save(tmp_path)
    (tmp_path / "scores.safetensors").unlink()
    again = Ticket.load(tmp_path)
    assert again == ticket
    with refused("ticket.no_scores") as problem:
        again.draw(sparsity=0.1)
    assert "scores.safetensors" in problem.value.hint
    again.save(tmp_path / "copy")  # masks only, and no promise of scores
    assert not (tmp_path / "copy" / "scores.safetensors").exists()
    assert Ticket.load(tmp_path / "copy") == ticket


def test_the_scores_are_read_only_when_drawn_from_and_checked_then(tmp_path: Path) -> None:
    one().save(tmp_path)
    file = tmp_path / "scores.safetensors"
    blob = bytearray(file.read_bytes())
    blob[-1] ^= 1
    file.write_bytes(blob)
    again = Ticket.load(tmp_path)  # not read yet
    assert again.sparsity == pytest.approx(0.5)
    with refused("ticket.damaged"):
        again.draw(sparsity=0.1)
    late = Ticket.load(tmp_path)
    file.unlink()
    with refused("ticket.scores_gone"):
        late.draw(sparsity=0.1)


def test_keeping_none_or_all_needs_no_threshold() -> None:
    scores = [np.zeros((2, 2), np.float32)]
    assert keep_best(scores, 4)[0].all()
    assert not keep_best(scores, 0)[0].any()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"sparsity": 1.0}, "draw.fraction"),
        ({"sparsity": -0.1}, "draw.fraction"),
        ({"sparsity": "0.3"}, "draw.fraction"),
        ({"scope": "layer"}, "settings.choice"),
        ({"names": ["a"]}, "ticket.names"),
        ({"names": ["a", "a"]}, "ticket.names"),
        ({"scores": [np.array([[np.nan, 1.0]]), np.ones((1, 1))]}, "draw.scores"),
    ],
)
def test_impossible_draws_are_refused(change: dict[str, Any], code: str) -> None:
    with refused(code):
        one(**change)


def test_each_kind_is_drawn_by_its_own_settings() -> None:
    scores = {g: [np.arange(4.0)] for g in ("heads", "neurons")}
    structured = Ticket.from_scores(family="bert", scores=scores, unit_weights={"heads": 4, "neurons": 2})
    for ticket, wrong in ((one(), {"neurons": 0.1}), (one(), {"round_to": 8}), (structured, {"sparsity": 0.1})):
        with refused("ticket.groups_drawn"):
            ticket.draw(**wrong)
