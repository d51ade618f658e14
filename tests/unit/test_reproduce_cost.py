"""The cost of a plan: held to what the methods themselves say, shared stages counted once, what is done left out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import outcomes as made_up
from judging import made as judged
from robust_tickets.experiment.recipe import resolve
from robust_tickets.registry import ADVERSARIES
from robust_tickets.reproduce.arms import arm, arms, tree
from robust_tickets.reproduce.cost import TOKENS, Device, cost, device, passes, pieces, search_seconds, size_of, work
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import read_all
from robust_tickets.reproduce.paths import LEAST, Paths, rows_of, share_of
from robust_tickets.reproduce.plan import campaign, plan
from robust_tickets.reproduce.protocol import attack, settings
from robust_tickets.train.settings import TrainingSettings
from small_world import small_world

GPU = device("h200")
# 1 a row of SST-2
PLAIN = Device(name="plain", about="rows", update=0, each=0, token=1 / 18, text=0, query=1, margin=1)
SST2 = SimpleNamespace(train=range(67349), validation=range(872))
COUNTED = Paths(counted=True)


def resolved(name: str, task: str = "sst2") -> Any:
    unit = Job(task=task, arm=name)
    made = tree(unit, settings(unit, cuda=False))
    (one,) = resolve(name, Paths(corpus=Path("texts")).placed(made), [arm(name).arm]).arms
    return one


@pytest.mark.parametrize("name", ADVERSARIES.names())
def test_passes_are_those_of_the_adversary(name: str) -> None:
    assert passes(name) == pytest.approx(ADVERSARIES.get(name)().passes, rel=0.05)
    assert passes("none") == passes(None) == 1


def test_passes_follow_the_settings() -> None:
    assert passes({"name": "freelb", "steps": 3}) == 3
    assert passes({"name": "freelb", "steps": 3, "extra_pass": True}) == 4
    assert passes({"name": "pgd", "naive": True, "steps": 4}) == 5
    assert passes({"name": "synonymswap", "mix": 0.0}) == 1


@pytest.mark.parametrize(
    ("arm", "kept", "epochs"),
    [
        ("finetune", 1.0, 10.0),
        ("finetune_epochs_25", 1.0, 25.0),
        ("freelb3", 1.0, 30.0),
        ("random", 0.75, 7.5),  # of its FLOPs
        ("earlyrobust", 0.75, 0.5 * 5 + 7.5),  # half an epoch of five passes before
        ("sturdy_a_full", 1.0, 7 * 8 / 3),
    ],
)
def test_work_is_in_plain_epochs_of_the_whole_model(arm: str, kept: float, epochs: float) -> None:
    outcome = judged("finetune", flops_per_example=4e9 * kept, dense_flops_per_example=4e9)
    assert work(replace(outcome, unit=Job(task="sst2", arm=arm))) == pytest.approx(epochs, rel=1e-3)
    assert work(judged("random")) == pytest.approx(10.0), "whose size was not kept"
    assert work(judged("of-another-version")) is None
    assert work(judged("finetune", task="another")) is None
    assert work(replace(judged("random"), ticket={"digest": "x"})) is None, "how much it keeps is not known"


@pytest.mark.parametrize(
    ("arm", "stopped_at", "searching"),
    [
        ("earlyrobust", 0.4, 0.4 * 5),
        ("earlyrobust", "soon", 0.5 * 5),
        ("sturdy_a_ticket", 0.4, 0.4 * 5),
        ("earlybert", 0.4, 0.2),  # which no rule stops
    ],
)
def test_a_search_that_was_run_counts_what_it_ran(arm: str, stopped_at: Any, searching: float) -> None:
    """The rest is the training, which is the same."""
    sizes = {"flops_per_example": 3e9, "dense_flops_per_example": 4e9}
    outcome = replace(judged("finetune", **sizes), unit=Job(task="sst2", arm=arm))
    ran = work(replace(outcome, traces={"distances": {"stopped_at": stopped_at}}))
    (training,) = [piece.seconds for piece in pieces(outcome.unit, (), TOKENS) if piece.kind == "train"]
    assert ran == pytest.approx(searching + 0.75 * training / (67349 * 18))


def rows_of_a_plain_step(method: Any, task: Any) -> float:
    """Rows of a plain training step; a search that watches its masks runs half its epoch."""
    if not isinstance(method, TrainingSettings):
        return 0.0
    updates = method.steps(task) * len(getattr(method, "rungs", [0]))
    passes = method.adversary.passes if method.adversary else 1.0
    first = rows_of_a_plain_step(method.tuning, task) if getattr(method, "tuning", None) else 0.0
    share = 1 if getattr(method, "stop", "fixed") == "fixed" else 0.5
    return first + share * updates * method.batch_size * method.accumulate * passes


@pytest.mark.parametrize(
    "name",
    ["finetune", "earlyrobust", "earlyrobust_whole", "earlyrobust_without_adversary", "random", "freelb3", "pgd", "infobert",
     "earlybert", "robustt", "imp"],
)  # fmt: skip
def test_an_arm_costs_what_its_recipe_says(name: str) -> None:
    """Rows of a plain step, from the resolved recipe, against the arithmetic that loads nothing."""
    made = resolved(name)
    found = {piece.kind: piece.seconds for piece in pieces(Job(task="sst2", arm=name), (), PLAIN)}
    assert found["train"] == pytest.approx(rows_of_a_plain_step(made.train, SST2), rel=0.1)
    searching = rows_of_a_plain_step(made.search, SST2) if made.search else 0.0
    assert found.get("search", 0.0) == pytest.approx(searching, rel=0.1, abs=1)


@pytest.mark.parametrize("name", ["earlyrobust", "orticket", "robustt", "imp"])
@pytest.mark.parametrize("task", ["sst2", "imdb", "ag_news", "mrpc"])
def test_a_search_has_the_batches_and_rounds_that_its_recipe_says(name: str, task: str) -> None:
    search, size = resolved(name, task).search, size_of(task)
    per_update, table = replace(PLAIN, update=1.0, token=0.0), {"name": name}
    given = search_seconds({**table, "batch_size": search.batch_size}, size, per_update)
    assert given == pytest.approx(search_seconds(table, size, per_update))
    if name == "imp":
        rows = search_seconds(table, size, replace(PLAIN, token=1 / size.tokens))
        assert rows == pytest.approx(size.rows * search.epochs * len(search.rungs))


def test_estimates_are_near_what_was_measured() -> None:
    """Seconds on an H200: fine-tuning 69 for nine tenths of the rows, the search 21 there, TextFooler 8.0 on a copy in few bits."""

    def seconds(arm: str, task: str = "sst2", *attacks: str) -> list[float]:
        named = [attack(task, name) for name in attacks]
        return [piece.seconds for piece in pieces(Job(task=task, arm=arm), named, GPU)]

    search, train = seconds("earlyrobust")
    assert (21 <= search <= 35, 77 <= train <= 115) == (True, True)
    assert 2105 * 10 * 0.0148 <= seconds("freelb")[0] <= 1.3 * 2105 * 10 * 0.0148
    assert 161 <= seconds("finetune", "imdb")[0] <= 210
    names = ("textfooler-real", "textfooler-substitute", "pwws", "textfooler-substitute-confirm")
    _, real, substitute, pwws, confirm = seconds("finetune", "sst2", *names)
    assert 4 <= real < substitute < min(pwws, confirm)
    assert 8.0 <= substitute <= 16


@pytest.mark.parametrize("name", list(arms()))
def test_every_arm_has_a_cost(name: str) -> None:
    for task in ("sst2", "imdb"):
        found = list(pieces(Job(task=task, arm=name), (), GPU))
        assert [piece.kind for piece in found].count("train") == 1
        assert all(piece.seconds >= 0 for piece in found)


def test_a_shared_search_is_counted_once() -> None:
    only = [("task", "sst2"), ("method", "earlyrobust")]
    one = cost(plan(["ER-T1"], seeds=1, only=only, paths=COUNTED), (), GPU)
    only.append(("method", "earlyrobust_without_structure"))
    both = cost(plan(["ER-T1", "ER-T4"], seeds=1, only=only, paths=COUNTED), (), GPU)
    assert both.search == one.search > 0
    assert both.train > one.train


def test_what_is_done_costs_nothing(tmp_path: Path) -> None:
    asked = campaign("A", COUNTED, groups=["main"])
    have = read_all(made_up.outcomes(tmp_path / "results", arms=("finetune", "earlyrobust")))
    rest = cost(asked, have, GPU)
    assert {unit.arm for unit in rest.done} == {"finetune", "earlyrobust"}
    assert {unit.arm for unit in rest.units} == {"random"}
    assert 0 < rest.total < cost(asked, (), GPU).total
    assert rest.search == 0
    assert sum(rest.units.values()) == pytest.approx(rest.total)
    asked = campaign("A", COUNTED, groups=["main", "more"])  # trained, not attacked by these yet
    trains = []
    for made in ((), [unit for unit in asked.units if unit.arm == "finetune"], asked.units):  # those in this store
        for unit in made:
            (tmp_path / "store" / "units" / unit.id).mkdir(parents=True, exist_ok=True)
        more = cost(asked, have, GPU, store=tmp_path / "store")
        assert not more.done
        assert more.attack > rest.attack
        trains.append(more.train)
    assert trains[0] == cost(asked, have, GPU).train > trains[1] > trains[2] == rest.train
    assert more.search == 0


def test_folders_are_looked_at_for_their_sizes(tmp_path: Path) -> None:
    small = small_world(tmp_path, train=640, rows=20)
    here = Paths.find(data=small.data, models=small.models)
    assert rows_of(here, "sst2") == {"train": 640, "validation": 20, "test": 20}
    assert rows_of(here, "imdb") == rows_of(Paths(), "sst2") == {}
    assert share_of(here, "bert-base-uncased") == LEAST
    assert share_of(here, "roberta-base") == share_of(Paths(), "bert-base-uncased") == 1
    unit = Job(task="sst2", arm="finetune")
    (whole,), (part,) = pieces(unit, (), GPU), pieces(unit, (), GPU, here)
    assert part.seconds - GPU.start == pytest.approx((whole.seconds - GPU.start) * LEAST * 640 / 67349)
    (tmp_path / "data" / "rte").mkdir()
    (tmp_path / "data" / "rte" / "train.csv").write_text("a,b,label\n1,2,0\n1,2,1\n")
    assert rows_of(here, "rte") == {"train": 2}
