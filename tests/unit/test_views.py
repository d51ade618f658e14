"""An adversary that reads a second wording of its texts, made while feeding: nothing is stored, and resuming gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from adversaries import Reworded, Shuffled
from killing import killed
from refusing import refused
from robust_tickets.adversary.objective import Ground
from robust_tickets.data.batching import Batch, Batches, View, batches_of, prefetched
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.orticket import ORTicket
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.update import make_step
from tiny import tiny_classifier
from toy import toy_task

ROWS = 22


def finetune(folder: Path | None, pairs: bool = False) -> str:
    task = toy_task(ROWS, pairs=pairs)
    method = FineTune(
        epochs=2, batch_size=6, accumulate=2, evaluate="never", lr=1e-3, adversary=Reworded(), checkpoint_steps=1
    )
    return str(method(tiny_classifier(columns=task.columns), task, folder=folder).digest)


def earlyrobust(folder: Path | None) -> str:
    method = EarlyRobust(adversary=Reworded(), batch_size=4, stop="fixed", at_epoch=1.0, checkpoint_steps=1)
    found = method(tiny_classifier(), toy_task(ROWS), folder=folder)
    return f"{found.ticket.digest} {list(found.trace)}"


RUNS: dict[str, Callable[[Path | None], str]] = {
    "finetune": finetune,
    "pairs": lambda folder: finetune(folder, pairs=True),
    "earlyrobust": earlyrobust,
}


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_ends_with_the_same_bits(run: str, tmp_path: Path) -> None:
    whole = RUNS[run](None)
    for at in (1, 3):
        with killed(at):
            RUNS[run](tmp_path / str(at))
        assert RUNS[run](tmp_path / str(at)) == whole


@pytest.mark.parametrize("run", ["finetune", "earlyrobust"])
def test_what_is_learnt_does_not_depend_on_prefetching(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = RUNS[run](None)

    def ahead(loop: TrainingRun, epoch: int, start: int) -> Generator[Batch]:
        return prefetched(loop.batches.epoch(epoch, start=start), depth=3)

    monkeypatch.setattr(TrainingRun, "_batches", ahead)
    assert RUNS[run](None) == plain


def test_a_search_of_gates_reads_views_too() -> None:
    tuning = FineTune(epochs=1, max_steps=1)
    assert RobustT(epochs=1, batch_size=8, adversary=Reworded(), tuning=tuning)(tiny_classifier(), toy_task(8)).ticket


def by_row(batches: Batches, epoch: int = 0, start: int = 0) -> dict[int, list[int]]:
    """The token ids of each row's view."""
    found = {}
    for batch in batches.epoch(epoch, start):
        view = batch.views["shuffled"]
        for row, ids, mask in zip(batch.index.tolist(), view["input_ids"], view["attention_mask"], strict=True):
            found[row] = ids[mask.bool()].tolist()
    return found


@pytest.mark.parametrize("reads", [1, 100])  # without a table of tokens, and with one
def test_a_view_is_a_function_of_seed_epoch_and_row(reads: int) -> None:
    task, clf = toy_task(ROWS), tiny_classifier()
    batches = replace(batches_of(clf, task, 4, 0, reads=reads), views=(Shuffled(),))
    first = by_row(batches)
    assert sorted(first) == list(range(ROWS))
    assert by_row(replace(batches, batch_size=3, order="file", widths=(16, 32))) == first
    later = by_row(batches, start=3)
    assert later == {row: first[row] for row in later}
    assert len(later) == ROWS - 12
    assert by_row(batches, epoch=1) != first
    assert by_row(replace(batches, seed=1)) != first
    for row, ids in first.items():
        assert sorted(ids) == sorted(clf.tokenizer(task.train[row].texts[0])["input_ids"])
    assert any(ids != clf.tokenizer(task.train[row].texts[0])["input_ids"] for row, ids in first.items())


def test_masked_words_have_no_views() -> None:
    with refused("adversary.undefined"):
        ORTicket(corpus="task", adversary=Reworded())

    class Everywhere(Reworded):
        def views(self, ground: Ground) -> tuple[View, ...]:
            return (Shuffled(),)

    with refused("adversary.views"):
        make_step(tiny_classifier().model, generator=torch.Generator(), adversary=Everywhere())
