"""Tickets come back as they were saved, cannot be changed, and say so when their files were damaged in any way."""

from __future__ import annotations

import copy
import json
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_tickets.errors import TicketsError
from robust_tickets.ticket.ticket import Ticket

UNITS = {"heads": 64, "neurons": 16}


@st.composite
def shapes(draw: Callable[..., Any]) -> tuple[list[int], list[int]]:
    layers = draw(st.integers(1, 4))
    return tuple(draw(st.lists(st.integers(1, 19), min_size=layers, max_size=layers)) for _ in range(2))  # type: ignore[return-value]


@st.composite
def tickets(draw: Callable[..., Any], shape: tuple[list[int], list[int]] | None = None) -> Ticket:
    sizes = shape or draw(shapes())
    masks, scores = {}, {}
    for group, counts in zip(UNITS, sizes, strict=True):
        masks[group] = []
        for n in counts:
            mask = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
            mask[draw(st.integers(0, n - 1))] = True
            masks[group].append(mask)
        scores[group] = [
            np.array(draw(st.lists(st.floats(-2, 2, width=32), min_size=n, max_size=n)), dtype=np.float32)
            for n in counts
        ]
    scored = {g: s for g, s in scores.items() if draw(st.booleans())}
    about = draw(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3))
    return Ticket(kind="structured", family="bert", masks=masks, scores=scored, unit_weights=UNITS, provenance=about)


def one() -> Ticket:
    scores = {"heads": [np.array([3, 1, 2.0]), np.array([6, 5, 4.0])], "neurons": [np.arange(5.0), np.arange(5.0)]}
    return Ticket.from_scores(
        family="bert", scores=scores, unit_weights=UNITS, heads=1 / 3, neurons=0.4, provenance={"method": "test"}
    )


def test_a_ticket_prints_as_one_line() -> None:
    assert repr(one()) == f"Ticket(structured, bert, kept: heads=4/6, neurons=6/10, digest={one().digest[:8]})"
    matrix = np.random.default_rng(0).random((60, 50), dtype=np.float32)
    assert "weights=1500/3000" in repr(
        Ticket.from_weight_scores(family="bert", names=["w"], scores=[matrix], sparsity=0.5)
    )


@settings(max_examples=60, deadline=None)
@given(tickets())
def test_round_trip(ticket: Ticket) -> None:
    with tempfile.TemporaryDirectory() as folder:
        again = Ticket.load(ticket.save(folder))
    assert again == ticket
    assert hash(again) == hash(ticket)
    assert again.provenance == ticket.provenance
    assert again.unit_weights == ticket.unit_weights
    assert again.scores.keys() == ticket.scores.keys()
    for group, masks in ticket.masks.items():
        assert all(np.array_equal(a, b) for a, b in zip(masks, again.masks[group], strict=True))
        assert again.kept(group) == [np.flatnonzero(m).tolist() for m in masks]
    for group, scores in ticket.scores.items():
        assert all(np.array_equal(a, b) for a, b in zip(scores, again.scores[group], strict=True))


def test_unstructured_round_trip(tmp_path: Path) -> None:
    mask = np.array([[True, False, True], [False, False, True]])
    ticket = Ticket(
        kind="unstructured", family="bert", masks={"weights": (mask,)}, unit_weights={"weights": 1}, names=("q.weight",)
    )
    again = Ticket.load(ticket.save(tmp_path))
    assert again == ticket
    assert again.masks["weights"][0].shape == (2, 3)
    assert (again.names, again.sparsity) == (("q.weight",), 0.5)
    with pytest.raises(TicketsError, match="cannot be drawn"):
        again.draw(heads=0.5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_distance_is_a_bounded_symmetric_metric(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    a, b, c = (data.draw(tickets(shape)) for _ in range(3))
    assert a.distance(b) == b.distance(a)
    assert a.distance(a) == {"heads": 0, "neurons": 0}
    for group in UNITS:
        assert 0 <= a.distance(b)[group] <= min(1, a.removed[group] + b.removed[group]) + 1e-12
        assert a.distance(c)[group] <= a.distance(b)[group] + b.distance(c)[group] + 1e-12
        assert (a.distance(b)[group] == 0) == (a.kept(group) == b.kept(group))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=24, max_size=24),
    st.lists(st.floats(-1, 1, width=32), min_size=24, max_size=24),
)
def test_two_draws_at_ratio_p_differ_by_at_most_2p(a: list[float], b: list[float]) -> None:
    p = 1 / 6
    drawn = [
        Ticket.from_scores(
            family="bert", scores={g: np.array(s).reshape(4, 6) for g in UNITS}, unit_weights=UNITS, heads=p, neurons=p
        )
        for s in (a, b)
    ]
    assert max(drawn[0].distance(drawn[1]).values()) <= 2 * p + 1e-12


def test_sparsity_weighs_groups_by_their_weights() -> None:
    ticket = one()
    assert ticket.removed == {"heads": pytest.approx(1 / 3), "neurons": pytest.approx(0.4)}
    assert ticket.sparsity == pytest.approx(1 - (4 * 64 + 6 * 16) / (6 * 64 + 10 * 16))
    assert ticket.draw(heads=0.0, neurons=0.0).sparsity == 0


def test_nothing_in_a_ticket_can_be_changed() -> None:
    mine = np.array([True, False])
    ticket = Ticket(kind="structured", family="bert", masks={"heads": (mine,), "neurons": (mine,)}, unit_weights=UNITS)
    mine[:] = False
    assert ticket.kept("heads") == [[0]]
    with pytest.raises(ValueError, match="read-only"):
        ticket.masks["heads"][0][0] = False
    with pytest.raises(TypeError):
        ticket.masks["heads"] = ()  # type: ignore[index]
    with pytest.raises(AttributeError):
        ticket.kind = "unstructured"  # type: ignore[misc]
    told = replace(ticket, provenance={"method": {"name": "x", "list": [1]}}).provenance
    for change in (
        lambda: told["method"].update(name="y"),
        lambda: told["method"].__setitem__("name", "y"),
        lambda: told.pop("method"),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert json.loads(json.dumps(told)) == {"method": {"name": "x", "list": [1]}}
    assert copy.deepcopy(told) == told


def test_a_redraw_keeps_what_it_is_not_told() -> None:
    scores = {"heads": [np.arange(4.0), np.arange(4.0)], "neurons": [np.arange(10.0), np.arange(10.0) + 0.5]}
    first = Ticket.from_scores(
        family="bert", scores=scores, unit_weights=UNITS, heads=0.5, neurons=0.5, head_scope="layer", rule="quantile"
    )
    again = first.draw(neurons=0.4)
    assert again.removed == {"heads": 0.5, "neurons": 0.4}
    assert again.provenance["draw"] == {**first.provenance["draw"], "neurons": 0.4}
    assert first.draw() == first
    assert again.draw(heads=0.0, rule="exact").removed == {"heads": 0.0, "neurons": 0.4}


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_flipped_byte_or_cut_is_an_error_or_harmless(data: st.DataObject) -> None:
    """A damaged file never gives another ticket and never another kind of error."""
    ticket = one()
    with tempfile.TemporaryDirectory() as name:
        folder = ticket.save(name)
        file = folder / data.draw(st.sampled_from(["ticket.json", "ticket.safetensors"]))
        blob = bytearray(file.read_bytes())
        if data.draw(st.booleans()):
            blob = blob[: data.draw(st.integers(0, len(blob) - 1))]
        else:
            blob[data.draw(st.integers(0, len(blob) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(blob)
        try:
            again = Ticket.load(folder)
        except TicketsError:
            return
        assert file.name == "ticket.json"  # only white space and what is merely told (provenance, sparsity) may differ
        assert again == ticket


KEYS = ("schema", "kind", "family", "names", "shapes", "unit_weights", "scored", "provenance", "digest", "sha256")
JUNK = (
    None,
    0,
    -1,
    "x",
    [],
    {},
    [[1]],
    {"heads": 1},
    {"heads": [[-1]], "neurons": [[2]]},
    ["nothing"],
    [None],
    {"heads": None},
    1e308,
)


@pytest.mark.parametrize("key", KEYS)
def test_missing_and_edited_keys_are_errors(key: str, tmp_path: Path) -> None:
    ticket = one()
    ticket.save(tmp_path)
    about = json.loads((tmp_path / "ticket.json").read_text())
    (tmp_path / "ticket.json").write_text(json.dumps({k: v for k, v in about.items() if k != key}))
    with pytest.raises(TicketsError):
        Ticket.load(tmp_path)
    for junk in JUNK:
        (tmp_path / "ticket.json").write_text(json.dumps({**about, key: junk}))
        try:
            again = Ticket.load(tmp_path)
        except TicketsError:
            continue
        assert key in ("names", "scored", "provenance", "unit_weights")  # nothing the masks depend on
        assert again == ticket


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"x"', "{", "\ufeff{}", "{}", "[" * 100_000])
def test_json_that_is_no_ticket_is_an_error(text: str, tmp_path: Path) -> None:
    one().save(tmp_path)
    (tmp_path / "ticket.json").write_text(text)
    with pytest.raises(TicketsError):
        Ticket.load(tmp_path)


@pytest.mark.parametrize(
    "change", [{"unit_weights": {"heads": float("inf"), "neurons": 1}}, {"shapes": {"heads": [[float("inf")]]}}]
)
def test_numbers_without_end_are_an_error(change: dict[str, Any], tmp_path: Path) -> None:
    one().save(tmp_path)
    about = json.loads((tmp_path / "ticket.json").read_text())
    (tmp_path / "ticket.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(TicketsError, match="does not match"):
        Ticket.load(tmp_path)


def test_provenance_nested_beyond_measure_is_an_error(tmp_path: Path) -> None:
    one().save(tmp_path)
    about = json.loads((tmp_path / "ticket.json").read_text()) | {"provenance": {"x": "here"}}
    (tmp_path / "ticket.json").write_text(json.dumps(about).replace('"here"', "[" * 900 + "]" * 900))
    with pytest.raises(TicketsError, match="does not match"):
        Ticket.load(tmp_path)


def test_tickets_travel_to_other_processes() -> None:
    ticket = one()
    assert copy.deepcopy({"a": ticket})["a"] == ticket
    again = pickle.loads(pickle.dumps(ticket))  # noqa: S301
    assert again == ticket
    assert again.provenance == ticket.provenance
    assert all(
        np.array_equal(a, b) for g in ticket.scores for a, b in zip(again.scores[g], ticket.scores[g], strict=True)
    )
    with pytest.raises(ValueError, match="read-only"):
        again.masks["heads"][0][0] = False


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match=r"ticket\.json is missing"):
        Ticket.load(tmp_path)
    one().save(tmp_path)
    (tmp_path / "ticket.safetensors").unlink()
    with pytest.raises(TicketsError, match=r"ticket\.safetensors is missing"):
        Ticket.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "structure"}, "unknown kind"),
        ({"masks": {"heads": (np.ones(2, bool),)}}, "holds"),
        ({"unit_weights": {"heads": 1}}, "unit_weights"),
        ({"masks": {"heads": (np.zeros(2, bool),), "neurons": (np.ones(2, bool),)}}, "keeps none"),
        ({"masks": {"heads": (np.ones(2, bool),), "neurons": (np.ones(2, bool),) * 2}}, "different numbers of layers"),
        ({"masks": {"heads": (np.array([0, 2]),), "neurons": (np.ones(2, bool),)}}, "other than 0 and 1"),
        ({"scores": {"heads": (np.ones(3),)}}, "shapes"),
        ({"scores": {"tails": (np.ones(2),)}}, "shapes"),
        ({"unit_weights": {"heads": 0, "neurons": 1}}, "at least one weight"),
        ({"masks": {"heads": (), "neurons": ()}}, "without a single unit"),
        ({"provenance": {"draw": 3}}, "must name its settings"),
    ],
)
def test_impossible_tickets_are_refused(change: dict[str, Any], words: str) -> None:
    good = {
        "kind": "structured",
        "family": "bert",
        "masks": {g: (np.ones(2, bool),) for g in UNITS},
        "unit_weights": UNITS,
    }
    Ticket(**good)
    with pytest.raises(TicketsError, match=words):
        Ticket(**{**good, **change})


def test_tickets_of_other_shapes_have_no_distance() -> None:
    small = Ticket(kind="structured", family="bert", masks={g: (np.ones(2, bool),) for g in UNITS}, unit_weights=UNITS)
    with pytest.raises(TicketsError, match="different shapes"):
        small.distance(one())
    with pytest.raises(TicketsError, match="no scores"):
        small.draw(heads=0.5)


@pytest.mark.parametrize(
    ("heads", "neurons", "words"),
    [
        ([[0], [0]], [[0]] * 3, "3 layers, got 2 lists"),
        ([[0], [4], [0]], [[0]] * 3, "layer 1 has 4 of them, got index 4"),
        ([[0], [-1], [0]], [[0]] * 3, "got index -1"),
        ([[0]] * 3, [[0], [0], []], "layer 2 keeps none of its neurons"),
        ([[0], [], [0]], [[0]] * 3, "layer 1 keeps none of its heads"),
        ([[0], [0.5], [0]], [[0]] * 3, "index 0.5"),
        ([[0], [True], [0]], [[0]] * 3, "index True"),
    ],
)
def test_from_kept_refuses_what_does_not_fit(heads: Any, neurons: Any, words: str) -> None:
    from tiny import tiny_model

    with pytest.raises(TicketsError, match=words):
        Ticket.from_kept(tiny_model("bert"), heads=heads, neurons=neurons)


def test_from_kept_takes_what_fits() -> None:
    from tiny import tiny_classifier

    ticket = Ticket.from_kept(tiny_classifier("bert"), heads=[[3, 0], [1], [2]], neurons=[[5], [0], [23]])
    assert ticket.kept("heads") == [[0, 3], [1], [2]]
    assert ticket.kept("neurons") == [[5], [0], [23]]
