"""Checkpoints written beside training: what is written is the moment of the call, in order, or said; a kill leaves the one before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.train import checkpoint
from robust_tickets.train.checkpoint import TYPES, State, write_tensors
from robust_tickets.train.cuda import writer
from robust_tickets.train.cuda.writer import Writer
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import QUICK, metrics, toy_task

CPU = torch.device("cpu")


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU as a device whose checkpoints a thread writes."""
    monkeypatch.setattr(writer, "AT_ONCE", ())


def state(step: int) -> State:
    return State(
        step=step, tensors={"a": torch.full((3, 2), float(step)), "b": torch.tensor(step)}, values={"step": step}
    )


def stored(folder: Path) -> State:
    found = checkpoint.read(folder)
    assert found is not None
    return found


class Gate:
    """Stands in for ``checkpoint.write``: tells when it begins and waits until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.open = threading.Event(), threading.Event()
        self.seen: list[tuple[str, int]] = []
        original = checkpoint.write

        def write(folder: Path, state: State) -> Path:
            self.seen.append(("begins", state.step))
            self.begun.set()
            assert self.open.wait(60)
            done = original(folder, state)
            self.seen.append(("is written", state.step))
            return done

        monkeypatch.setattr(checkpoint, "write", write)


# --- the file -------------------------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 4), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(list(TYPES)), shapes, st.booleans()), max_size=8))
def test_a_file_is_what_safetensors_reads(kinds: list[tuple[torch.dtype, list[int], bool]]) -> None:
    tensors = {}
    for place, (kind, shape, turned) in enumerate(kinds):
        tensor = torch.randint(0, 2, shape).to(kind)
        tensors[f"é{place}"] = tensor.T if turned and tensor.dim() == 2 else tensor
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.safetensors"
        assert write_tensors(path, tensors) == sha256_file(path)
        found, blob = load_file(path), path.read_bytes()
    data = 8 + int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:data])
    assert all(
        (data + header[name]["data_offsets"][0]) % tensors[name].element_size() == 0 for name in tensors
    )  # odd ones read slowly
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


# --- the thread -----------------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_the_moment_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: None) -> None:
    gate = Gate(monkeypatch)
    with Writer(tmp_path, CPU) as out:
        now = state(1)
        out.write(now)
        assert gate.begun.wait(60)
        for tensor in now.tensors.values():
            tensor.add_(7)
        assert out.busy
        gate.open.set()
    assert not out.busy
    found = stored(tmp_path)
    assert found.values == {"step": 1}
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in state(1).tensors.items())


def test_a_write_waits_for_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: None) -> None:
    gate = Gate(monkeypatch)
    with Writer(tmp_path, CPU) as out:
        out.write(state(1))
        assert gate.begun.wait(60)
        threading.Timer(0.05, gate.open.set).start()
        out.write(state(2))
        out.write(state(3), wait=True)
        assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000003"]
    assert gate.seen == [(what, step) for step in (1, 2, 3) for what in ("begins", "is written")]


def _fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)


def test_what_could_not_be_written_is_said_at_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: None
) -> None:
    out = Writer(tmp_path, CPU)
    with monkeypatch.context() as patch:
        _fails(patch)
        out.write(state(1))
        with pytest.raises(TicketsError, match="No space left") as problem:
            out.write(state(2))
        assert problem.value.exit_code == 3
        out.write(state(2))
        with pytest.raises(TicketsError, match="No space left"):
            out.close()
    out.write(state(3))
    out.close()  # said once
    assert stored(tmp_path).step == 3


# --- the loop -------------------------------------------------------------------------------------------------------------------


def finetune(folder: Path | None, **settings: Any) -> str:
    clf = tiny_classifier()
    FineTune(**{**QUICK, "epochs": 2, "evaluate": "never", **settings})(clf, toy_task(20), folder=folder)
    return clf.digest


def test_the_last_one_is_on_the_disk_and_no_thread_is_left(tmp_path: Path, beside: None) -> None:
    assert finetune(tmp_path, checkpoint_steps=1) == finetune(None)
    assert [entry.name for entry in (tmp_path / "checkpoint").iterdir()] == ["step-00000006"]
    assert not [thread for thread in threading.enumerate() if "checkpoint" in thread.name]
    assert finetune(tmp_path) == finetune(None)  # found done


def test_a_failed_write_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: None) -> None:
    _fails(monkeypatch)
    with pytest.raises(TicketsError, match="No space left"):
        finetune(tmp_path)


def test_training_does_not_wait_for_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: None) -> None:
    gate = Gate(monkeypatch)
    monkeypatch.setattr("robust_tickets.train.loop.CHECKPOINT_SHARE", 1e9)
    original: Callable[..., None] = TrainingRun._after

    def after(self: TrainingRun, loss: torch.Tensor) -> None:
        if self.done == 5:
            gate.open.set()
        original(self, loss)

    monkeypatch.setattr(TrainingRun, "_after", after)
    finetune(tmp_path, checkpoint_every=0.0)
    written = [step for what, step in gate.seen if what == "is written"]
    assert written[0] == 1
    assert written[-1] == 6
    assert not {2, 3, 4} & set(written)


def test_moments_are_kept_until_the_last_update(tmp_path: Path) -> None:
    trainer = FineTune(**{**QUICK, "evaluate": "never"})
    for stop_after, kept in ((2, True), (None, False)):
        trainer(tiny_classifier(), toy_task(), folder=tmp_path, stop_after=stop_after)
        names = stored(tmp_path / "checkpoint").tensors
        assert any(name.startswith("optimiser/") for name in names) is kept
        assert any(name.startswith("part/") for name in names)


# --- and a process that is killed inside the thread -----------------------------------------------------------------------------

# A first run imports everything; after that every attempt is a forked process, which one call in the thread that writes kills on the spot.
SCRIPT = """
import json, os, signal, sys, threading
from pathlib import Path
from tiny import tiny_classifier
from toy import toy_task
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.train.cuda import writer
from robust_tickets.train.finetune import FineTune

writer.AT_ONCE = ()


def train(folder):
    clf = tiny_classifier()
    FineTune(epochs=2, batch_size=4, lr=1e-3, log_every=2, checkpoint_steps=2, adversary=FreeLB(steps=2))(clf, toy_task(20), folder=folder)
    (folder / "digest").write_text(clf.digest)


def deadly(call, number):
    original, calls = getattr(os, call), [0]

    def kill(*args, **kwargs):
        calls[0] += threading.current_thread().name == "checkpoint"
        if calls[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(os, call, kill)


def attempt(folder, *at):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if at:
                deadly(*at)
            train(folder)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, sorted(entry.name for entry in (folder / "checkpoint").glob("step-*"))


folder = Path(sys.argv[1])
train(folder / "whole")
told = [attempt(folder / "cut", *at) for at in (("fsync", 1), ("rename", 2), ("fsync", 5), ("rename", 1))]
told += [attempt(folder / "cut")]
print(json.dumps(told))
"""


def test_a_kill_inside_the_thread_leaves_the_one_before(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [code for code, _ in told] == [-9, -9, -9, -9, 0], done.stderr
    # nothing was written; one was, then the next not; from there again one; from there none
    assert [found for _, found in told] == [
        [],
        ["step-00000002"],
        ["step-00000004"],
        ["step-00000004"],
        ["step-00000010"],
    ]
    assert (tmp_path / "cut" / "digest").read_text() == (tmp_path / "whole" / "digest").read_text()
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")
