"""What training refuses or repairs: misfits, typos, frozen or half-precision models, explosions, and settings of other people's tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Adversary
from robust_tickets.data.batching import batches_of
from robust_tickets.errors import TicketsError
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw
from tiny import tiny_classifier
from toy import QUICK, STILL, toy_task


def three_classes() -> Any:
    from robust_tickets.data.task import Split, Task

    splits = {
        name: Split.of([("good film",)] * 6, [0, 1, 2] * 2, name=name, columns=("text",))
        for name in ("train", "validation", "test")
    }
    return Task(name="three", labels=("a", "b", "c"), columns=("text",), splits=splits)


@pytest.mark.parametrize("method", [FineTune(**QUICK), EarlyRobust(batch_size=8)])
def test_a_classifier_that_does_not_fit_the_task_is_refused(method: Any) -> None:
    for clf, task, code in (
        (tiny_classifier(labels=("b", "a")), toy_task(16), "classifier.labels"),
        (tiny_classifier(), three_classes(), "classifier.labels"),
        (tiny_classifier(), toy_task(16, pairs=True), "classifier.columns"),
    ):
        with refused(code):
            method(clf, task)


def test_evaluation_refuses_what_does_not_fit() -> None:
    task = toy_task(16)
    with refused("evaluate.labels"):
        evaluate(tiny_classifier(labels=("b", "a")), task.test, labels=task.labels)
    with refused("evaluate.labels"):
        evaluate(tiny_classifier(), three_classes().test)
    with refused("classifier.columns"):
        evaluate(tiny_classifier(), toy_task(16, pairs=True).test)
    assert evaluate(tiny_classifier(), task.test, labels=task.labels).n == 12


def test_a_frozen_model_is_refused() -> None:
    clf = tiny_classifier()
    clf.model.requires_grad_(False)
    with refused("train.frozen"):
        FineTune(**QUICK)(clf, toy_task(16))


def test_the_callers_random_state_and_memory_are_left_alone() -> None:
    clf, state = tiny_classifier(), torch.get_rng_state()
    FineTune(**QUICK, max_steps=2)(clf, toy_task(16))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None for p in clf.model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_trained_in_full(
    dtype: torch.dtype, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clf = tiny_classifier()
    clf.model.to(dtype)
    trainer = FineTune(**QUICK, max_steps=3, adversary=FreeLB(steps=2))
    trainer(clf, toy_task(16), folder=tmp_path, stop_after=1)
    assert {p.dtype for p in clf.model.parameters()} == {torch.float32}
    assert "trained as float32" in capsys.readouterr().err
    again = tiny_classifier()
    again.model.to(dtype)
    trainer(again, toy_task(16), folder=tmp_path)  # goes on
    assert all(p.isfinite().all() for p in again.model.parameters())


def test_mpnets_position_bias_is_not_decayed() -> None:
    model = tiny_classifier("mpnet").model
    decay = {
        id(p): g["weight_decay"]
        for g in adamw({"m": model}, Optim(weight_decay=0.01)).param_groups
        for p in g["params"]
    }
    biases = {name: decay[id(p)] for name, p in model.named_parameters() if "bias" in name}
    assert any("relative_attention_bias" in name for name in biases)
    assert set(biases.values()) == {0.0}


@dataclass(frozen=True, kw_only=True)
class Explodes(Adversary):
    """An adversary whose last gradient is infinite though its loss is not."""

    at: int
    calls: list[object] = field(default_factory=list)

    def __call__(self, objective: Any) -> torch.Tensor:
        self.calls.append(1)
        loss = objective.loss()
        objective.backward(loss * (float("inf") if len(self.calls) == self.at else 1.0))
        return loss.detach()


@pytest.mark.parametrize("clip", [0.0, 1.0])
@pytest.mark.parametrize("at", [1, 2])
def test_an_exploded_update_is_neither_saved_nor_returned(clip: float, at: int, tmp_path: Path) -> None:
    clf, task = tiny_classifier(**STILL), toy_task(16)
    settings = FineTune(epochs=1, clip=clip, log_every=50)
    with (
        pytest.raises(TicketsError, match=r"exploded|loss became|not finite") as problem,
        TrainingRun(settings=settings, model=clf.model, batches=batches_of(clf, task, 8, 0), folder=tmp_path) as run,
    ):
        list(run.steps({"m": clf.model}, under=Explodes(at=at)))
    assert problem.value.exit_code == 3
    assert not (tmp_path / "checkpoint").exists()


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused("train.processes"):
        FineTune(**QUICK)(tiny_classifier(), toy_task(16))
