"""What an update draws is a function of the seed, the update and the micro-batch: of nothing that was drawn before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.infobert import InfoBERT
from robust_tickets.adversary.objective import Adversary, Objective
from robust_tickets.adversary.synonymswap import SynonymSwap
from robust_tickets.adversary.yopo import YOPO
from robust_tickets.search.robustt import RobustT
from robust_tickets.seeds import derive, torch_generator
from robust_tickets.train import checkpoint
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import QUICK, toy_task


def finetune(adversary: Any, **settings: Any) -> Callable[[Path | None], str]:
    def run(folder: Path | None) -> str:
        trainer = FineTune(
            **{**QUICK, "epochs": 1, "adversary": adversary, "accumulate": 2, "batch_size": 3, **settings}
        )
        return str(trainer(tiny_classifier(), toy_task(24), folder=folder).digest)

    return run


def gates(folder: Path | None) -> str:
    method = RobustT(
        epochs=1, batch_size=4, accumulate=2, adversary=FreeLB(steps=2), tuning=FineTune(epochs=1, max_steps=1),
        evaluate="epoch", checkpoint_steps=1,
    )  # fmt: skip
    return str(method(tiny_classifier(), toy_task(16), folder=folder).ticket.digest)


RUNS: dict[str, Callable[[Path | None], str]] = {
    "plain": finetune(None),
    "bf16": finetune(FreeLB(steps=2), precision="bf16"),
    "shared": finetune(FreeLB(steps=2, dropout="shared")),
    "yopo": finetune(YOPO(steps=2)),
    "infobert": finetune(InfoBERT(steps=2)),
    "swap": finetune(SynonymSwap()),
    "gates": gates,
}


def drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on something draws from every stream after each update, and so does the evaluation."""
    after, evaluate = TrainingRun._after, TrainingRun._evaluate

    def draw(loop: TrainingRun) -> None:
        torch.rand(3)
        for generator in loop.generators.values():
            torch.rand(5, generator=generator)

    def wrapped(loop: TrainingRun, loss: torch.Tensor) -> None:
        draw(loop)
        after(loop, loss)

    def evaluated(loop: TrainingRun) -> None:
        evaluate(loop)
        draw(loop)

    monkeypatch.setattr(TrainingRun, "_after", wrapped)
    monkeypatch.setattr(TrainingRun, "_evaluate", evaluated)


@pytest.mark.parametrize("kind", RUNS)
def test_what_is_drawn_between_updates_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = RUNS[kind](None)
    drawing(monkeypatch)
    assert RUNS[kind](None) == expected


@pytest.mark.parametrize("kind", ["shared", "infobert", "gates"])
def test_a_run_resumes_without_any_random_stream(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended after its second update, in a process whose streams stand anywhere."""
    expected, end = RUNS[kind](None), TrainingRun.last.fget
    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "last", property(lambda run: min(2, end(run))))
        RUNS[kind](tmp_path)
    found = checkpoint.read(tmp_path / "checkpoint")
    assert found is not None
    assert found.step == 2
    assert not [name for name in found.tensors if name.startswith(("random/", "generator/"))]
    for left in tmp_path.glob("*.*"):  # of the search that was ended: its ticket is not the whole one's
        if left.name != "metrics.jsonl":
            left.unlink()
    torch.manual_seed(77)
    assert RUNS[kind](tmp_path) == expected


@dataclass(frozen=True, kw_only=True)
class Spy(Adversary):
    """An adversary that notes what it draws, and what dropout would."""

    drawn: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def __call__(self, objective: Objective) -> torch.Tensor:
        self.drawn.append((torch.rand(4), torch.rand(4, generator=objective.generator)))
        loss = objective.loss()
        objective.backward(loss)
        return loss.detach()


def test_a_micro_batch_draws_by_its_number_in_the_update() -> None:
    spy = Spy()
    # five micro-batches an epoch: updates of two, two and one
    FineTune(**{**QUICK, "epochs": 2, "batch_size": 4, "accumulate": 2, "adversary": spy, "seed": 3})(
        tiny_classifier(), toy_task(20)
    )
    seed = derive(3, "finetune")
    places = [(update, micro) for update in range(6) for micro in range(1 if update in (2, 5) else 2)]
    assert len(spy.drawn) == len(places)
    for place, (dropout, adversary) in zip(places, spy.drawn, strict=True):
        assert torch.equal(dropout, torch.rand(4, generator=torch_generator(seed, "dropout", *place)))
        assert torch.equal(adversary, torch.rand(4, generator=torch_generator(seed, "adversary", *place)))
