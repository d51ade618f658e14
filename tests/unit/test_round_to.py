"""``round_to`` in searches, recipes and on the command line: the ticket is rounded, the search is not, and it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calling import tickets
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.arms import check
from robust_tickets.experiment.recipe import resolve
from robust_tickets.search.earlybert import EarlyBERT
from robust_tickets.search.prasanna import Importance, Masks, Prasanna
from robust_tickets.search.random import RandomTicket
from robust_tickets.ticket.ticket import Ticket
from tiny import tiny_classifier
from toy import toy_task


def widths(ticket: Ticket) -> list[int]:
    return [int(mask.sum()) for mask in ticket.masks["neurons"]]


def test_a_search_rounds_its_ticket_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clf, task = tiny_classifier(neurons=40), toy_task(40)
    small: dict[str, Any] = {"batch_size": 4, "lr": 1e-3, "neurons": 0.35}
    exact = EarlyBERT(**small)(clf, task, folder=tmp_path / "exact")
    found = EarlyBERT(**small, round_to=8)(clf, task, folder=tmp_path / "rounded")
    assert found.ticket.rounding in capsys.readouterr().err
    assert all(n % 8 == 0 for n in widths(found.ticket))
    assert found.ticket == exact.ticket.draw(round_to=8)
    assert found.distances == exact.distances
    assert Ticket.load(tmp_path / "rounded").rounding == found.ticket.rounding != ""
    again = EarlyBERT(**small, round_to=16)(clf, task, folder=tmp_path / "rounded")  # the folder's search is finished
    assert all(n in (16, 32, 40) for n in widths(again.ticket))


def test_a_masked_mlp_keeps_its_best_neurons() -> None:
    told = Importance(heads=[np.ones(2)] * 2, neurons=[np.arange(20.0), np.arange(8.0)], mlps=np.array([1.0, 0.0]))
    masks = Masks([2, 2], [20, 8])
    chosen = Prasanna(round_to=8)._choose(told, masks, "mlps")
    assert chosen["mlps"] == [[0, 19, 18, 17, 16, 15, 14, 13, 12]]  # the second has no more than it would keep
    masks.do(chosen)
    assert np.flatnonzero(masks.neurons[0]).tolist() == list(range(12, 20))
    masks.undo(chosen)
    assert masks.neurons[0].all()


def test_recipes_hand_it_on() -> None:
    def arms(top: dict[str, Any], **table: Any) -> Any:
        return resolve("mine", {"title": "Mine", "search": top, "arms": {"a": {"search": True}, "b": table}})

    rounded = {"name": "earlyrobust", "round_to": 64}
    assert arms(rounded, search="random").arms[1].search.round_to == 64  # so that the two stay comparable
    assert arms(rounded, search={"name": "random", "round_to": 8}).arms[1].search.round_to == 8
    assert arms(rounded, search={"name": "robustt", "granularity": "neuron"}).arms[1].search.round_to == 64
    assert arms(rounded, search="prasanna").arms[1].search.round_to == 64
    for weights in ("robustt", {"name": "random", "sparsity": 0.3}):  # single weights have nothing to round
        recipe = arms(rounded, search=weights)
        check(recipe)
        assert recipe.arms[1].search.round_to == 1
    assert (
        arms(rounded, search={"name": "random", "match": "layer"}, like="a").arms[1].search.round_to == 1
    )  # its counts are rounded
    with pytest.raises(TicketsError, match="round_to"):
        arms({"name": "earlyrobust"}, ticket="a", draw={"round_to": 7})
    with pytest.raises(TicketsError, match="round_to is not for"):
        check(arms({"name": "robustt"}, ticket="a", draw={"round_to": 8}))


def test_draw_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RandomTicket(neurons=0.3)(tiny_classifier(neurons=40), folder=tmp_path / "t")
    draw = ("draw", str(tmp_path / "t"), "--heads", "0.25", "--neurons", "0.5", "--out", str(tmp_path / "d"))
    assert tickets(capsys, *draw)["removed"] == {"heads": 0.25, "neurons": 0.5}
    told = tickets(capsys, "draw", str(tmp_path / "t"), "--round-to", "8", "--out", str(tmp_path / "r"))
    assert told["rounded"]["round_to"] == 8
    assert told["rounded"]["neurons"] == [84, sum(widths(Ticket.load(tmp_path / "r")))]
    assert all(n % 8 == 0 for n in widths(Ticket.load(tmp_path / "r")))
    tickets(capsys, "draw", str(tmp_path / "t"), "--round-to", "9", "--out", str(tmp_path / "s"), code=2)
    assert "rounded" not in tickets(
        capsys, "draw", str(tmp_path / "r"), "--round-to", "1", "--out", str(tmp_path / "u")
    )
    assert Ticket.load(tmp_path / "u") == Ticket.load(tmp_path / "t")
