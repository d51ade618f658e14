"""Many jobs: each ends in exactly one place, failures are passed over, a budget is kept, a process that dies is a failure."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calling import tickets
from refusing import refused
from robust_tickets.config import build, to_plain
from robust_tickets.errors import TicketsError
from robust_tickets.experiment import execute, jobs
from robust_tickets.files import locked
from robust_tickets.progress import seconds
from robust_tickets.reproduce import runner
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, read_all, write
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.runner import Summary, run_jobs
from robust_tickets.reproduce.worker import Request
from robust_tickets.stages import RunFolder
from small_world import World, small_world

UNITS = [Job(task="sst2", arm=arm, seed=seed) for seed in range(3) for arm in ("finetune", "earlyrobust")]
STAND_IN = """
import json, os, shutil, signal, sys, time
request = json.loads(sys.stdin.readline())
unit = request["unit"]
repeat = "-repeat-%d" % unit["repeat"] if unit["repeat"] else ""
id = "/".join([unit["backbone"], unit["task"], unit["arm"], unit["flavour"], "seed-%d%s" % (unit["seed"], repeat)])
way = json.loads(os.environ["WAYS"]).get(id, "done")
with open(os.path.join(request["store"], "asked"), "a") as asked:
    asked.write(json.dumps([id, os.getpid(), request["processes"], time.monotonic()]) + os.linesep)
if way == "die":
    os._exit(7)
if way == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way in ("hang", "stubborn"):
    sys.stdin.read()
if way == "failed":
    print(json.dumps({"error": {"message": "no good", "hint": "", "exit_code": 3, "code": "a.code"}}))
else:
    path = os.path.join(request["results"], "units", id + ".json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shutil.copy(os.path.join(os.environ["READY"], "units", id + ".json"), path)
    print(json.dumps({"result": "50.0 % clean"}))
"""


@pytest.fixture
def small(tmp_path: Path) -> World:
    return small_world(tmp_path / "world", train=32, rows=8)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Processes that do what is said of their job."""
    repeat = replace(UNITS[0], repeat=1)
    for unit in (*UNITS, repeat):
        write(
            tmp_path / "ready", Outcome(unit=unit, config={}, inputs={}, env={}, clean={"accuracy": 50.0}, cost={}), {}
        )
    monkeypatch.setattr(runner, "COMMAND", [sys.executable, "-S", "-c", STAND_IN])
    monkeypatch.setattr(runner, "check_same", lambda *_: None)
    monkeypatch.setenv("READY", str(tmp_path / "ready"))

    def go(ways: Mapping[str, str], units: list[Job] = UNITS, processes: int = 2, **more: Any) -> Summary:
        monkeypatch.setenv("WAYS", json.dumps(ways))
        given: Any = {"paths": Paths(), "store": tmp_path / "store", "results": tmp_path / "results"}
        return run_jobs([Request(unit=unit, attacks=(), processes=processes, **given) for unit in units], **more)

    return go


def asked(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "store" / "asked").read_text().splitlines()]


def test_failed_jobs_lose_no_other_and_are_tried_again(stand_in: Any, tmp_path: Path) -> None:
    ids = [unit.id for unit in UNITS]
    summary = stand_in({ids[0]: "die", ids[2]: "failed"})
    assert set(summary.failed) == {UNITS[0], UNITS[2]}
    assert set(summary.done) == {UNITS[1], *UNITS[3:]}
    assert summary.why[ids[2]] == "no good"
    assert len({pid for _, pid, *_ in asked(tmp_path)}) == len(UNITS), "a process each"
    again = stand_in({})
    assert (set(again.found), set(again.done)) == (set(summary.done), {UNITS[0], UNITS[2]})


def test_repeats_come_last_with_the_device_to_themselves(stand_in: Any, tmp_path: Path) -> None:
    repeat = replace(UNITS[0], repeat=1)
    assert set(stand_in({}, [repeat, *UNITS]).done) == {repeat, *UNITS}
    *before, last = asked(tmp_path)
    assert (last[0], last[2]) == (repeat.id, 1)
    assert {processes for _, _, processes, _ in before} == {2}


@pytest.mark.parametrize("way", ["hang", "stubborn"])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_budget_ends_what_runs_and_begins_nothing(
    stand_in: Any, way: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE", 10.0 if way == "hang" else 0.5)
    begun = time.monotonic()
    summary = stand_in(dict.fromkeys([unit.id for unit in UNITS], way), processes=processes, budget=1.0)
    assert time.monotonic() - begun < 10, "asked to end, it does so before it is killed"
    assert set(summary.left) == set(UNITS)
    assert not summary.failed
    assert len(asked(tmp_path)) <= processes


def test_a_result_of_other_settings_fails_and_stays(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in({}, UNITS[:1])

    def other(*_: Any) -> None:
        raise TicketsError("other settings")

    monkeypatch.setattr(runner, "check_same", other)
    summary = stand_in({}, UNITS[:1])
    assert (summary.failed, summary.refused, summary.found) == ((UNITS[0],), (UNITS[0],), ())
    assert len(asked(tmp_path)) == 1


def test_the_cores_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert runner.environment_of(8)["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert runner.environment_of(8)["OMP_NUM_THREADS"] == "5", "what the user set stays"


def test_a_request_arrives_as_it_was(tmp_path: Path) -> None:
    request = Request(
        unit=UNITS[1], attacks=("textfooler-real",), paths=Paths(data=tmp_path, subset=True),
        store=tmp_path / "s", results=tmp_path / "r", processes=4, search_only=True, drop_models=True,
    )  # fmt: skip
    assert build(Request, json.loads(json.dumps(to_plain(request)))) == request


FORKS = """
import multiprocessing, sys, threading, time
from robust_tickets.experiment import execute
sys.stdin.readline()
threading.Thread(target=execute._end_with_starter, daemon=True).start()
time.sleep(0.2)
process = multiprocessing.get_context("fork").Process(target=print, args=("into the log",), daemon=True)
process.start()
process.join(20)
print(process.exitcode, process.is_alive(), flush=True)
time.sleep(60)
"""


def test_a_worker_may_fork_and_ends_with_its_starter() -> None:
    """A forked process closes its standard input, which may not be what another thread holds."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write("a request\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2)] == ["into the log\n", "0 False\n"]
        process.stdin.close()
        assert process.wait(10) == 1


def test_a_worker_unwinds_before_it_ends() -> None:
    """Locks are left and workers ended, as after Ctrl-C; a second signal does not cut that short."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, execute._interrupt)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    execute._synchronize()


def test_a_stage_is_one_process_s_at_a_time(tmp_path: Path) -> None:
    run = RunFolder(folder=tmp_path, processes=2)
    stage = run.stage("train", {"a": 1})
    order: list[str] = []

    def second() -> None:
        with run.alone(stage):
            order.append("second")

    with run.alone(stage):
        other = threading.Thread(target=second)
        other.start()
        with refused("run.busy"), locked(stage.folder):
            pass
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert stage.sharers == 2
    with RunFolder(folder=tmp_path, processes=1).alone(stage):
        assert stage.sharers == 2, "the most that ever shared the device while it was not done"


def test_a_time_has_its_unit() -> None:
    assert [seconds(text, "--budget") for text in ("25m", "1h30m", "90s", "0.5h")] == [1500, 5400, 90, 1800]
    for wrong in ("25", "", "m", "5 parsecs"):
        with pytest.raises(TicketsError, match="20m"):
            seconds(wrong, "--budget")


def test_two_real_processes_share_a_search(
    small: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where datasets is not installed."""
    (tmp_path / "block" / "datasets").mkdir(parents=True)
    (tmp_path / "block" / "datasets" / "__init__.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "block"))
    units = [
        f"bert-base-uncased/sst2/{arm}/corrected/seed-0" for arm in ("earlyrobust_first", "earlyrobust_neurons_80")
    ]
    given = ["--job", *units, "--attacks", "", "--processes", "2"]
    given += ["--out", str(tmp_path / "s"), "--results", str(tmp_path / "r"), *small.flags]
    assert sorted(tickets(capsys, "reproduce", *given)["work"]["done"]) == sorted(units)
    found = read_all(tmp_path / "r")
    assert sorted(outcome.unit.id for outcome in found) == sorted(units)
    assert all(outcome.cost["processes"] == 2 for outcome in found)
    assert len({outcome.inputs["trained"] for outcome in found}) == 2
    assert len(list((tmp_path / "s" / "search").iterdir())) == 1, "searched once, drawn from twice"
    assert sorted(tickets(capsys, "reproduce", *given)["work"]["found"]) == sorted(units)
