"""Tickets come back as they were saved, cannot be changed, and say so when their files were damaged in any way."""

from __future__ import annotations

import copy
import json
import math
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

from refusing import refused
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


@settings(max_examples=25, deadline=None)
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


@settings(max_examples=30, deadline=None)
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


@settings(max_examples=50, deadline=None)
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


JUNK = (None, 0, -1, "x", [], {}, [[1]], {"heads": 1}, {"heads": [[-1]], "neurons": [[2]]}, [None], 1e308, math.inf)
KEYS = ("schema", "kind", "family", "names", "shapes", "unit_weights", "scored", "provenance", "digest", "sha256")


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


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"x"', "{", "\ufeff{}", "{}", "[" * 100_000, '{"schema": 1}'])
def test_json_that_is_no_ticket_is_an_error(text: str, tmp_path: Path) -> None:
    one().save(tmp_path)
    (tmp_path / "ticket.json").write_text(text)
    with pytest.raises(TicketsError):
        Ticket.load(tmp_path)


def test_tickets_travel_to_other_processes() -> None:
    ticket = one()
    assert copy.deepcopy({"a": ticket})["a"] == ticket
    again = pickle.loads(pickle.dumps(ticket))  # noqa: S301
    assert again == ticket
    assert again.provenance == ticket.provenance
    for g in ticket.scores:
        assert all(np.array_equal(a, b) for a, b in zip(again.scores[g], ticket.scores[g], strict=True))
    with pytest.raises(ValueError, match="read-only"):
        again.masks["heads"][0][0] = False


def test_from_kept_takes_what_fits() -> None:
    from tiny import tiny_classifier

    ticket = Ticket.from_kept(tiny_classifier("bert"), heads=[[3, 0], [1], [2]], neurons=[[5], [0], [23]])
    assert ticket.kept("heads") == [[0, 3], [1], [2]]
    assert ticket.kept("neurons") == [[5], [0], [23]]


def test_files_that_hold_no_ticket_are_errors(tmp_path: Path) -> None:
    with refused("ticket.not_found"):
        Ticket.load(tmp_path)
    one().save(tmp_path)
    about = json.loads((tmp_path / "ticket.json").read_text())
    deep = json.dumps(about | {"provenance": {"x": "here"}}).replace('"here"', "[" * 900 + "]" * 900)
    for text, code in ((deep, "ticket.damaged"), (json.dumps(about | {"schema": 9}), "ticket.schema")):
        (tmp_path / "ticket.json").write_text(text)
        with refused(code):
            Ticket.load(tmp_path)
    (tmp_path / "ticket.safetensors").unlink()
    with refused("ticket.not_found"):
        Ticket.load(tmp_path)


TWO = {g: (np.ones(2, bool),) for g in UNITS}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"kind": "structure"}, "kind"),
        ({"masks": {"heads": (np.ones(2, bool),)}}, "groups"),
        ({"unit_weights": {"heads": 1}}, "unit_weights"),
        ({"unit_weights": {"heads": 0, "neurons": 1}}, "unit_weights"),
        ({"masks": TWO | {"heads": (np.zeros(2, bool),)}}, "empty_layer"),
        ({"masks": TWO | {"neurons": (np.ones(2, bool),) * 2}}, "layers"),
        ({"masks": TWO | {"heads": (np.array([0, 2]),)}}, "mask_values"),
        ({"scores": {"heads": (np.ones(3),)}}, "score_shapes"),
        ({"scores": {"tails": (np.ones(2),)}}, "score_shapes"),
        ({"masks": {"heads": (), "neurons": ()}}, "empty"),
        ({"provenance": {"draw": 3}}, "provenance"),
    ],
)
def test_impossible_tickets_are_refused(change: dict[str, Any], code: str) -> None:
    good: dict[str, Any] = {"kind": "structured", "family": "bert", "masks": TWO, "unit_weights": UNITS}
    small = Ticket(**good)
    with refused("ticket.shapes"):
        small.distance(one())
    with refused("ticket.no_scores"):
        small.draw(heads=0.5)
    with refused(f"ticket.{code}"):
        Ticket(**{**good, **change})


@pytest.mark.parametrize(
    ("heads", "neurons", "code"),
    [
        ([[0], [0]], [[0]] * 3, "layers"),
        ([[0], [4], [0]], [[0]] * 3, "index"),
        ([[0], [-1], [0]], [[0]] * 3, "index"),
        ([[0], [0.5], [0]], [[0]] * 3, "index"),
        ([[0], [True], [0]], [[0]] * 3, "index"),
        ([[0]] * 3, [[0], [0], []], "empty_layer"),
    ],
)
def test_from_kept_refuses_wrong_indices(heads: Any, neurons: Any, code: str) -> None:
    from tiny import tiny_model

    with refused(f"ticket.{code}"):
        Ticket.from_kept(tiny_model("bert"), heads=heads, neurons=neurons)
