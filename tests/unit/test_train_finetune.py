"""FineTune: what it refuses or repairs, averaged weights, leaving a schedule early, and what one training reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Adversary
from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier import ModelClassifier
from robust_tickets.data.batching import batches_of
from robust_tickets.errors import TicketsError
from robust_tickets.prune.compact import compact
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train import cuda as engines
from robust_tickets.train import evaluate as evaluation
from robust_tickets.train import finetune as averaging
from robust_tickets.train.evaluate import Evaluator, evaluate
from robust_tickets.train.finetune import Average, FineTune
from robust_tickets.train.loop import TrainingRun
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


FORTY = toy_task(40)
TEN: dict[str, Any] = {"epochs": 2, "batch_size": 8, "lr": 1e-3, "evaluate": "never"}  # ten updates


def weights(clf: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in clf.model.state_dict().items()}


def test_the_result_is_the_mean_of_the_last_weights() -> None:
    seen = []
    for done in range(6, 11):  # the same run, cut off after so many updates
        clf = tiny_classifier()
        FineTune(**TEN)(clf, FORTY, stop_after=done)
        seen.append(weights(clf))
    clf = tiny_classifier()
    FineTune(**TEN, average=0.5)(clf, FORTY)
    for name, value in weights(clf).items():
        assert torch.allclose(
            value, torch.stack([each[name].double() for each in seen]).mean(0).to(value.dtype), atol=1e-7
        ), name
    assert any(not torch.equal(value, seen[-1][name]) for name, value in weights(clf).items())


@pytest.mark.parametrize("cut", [4, 7, 10])
def test_an_interrupted_run_ends_with_the_same_mean(tmp_path: Path, cut: int) -> None:
    whole, parts = tiny_classifier(), tiny_classifier()
    FineTune(**TEN, average=0.5)(whole, FORTY)
    FineTune(**TEN, average=0.5)(parts, FORTY, folder=tmp_path, stop_after=cut)
    again = tiny_classifier()
    FineTune(**TEN, average=0.5)(again, FORTY, folder=tmp_path)
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(whole).items())


def test_a_run_that_is_left_keeps_its_own_weights() -> None:
    plain, left = tiny_classifier(), tiny_classifier()
    FineTune(**TEN)(plain, FORTY, stop_after=8)
    FineTune(**TEN, average=0.5)(left, FORTY, stop_after=8)
    assert all(torch.equal(value, weights(left)[name]) for name, value in weights(plain).items())


@given(st.floats(0.01, 1.0), st.integers(1, 3000))
def test_places_are_spread_over_the_last_part_and_end_with_it(share: float, total: int) -> None:
    taken: list[int] = []
    one = Average(torch.nn.Linear(1, 1), share, total)
    for done in range(1, total + 1):
        before = one.count
        one.take(done)
        taken += [done] * (one.count - before)
    assert taken[-1] == total
    assert len(taken) <= averaging.POINTS
    assert min(taken) > total - max(1, round(share * total))
    assert len(taken) >= min(round(share * total), averaging.POINTS // 2)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_from_none_to_all(share: float) -> None:
    with refused("settings.limit"):
        FineTune(average=share)


TWENTY = toy_task(20)
THREE: dict[str, Any] = {"epochs": 3, "batch_size": 8, "lr": 1e-3, "warmup": 0.2, "evaluate": "never"}


def trained(stop_after: int | None = None, **settings: Any) -> dict[str, torch.Tensor]:
    clf = tiny_classifier()
    FineTune(**{**THREE, **settings})(clf, TWENTY, stop_after=stop_after)
    return dict(clf.model.state_dict())


def test_it_is_the_whole_run_up_to_there() -> None:
    per_epoch = FineTune(**{**THREE, "epochs": 1}).steps(TWENTY)
    assert FineTune(**THREE, run_epochs=2).steps(TWENTY) == 2 * per_epoch
    left, cut, short = trained(run_epochs=2), trained(stop_after=2 * per_epoch), trained(epochs=2)
    assert all(torch.equal(value, cut[name]) for name, value in left.items())
    assert any(not torch.equal(value, short[name]) for name, value in left.items()), (
        "a schedule of its own would be another run"
    )


@pytest.mark.parametrize(
    "wrong", [{"run_epochs": 4}, {"run_epochs": -1}, {"run_epochs": 1, "max_steps": 5}, {"run_epochs": 1, "horizon": 5}]
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(TicketsError):
        FineTune(**{**THREE, **wrong})


def of_width(clf: Any, kept: int) -> Ticket:
    layout = layout_of(clf.model)
    scores = {"heads": layout.heads_of(clf.model), "neurons": layout.neurons_of(clf.model)}
    removed = 1 - kept / scores["neurons"][0]
    return Ticket.from_scores(
        family=layout.family,
        scores={group: [np.arange(n, dtype=np.float32) for n in sizes] for group, sizes in scores.items()},
        unit_weights=layout.unit_weights(clf.model),
        heads=0.0,
        neurons=removed,
        neuron_scope="layer",
    )


@pytest.mark.parametrize(
    ("family", "kept", "precision", "cuda", "told"),
    [
        ("modernbert", 13, "bf16", True, True),
        ("modernbert", 16, "bf16", True, False),
        ("modernbert", 13, "fp32", True, False),
        ("modernbert", 13, "bf16", False, False),
        ("bert", 16, "bf16", True, False),
    ],
)
def test_odd_widths_are_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, family: str, kept: int, precision: Any, cuda: bool, told: bool
) -> None:
    clf = tiny_classifier(family)
    monkeypatch.setattr(engines, "capturable", lambda _: cuda)
    trainer = FineTune(**QUICK, max_steps=1, precision=precision, engine="eager")
    trainer(compact(clf, of_width(clf, kept)), toy_task())
    said = capsys.readouterr().err
    assert said.count("round_to=8") == int(told)
    assert ("(like 13)" in said) == told


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts each call encodes."""
    sizes: list[int] = []
    original = ModelClassifier.encode

    def counted(self: ModelClassifier, texts: Sequence[Any]) -> Any:
        sizes.append(len(texts))
        return original(self, texts)

    monkeypatch.setattr(ModelClassifier, "encode", counted)
    monkeypatch.setattr(evaluation, "CHUNK", 5)
    return sizes


@pytest.mark.parametrize(("kept", "anew"), [(1000, []), (10, [2]), (5, [5, 2]), (0, [5, 5, 2])])
def test_asking_again_follows_the_model_and_encodes_nothing(
    encoded: list[int], monkeypatch: pytest.MonkeyPatch, kept: int, anew: list[int]
) -> None:
    monkeypatch.setattr(evaluation, "KEPT", kept)
    clf, split = tiny_classifier(), toy_task().test
    again = Evaluator(clf, split)
    first = again()
    assert encoded == [5, 5, 2]
    assert first == evaluate(clf, split)
    with torch.no_grad():
        for parameter in clf.model.parameters():
            parameter.mul_(-0.5)
    encoded.clear()
    second = again()
    assert encoded == anew
    assert second == evaluate(clf, split) != first


def test_a_training_encodes_its_validation_rows_once(encoded: list[int]) -> None:
    task = toy_task()
    FineTune(**{**QUICK, "epochs": 3, "evaluate": "epoch"})(tiny_classifier(), task)
    assert sum(encoded) == len(task.validation)
