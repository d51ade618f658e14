"""Many units: each ends in exactly one place, failures are passed over, a budget is kept, processes that die are replaced."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.errors import BAD_INPUT, TicketsError
from robust_tickets.files import BusyError, locked
from robust_tickets.progress import seconds
from robust_tickets.reproduce import crew, hand
from robust_tickets.reproduce import work as house
from robust_tickets.reproduce.__main__ import main
from robust_tickets.reproduce.one import complete
from robust_tickets.reproduce.outcome import Outcome, read_all
from robust_tickets.reproduce.outcome import write as write_outcome
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.protocol import attack
from robust_tickets.reproduce.unit import Unit
from robust_tickets.reproduce.work import Job, Order, work
from robust_tickets.run import Run
from small_world import World, small_world

UNITS = [Unit(task="sst2", arm=arm, seed=seed) for seed in range(3) for arm in ("finetune", "earlyrobust")]
STAND_IN = """
import json, os, signal, sys
job = json.loads(sys.stdin.readline())
for line in sys.stdin:
    order = json.loads(line)
    way = json.loads(os.environ["WAYS"]).get(order["unit"], "done")
    if way == "die":
        os._exit(7)
    if way == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if way in ("hang", "stubborn"):
        sys.stdin.read()
    if way == "busy" and order["wait"]:
        way = "done"
    mark = os.path.join(job["results"], order["unit"].replace("/", "+") + ".asked")
    open(mark, "a").write(order["unit"] + "+" + str(os.getpid()) + os.linesep)
    print(json.dumps({"state": way, "numbers": "fine", "seconds": 1.0, "message": "no good", "alike": None}), flush=True)
"""


@pytest.fixture
def small(tmp_path: Path) -> World:
    return small_world(tmp_path / "world", train=32, rows=8)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Processes that only say what became of a unit."""
    monkeypatch.setattr(crew, "COMMAND", [sys.executable, "-S", "-c", STAND_IN])
    (tmp_path / "results").mkdir()

    def go(ways: Mapping[str, str], processes: int = 2, **more: Any) -> house.Summary:
        monkeypatch.setenv("WAYS", json.dumps(ways))
        return work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results", processes=processes, **more)

    return go


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """The units that were made, in order; making one only writes it down."""
    order: list[Unit] = []

    def one(unit: Unit, attacks: Any, places: Any, store: Path, results: Path, processes: int = 1, **_: Any) -> Outcome:
        order.append(unit)
        if unit.arm == "earlyrobust":
            raise RuntimeError("it went wrong")
        outcome = Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={})
        write_outcome(results, outcome, {})
        return outcome

    monkeypatch.setattr(house, "one", one)
    monkeypatch.setattr(house, "check_same", lambda *_: None)
    return order


def test_a_failed_unit_is_written_down_and_passed_over(made: list[Unit], tmp_path: Path) -> None:
    store, results = tmp_path / "store", tmp_path / "results"
    first = work(UNITS, [], Places(), store, results)
    plain, wrong = tuple(UNITS[::2]), tuple(UNITS[1::2])
    assert (first.done, first.failed, first.found, first.left) == (plain, wrong, (), ())
    assert made == UNITS
    told = json.loads((store / "failures" / f"{wrong[0].id}.json").read_text())
    assert told["message"] == first.why[wrong[0].id] == "RuntimeError: it went wrong"
    assert "Traceback" in told["traceback"]
    again = work(UNITS, [], Places(), store, results)
    assert (again.found, again.failed) == (plain, wrong), "what failed is tried again"


def test_a_failure_that_cannot_be_written_is_a_failure_all_the_same(made: list[Unit], tmp_path: Path) -> None:
    """As on a full disk: the units after it are made."""
    at = tmp_path / "store" / "failures" / UNITS[1].backbone / UNITS[1].task
    at.mkdir(parents=True)
    (at / UNITS[1].arm).touch()  # no folder can be made there
    summary = work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results")
    assert (summary.done, summary.failed) == (tuple(UNITS[::2]), tuple(UNITS[1::2]))


def test_what_was_mended_is_no_failure_any_more(
    made: list[Unit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, results = tmp_path / "store", tmp_path / "results"
    work(UNITS[:2], [], Places(), store, results)
    assert list((store / "failures").rglob("*.json"))
    monkeypatch.setattr(
        house, "one", lambda unit, *_, **__: Outcome(unit=unit, config={}, inputs={}, env={}, clean={}, cost={})
    )
    assert work(UNITS[:2], [], Places(), store, results).done == (UNITS[1],)
    assert not list((store / "failures").rglob("*.json"))


def test_a_result_of_other_settings_fails_and_stays(
    made: list[Unit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(UNITS[:1], [], Places(), tmp_path / "store", tmp_path / "results")

    def other(*_: Any) -> None:
        raise TicketsError("other settings")

    monkeypatch.setattr(house, "check_same", other)
    summary = work(UNITS[:1], [], Places(), tmp_path / "store", tmp_path / "results")
    assert (summary.failed, summary.found, made) == ((UNITS[0],), (), [UNITS[0]])


def test_a_budget_ends_a_unit_in_the_middle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def endless(*_: Any, **__: Any) -> Outcome:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(house, "one", endless)
    summary = work(UNITS, [], Places(), tmp_path / "store", tmp_path / "results", budget=0.2)
    assert set(summary.left) == set(UNITS)
    assert not summary.failed


def test_a_unit_that_would_not_fit_is_not_begun(made: list[Unit], tmp_path: Path) -> None:
    plain = UNITS[::2]
    expected = {plain[0]: 1.0, plain[1]: float("inf"), plain[2]: 1.0}
    summary = work(plain, [], Places(), tmp_path / "store", tmp_path / "results", budget=3600, expected=expected)
    assert summary.done == (plain[0], plain[2])
    assert summary.left == (plain[1],)


def test_what_an_outcome_lacks_tells_nothing_of_how_long_others_take(made: list[Unit], tmp_path: Path) -> None:
    """A second was expected for an attack; if the model is gone it is minutes, and no reason to begin nothing more."""
    store, results, plain = tmp_path / "store", tmp_path / "results", UNITS[::2]
    write_outcome(results, Outcome(unit=plain[0], config={}, inputs={}, env={}, clean={}, cost={}), {})
    expected = {plain[0]: 1e-9, plain[1]: 60.0, plain[2]: 60.0}
    assert work(plain, [], Places(), store, results, budget=3600, expected=expected).done == tuple(plain)


def test_processes_share_the_units_and_a_dead_one_is_replaced(stand_in: Any, tmp_path: Path) -> None:
    ids = [unit.id for unit in UNITS]
    summary = stand_in({ids[0]: "die", ids[2]: "failed", ids[3]: "busy"})
    assert set(summary.failed) == {UNITS[0], UNITS[2]}
    assert set(summary.done) == {UNITS[1], *UNITS[3:]}
    assert "exit code 7" in summary.why[ids[0]]
    assert summary.why[ids[2]] == "no good"
    asked = {path.name: path.read_text().splitlines() for path in (tmp_path / "results").glob("*.asked")}
    assert len(asked[ids[3].replace("/", "+") + ".asked"]) == 2, (
        "one that is held up is put back, and waited for at the end"
    )
    processes = [line for lines in asked.values() for line in lines[-1:]]
    assert len(processes) == len({line.partition("+")[2] for line in processes}) == 5, (
        "each unit is made by a process of its own"
    )


@pytest.mark.parametrize("way", ["hang", "stubborn"])
def test_a_budget_ends_processes_too(stand_in: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "GRACE", 10.0 if way == "hang" else 0.5)
    ids = [unit.id for unit in UNITS]
    summary = stand_in(dict.fromkeys(ids, way), budget=0.5)
    assert set(summary.left) == set(UNITS)
    assert not summary.failed


def test_the_cores_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert crew.threads(8)["OMP_NUM_THREADS"] == crew.threads(8)["TORCHINDUCTOR_COMPILE_THREADS"] == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert crew.threads(8)["OMP_NUM_THREADS"] == "5", "what the user set stays"


def test_a_process_of_the_crew_makes_what_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What goes through the pipe arrives as it was; the end of the lines ends it."""
    asked: list[tuple[Order, Job]] = []
    turned = [0.0]

    def make(order: Order, job: Job) -> Outcome:
        asked.append((order, job))
        if order.unit.seed == 1:
            raise BusyError("busy")
        if order.unit.seed == 2:
            raise TicketsError("wrong", hint="right it")
        turned[0] += 1000.0
        return Outcome(unit=order.unit, config={}, inputs={}, env={}, clean={"accuracy": 91.25}, cost={})

    monkeypatch.setattr(hand, "make", make)
    monkeypatch.setattr("robust_tickets.reproduce.turns.waited", lambda: turned[0])
    job = Job(
        places=Places(data=tmp_path, subset=True),
        store=tmp_path / "s",
        results=tmp_path / "r",
        processes=4,
        at_once=2,
        drop_models=True,
    )
    orders = [
        Order(unit=unit, attacks=(attack("sst2", "textfooler-real"),), wait=False, latest=12.5) for unit in UNITS[::2]
    ]
    mine = crew.Hand(0, job)
    lines: list[str] = []
    monkeypatch.setattr(mine, "_tell", lambda value: lines.append(json.dumps(value)))
    monkeypatch.setattr(crew.subprocess, "Popen", lambda *_, **__: Stub())
    for order in orders:
        assert mine.ask(order) is None
    answers = io.StringIO()
    hand.main(Pipe(lines, answers), answers)  # type: ignore[arg-type]
    assert asked == [(order, job) for order in orders]
    told = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [one["state"] for one in told] == ["done", "busy", "failed"]
    assert told[0]["numbers"] == "91.2 % clean"
    assert told[0]["seconds"] < 0, "waiting for a turn does not count"
    assert "right it" in json.loads((tmp_path / "s" / "failures" / f"{UNITS[4].id}.json").read_text())["message"]


FORKS = """
import multiprocessing, threading, time
from robust_tickets.reproduce import hand
told, answers = hand.streams()
threading.Thread(target=list, args=(told,), daemon=True).start()
time.sleep(0.2)
process = multiprocessing.get_context("fork").Process(target=print, args=("into the log",), daemon=True)
process.start()
process.join(20)
answers.write(f"{process.exitcode} {process.is_alive()}")
answers.flush()
process.kill()
"""


def test_an_attack_may_fork_while_orders_are_waited_for() -> None:
    """A forked process closes its standard input, which may not be what another thread reads from."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "0 False"


def test_a_process_of_the_crew_unwinds_before_it_ends() -> None:
    """Locks are left and workers ended, as after Ctrl-C; a second signal does not cut that short."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, hand.leave)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    hand.settle()


class Stub:
    """A process that answers nothing."""

    stdin = stdout = io.StringIO()


class Pipe:
    """Lines as they come from the process that asks: one more when the one before is answered; the first is the job."""

    def __init__(self, lines: list[str], answers: io.StringIO) -> None:
        self.lines, self.answers = lines, answers

    def __iter__(self) -> Iterator[str]:
        for i, line in enumerate(self.lines):
            yield line
            while self.answers.getvalue().count("\n") < i:
                time.sleep(0.01)


def test_a_process_whose_starter_is_gone_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(hand.os, "_exit", ended.append)
    for text, answered, expected in (("job\norder\n", 1, [1]), ("", 0, [])):
        ended.clear()
        lines = hand.queue.Queue[str]()
        reading = threading.Thread(target=hand._read, args=(Late(text, lines, answered), lines))
        reading.start()
        reading.join()
        assert ended == expected


class Late(io.StringIO):
    """Both lines come at once; the first is dealt with after the second came."""

    def __init__(self, text: str, lines: Any, answered: int) -> None:
        super().__init__(text)
        self.lines, self.answered = lines, answered

    def __next__(self) -> str:
        try:
            return super().__next__()
        except StopIteration:
            for _ in range(self.answered):
                self.lines.task_done()
            raise


def test_a_stage_is_one_process_s_at_a_time(tmp_path: Path) -> None:
    run = Run(folder=tmp_path, processes=2)
    stage = run.stage("train", {"a": 1})
    order: list[str] = []

    def second() -> None:
        with run.alone(stage):
            order.append("second")

    with run.alone(stage):
        other = threading.Thread(target=second)
        other.start()
        with pytest.raises(BusyError), Run(folder=tmp_path, processes=2, wait=False).alone(stage):
            pass
        with pytest.raises(BusyError), locked(stage.folder):
            pass
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert stage.sharers == 2
    with Run(folder=tmp_path, processes=1).alone(stage):
        assert stage.sharers == 2, "the most that ever shared the device while it was not done"


def test_a_time_has_its_unit() -> None:
    assert [seconds(text, "--budget") for text in ("25m", "1h30m", "90s", "0.5h")] == [1500, 5400, 90, 1800]
    for wrong in ("25", "", "m", "5 parsecs"):
        with pytest.raises(TicketsError, match="20m"):
            seconds(wrong, "--budget")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [
        sys.executable,
        "-m",
        "robust_tickets.reproduce",
        "--campaign",
        "A",
        "--dry-run",
        "--results",
        str(tmp_path),
    ]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 0, done.stderr
    assert "Broken" not in done.stderr


def test_a_unit_that_was_not_chosen_is_not_confirmed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train", "validation", "test"):
        (tmp_path / "data" / "sst2").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "sst2" / f"{name}.csv").write_text("sentence,label\ngood,1\nbad,0\n")
    asked = [
        "--attacks",
        "deepwordbug-confirm",
        "--dry-run",
        "--data",
        str(tmp_path / "data"),
        "--results",
        str(tmp_path / "r"),
    ]
    assert main(["--units", "bert-base-uncased/sst2/sturdy_a_ticket/corrected/seed-0", *asked]) == BAD_INPUT
    assert "attacked once, for the recipe that the screening" in capsys.readouterr().err
    assert main(["--units", "bert-base-uncased/sst2/finetune/corrected/seed-0", *asked]) == 0
    assert "seed-0 deepwordbug-confirm" in capsys.readouterr().out


def test_of_a_unit_that_is_searched_alone_nothing_is_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    unit = "bert-base-uncased/sst2/earlyrobust/corrected/seed-0"
    assert main(["--units", unit, "--attacks", "deepwordbug", "--search-only", "--dry-run"]) == 0
    assert capsys.readouterr().out == f"{unit}\n"
    known = Outcome(unit=Unit.of_id(unit), config={}, inputs={}, env={}, clean={}, cost={})
    assert complete(known, [attack("sst2", "pwws")], search_only=True)
    assert not complete(known, ())


def test_two_real_processes_share_a_search(small: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where cyclopts and datasets are not installed."""
    block = tmp_path / "block"
    for name in ("cyclopts", "datasets"):
        (block / name).mkdir(parents=True)
        (block / name / "__init__.py").write_text("raise ImportError")
    units = [
        f"bert-base-uncased/sst2/{arm}/corrected/seed-0" for arm in ("earlyrobust_first", "earlyrobust_neurons_40")
    ]
    asked = ["--units", *units, "--attacks", "", "--processes", "2", "--train-at-once", "1"]
    asked += ["--store", str(tmp_path / "s"), "--results", str(tmp_path / "r")]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(block)
    try:
        assert main([*asked, *small.flags]) == 0, capsys.readouterr().out
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before
    found = read_all(tmp_path / "r")
    assert sorted(outcome.unit.id for outcome in found) == sorted(units)
    assert all(outcome.cost["processes"] == 2 for outcome in found)
    assert len({outcome.inputs["trained"] for outcome in found}) == 2
    assert len(list((tmp_path / "s" / "search").iterdir())) == 1, "searched once, drawn from twice"
    turns = tmp_path / "s" / "turns"
    assert sorted(path.name for path in turns.iterdir()) == ["0", "line"], "both trained, one at a time"
    assert not any((turns / "line").iterdir()), "and nobody is left in the line"
    assert "2 done" in capsys.readouterr().out
    assert main([*asked, *small.flags]) == 0
    assert "2 found done" in capsys.readouterr().out
