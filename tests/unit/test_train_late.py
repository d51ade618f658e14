"""Lines that are read late: as if the CPU were a GPU whose numbers arrive only when they are waited for. Nothing else may differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from killing import Killed
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.errors import TicketsError
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train import bf16
from robust_tickets.train.cuda import late
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import QUICK, metrics, toy_task

GARBAGE = 1e6  # what is read too early


class Event:
    """Stands in for torch.cuda.Event: what was copied before ``record`` is there after ``synchronize``, and not before."""

    waits = 0
    rooms: list[torch.Tensor]

    def __init__(self, *, blocking: bool) -> None:
        assert blocking
        self.room, self.value = Event.rooms[-1], torch.empty(0)

    def record(self, _stream: Any) -> None:
        self.value = self.room.clone()
        self.room.fill_(GARBAGE)

    def synchronize(self) -> None:
        Event.waits += 1
        self.room.copy_(self.value)


@pytest.fixture
def lagging(monkeypatch: pytest.MonkeyPatch) -> type[Event]:
    Event.waits, Event.rooms = 0, []
    original = late.room

    def room(device: torch.device) -> torch.Tensor:
        Event.rooms.append(original(device))
        return Event.rooms[-1]

    monkeypatch.setattr(late, "lags", lambda _: True)
    monkeypatch.setattr(late, "room", room)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: None)
    return Event


def finetune(folder: Path, **settings: Any) -> str:
    clf, stop_after = tiny_classifier(), settings.pop("stop_after", None)
    FineTune(**{**QUICK, "epochs": 2, "batch_size": 4, "evaluate": "never", "log_every": 2, **settings})(
        clf, toy_task(20), folder=folder, stop_after=stop_after
    )
    return clf.digest


def search(folder: Path, **settings: Any) -> str:
    settings = {
        "batch_size": 4,
        "lr": 1e-3,
        "mini": 0.2,
        "adversary": FreeLB(steps=2),
        "stop": "official",
        "gamma": 0.0,
        "log_every": 3,
        **settings,
    }
    return EarlyRobust(**settings)(tiny_classifier(), toy_task(40), folder=folder).ticket.digest


RUNS = [
    (finetune, {}),
    (finetune, {"evaluate": "epoch"}),
    (finetune, {"log_every": 50}),
    (finetune, {"checkpoint_steps": 3}),
    (search, {}),
]


@pytest.mark.parametrize(("run", "settings"), RUNS)
def test_the_lines_are_the_same(tmp_path: Path, run: Any, settings: Any, request: pytest.FixtureRequest) -> None:
    expected = run(tmp_path / "at once", **settings)
    request.getfixturevalue("lagging")
    assert run(tmp_path / "late", **settings) == expected
    assert Event.waits > 0
    assert metrics(tmp_path / "late") == metrics(tmp_path / "at once")


def test_leaving_early_writes_what_is_on_its_way(tmp_path: Path, lagging: type[Event]) -> None:
    finetune(tmp_path, stop_after=3)
    assert [line["step"] for line in metrics(tmp_path)] == [2]
    finetune(tmp_path)
    assert [line["step"] for line in metrics(tmp_path)] == [2, 4, 5, 6, 8, 10]


@pytest.mark.parametrize("run", [finetune, search])
def test_a_killed_run_loses_and_doubles_no_line(
    tmp_path: Path, lagging: type[Event], monkeypatch: pytest.MonkeyPatch, run: Any
) -> None:
    expected = run(tmp_path / "whole")
    handled, whole = TrainingRun._after, metrics(tmp_path / "whole")
    for last in (2, 5, 7, whole[-1]["step"]):
        folder = tmp_path / f"cut-{last}"

        def dying(self: TrainingRun, loss: torch.Tensor, last: int = last) -> None:
            if self.done == last:
                raise Killed
            handled(self, loss)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingRun, "_after", dying)
            with pytest.raises(Killed):
                run(folder, checkpoint_steps=3)
        assert run(folder, checkpoint_steps=4) == expected
        assert metrics(folder) == whole, last


@pytest.mark.parametrize(
    "settings", [{"log_every": 1}, {"log_every": 3}, {"log_every": 50}, {"log_every": 50, "checkpoint_steps": 4}]
)
def test_a_loss_that_is_not_a_number_is_found(tmp_path: Path, lagging: type[Event], settings: Any) -> None:
    with pytest.raises(TicketsError, match="the loss became") as problem:
        finetune(tmp_path, lr=1e30, clip=0.0, epochs=4, **settings)
    assert problem.value.exit_code == 3
    assert not list((tmp_path / "checkpoint").glob("step-*"))


def test_one_that_went_wrong_is_found_an_interval_later_and_before_an_evaluation(
    tmp_path: Path, lagging: type[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def after(self: TrainingRun, loss: torch.Tensor) -> None:
        seen.append(self.done)
        handled(self, loss * float("nan") if self.done == broken else loss)

    handled = TrainingRun._after
    monkeypatch.setattr(TrainingRun, "_after", after)
    for broken, found, told in ((2, 6, 3), (3, 6, 3), (4, 9, 6), (8, 10, 9), (10, 10, 10)):
        seen.clear()
        with pytest.raises(TicketsError, match=f"the loss became nan by step {told}"):
            finetune(tmp_path / str(broken), evaluate="epoch", epochs=2, batch_size=2, log_every=3)
        assert seen[-1] == found
        assert [line["step"] for line in metrics(tmp_path / str(broken)) if "evaluation" in line] == [0]


def test_an_exploded_gradient_is_told_with_its_loss(
    tmp_path: Path, lagging: type[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def after(self: TrainingRun, loss: torch.Tensor) -> None:
        if self.done == 2:
            self.engine.exploded.fill_(True)
        handled(self, loss)

    handled = TrainingRun._after
    monkeypatch.setattr(TrainingRun, "_after", after)
    with pytest.raises(TicketsError, match="the gradient exploded by step 2"):
        finetune(tmp_path)


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def after(self: TrainingRun, loss: torch.Tensor) -> None:
        if self.done == 3:
            with torch.no_grad():
                next(iter(self.parameters.values())).view(-1)[-1] = float("inf")
        handled(self, loss)

    handled = TrainingRun._after
    monkeypatch.setattr(TrainingRun, "_after", after)
    with pytest.raises(TicketsError, match="the weights are not finite after step 3"):
        finetune(tmp_path, checkpoint_steps=3)


# --- evaluation with the working weights ----------------------------------------------------------------------------------------


def evaluations(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    finetune(folder, evaluate="epoch", precision="bf16", **settings)
    return [line["evaluation"] for line in metrics(folder) if "evaluation" in line]


def test_on_a_gpu_bf16_is_evaluated_in_bf16_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = evaluations(tmp_path / "cpu")
    assert all("precision" not in numbers for numbers in plain)

    class Working(TrainingRun):
        def _prepare(self, *given: Any) -> None:
            super()._prepare(*given)
            self.engine.on_device = False  # updates as on the CPU

        def _evaluate(self) -> None:
            self.engine.on_device = True
            super()._evaluate()
            self.engine.on_device = False

    monkeypatch.setattr("robust_tickets.train.loop.TrainingRun", Working)
    rounded = evaluations(tmp_path / "gpu")
    assert [numbers.pop("precision") for numbers in rounded] == ["bf16"] * 3
    assert rounded != plain
    assert [numbers["loss"] for numbers in rounded] == pytest.approx([numbers["loss"] for numbers in plain], abs=0.02)
    (tmp_path / "fp32").mkdir()
    finetune(tmp_path / "fp32", evaluate="epoch")
    assert not any("precision" in line.get("evaluation", {}) for line in metrics(tmp_path / "fp32"))
    monkeypatch.setattr(bf16, "KIND", torch.float32)  # half precision that is not half: the same numbers
    exact = evaluations(tmp_path / "exact")
    monkeypatch.setattr("robust_tickets.train.loop.TrainingRun", TrainingRun)
    assert [numbers["loss"] for numbers in exact] == pytest.approx(
        [numbers["loss"] for numbers in evaluations(tmp_path / "plain")], abs=1e-6
    )
