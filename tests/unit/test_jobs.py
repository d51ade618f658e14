"""Requests of stages, run in this process and in fresh ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.errors import TicketsError
from robust_tickets.experiment.jobs import Done, Failed, Local
from robust_tickets.experiment.recipe import resolve
from robust_tickets.experiment.runner import Experiment, prepare
from small_world import small_world

SHORT = {"epochs": 1, "batch_size": 16, "lr": 1e-3}
RECIPE = {
    "title": "two arms of one search",
    "max_length": 32,
    "search": {"name": "earlyrobust", "batch_size": 16, "lr": 1e-3, "adversary": {"steps": 1}},
    "train": SHORT,
    "attack": [{"name": "deepwordbug", "n": 4}],
    "arms": {"a": {"search": True}, "b": {"ticket": "a", "draw": {"heads": 0.5}}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A recipe on a small world, and its run in this process."""
    world = small_world(tmp_path_factory.mktemp("world"), train=48, rows=8)
    tree = {
        **RECIPE,
        "task": "sst2",
        "data": str(world.data / "sst2"),
        "model": str(world.models / "bert-base-uncased"),
    }
    return tree, prepare(resolve("mine", tree), out=tmp_path_factory.mktemp("one")).go()


def stages(folder: Path) -> dict[str, Any]:
    """What every stage of a run holds, but for times."""
    return {
        path.parent.relative_to(folder).as_posix(): {
            name: entry["sha256"]
            for name, entry in json.loads(path.read_text())["files"].items()
            if name.endswith((".safetensors", "evaluation.json"))
        }
        for path in sorted(folder.glob("*/*/stage.json"))
    }


def planned(tree: dict[str, Any], out: Path, processes: int) -> Experiment:
    run = prepare(resolve("mine", tree), out=out, processes=max(1, processes))
    object.__setattr__(run, "jobs", Local(run.jobs.loaded, processes=processes))
    return run


def test_fresh_processes_make_the_same_stages(made: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    tree, first = made
    run = planned(tree, tmp_path, 2)
    jobs = [run.train_job(arm) for arm in run.recipe.arms]
    assert [run.train_job(arm) for arm in run.recipe.arms] == jobs, "the same request is the same job"
    assert all(isinstance(run.jobs.wait(job), Done) for job in jobs)
    names = run.jobs.finished()
    assert sorted(name.partition("/")[0] for name in names) == ["search", "ticket", "train", "train"]
    assert stages(tmp_path) == {name: files for name, files in stages(first).items() if "attack" not in name}


@pytest.mark.parametrize("processes", [0, 1])
def test_a_failure_is_a_value_and_stops_only_what_needs_it(
    made: tuple[dict[str, Any], Path], tmp_path: Path, processes: int
) -> None:
    tree, first = made
    run = planned(tree, tmp_path, processes)
    broken = run.jobs.submit({**run._request("ticket"), "folder": str(tmp_path / "nowhere"), "draw": None})
    needing = run.jobs.submit(run._request("train", train=SHORT), {"ticket": broken})
    given = next((first / "search").iterdir())
    whole = run.jobs.submit(run._request("ticket", folder=str(given), draw={"heads": 0.25}))
    for job in (broken, needing):
        failed = run.jobs.wait(job)
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, TicketsError)
        assert failed.error.code == "ticket.not_found"
    assert isinstance(run.jobs.wait(whole), Done)


def test_another_task_than_was_planned_for_is_refused(made: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    run = planned(made[0], tmp_path, 0)
    found = run.jobs.wait(run.jobs.submit({**run._request("train", train=SHORT), "inputs": {"task": "other"}}))
    assert isinstance(found, Failed)
    assert isinstance(found.error, TicketsError)
    assert found.error.code == "job.other_inputs"


def test_what_is_cancelled_does_not_begin(made: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    run = planned(made[0], tmp_path, 0)
    job = run.train_job(run.recipe.arms[0])
    run.jobs.cancel()
    found = run.jobs.wait(job)
    assert isinstance(found, Failed)
    assert not list(tmp_path.glob("train/*/stage.json"))
