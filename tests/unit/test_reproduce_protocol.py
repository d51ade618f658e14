"""The protocol: what it writes into every arm's recipe, its attacks, and the rows that it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refusing import refused
from robust_tickets.data.load import load_task
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.data.task import Split, Task
from robust_tickets.experiment.recipe import Recipe, resolve
from robust_tickets.reproduce.arms import FLAVOURS, arm, arms, tree
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import GROUPS, attacks, check_task, constants, part_of, rules, settings

PLACES = Paths(
    real=Path("real.json"), substitute=Path("near"), tagger=Path("tags"), masked=Path("bert"), corpus=Path("corpus")
)
SST2 = Job(task="sst2", arm="finetune")


def recipe(unit: Job, *more: str, cuda: bool = False) -> Recipe:
    made = tree(unit, (*settings(unit, cuda=cuda), *more))
    return resolve(unit.arm, PLACES.placed(made), [arm(unit.arm).arm])


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("task", ["sst2", "ag_news", "mrpc"])
def test_every_arm_has_the_protocols_rows_seed_and_length(task: str, flavour: Any) -> None:
    """What varies between arms beside these, test_reproduce_arms.py says."""
    for name in arms():
        unit = Job(task=task, arm=name, flavour=flavour, seed=3)
        made = recipe(unit)
        source = {"task": task, "test": None, "max_rows": None, "max_test_rows": None, **rules(task).source}
        assert {key: getattr(made.source, key) for key in source} == source, name
        assert (made.seed, made.max_length) == (3, TASKS[task].max_length or 128)
        assert {one.train.seed for one in made.arms} == {3}
        assert {one.train.evaluate for one in made.arms} == {"never"}, "the last epoch is kept"


def test_no_job_trains_or_searches_on_what_is_refused() -> None:
    assert "mr" in constants().refused
    with refused("protocol.unknown_task"):
        settings(Job(task="mr", arm="finetune"), cuda=False)
    searched = {one.origin.searched_on.task for name in arms() if "searched_on" in name
                for one in recipe(replace(SST2, arm=name)).arms}  # fmt: skip
    assert searched
    assert searched <= constants().tasks.keys()


def test_bf16_is_for_cuda_wherever_something_is_trained() -> None:
    assert not [setting for setting in settings(SST2, cuda=False) if "bf16" in setting]
    told = settings(replace(SST2, arm="robustt"), cuda=True)
    assert [s for s in told if "bf16" in s] == [
        "train.precision=bf16",
        "search.precision=bf16",
        "search.tuning.precision=bf16",
    ]
    assert [s for s in settings(SST2, cuda=True) if "bf16" in s] == ["train.precision=bf16"]  # it has no search


def test_attacks_score_by_log_odds_or_beside_a_calibrated_one() -> None:
    assert {one.table["scoring"] for one in attacks("sst2", GROUPS)} == {"log-odds"}
    assert not attacks("sst2", ("calibrated",))
    assert {one.table["temperature"] for one in attacks("ag_news", ("calibrated",))} == {"calibrated"}
    assert not attacks("ag_news", ("confirm",))
    assert {one.table["split"] for one in attacks("sst2", ("confirm",))} == {"test"}
    assert {one.name for one in attacks("sst2")} == {"textfooler-real", "textfooler-substitute"}
    assert [one.table["subset"] for one in attacks("imdb", flavour="as-released")] == ["first", "first"]
    assert {one.table["seed"] for task in constants().tasks for one in attacks(task, GROUPS)} == {0}
    names = [one.name for one in attacks("sst2", GROUPS)]
    assert len(names) == len(set(names))


def test_on_a_gpu_copies_in_float16_are_attacked() -> None:
    assert {one.placed(PLACES, cuda=True)["precision"] for one in attacks("sst2", GROUPS)} == {"float16"}
    assert not any("precision" in one.placed(PLACES) for one in attacks("sst2", GROUPS))


def rows(name: str, *texts: str) -> Split:
    return Split.of(texts, [i % 2 for i in range(len(texts))], name=name)


def small(**splits: Split) -> Task:
    found = {
        "train": rows("train", "a", "b", "c"),
        "none": rows("none").select([]),
        "validation": rows("validation", "d", "e"),
    }
    named: dict[str, Any] = {"name": "sst2", "labels": ("n", "p"), "columns": ("text",), "splits": found | splits}
    return Task(**named, validation_split="none", test_split="validation")


def test_rows_of_another_size_have_to_be_said() -> None:
    with refused("protocol.rows"):
        check_task(small(), SST2)
    notes = check_task(small(), SST2, subset=True)
    assert notes == ("sst2: 3 of the 67,349 rows of train", "sst2: 2 of the 872 rows of validation")
    assert part_of(["a note", *notes]) == notes[0]
    known = [f"{task}: {note}" for task in ("sst2", "ag_news") for note in rules(task).subsets.values()]
    assert part_of(["a note", *known]) is None


@pytest.mark.parametrize("split", [rows("validation", "d", "A "), rows("test", "b")], ids=lambda split: split.name)
def test_rows_that_leak_are_refused_in_a_subset_too(split: Split) -> None:
    with refused("protocol.leak"):
        check_task(small(**{split.name: split}), SST2, subset=True)


SIZES = {  # train, selects, attacked; counted from the official files
    "sst2": (67349, 0, 872),
    "imdb": (22498, 2502, 24877),
    "ag_news": (45862, 5096, 7600),
    "mrpc": (3668, 408, 1725),
    "rte": (2241, 249, 277),
}


@pytest.mark.shared
@pytest.mark.parametrize("task", SIZES)
def test_real_rows_are_split_as_the_protocol_says(task: str, shared: Path) -> None:
    unit = Job(task=task, arm="finetune", seed=5)
    source = recipe(unit, f"data={shared / 'data' / task}").source
    loaded = source.load(unit.seed)
    assert tuple(map(len, (loaded.train, loaded.validation, loaded.test))) == SIZES[task]
    assert check_task(loaded, unit) == (("ag_news: " + rules(task).subsets["50958"],) if task == "ag_news" else ())
    assert source.load(unit.seed + 1).digest == loaded.digest  # the same rows select whatever the seed
    if task == "sst2":
        assert len(loaded.split("test")) == 1819
    if task == "imdb":
        with refused("protocol.leak"):
            check_task(load_task("imdb", data=shared / "data" / "imdb"), unit)


@pytest.mark.parametrize(
    ("arm", "flavour", "multiple"),
    [
        ("earlyrobust", "corrected", 8), ("random", "corrected", 8), ("earlybert", "corrected", 8), ("orticket_vanilla", "corrected", 8),
        ("earlyrobust_layer_global", "corrected", 8), ("sturdy_f", "corrected", 8), ("earlyrobust", "as-published", 1),
        ("random", "as-released", 1),
    ],
)  # fmt: skip
def test_widths_of_tickets_are_rounded_in_the_corrected_flavour(arm: str, flavour: Any, multiple: int) -> None:
    (chosen,) = recipe(Job(task="sst2", arm=arm, flavour=flavour)).arms
    origin = chosen.origin
    while origin is not None and origin.search is None:
        origin = origin.like
    assert getattr(origin.search, "round_to", 1) == multiple
