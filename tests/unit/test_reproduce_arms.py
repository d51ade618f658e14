"""Rows and arms: nothing of the papers is without a row, and every arm is what its name says."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.experiment.arms import Arm
from robust_tickets.experiment.recipe import recipes, resolve
from robust_tickets.registry import name_of
from robust_tickets.reproduce import paths, protocol, published
from robust_tickets.reproduce.arms import FLAVOURS, arm, arms, over, rows, swept, tree
from robust_tickets.reproduce.job import Flavour, Job
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.robustt import RobustT

IDS = [table.id for table in published.tables()]
COMMON = ("train.epochs=10", "train.lr=2e-5", "train.evaluate=never")


def made(
    name: str, task: str = "sst2", flavour: Flavour = "corrected", backbone: str = "bert-base-uncased", seed: int = 0
) -> Arm:
    unit = Job(arm=name, task=task, flavour=flavour, backbone=backbone, seed=seed)
    (one,) = resolve(name, tree(unit, COMMON), [arm(name).arm]).arms
    return one


def listed(flavour: Flavour) -> Iterator[tuple[str, str]]:
    """Every arm with every task that a row lists it for; campaigns take the others on SST-2."""
    found = {(row.arm, task) for id in IDS for row in rows(id, flavour) for task in row.tasks if row.arm}
    yield from sorted(found | {(name, "sst2") for name in arms()})


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("id", IDS)
def test_every_published_row_has_one_row_and_every_figure_has_points(id: str, flavour: Flavour) -> None:
    table = published.table(id)
    found = [(row.name, task, row.backbone) for row in rows(id, flavour) for task in row.tasks]
    assert found
    assert all(row.table == id and (row.arm in arms()) != bool(row.why) for row in rows(id, flavour))
    assert flavour == "as-released" or not any(row.why for row in rows(id, flavour)), "all of it can be made"
    if table.kind == "table":
        assert sorted(found) == sorted((row.name, row.task, row.backbone) for row in table.rows)
        assert all(row.x is None for row in rows(id, flavour))
    else:
        points = [(row.name, row.x, task) for row in rows(id, flavour) for task in row.tasks]
        assert len(points) == len(set(points)), "no point twice"
        assert set(table.tasks) <= {task for _, task, _ in found}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_arm_resolves_wherever_it_is_listed(flavour: Flavour) -> None:
    for name, task in listed(flavour):
        one = made(name, task, flavour, seed=3)
        assert one.train.seed == 3
        assert one.search is None or one.search.seed == 3


def test_every_arm_is_made_of_things_that_there_are() -> None:
    known = {role.removeprefix("@") for role in paths.ROLES}
    for name, one in arms().items():
        assert one.recipe in recipes()
        assert one.title
        for role in one.roles:
            kind, _, task = role.partition("/")
            assert role in known or (kind == "data" and protocol.rules(task)), f"{name}: {role}"
    assert {over(id) for id in IDS} == {None, "pgd", "freelb"}


@pytest.mark.parametrize("task", ["sst2", "imdb", "ag_news"])
def test_corrected_arms_differ_in_ticket_adversary_length_and_averaging_alone(task: str) -> None:
    base = made("finetune", task).train
    for name in arms():
        train = made(name, task).train
        assert replace(train, adversary=None, epochs=10, run_epochs=0, average=0.0) == base, name
        told = "_epochs_" in name or name in {"robustt_longer"} or name[:8] in {"sturdy_a", "sturdy_d", "sturdy_e"}
        assert (train.epochs != 10) == told, name
        assert bool(train.run_epochs) == ("_along_" in name)
        assert bool(train.average) == (name == "finetune_average" or (name.startswith("sturdy_") and name[7] != "b"))


def test_the_papers_train_as_they_say() -> None:
    for name in ("finetune_rt", "freelb_rt", "infobert_rt", "robustt", "random_matched"):
        train = made(name, "imdb", "as-published").train
        assert (train.epochs, train.batch_size, train.weight_decay, train.warmup) == (3, 32, 1e-2, 0.1), name
    for name in ("finetune", "freelb", "earlyrobust", "orticket"):
        train = made(name, "imdb", "as-published").train
        assert (train.epochs, train.batch_size, train.weight_decay, train.warmup) == (10, 8, 0.0, 0.0), name
    assert made("robustt_er", "sst2", "as-published").train.epochs == 10
    assert {row.arm for row in rows("RT-T2", "as-published")} == {"finetune_rt", "freelb_rt", "infobert_rt", "robustt"}
    assert {row.arm for row in rows("RT-T2")} == {"finetune", "freelb", "infobert", "robustt"}


@pytest.mark.parametrize("task", ["sst2", "imdb", "ag_news", "qnli"])
def test_the_released_code_searches_as_it_does(task: str) -> None:
    assert made("robustt", task, "as-released").search == RobustT.released(task)
    assert made("robustt", task, "as-published").search == made("robustt", task).search == RobustT.for_task(task)
    plain = RobustT.released(task, adversary=None)
    assert made("robustt_without_adversary", task, "as-released").search == plain
    early = made("earlyrobust_first", task, "as-released").search
    assert (early.stop, early.at_epoch, early.rule, early.loader_shuffle, early.adversary.token_types) == (
        "fixed",
        0.2,
        "quantile",
        False,
        False,
    )
    assert replace(
        early, **{k: getattr(EarlyRobust(), k) for k in ("stop", "rule", "loader_shuffle")}, adversary=None
    ) == replace(EarlyRobust.for_task(task), adversary=None)
    swept_gamma = made("earlyrobust_gamma_05", task, "as-released").search
    assert (swept_gamma.gamma, swept_gamma.stop, swept_gamma.at) == (0.05, "official", "before")
    assert made("pgd", task, "as-released").train.adversary.naive
    assert not made("freelb3", task, "as-released").train.adversary.token_types


def test_tickets_of_one_search_share_it_and_random_ones_have_its_sparsity() -> None:
    search = made("earlyrobust_first", "imdb").search
    for name in (
        "earlyrobust_neurons_60",
        "earlyrobust_first_heads_1_3",
        "earlyrobust_layer_layer",
        "earlyrobust_without_structure",
        "earlyrobust_first_epochs_25",
    ):
        assert made(name, "imdb").search == search, name
    assert (
        (made("random", "imdb").search.heads, made("random", "imdb").search.neurons)
        == (search.heads, search.neurons)
        == (1 / 6, 0.4)
    )
    assert made("random", "imdb").search.match == "global"
    weights = made("robustt", "imdb").search
    assert made("robustt_sparsity_70", "imdb").search == weights
    matched = made("random_matched_sparsity_70", "imdb")
    assert (matched.search.match, matched.origin.like.search, matched.origin.like.draw.sparsity) == (
        "matrix",
        weights,
        0.7,
    )  # type: ignore[union-attr]
    assert made("imp", "sst2").search.sparsity == 0.6
    assert made("robustt_without_mask_training", "imdb").search.adversary.steps == 2
    assert made("robustt_without_mask_training", "imdb").search.sparsity == weights.sparsity


def test_what_the_papers_rows_ask_for_is_drawn_at_the_first_point() -> None:
    for id in ("ER-T1", "ER-T3", "ER-T5", "ER-F3", "ER-F4", "ER-F5", "OR-T1", "OR-T3", "OR-F1", "OR-F2"):
        for name in {row.arm for row in rows(id) if row.arm}:
            search = made(name).search
            assert getattr(search, "stop", "fixed") != "paper" or search.drawn == "first", (id, name)
    for name in ("earlyrobust", "earlyrobust_epochs_5", "orticket", "orticket_vanilla", "sturdy_a_ticket", "sturdy_f"):
        assert made(name).search.drawn == "current", name


def test_a_sweep_has_the_value_that_its_point_stands_at() -> None:
    for x, name in swept("earlyrobust_gamma"):
        assert made(name).search.gamma == x
    for x, name in swept("orticket_neurons"):
        assert made(name).origin.draw.neurons == x  # type: ignore[union-attr]
    for x, name in swept("robustt_lambda"):
        assert made(name).search.penalty == made(name, flavour="as-released").search.penalty == x
    for x, name in swept("finetune_along"):
        assert all(made(name, flavour=flavour).train.run_epochs == x for flavour in FLAVOURS)


SWEPT = tomllib.loads((Path(published.__file__).parent / "sweeps.toml").read_text("utf-8"))["sweeps"]
DRAWN = {name: table["drawn"] for name, table in SWEPT.items() if "drawn" in table}


@pytest.mark.parametrize("name", DRAWN)
def test_where_a_sweep_meets_its_base_the_base_is_not_trained_twice(name: str) -> None:
    """``drawn`` says what the base's own ticket is drawn at, and no other point is the base's."""
    base, setting = SWEPT[name]["base"], name.rpartition("_")[2]
    for task, value in DRAWN[name].items():
        own = made("robustt" if base == "random_matched" else base, task).origin
        assert getattr(own.search, setting) == value
        assert [x for x, arm in swept(name, task) if arm == base] == [value]
        assert [x for x, _ in swept(name, task)] == [x for x, _ in swept(name)]
    assert base not in dict(swept(name)).values()
    for id in IDS:
        for row in rows(id):
            assert not any(row.arm.startswith(f"{name}_") and DRAWN[name].get(task) == row.x for task in row.tasks)


def test_freelb_has_its_papers_step_on_each_task() -> None:
    """Table 6 of EarlyRobust, which its search under FreeLB has too; a weaker one would be an easy rival."""
    for task in ("sst2", "imdb", "ag_news"):
        asked, trained = (
            EarlyRobust.for_task(task).adversary,
            {name: made(name, task).train.adversary for name in arms()},
        )
        under = {
            name: (one.step_size, one.init)
            for name, one in trained.items()
            if one is not None and name_of(one) == "freelb"
        }
        assert len(under) >= 8
        assert under == dict.fromkeys(under, (asked.step_size, asked.init))


def test_a_search_on_another_task_takes_the_protocols_rows_of_it() -> None:
    one = made("searched_on_sst2", "imdb")
    assert (one.origin.searched_on.task, one.origin.searched_on.data) == ("sst2", "@data/sst2")
    assert one.origin.searched_on.validation == "none"  # SST-2 is never carved
    assert arm("searched_on_sst2").roles == ("data/sst2",)  # no text: masked words are not searched on
    assert one.search.neurons == 0.3  # ORTicket's share on the task it is used on


@cache
def names() -> list[str]:
    return sorted(arms())


@given(st.sampled_from(names()), st.sampled_from(FLAVOURS), st.sampled_from(["sst2", "imdb"]), st.integers(0, 9))
def test_a_tree_is_the_units_own(name: str, flavour: Flavour, task: str, seed: int) -> None:
    unit = Job(arm=name, task=task, flavour=flavour, seed=seed)
    first: dict[str, Any] = tree(unit, (*COMMON, "data=somewhere"))
    assert (first["model"], first["task"], first["seed"], first["data"]) == (
        "bert-base-uncased",
        task,
        seed,
        "somewhere",
    )
    first["arms"].clear()
    assert tree(unit, COMMON)["arms"], "what one caller changes, no other sees"


def test_an_arm_that_is_not_there_is_refused_with_what_is_near() -> None:
    with refused("arms.unknown") as problem:
        arm("finetun")
    assert "finetune" in problem.value.hint
    with pytest.raises(TypeError):
        arms()["finetune"] = arm("random")  # type: ignore[index]


def test_plans_need_no_torch_and_the_files_are_shipped() -> None:
    told = "from robust_tickets.reproduce.arms import *; from robust_tickets.reproduce.job import Job; rows('ER-T1')"
    told += "; tree(Job(task='imdb', arm='searched_on_sst2')); import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0
    root = Path(__file__).parents[2]
    globs = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-data"][
        "robust_tickets"
    ]
    folder = root / "src" / "robust_tickets"
    data = [file.relative_to(folder).as_posix() for file in (folder / "reproduce").rglob("*.toml")]
    assert len(data) >= 6
    assert all(any(fnmatch(name, glob) and name.count("/") == glob.count("/") for glob in globs) for name in data)
