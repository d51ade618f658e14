"""What `tickets reproduce --job …` leaves in its result files, run on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import jobs_here as jobs_here
from robust_tickets.cli.main import main
from small_world import World, small_world

ARMS = ("robustt", "finetune_rt", "freelb", "infobert", "pgd")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"), train=32, rows=8)


@pytest.fixture(scope="module")
def released(world: World, jobs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of some arms as released."""
    folder = tmp_path_factory.mktemp("released")
    units = [f"bert-base-uncased/sst2/{arm}/as-released/seed-0" for arm in ARMS]
    given = [*(word for id in units for word in ("--job", id)), "--attacks", "", "--out", str(folder / "store")]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *given, "--results", str(folder / "results"), "--quiet", *world.flags])
    assert end.value.code == 0
    return folder / "results"


def outcome(results: Path, arm: str, flavour: str = "as-released") -> dict[str, Any]:
    return json.loads(
        (results / "units" / "bert-base-uncased" / "sst2" / arm / flavour / "seed-0.json").read_text("utf-8")
    )


def test_as_released_trains_as_the_scripts_do(released: Path) -> None:
    """Lengths, clipping, weight decay, warm-up and step size; 500 warm-up steps are no share of training and left out."""
    trained = {arm: outcome(released, arm)["config"]["recipe"]["arms"][0]["train"] for arm in ARMS}
    found = {arm: (one["epochs"], one["clip"], one["weight_decay"], one["warmup"]) for arm, one in trained.items()}
    assert found == {
        "robustt": (19, 0, 1e-2, 0.1),
        "finetune_rt": (3, 0, 1e-2, 0.1),
        "freelb": (10, 1, 1e-2, 0.1),
        "infobert": (10, 1, 1e-2, 0),
        "pgd": (10, 1, 1e-6, 0),
    }
    assert [trained[arm]["adversary"]["step_size"] for arm in ("freelb", "infobert", "pgd")] == [0.03, 0.04, 0.03]
