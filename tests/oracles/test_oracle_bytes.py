"""The files of a ticket and of an attack's result, byte for byte: what was saved before a change is what is saved after it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import world
from record import differences, recorded

import robust_tickets as rt

UNSAID = ("seconds", "env", "forward_passes", "flags", "constraints")  # what varies, and sentences


def values(folder: Path) -> dict[str, Any]:
    model = world.model_folder(folder / "model")
    clf = rt.load_classifier(str(model))
    units = rt.RandomTicket(heads=1 / 4, neurons=1 / 3, seed=1)(clf).ticket
    return {
        "ticket": files(units.save(folder / "units")),
        "ticket drawn again": files(units.draw(neurons=0.5, round_to=8).save(folder / "drawn")),
        "ticket by hand": files(
            rt.Ticket.from_kept(clf, heads=[[0, 3], [1]], neurons=[range(8), range(4, 24)]).save(folder / "hand")
        ),
        "ticket of weights": files(rt.RandomTicket(sparsity=0.5, seed=2)(clf).ticket.save(folder / "weights")),
        "result.json": result(model, folder),
    }


def files(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def result(model: Path, folder: Path) -> dict[str, Any]:
    """Of ``tickets attack`` in its folder, for a result holds paths; the keys in their order, and what they say."""
    rows = world.table(
        folder / "rows.csv", [(text, ("negative", "positive")[i % 2]) for i, text in enumerate(world.SENTENCES)]
    )
    with pytest.MonkeyPatch.context() as patch, world.one_thread():
        patch.chdir(folder)
        command = ("attack", model.name, "--data", rows.name, "--attack", "deepwordbug", "--n", "12", "--out", "attack")
        code, out = world.tickets(*command, "--json")
    assert code == 0, out
    told = json.loads((folder / "attack" / "result.json").read_text(encoding="utf-8"))
    return {"keys": list(told), "values": {name: value for name, value in told.items() if name not in UNSAID}}


def test_bytes_are_as_recorded(tmp_path: Path) -> None:
    assert differences(values(tmp_path), recorded("bytes")) == []
