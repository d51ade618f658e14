"""Ctrl-C and SIGTERM in training: the step is finished and saved, and the run that goes on ends with the same weights, bit for bit."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import Interrupt
from robust_tickets.train.update import Engine
from tiny import tiny_classifier
from toy import QUICK, metrics, toy_task


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    """The handlers that a program starts with, whatever the tests' runner has set; afterwards its own again."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    now = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    for number, handler in before.items():
        signal.signal(number, handler)
    assert now == (signal.default_int_handler, signal.SIG_DFL), "the run put back what it found"


def train(folder: Path | None) -> str:
    clf = tiny_classifier()
    FineTune(**{**QUICK, "adversary": FreeLB(steps=2), "log_every": 2})(clf, toy_task(), folder=folder)
    return clf.digest


def within(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], None]) -> None:
    """Have ``act`` called in the middle of the update that follows ``step`` others: gradients are there, the weights are not moved."""
    original = Engine._descend
    done = 0

    def interrupted(self: Engine) -> None:
        nonlocal done
        if done == step:
            act()
        done += 1
        original(self)

    monkeypatch.setattr(Engine, "_descend", interrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [0, 4, 14])  # the first, the last of an epoch, the last of all
def test_an_interrupted_step_is_finished_saved_and_gone_on_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    step: int,
) -> None:
    expected = train(tmp_path / "whole")
    with monkeypatch.context() as patch:
        within(patch, step, lambda: os.kill(os.getpid(), number))
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut")
    assert (tmp_path / "cut" / "checkpoint" / f"step-{step + 1:08d}").is_dir()
    assert f"train: saved after step {step + 1} of 15" in capsys.readouterr().err
    assert train(tmp_path / "cut") == expected
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
    assert ("resuming at step 5" in capsys.readouterr().err) == (step == 4)


def test_a_second_one_ends_it_at_once_and_the_next_run_says_what_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        within(patch, 3, twice)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut")
    assert not (tmp_path / "cut" / "checkpoint").exists()
    assert "starts over" not in capsys.readouterr().err
    assert train(tmp_path / "cut") == train(tmp_path / "whole")
    assert capsys.readouterr().err.count("train: an earlier attempt left no checkpoint, so it starts over") == 1


def test_without_a_folder_there_is_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[int] = []

    def once() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        reached.append(1)

    within(monkeypatch, 3, once)
    with pytest.raises(KeyboardInterrupt):
        train(None)
    assert not reached


def test_somebody_elses_handler_stays_and_threads_have_none() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with Interrupt("train") as asked:
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) != signal.default_int_handler
        assert not asked
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def elsewhere() -> None:
        with Interrupt("train"):
            found.append(signal.getsignal(signal.SIGINT))

    found: list[Any] = []
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


class Gone:
    """Standard error whose reader died of the same Ctrl-C."""

    def __init__(self, real: Any) -> None:
        self.real, self.gone = real, False

    def write(self, text: str) -> int:
        if self.gone:
            raise BrokenPipeError
        return int(self.real.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def test_it_is_saved_where_nobody_reads_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``tickets run … 2>&1 | tee log``: the line that is said must not end the update in its middle."""
    import sys

    from robust_tickets.cli import main as command

    def both() -> None:
        stream.gone = True
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        stream = Gone(sys.stderr)
        patch.setattr(sys, "stderr", stream)
        within(patch, 4, both)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut")
        assert (tmp_path / "cut" / "checkpoint" / "step-00000005").is_dir()

        def again(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(command, "app", again)
        with pytest.raises(SystemExit) as end:
            command.main(["ls", "runs"])
        assert end.value.code == 130
    assert train(tmp_path / "cut") == train(tmp_path / "whole")
