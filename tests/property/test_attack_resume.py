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
from refusing import refused
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import PART, AttackResult, ExampleLog
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from tiny import tiny_classifier

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
def test_resuming_gives_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, calls: int, cut: int, live: int
) -> None:
    folder = tmp_path_factory.mktemp("attack")
    victim = Stops()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    PWWS()(clf, SPLIT, n=0, folder=folder / "whole")
    victim.left = len(TEXTS) + calls  # the first are probes
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
    victim.left = len(TEXTS) + 12
    with pytest.raises(KeyboardInterrupt):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    lines = (tmp_path / PART).read_bytes().splitlines()
    assert len(lines) > 2  # the header and some examples
    asked: list[str] = []
    victim.left = 10**9
    plain = victim.inner.function
    assert plain is not None

    def note(texts: Any) -> np.ndarray:
        asked.extend(texts)
        return plain(texts)

    victim.inner.function = note
    PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    done = [json.loads(line.split(b"\t")[2])["original"][0] for line in lines[1:]]
    # each attacked text once, to see that it is the same victim
    probes, asked = asked[: len(TEXTS)], asked[len(TEXTS) :]
    assert probes == TEXTS
    assert asked
    assert not set(asked) & set(done)
    asked = []
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)  # finished: read, not run
    assert asked == TEXTS


def test_a_folder_of_another_attack_is_refused(tmp_path: Path) -> None:
    victim = Stops()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    victim.left = len(TEXTS) + 12
    with pytest.raises(KeyboardInterrupt):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path, live=1)
    victim.left = 10**9
    for _ in range(2):
        with refused("stage.other_work"):
            PWWS()(clf, SPLIT, n=0, seed=1, folder=tmp_path)
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    with refused("stage.other_work"):
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
    with open(sys.argv[3], "a") as calls:
        calls.write(f"{len(texts)}\\n")
    return inner(texts)
PWWS()(Classifier.wrap(slow, labels=["x", "y"]), Split.of({texts!r} * 5, [0, 1] * 15), n=0, folder=sys.argv[1], live=2)
"""


def test_kill_9(tmp_path: Path) -> None:
    texts = ["a good film", "bad bad plot", "the story is fine, really", "dull and slow", "happy dog runs", "old house"]

    def start(pause: float) -> subprocess.Popen[bytes]:
        here = str(Path(__file__).resolve().parents[1])
        script = SCRIPT.replace("{texts!r}", repr(texts))
        return subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "killed"), str(pause), str(tmp_path / "calls")],
            env={**os.environ, "PYTHONPATH": here},
        )

    def asked() -> int:
        found = sum(map(int, (tmp_path / "calls").read_text().split()))
        (tmp_path / "calls").unlink()
        return found

    killed = start(0.02)
    part = tmp_path / "killed" / PART
    until = time.monotonic() + 60
    while time.monotonic() < until and not (part.is_file() and part.read_bytes().count(b"\n") > 4):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert part.is_file()
    (tmp_path / "calls").unlink()
    assert start(0).wait() == 0
    resumed = asked()
    PWWS()(
        Classifier.wrap(toy_victim(1).function, labels=["x", "y"]),
        Split.of(texts * 5, [0, 1] * 15),
        n=0,
        folder=tmp_path / "whole",
    )
    assert stable_files(tmp_path / "killed")[1] == stable_files(tmp_path / "whole")[1]
    for name in ("result.json", "examples.jsonl"):
        (tmp_path / "killed" / name).unlink()
    assert start(0).wait() == 0
    assert resumed < asked()  # it did not begin from scratch


class Sometimes:
    """A victim that is broken at times: it raises what it is told to."""

    def __init__(self) -> None:
        self.problem: Exception | None = None
        self.sound = 10**9  # calls before it breaks
        self.inner = toy_victim(1).function

    def __call__(self, texts: Any) -> np.ndarray:
        self.sound -= 1
        if self.problem is not None and self.sound < 0:
            raise self.problem
        assert self.inner is not None
        return self.inner(texts)


MANY = Split.of([f"{text} {i}" for i in range(5) for text in TEXTS], [0, 1, 0, 1, 0, 1, 0] * 5)


@pytest.mark.parametrize("code", [2, 3])
def test_a_victim_that_breaks_stops_the_run_and_what_failed_is_tried_again(tmp_path: Path, code: int) -> None:
    victim = Sometimes()
    clf = Classifier.wrap(victim, labels=["x", "y"])
    PWWS()(clf, MANY, n=0, folder=tmp_path / "whole")
    victim.sound, victim.problem = 40, RuntimeError("gone") if code == 2 else TicketsError("NaN", exit_code=3)
    with pytest.raises(TicketsError) as caught:
        PWWS()(clf, MANY, n=0, folder=tmp_path / "cut", live=1)
    assert caught.value.exit_code == 3
    lines = (tmp_path / "cut" / PART).read_bytes()
    assert lines.count(b'"status": "error"') == (19 if code == 2 else 0)  # a row of 20, or at once
    before = lines.count(b"\n") - 1 - lines.count(b'"status": "error"')
    assert before > 2
    if code == 2:  # still broken: it stops again, though some are done
        victim.sound = 8  # probes
        with pytest.raises(TicketsError, match="20 example"):
            PWWS()(clf, MANY, n=0, folder=tmp_path / "cut", live=1)
    victim.problem = None
    result = PWWS()(clf, MANY, n=0, folder=tmp_path / "cut")
    assert result.errors == 0
    assert stable_files(tmp_path / "cut") == stable_files(tmp_path / "whole")


def test_the_exit_code_of_the_cause_is_passed_on() -> None:
    for problem, code in ((TicketsError("bad shape"), 2), (ValueError("x"), 3)):
        victim = Sometimes()
        victim.problem, victim.sound = problem, 8
        with pytest.raises(TicketsError, match="in a row") as caught:
            PWWS()(Classifier.wrap(victim, labels=["x", "y"]), MANY, n=0)
        assert caught.value.exit_code == code


def test_two_callables_of_one_name_are_two_victims(tmp_path: Path) -> None:
    PWWS()(Classifier.wrap(Sometimes(), labels=["x", "y"]), SPLIT, n=0, folder=tmp_path)
    other = Sometimes()
    other.inner = toy_victim(2).function
    with refused("stage.other_work"):
        PWWS()(Classifier.wrap(other, labels=["x", "y"]), SPLIT, n=0, folder=tmp_path)
    PWWS()(Classifier.wrap(Sometimes(), labels=["x", "y"]), SPLIT, n=0, folder=tmp_path)


def test_a_result_without_its_examples_is_made_again(tmp_path: Path) -> None:
    clf = toy_victim(1)
    first = PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    kept = list(first.examples())
    (tmp_path / "examples.jsonl").unlink()
    with pytest.raises(TicketsError, match="run the attack again"):
        first.save(tmp_path / "elsewhere")
    assert list(PWWS()(clf, SPLIT, n=0, folder=tmp_path).examples()) == kept


def test_a_result_whose_examples_were_cut_short_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clf, path = toy_victim(1), tmp_path / "examples.jsonl"
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    whole = path.read_bytes()
    for left in (whole[: whole.index(b"\n") + 1], whole[:-5]):  # between two lines, and within one
        path.write_bytes(left)
        PWWS()(clf, SPLIT, n=0, folder=tmp_path)
        assert path.read_bytes() == whole
        assert f"whole lines, expected {len(SPLIT)}: the attack is made again" in capsys.readouterr().err


def _odd(text: str, name: str, value: Any) -> str:
    return json.dumps({**json.loads(text), name: value})


@pytest.mark.parametrize("name", ["empty", "cut", "list", "zeros", "less", "number", "text"])
def test_a_damaged_result_is_kept_aside_and_made_again(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose it was nobody can tell, so that its examples stay too."""
    clf = toy_victim(1)
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    whole, text = stable_files(tmp_path), (tmp_path / "result.json").read_text()
    damaged = {
        "empty": "", "cut": text[: len(text) // 2], "list": "[]", "zeros": "\0" * len(text), "less": json.dumps({"schema": 2}),
        "number": _odd(text, "ids", 5), "text": _odd(text, "aua", "high"),
    }[name]  # fmt: skip
    (tmp_path / "result.json").write_text(damaged)
    with pytest.raises(TicketsError, match=r"result\.json"):
        AttackResult.load(tmp_path)
    again = PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    told = capsys.readouterr().err
    assert f"{tmp_path / 'result.json'}" in told
    assert f"the attack is made again, and what was there is kept in {tmp_path / 'damaged'}" in told
    assert stable_files(tmp_path) == whole
    assert (tmp_path / "damaged" / "result.json").read_text() == damaged
    assert (tmp_path / "damaged" / "examples.jsonl").read_bytes() == (tmp_path / "examples.jsonl").read_bytes()
    assert AttackResult.load(tmp_path) == again


def test_a_result_of_another_version_is_not_made_again(tmp_path: Path) -> None:
    clf = toy_victim(1)
    PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    other = _odd((tmp_path / "result.json").read_text(), "schema", 99)
    (tmp_path / "result.json").write_text(other)
    with pytest.raises(TicketsError, match="schema 99, this version reads 2"):
        PWWS()(clf, SPLIT, n=0, folder=tmp_path)
    assert (tmp_path / "result.json").read_text() == other


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    first = ExampleLog(tmp_path, 3, "d")
    with pytest.raises(TicketsError, match="another process is attacking into this folder") as caught:
        ExampleLog(tmp_path, 3, "d")
    assert caught.value.exit_code == 3
    first.add(0, {"status": "failed"}, 0.5)
    first.close()
    second = ExampleLog(tmp_path, 3, "d")
    assert second.missing() == [1, 2]
    second.remove()
    second.remove()  # gone already
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_and_the_rest_is_kept(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from robust_tickets.attack.result import ExampleLog\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "store = ExampleLog(Path(sys.argv[1]), 9, 'd')\n"
        "from robust_tickets.errors import TicketsError\n"
        'try:\n    [store.add(i, {"status": "failed"}, 1.0) for i in range(9)]\n'
        "except TicketsError as problem:\n    store.close(); sys.exit(problem.exit_code)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == 3
    store = ExampleLog(tmp_path, 9, "d")
    assert store.missing() == list(range(2, 9))
    assert list(store.lines()) == [b'{"status": "failed"}\n'] * 2
    store.close()


class Killed(BaseException):
    pass


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "budget": {"query_budget": 9},
    "copy": {"precision": "bfloat16", "query_budget": 20},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_killed_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """After any outcome that was kept, and before and after each file that the end writes."""
    from robust_tickets.attack import engine
    from robust_tickets.attack.result import AttackResult

    clf = tiny_classifier("bert", max_length=24) if "precision" in OPTIONS[name] else toy_victim(1)
    said = ["good film", "bad bad plot", "a happy old story", "", "awful"]
    split = Split.of(said, clf.logits(said).argmax(axis=1).tolist())

    def attack(place: str) -> None:
        PWWS()(clf, split, n=0, folder=tmp_path / place, live=2, **OPTIONS[name])

    attack("whole")
    moments = 0

    def mortal(function: Any) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            nonlocal moments
            for after in (False, True):
                if after:
                    found = function(*given, **named)
                moments -= 1
                if moments == 0:
                    raise Killed
            return found

        return run

    monkeypatch.setattr(ExampleLog, "add", mortal(ExampleLog.add))
    monkeypatch.setattr(ExampleLog, "remove", mortal(ExampleLog.remove))
    monkeypatch.setattr(engine, "write_chunks", mortal(engine.write_chunks))
    monkeypatch.setattr(AttackResult, "save", mortal(AttackResult.save))
    for moment in range(1, 2 * (len(said) + 3) + 1):
        moments = moment
        with pytest.raises(Killed):
            attack(str(moment))
        moments = 0
        attack(str(moment))
        assert stable_files(tmp_path / str(moment)) == stable_files(tmp_path / "whole"), moment
        assert sorted(p.name for p in (tmp_path / str(moment)).iterdir()) == ["examples.jsonl", "result.json"]
