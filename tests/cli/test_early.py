"""The first seconds of a verb: a line at once, and a missing data file told, before torch is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calling import Capture, tickets
from fake_run import make_run

# Notes of every line whether torch was loaded by then.
SCRIPT = """
import json, sys
from robust_tickets import progress
from robust_tickets.cli.main import _run
lines = []
def noted(text):
    lines.append([text, "torch" in sys.modules])
real = sys.stderr.write
sys.stderr.write = lambda text: (noted(text) if text.strip() else None, real(text))[1]
code = _run(sys.argv[1:])
print(json.dumps([code, lines]))
"""


def lines_of(*arguments: str) -> tuple[int, list[tuple[str, bool]]]:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    code, lines = json.loads(done.stdout.splitlines()[-1])
    return code, lines


def verbs(data: Path, model: str, tmp_path: Path) -> dict[str, list[str]]:
    return {
        "run": ["run", "finetune", "--set", f"task={data}", "--set", f"model={model}"],
        "train": ["train", model, "--task", str(data), "--out", str(tmp_path / "o")],
        "search": ["search", "earlyrobust", "--model", model, "--task", str(data), "--out", str(tmp_path / "o")],
        "attack": ["attack", model, "--data", str(data), "--out", str(tmp_path / "o")],
        "predict": ["predict", model, "--data", str(data), "--out", str(tmp_path / "o.csv")],
        "replay": ["replay", str(data), model, "other", "--out", str(tmp_path / "o")],
        "export": ["export", model, "--out", str(tmp_path / "o")],
    }


VERBS = ("run", "train", "search", "attack", "predict", "replay", "export")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "export"])  # which reads no data
def test_a_missing_file_is_told_before_torch_is_loaded(verb: str, three_classes: Path, tmp_path: Path) -> None:
    code, lines = lines_of(*verbs(three_classes.with_name("review.csv"), "nowhere", tmp_path)[verb])
    assert code == 2
    assert f"did you mean {three_classes}?" in lines[0][0]
    assert not any(loaded for _, loaded in lines)


@pytest.mark.parametrize("verb", ["run", "attack", "export"])
def test_a_line_comes_before_torch(verb: str, three_classes: Path, tmp_path: Path) -> None:
    _, lines = lines_of(*verbs(three_classes, str(tmp_path / "nowhere"), tmp_path)[verb])
    assert lines[0][0].startswith("loading ")
    assert not lines[0][1]
    assert lines[-1][1], "the verb went on to load it"


@pytest.fixture
def soon() -> Iterator[None]:
    """An end to what would wait for ever, or for minutes."""
    signal.alarm(30)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("soon")
def test_a_pipe_is_no_file_of_a_run(capsys: Capture, tmp_path: Path) -> None:
    for name in ("config.json", "arms.json"):
        run = make_run(tmp_path / name, n=4)
        (run / name).unlink()
        os.mkfifo(run / name)
    assert [run["name"] for run in tickets(capsys, "ls", "runs", "--folder", str(tmp_path))["runs"]] == ["arms.json"]
    for name, code in (("config.json", 0), ("arms.json", 2)):
        tickets(capsys, "report", str(tmp_path / name), "--out", str(tmp_path / "page.html"), code=code)
