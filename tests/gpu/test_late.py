"""On a GPU: lines that are read late are those that are read at once, and bf16 runs are evaluated with their working weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from robust_tickets.errors import TicketsError
from robust_tickets.train.cuda import late
from robust_tickets.train.cuda.late import Late
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")]


def lines(folder: Path) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "seconds"} for line in read]


def test_numbers_are_those_of_the_moment_they_were_asked_for() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    used: list[tuple[float, bool]] = []
    reads = Late(device)
    assert reads.room.is_pinned()
    value, flag = torch.zeros((), device=device), torch.zeros((), device=device, dtype=torch.bool)
    for _ in range(4):
        torch.cuda._sleep(20_000_000)  # a queue that the host is ahead of
        value += 1
        reads.ask(value, flag, lambda *numbers: used.append(numbers))
        flag.fill_(True)
        value += 0.5
    assert len(used) == 3
    reads.finish()
    assert used == [(1.0, False), (2.5, True), (4.0, True), (5.5, True)]


@pytest.mark.parametrize("engine", ["eager", "graph"])
def test_the_lines_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Any) -> None:
    train = FineTune(epochs=3, batch_size=4, lr=1e-3, log_every=2, engine=engine, precision="bf16", checkpoint_steps=7)
    train(tiny_classifier().to("cuda"), toy_task(40), folder=tmp_path / "late")
    monkeypatch.setattr(late, "lags", lambda _: False)
    train(tiny_classifier().to("cuda"), toy_task(40), folder=tmp_path / "at once")
    got, expected = lines(tmp_path / "late"), lines(tmp_path / "at once")
    assert [(line["step"], "loss" in line) for line in got] == [(line["step"], "loss" in line) for line in expected]
    losses = [[line["loss"] for line in found if "loss" in line] for found in (got, expected)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_bf16_is_evaluated_in_bf16_and_the_model_stays_as_it_is(tmp_path: Path) -> None:
    clf, task = tiny_classifier().to("cuda"), toy_task(40)
    FineTune(epochs=2, batch_size=4, lr=1e-3, precision="bf16")(clf, task, folder=tmp_path)
    told = [line["evaluation"] for line in lines(tmp_path) if "evaluation" in line]
    assert [numbers["precision"] for numbers in told] == ["bf16"] * 3
    assert told[-1]["loss"] == pytest.approx(evaluate(clf, task.validation).loss, abs=0.03)
    assert {p.dtype for p in clf.model.parameters()} == {torch.float32}
    assert not any("weight" in module.__dict__ or "forward" in module.__dict__ for module in clf.model.modules())


def test_a_loss_that_is_not_a_number_is_found(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match="the loss became"):
        FineTune(epochs=8, batch_size=4, lr=1e30, clip=0.0, log_every=3)(
            tiny_classifier().to("cuda"), toy_task(40), folder=tmp_path
        )
    assert not list((tmp_path / "checkpoint").glob("step-*"))
