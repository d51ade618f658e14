"""The protocol: what it writes into a recipe, and what it refuses, rule by rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split, Task
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.recipe import Recipe, resolve
from robust_tickets.reproduce.arms import arm, tree
from robust_tickets.reproduce.arms import arm as arm_of
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import GROUPS, attacks, check, check_task, part_of, rules, settings

PLACES = Paths(real=Path("real.json"), substitute=Path("near"), tagger=Path("tags"), masked=Path("bert"))
SST2 = Job(task="sst2", arm="finetune")


def recipe(unit: Job = SST2, *more: str, groups: tuple[str, ...] = ("main",), **changed: Any) -> Recipe:
    tables = [{**one.placed(PLACES), **changed} for one in attacks(unit.task, groups, unit.flavour)]
    return resolve(
        unit.arm, PLACES.placed(tree(unit, (*settings(unit, cuda=False), *more), tables)), [arm(unit.arm).arm]
    )


@pytest.mark.parametrize("flavour", ["corrected", "as-published", "as-released"])
@pytest.mark.parametrize("task", ["sst2", "ag_news", "mrpc"])
@pytest.mark.parametrize("name", ["finetune", "earlyrobust", "finetune_epochs_25"])
def test_a_unit_as_the_protocol_writes_it_is_let_through(flavour: Any, task: str, name: str) -> None:
    unit = Job(task=task, arm=name, flavour=flavour, seed=3)
    confirms = name.startswith("finetune") or task != "sst2"
    check(recipe(unit, groups=GROUPS if confirms else GROUPS[:-1]), unit)
    if not confirms:
        with pytest.raises(TicketsError, match="test is attacked for the recipe that wins alone"):
            check(recipe(unit, groups=GROUPS), unit)


@pytest.mark.parametrize(
    ("setting", "rule", "said"),
    [
        ("train.lr=3e-5", "the same training for every arm", "train.lr is 2e-05"),
        ("train.warmup=0.1", "the same training for every arm", "train.warmup"),
        ("train.weight_decay=0.01", "the same training for every arm", "weight_decay"),
        ("train.batch_size=16", "the same training for every arm", "batch_size is 32"),
        ("train.epochs=11", "the same training for every arm", "train.epochs is 10, got 11"),
        ("train.run_epochs=3", "the same training for every arm", "train.run_epochs is 0, got 3"),
        ("train.max_steps=3", "the same training for every arm", "train.max_steps is None, got 3"),
        ("train.horizon=90000", "the same training for every arm", "train.horizon is None, got 90000"),
        ("max_length=64", "the same training for every arm", "max_length is 128, got 64"),
        ("train.evaluate=epoch", "last epoch only", "never"),
        ("validation=", "splits", "validation is 'none'"),
        ("max_rows=100", "splits", "max_rows is None, got 100"),
        ("drop_seen=false", "splits", "drop_seen"),
        ("split_seed=4", "splits", "split_seed"),
        ("attacked=test", "splits", "attacked"),
        ("seed=1", "seed", "seed is 0"),
    ],
)
def test_a_recipe_that_breaks_a_rule_is_refused_by_its_name(setting: str, rule: str, said: str) -> None:
    with pytest.raises(TicketsError) as told:
        check(recipe(SST2, setting), SST2)
    assert f"rule {rule!r}" in told.value.message
    assert said in told.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n": 100}, "has n 0"),
        ({"scoring": "probability"}, "log-odds"),
        ({"seed": 1}, "has seed 0"),
        ({"split": "test", "seed": 2}, "has seed 0"),
        ({"neighbours": 5}, "has neighbours 50"),
        ({"query_budget": 10}, "query_budget"),
        ({"tagger": "none"}, "@tagger"),
        ({"precision": "bfloat16"}, "has precision None"),
    ],
)
def test_an_attack_of_other_settings_is_refused(changed: Mapping[str, Any], said: str) -> None:
    with pytest.raises(TicketsError, match="rule 'attacks'") as told:
        check(recipe(SST2, **changed), SST2)
    assert said in told.value.message


def test_on_a_gpu_copies_in_float16_are_attacked() -> None:
    assert {one.placed(PLACES, cuda=True)["precision"] for one in attacks("sst2", GROUPS)} == {"float16"}
    assert not any("precision" in one.placed(PLACES) for one in attacks("sst2", GROUPS))
    tables = [one.placed(PLACES, cuda=True) for one in attacks("sst2", GROUPS)]
    check(resolve("finetune", PLACES.placed(tree(SST2, settings(SST2, cuda=True), tables)), ["finetune"]), SST2)
    with pytest.raises(TicketsError, match="precision"):
        check(recipe(SST2, groups=("more",), precision="bfloat16"), SST2)


def test_mr_is_never_trained_on_nor_searched_on() -> None:
    with pytest.raises(TicketsError, match="mr is never trained on"):
        settings(Job(task="mr", arm="finetune"), cuda=False)
    unit = replace(SST2, arm="earlyrobust")
    made = recipe(unit)
    (one,) = made.arms
    assert one.origin is not None
    elsewhere = replace(
        made, arms=(replace(one, origin=replace(one.origin, searched_on=replace(made.source, task="mr"))),)
    )
    with pytest.raises(TicketsError, match="no search on mr"):
        check(elsewhere, unit)


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
    names = [one.name for one in attacks("sst2", GROUPS)]
    assert len(names) == len(set(names))


def rows(name: str, *texts: str) -> Split:
    return Split.of(texts, [i % 2 for i in range(len(texts))], name=name)


def small(**changed: Any) -> Task:
    splits = {
        "train": rows("train", "a", "b", "c"),
        "none": rows("none").select([]),
        "validation": rows("validation", "d", "e"),
    }
    told = {"name": "sst2", "labels": ("n", "p"), "columns": ("text",), "splits": splits | changed.pop("splits", {})}
    return Task(**{**told, "validation_split": "none", "test_split": "validation", **changed})


def test_rows_of_another_size_have_to_be_said() -> None:
    with pytest.raises(TicketsError, match="67,349 rows in train, got '3'"):
        check_task(small(), SST2)
    assert part_of(["a note", *check_task(small(), SST2, subset=True)]) == "sst2: 3 of the 67,349 rows of train"
    assert (
        part_of(
            ["a note", *(f"{task}: {said}" for task in ("sst2", "ag_news") for said in rules(task).subsets.values())]
        )
        is None
    )
    assert check_task(small(), SST2, subset=True) == (
        "sst2: 3 of the 67,349 rows of train",
        "sst2: 2 of the 872 rows of validation",
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "imdb"}, "the task is 'sst2'"),
        ({"test_split": "train"}, "the split in the role test is 'validation'"),
        ({"splits": {"none": rows("none", "f")}}, "rows held out for selection is 0"),
        ({"splits": {"validation": rows("validation", "d", "A ")}}, "texts of validation in train is 0"),
        ({"splits": {"test": rows("test", "b")}}, "texts of test in train is 0"),
    ],
)
def test_rows_that_leak_or_select_are_refused_in_a_subset_too(changed: Any, said: str) -> None:
    with pytest.raises(TicketsError, match=said):
        check_task(small(**changed), SST2, subset=True)


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
        carved = load_task("sst2", data=shared / "data" / "sst2")
        with pytest.raises(TicketsError, match="rows held out for selection is 0"):
            check_task(carved, unit)
    if task == "imdb":
        with pytest.raises(TicketsError, match="texts of test in train is 0"):
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
    unit = Job(task="sst2", arm=arm, flavour=flavour)
    places = replace(PLACES, corpus=Path("corpus"))
    (chosen,) = resolve(unit.arm, places.placed(tree(unit, settings(unit, cuda=False))), [arm_of(unit.arm).arm]).arms
    origin = chosen.origin
    while origin is not None and origin.search is None:
        origin = origin.like
    assert getattr(origin.search, "round_to", 1) == multiple
