"""Worker processes change nothing but the time: same results, same failures, and a kill loses nothing that was written."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from attacking import stable_files
from refusing import refused
from robust_tickets.attack import engine, workers
from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.services import Victim
from robust_tickets.data.task import Split
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.resources.vectors import Vectors
from robust_tickets.seeds import numpy_generator
from tiny import tiny_classifier

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="worker processes are forked")
SPELT = "good bad film plot happy old poor very awful great story the a is not fine"
WORDS = SPELT.split()


class Alone:
    """Stands for a GPU's shapes: every text in a pass of its own, so that no text depends on its company.

    The tests' victims are one model, and ask it the same texts again and again: each answer is kept.
    """

    answers: ClassVar[dict[bytes, torch.Tensor]] = {}

    def __init__(self, clf: Any) -> None:
        self.clf = clf

    def logits(self, rows: list[Any]) -> torch.Tensor:
        for row in rows:
            if row.data not in self.answers:
                self.answers[row.data] = self.clf.forward([row])
        return torch.cat([self.answers[row.data] for row in rows])


@pytest.fixture
def shaped(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Victim.__init__

    def init(self: Victim, clf: Any, *given: Any, **named: Any) -> None:
        begin(self, clf, *given, **named)
        self.shapes, self.noise = Alone(clf), 0.0  # type: ignore[assignment]

    monkeypatch.setattr(Victim, "__init__", init)


def split_of(clf: Any, count: int = 24) -> Split:
    dice = numpy_generator(3, "texts")
    texts = [" ".join(dice.choice(WORDS, size=int(dice.integers(1, 12)))) for _ in range(count)]
    return Split.of(texts, clf.logits(texts).argmax(axis=1).tolist())


class Near(Attack):
    """TextFooler on a few words, with an encoder that is asked through the pipe."""

    def resources(self) -> dict[str, Any]:
        return {}

    def prepare(self, device: str) -> Any:
        vectors = Vectors(
            WORDS, (1 + 0.05 * numpy_generator(1, "vectors").normal(size=(len(WORDS), 6))).astype(np.float32)
        )

        def encode(texts: list[str]) -> np.ndarray:
            return np.array([[np.cos(len(text) / 100), np.sin(len(text) / 100)] for text in texts], dtype=np.float32)

        return TextFooler(window=3, neighbours=8).assemble(Loaded(vectors=vectors, encoder=encode))


@pytest.mark.parametrize("recipe", [PWWS(), Near()])
@pytest.mark.parametrize("count", [2, 5])
def test_workers_give_what_one_process_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shaped: None, recipe: Attack, count: int
) -> None:
    monkeypatch.setattr("robust_tickets.attack.attack.describe", lambda recipe: {"name": type(recipe).__name__})
    clf = tiny_classifier("bert", max_length=24)
    split = split_of(clf)
    monkeypatch.setattr(engine, "how_many", lambda examples: 0)
    recipe(clf, split, n=0, folder=tmp_path / "one")
    here = os.getpid()
    logits = Alone.logits

    def only_here(self: Alone, rows: list[Any]) -> torch.Tensor:
        assert os.getpid() == here, "a worker ran the model"
        return logits(self, rows)

    monkeypatch.setattr(Alone, "logits", only_here)
    monkeypatch.setattr(engine, "how_many", lambda examples: count)
    recipe(clf, split, n=0, folder=tmp_path / "many", live=16)
    assert stable_files(tmp_path / "one") == stable_files(tmp_path / "many")


def test_a_failure_stays_with_its_example(monkeypatch: pytest.MonkeyPatch, shaped: None) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_of(clf)
    bad = split[5].texts[0]
    marked = clf.encode([bad])[0].data
    logits = Alone.logits

    def choosy(self: Alone, rows: list[Any]) -> torch.Tensor:
        if any(row.data == marked for row in rows):
            raise ValueError("this text is not liked")
        return logits(self, rows)

    monkeypatch.setattr(Alone, "logits", choosy)
    monkeypatch.setattr(engine, "how_many", lambda examples: 3)
    found = list(PWWS()(clf, split, n=0).examples())
    wrong = [example for example in found if example.status == "error"]
    assert {example.original[0] for example in wrong} == {bad}
    assert wrong[0].error == "ValueError: this text is not liked"


def test_a_broken_victim_ends_the_run(monkeypatch: pytest.MonkeyPatch, shaped: None) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_of(clf)

    def broken(self: Alone, rows: list[Any]) -> torch.Tensor:
        raise TicketsError("no more", hint="none", exit_code=FAILED)

    monkeypatch.setattr(Alone, "logits", broken)
    monkeypatch.setattr(engine, "how_many", lambda examples: 3)
    with pytest.raises(TicketsError, match="no more"):
        PWWS()(clf, split, n=0)


def test_an_error_in_a_worker_keeps_what_it_says(monkeypatch: pytest.MonkeyPatch, shaped: None) -> None:
    def failing(*_: Any) -> Any:
        raise TicketsError("no more", hint="none", exit_code=FAILED, code="test.broken")
        yield

    monkeypatch.setattr(engine, "attack_one", failing)
    monkeypatch.setattr(engine, "how_many", lambda examples: 2)
    clf = tiny_classifier("bert", max_length=24)
    with refused("test.broken"):
        PWWS()(clf, split_of(clf), n=0)


def test_a_worker_that_is_killed_is_said_and_the_attack_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shaped: None
) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_of(clf)
    monkeypatch.setattr(engine, "how_many", lambda examples: 0)
    PWWS()(clf, split, n=0, folder=tmp_path / "whole")
    monkeypatch.setattr(engine, "how_many", lambda examples: 2)
    plain, here = engine.attack_one, os.getpid()

    def dying(job: Any, number: int, *given: Any) -> Any:
        if number == 17 and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(job, number, *given)

    monkeypatch.setattr(engine, "attack_one", dying)
    with pytest.raises(TicketsError, match="worker process of the attack died"):
        PWWS()(clf, split, n=0, folder=tmp_path / "again", live=4)
    monkeypatch.setattr(engine, "attack_one", plain)
    PWWS()(clf, split, n=0, folder=tmp_path / "again")
    assert stable_files(tmp_path / "whole") == stable_files(tmp_path / "again")


@pytest.mark.parametrize(("asked", "expected"), [(0, 0), (1, 1), (3, 3), (99, 24), (None, 5)])
def test_workers_may_be_asked_for(
    monkeypatch: pytest.MonkeyPatch, shaped: None, asked: int | None, expected: int
) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = split_of(clf)
    seen: list[int] = []
    plain = engine.fan_out

    def counted(numbers: Any, job: Any, services: Any, live: int, workers: int) -> Any:
        seen.append(workers)
        return plain(numbers, job, services, live, min(workers, 2))

    monkeypatch.setattr(engine, "fan_out", counted)
    monkeypatch.setattr(engine, "how_many", lambda examples: 5)
    PWWS()(clf, split, n=0, workers=asked)
    assert seen == ([expected] if expected else [])


def test_workers_on_a_cpu_are_told_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    clf = tiny_classifier("bert", max_length=24)
    PWWS()(clf, split_of(clf, 2), n=0, workers=3)
    assert "this one runs in one process" in capsys.readouterr().err
    with pytest.raises(TicketsError, match="workers must be at least 0"):
        PWWS()(clf, split_of(clf, 2), n=0, workers=-1)


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    assert [workers.how_many(n) for n in (1, 20, 40, 100, 10_000)] == [0, 0, 2, 6, 12]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert workers.how_many(10_000) == 0
