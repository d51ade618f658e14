"""A killed attack goes on where it was, and the files are the same, wherever it was cut."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacking import stable_files, toy_victim
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.store import PART
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError

TEXTS = ["a good film", "bad bad plot", "the story is fine, really", "dull and slow", "", "happy dog runs", "old house"]
SPLIT = Split.of(TEXTS, [0, 1, 0, 1, 0, 1, 0])


class Stops:
    """A victim that is interrupted after some calls."""

    def __init__(self) -> None:
        self.left = 10**9
        self.inner = toy_victim(1)

    def __call__(self, texts: Any) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        assert self.inner.function is not None
        return self.inner.function(texts)


@settings(max_examples=25, deadline=None)
@given(calls=st.integers(0, 60), cut=st.integers(0, 4000), live=st.integers(1, 5))
def test_resuming_gives_the_same_files(tmp_path_factory: pytest.TempPathFactory, calls: int, cut: int, live: int) -> None:
    folder = tmp_path_factory.mktemp("attack")
    victim = Stops()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    PWWS()(clf, SPLIT, n=0, folder=folder / "whole")
    victim.left = calls
    try:
        PWWS()(clf, SPLIT, n=0, folder=folder / "cut", live=live)
    except KeyboardInterrupt:
        part = folder / "cut" / PART
        data = part.read_bytes()
        part.write_bytes(data[: max(0, len(data) - cut % (len(data) + 1))])
    victim.left = 10**9
    PWWS()(clf, SPLIT, n=0, folder=folder / "cut", live=live)
    assert stable_files(folder / "cut") == stable_files(folder / "whole")
    assert sorted(p.name for p in (folder / "cut").iterdir()) == ["examples.jsonl", "result.json"]


def test_finished_examples_are_not_attacked_again(tmp_path: Path) -> None:
    victim = Stops()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    victim.left = 12
    with pytest.raises(KeyboardInterrupt):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    lines = (tmp_path / PART).read_bytes().splitlines()
    assert len(lines) > 2  # the header and some examples
    asked: list[str] = []
    victim.left = 10**9
    plain = victim.inner.function
    assert plain is not None
    victim.inner.function = lambda texts: (asked.extend(texts), plain(texts))[1]
    PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    done = [json.loads(line.split(b"\t")[2])["original"][0] for line in lines[1:]]
    assert asked
    assert not set(asked) & set(done)
    asked.clear()
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)  # finished: read, not run
    assert not asked


def test_a_folder_of_another_attack_is_refused(tmp_path: Path) -> None:
    victim = Stops()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    victim.left = 12
    with pytest.raises(KeyboardInterrupt):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    victim.left = 10**9
    with pytest.raises(TicketsError, match="another attack"):
        PWWS()(clf, SPLIT, n=0, seed=1, folder=tmp_path)
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    with pytest.raises(TicketsError, match="another attack"):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path, query_budget=5)


SCRIPT = """
import sys, time
from attacking import toy_victim
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
inner = toy_victim(1).function
def slow(texts):
    time.sleep(float(sys.argv[2]))
    return inner(texts)
PWWS()(Classifier.wrap(slow, labels=["x", "y"]), Split.of({texts!r} * 5, [0, 1] * 15), n=0, folder=sys.argv[1], live=2)
"""


def test_kill_9(tmp_path: Path) -> None:
    texts = ["a good film", "bad bad plot", "the story is fine, really", "dull and slow", "happy dog runs", "old house"]

    def start(pause: float) -> subprocess.Popen[bytes]:
        here = str(Path(__file__).resolve().parents[1])
        script = SCRIPT.replace("{texts!r}", repr(texts))
        return subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "killed"), str(pause)], env={**os.environ, "PYTHONPATH": here}
        )

    killed = start(0.02)
    part = tmp_path / "killed" / PART
    until = time.monotonic() + 60
    while time.monotonic() < until and not (part.is_file() and part.read_bytes().count(b"\n") > 4):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert part.is_file()
    assert start(0).wait() == 0
    PWWS()(Classifier.wrap(toy_victim(1).function, labels=["x", "y"]), Split.of(texts * 5, [0, 1] * 15), n=0, folder=tmp_path / "whole")
    assert stable_files(tmp_path / "killed")[1] == stable_files(tmp_path / "whole")[1]
