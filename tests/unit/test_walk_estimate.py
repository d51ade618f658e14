"""What a walk says about its time before it begins."""

from __future__ import annotations

import json
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.run import Run
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train.finetune import FineTune
from robust_tickets.walk import estimate
from robust_tickets.walk.recipe import AttackPlan
from robust_tickets.walk.stages import attack_key
from tiny import tiny_classifier
from toy import toy_task


@pytest.mark.parametrize(("device", "said"), [("cpu", "estimate: about"), ("cuda", "estimate: at most about")])
def test_steps_timed_eagerly_are_a_bound_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, device: str, said: str
) -> None:
    monkeypatch.setattr(estimate, "_plan", lambda _: [])
    monkeypatch.setattr(estimate, "estimate", lambda _: {"search": 20.0, "training": 100.0})
    walk: Any = SimpleNamespace(
        start=SimpleNamespace(device=torch.device(device)),
        task=SimpleNamespace(train=range(7)),
        recipe=SimpleNamespace(arms=[None]),
        run=SimpleNamespace(folder=Path("runs/x")),
    )
    estimate.tell(walk)
    told = capsys.readouterr().err
    assert f"{said} 2 min" in told
    assert "1 arm and 7 training rows (search 20 s, training 1 min 40 s)" in told
    monkeypatch.setattr(estimate, "estimate", lambda _: {"search": 0.6, "training": 0.7})
    estimate.tell(walk)
    assert "1 arm and 7 training rows\n" in capsys.readouterr().err  # no part is worth naming


TRAINERS = (
    FineTune(epochs=2, batch_size=4),
    FineTune(epochs=3, batch_size=4, run_epochs=1, evaluation_rows=5),
    FineTune(epochs=9, batch_size=4, max_steps=13, evaluation_rows=0),
    FineTune(epochs=2, batch_size=4, evaluate="never"),
)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_rows_that_a_training_evaluates_are_known_before(trainer: FineTune, tmp_path: Path) -> None:
    task = toy_task(40)
    trainer(tiny_classifier(), task, folder=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    seen = sum(line["evaluation"]["n"] for line in lines if "evaluation" in line)
    assert estimate.evaluated(trainer, task) == seen + len(task.test)


def test_a_training_takes_its_evaluations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few rows they are most of it: 200 rows of the reviews, all others evaluated, were to take 5 s and took 21."""
    task, trainer = toy_task(8), FineTune(epochs=2, batch_size=4)
    monkeypatch.setattr(estimate, "_trained", lambda *_: None)
    monkeypatch.setattr(estimate, "_seconds_a_row", lambda _: 3.0)
    arms = [SimpleNamespace(origin=None, train=trainer)] * 2
    walk: Any = SimpleNamespace(task=task, recipe=SimpleNamespace(arms=arms, attacks=[]))
    assert estimate.estimate(walk)["training"] == pytest.approx(2 * (2 * 8 * 3 + 3 * 12 + 12))
    monkeypatch.setattr(estimate, "_trained", lambda *_: Path("model"))
    assert estimate.estimate(walk)["training"] == 0


def test_only_the_examples_that_are_left_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two arms that were trained and attacked were to take 18 s more, and nothing was left to do."""
    task, plan, run = toy_task(8), AttackPlan(attack=PWWS(), n=6), Run(folder=tmp_path)
    folders = [tmp_path / "first", tmp_path / "second"]
    victims = [tiny_classifier(), tiny_classifier("roberta")]
    for clf, folder in zip(victims, folders, strict=True):
        clf.save_pretrained(folder)
    monkeypatch.setattr(estimate, "_trained", lambda _, arm: arm.model)
    monkeypatch.setattr(estimate, "_typical", lambda _: (("a film",), 1 / estimate.QUERIES_A_WORD))
    monkeypatch.setattr(estimate, "_seconds_a_query", lambda *_: 1.0)
    monkeypatch.setattr(estimate, "_seconds_a_row", lambda _: 1.0)

    def seconds(*models: Path | None) -> float:
        arms = [SimpleNamespace(origin=None, train=FineTune(), model=model) for model in models]
        walk: Any = SimpleNamespace(task=task, run=run, recipe=SimpleNamespace(arms=arms, attacks=[plan]))
        return estimate.estimate(walk)["attacks"]

    assert seconds(*folders) == pytest.approx(12)
    stages = [run.stage("attack", attack_key(plan, clf, task.test)) for clf in victims]
    (stages[0].folder / "examples.jsonl.part").write_text("which\none\ntwo\nthe thi")
    assert seconds(*folders) == pytest.approx(10)
    assert seconds(None, folders[0]) == pytest.approx(10)
    stages[1].finish()
    assert seconds(*folders) == pytest.approx(4)
    stages[0].finish()
    assert seconds(*folders) == 0


def test_of_the_trained_models_one_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    most: list[int] = []
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class Victim:
        def __init__(self, _: Path) -> None:
            alive.add(self)
            most.append(len(alive))

    monkeypatch.setattr(estimate, "_victim", Victim)
    monkeypatch.setattr(estimate, "_trained", lambda *_: Path("model"))
    monkeypatch.setattr(
        estimate, "stages", SimpleNamespace(attacked=lambda _, task: task.test, attack_key=lambda *_: {})
    )
    arms, plan = [SimpleNamespace(origin=None)] * 4, AttackPlan(attack=PWWS(), n=6)
    run = SimpleNamespace(has=lambda *_: True, stage_folder=lambda *_: tmp_path)
    walk: Any = SimpleNamespace(task=toy_task(8), run=run, recipe=SimpleNamespace(arms=arms, attacks=[plan, plan]))
    assert estimate.estimate(walk)["attacks"] == 0
    assert most == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("rows", "steps", "share"), [(4, 60, 1), (32, 64, 60 / 64), (400, 100, 60 / 100), (1000, 250, 0.5)]
)
def test_a_search_of_few_updates_runs_on_until_its_rule_has_points_enough(rows: int, steps: int, share: float) -> None:
    """Six points, ten updates apart: more epochs, where one has not as many."""
    search, task = EarlyRobust(batch_size=4), toy_task(rows)
    assert search.steps(task) == steps
    assert estimate.work(search, task) == pytest.approx(share * search.work(task))


@pytest.mark.parametrize("widths", [[50, 10, 12, 14, 40, 60, 44], [20]])
def test_a_row_costs_by_the_tokens_of_many_batches_not_of_the_few_that_are_timed(
    monkeypatch: pytest.MonkeyPatch, widths: list[int]
) -> None:
    """A clock that a pass moves on by a second a token: batches are of like lengths, and the timed ones may all be short."""
    clock = [0.0]

    class Model(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Any:
            clock[0] += input_ids.numel()
            return SimpleNamespace(loss=torch.zeros((), requires_grad=True))

    batches = [{"input_ids": torch.zeros(4, width), "labels": torch.zeros(4)} for width in widths]
    monkeypatch.setattr(
        "robust_tickets.train.feed.batches_of", lambda *_: SimpleNamespace(epoch=lambda _: iter(batches))
    )
    monkeypatch.setattr(estimate, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    walk: Any = SimpleNamespace(
        start=SimpleNamespace(copy=lambda: SimpleNamespace(model=Model(), device=torch.device("cpu"))),
        task=SimpleNamespace(train=range(4 * len(widths))),
        recipe=SimpleNamespace(arms=[SimpleNamespace(train=FineTune(batch_size=4))]),
    )
    assert estimate._seconds_a_row(walk) == pytest.approx(sum(widths) / len(widths))


def test_a_search_of_ones_own_is_counted_by_what_the_page_names() -> None:
    page = (Path(__file__).parents[2] / "docs/extending.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"`(\w+)\(task\)`[^;]*for the estimate", page)
    assert estimate.work(SimpleNamespace(**{name: lambda task: 640}), None) == 640
