"""Checkpoints, and the promise they keep: whatever moment a run dies at, running it again ends with the same weights, bit for bit."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from killing import Killed
from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.errors import TicketsError
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train import checkpoint
from robust_tickets.train.checkpoint import State
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import QUICK, metrics, toy_task


def state(step: int = 1, size: int = 5) -> State:
    return State(step=step, tensors={"a": torch.arange(size) * step, "b": torch.tensor(0.5)}, values={"x": [1, "two"]})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, state(3))
    found = checkpoint.read(tmp_path)
    assert found is not None
    assert found.step == 3
    assert torch.equal(found.tensors["a"], torch.arange(5) * 3)
    assert found.values == {"x": [1, "two"]}
    assert checkpoint.read(tmp_path / "nowhere") is None


def test_only_the_newest_stays(tmp_path: Path) -> None:
    (tmp_path / ".step-00000001.77.part").mkdir()  # left by a killed process
    for step in (1, 2, 10):
        checkpoint.write(tmp_path, state(step))
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000010"]


def test_all_of_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What survives a power cut: both files, their names in the folder, and then the folder's own name."""
    flushed: list[int] = []
    fsync, rename = os.fsync, os.rename

    def flush(handle: int) -> None:
        flushed.append(os.fstat(handle).st_ino)
        fsync(handle)

    def named(part: Path, final: Path) -> None:
        assert {entry.name for entry in part.iterdir()} == {"state.safetensors", "state.json"}
        assert {entry.stat().st_ino for entry in (part, *part.iterdir())} <= set(flushed)
        flushed.clear()
        rename(part, final)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "rename", named)
    checkpoint.write(tmp_path, state(1))
    assert flushed == [tmp_path.stat().st_ino]


def _last_complete(tmp_path: Path) -> Path:
    checkpoint.write(tmp_path / "one", state(1))
    checkpoint.write(tmp_path / "two", state(2))
    (tmp_path / "one" / "step-00000001").rename(tmp_path / "two" / "step-00000001")
    return tmp_path / "two"


@pytest.mark.parametrize("damage", ["tensors", "hashed", "json", "missing", "schema", "empty"])
def test_a_damaged_one_is_passed_over_for_an_older(
    tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _last_complete(tmp_path)
    newest = folder / "step-00000002"
    if damage == "tensors":
        blob = bytearray((newest / "state.safetensors").read_bytes())
        blob[-1] ^= 1
        (newest / "state.safetensors").write_bytes(blob)
    elif damage == "hashed":  # its hash is that of what is not safetensors
        (newest / "state.safetensors").write_bytes(b"{")
        about = json.loads((newest / "state.json").read_text())
        (newest / "state.json").write_text(json.dumps(about | {"sha256": hashlib.sha256(b"{").hexdigest()}))
    elif damage == "json":
        (newest / "state.json").write_text("{")
    elif damage == "missing":
        (newest / "state.safetensors").unlink()
    elif damage == "empty":
        (newest / "state.json").write_text("[]")
    else:
        about = json.loads((newest / "state.json").read_text())
        (newest / "state.json").write_text(json.dumps(about | {"schema": 99}))
    found = checkpoint.read(folder)
    assert found is not None
    assert found.step == 1
    assert "passed over" in capsys.readouterr().err
    checkpoint.write(folder, state(2))  # and may be written again
    found = checkpoint.read(folder)
    assert found is not None
    assert found.step == 2


@pytest.mark.parametrize("call", ["write_tensors", "fsync", "rename"])
def test_a_full_disk_is_said_and_spares_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    checkpoint.write(tmp_path, state(1))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint if call == "write_tensors" else os, call, full)
        with pytest.raises(TicketsError, match="No space left") as problem:
            checkpoint.write(tmp_path, state(2))
    assert problem.value.exit_code == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000001"]


@pytest.mark.parametrize("call", ["write_tensors", "fsync", "rename", "rmtree"])
def test_a_kill_while_writing_leaves_a_complete_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    import shutil

    checkpoint.write(tmp_path, state(1))

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr({"write_tensors": checkpoint, "rmtree": shutil}.get(call, os), call, killed)
        with pytest.raises(Killed):
            checkpoint.write(tmp_path, state(2))
    found = checkpoint.read(tmp_path)
    assert found is not None
    assert found.step == (2 if call == "rmtree" else 1)
    assert torch.equal(found.tensors["a"], state(found.step).tensors["a"])


# --- a run that dies after any of its steps -------------------------------------------------------------------------------------


def finetune(folder: Path | None, **settings: Any) -> str:
    clf = tiny_classifier()
    trainer = FineTune(**{**QUICK, "epochs": 2, "adversary": FreeLB(steps=2), "log_every": 1, **settings})
    trainer(clf, toy_task(20), folder=folder)
    return clf.digest


def search(folder: Path | None, **settings: Any) -> str:
    method = EarlyRobust(
        **{
            "batch_size": 4,
            "lr": 1e-3,
            "mini": 0.2,
            "adversary": FreeLB(steps=2),
            "stop": "official",
            "gamma": 0.0,
            "log_every": 2,
            **settings,
        }
    )
    found = method(tiny_classifier(), toy_task(40), folder=folder)
    scores = [s.tobytes() for group in found.ticket.scores.values() for s in group]
    return json.dumps(
        [found.ticket.digest, [hash(s) for s in scores], list(map(dict, found.trace)), dict(found.distances)],
        sort_keys=True,
    )


def _dies(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object], after: int) -> None:
    """Run until ``after`` updates are done, counted over this attempt, and die before the loop has handled the last of them."""
    done = 0
    original = TrainingRun._after

    def counted(self: TrainingRun, loss: torch.Tensor) -> None:
        nonlocal done
        done += 1
        if done == after:
            raise Killed
        original(self, loss)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_after", counted)
        with pytest.raises(Killed):
            run()


@pytest.mark.parametrize("run", [finetune, search])
@pytest.mark.parametrize("every", [1, 4])
def test_dying_after_any_step_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any, every: int
) -> None:
    expected = run(tmp_path / "whole")
    steps = metrics(tmp_path / "whole")[-1]["step"]
    for after in range(1, steps + 1, 1 if every > 1 else 4):
        folder = tmp_path / f"cut-{after}"
        torch.manual_seed(after)  # whatever the process's stream holds
        _dies(monkeypatch, lambda at=folder: run(at, checkpoint_steps=every), after)
        torch.manual_seed(after + 100)
        assert run(folder, checkpoint_steps=every) == expected, after
        assert metrics(folder) == metrics(tmp_path / "whole"), after


@pytest.mark.parametrize("run", [finetune, search])
def test_dying_again_and_again_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    expected = run(None)
    for _ in range(4):
        _dies(monkeypatch, lambda: run(tmp_path, checkpoint_steps=1), 2)
    assert run(tmp_path, checkpoint_steps=3) == expected
    assert run(tmp_path) == expected  # found done


def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    FineTune(**QUICK, max_steps=1)(tiny_classifier(), toy_task(), folder=tmp_path)
    for seed, other in ((0, {"lr": 2e-3}), (0, {"seed": 1}), (0, {"adversary": FreeLB()}), (1, {})):
        with refused("stage.other_work"):
            FineTune(**{**QUICK, "max_steps": 1, **other})(tiny_classifier(seed=seed), toy_task(), folder=tmp_path)


def test_time_and_epochs_make_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    original = checkpoint.write
    monkeypatch.setattr(
        checkpoint, "write", lambda folder, state: (written.append(state.step), original(folder, state))[1]
    )
    finetune(tmp_path / "epochs", checkpoint_every=1e9)
    assert written == [3, 6]
    written.clear()
    monkeypatch.setattr("robust_tickets.train.loop.CHECKPOINT_SHARE", 1e9)
    finetune(tmp_path / "time", checkpoint_every=0.0)
    assert written == [1, 2, 3, 4, 5, 6]


def test_checkpoints_take_their_share_of_the_time_at_epoch_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    original = checkpoint.write

    def slow(folder: Path, state: State) -> Path:
        time.sleep(0.1)
        written.append(state.step)
        return original(folder, state)

    monkeypatch.setattr(checkpoint, "write", slow)
    finetune(tmp_path, epochs=10, evaluate="never", adversary=None)
    assert written[0] == 3
    assert written[-1] == 30  # the last one always
    assert len(written) <= 3


def test_a_run_goes_on_where_it_was_begun(tmp_path: Path) -> None:
    FineTune(**QUICK)(tiny_classifier(), toy_task(), folder=tmp_path, stop_after=2)
    found = checkpoint.read(tmp_path / "checkpoint")
    assert found is not None
    assert found.values["device"] == "cpu"
    found.values = {**found.values, "device": "cuda"}
    found.tensors = {**found.tensors, "generator/adversary": torch.zeros(16, dtype=torch.uint8)}
    checkpoint.write(tmp_path / "checkpoint", found)
    with refused("resume.elsewhere"):
        FineTune(**QUICK)(tiny_classifier(), toy_task(), folder=tmp_path)


def _said(folder: Path, **values: Any) -> None:
    """Change what the checkpoint below ``folder`` says; None: not a word."""
    found = checkpoint.read(folder / "checkpoint")
    assert found is not None
    found.values = {name: value for name, value in {**found.values, **values}.items() if value is not None}
    checkpoint.write(folder / "checkpoint", found)


def test_a_run_reads_on_as_it_began(tmp_path: Path) -> None:
    FineTune(**QUICK)(tiny_classifier(), toy_task(), folder=tmp_path, stop_after=2)
    _said(tmp_path, reading="by tokens, padded to (16, 32)")
    with refused("resume.elsewhere"):
        FineTune(**QUICK)(tiny_classifier(), toy_task(), folder=tmp_path)


# --- and a process that is really killed ----------------------------------------------------------------------------------------

# Imports once, then every attempt is a forked process of its own: the first runs to the end, the next are killed at random moments of
# it, the last goes on to the end.
SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
from tiny import tiny_classifier
from toy import toy_task
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.prune.compact import compact
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.train.finetune import FineTune


def walk(folder):
    often = {"batch_size": 4, "checkpoint_steps": 1, "lr": 1e-3, "log_every": 3, "adversary": FreeLB(steps=2)}
    start, task = tiny_classifier(), toy_task(40)
    found = EarlyRobust(stop="official", gamma=0.0, **often)(start, task, folder=folder / "search")
    small = compact(start, found.ticket)
    FineTune(epochs=2, **often)(small, task, folder=folder / "train")
    (folder / "digests").write_text(found.ticket.digest + " " + small.digest)


def attempt(folder, killed_after=None):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            walk(folder)
            code = 0
        finally:
            os._exit(code)
    if killed_after is not None:
        time.sleep(killed_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


folder, moments = Path(sys.argv[1]), random.Random(4)
begun = time.monotonic()
assert attempt(folder / "whole") == 0
seconds = time.monotonic() - begun
print([attempt(folder / "cut", moments.uniform(0.1, 0.6) * seconds) for _ in range(4)])
assert attempt(folder / "cut") == 0
"""


@pytest.mark.slow
def test_a_process_killed_at_random_moments_ends_with_the_same_weights(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).count(-signal.SIGKILL) >= 2, done.stdout
    assert (tmp_path / "cut" / "digests").read_text() == (tmp_path / "whole" / "digests").read_text()
    for part in ("search", "train"):
        assert metrics(tmp_path / "cut" / part) == metrics(tmp_path / "whole" / part)
