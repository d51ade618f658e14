"""What was stopped half-way is told as such, with how it goes on: runs in `ls runs`, runs and attacks in `report`."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from fake_run import make_run
from robust_tickets.cli.main import main
from robust_tickets.environment import environment
from robust_tickets.train.loop import TrainingRun

Capture = pytest.CaptureFixture[str]


def tickets(capsys: Capture, *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    said = capsys.readouterr()
    assert end.value.code == code, said.err
    return said.out, said.err


def stopped(patch: pytest.MonkeyPatch, kind: type, name: str) -> None:
    """Have Ctrl-C come when a method is called."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    patch.setattr(kind, name, stop)


def test_a_run_that_is_resumed_elsewhere_keeps_all_environments(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    command = [
        "run",
        "finetune",
        "--set",
        f"task={three_classes}",
        "--set",
        f"model={model_folder}",
        "--set",
        "attack=none",
    ]
    command += [
        "--set",
        "train.epochs=1",
        "--set",
        "max_length=32",
        "--set",
        "max_rows=32",
        "--out",
        str(tmp_path / "r"),
    ]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 2, 1, 3):
            torch.set_num_threads(threads)
            environment.cache_clear()
            with monkeypatch.context() as patch:
                if threads != 3:
                    stopped(patch, TrainingRun, "_update")
                tickets(capsys, *command, code=0 if threads == 3 else 130)
    finally:
        torch.set_num_threads(before)
        environment.cache_clear()
    env = json.loads((tmp_path / "r" / "env.json").read_text())
    assert [env["threads"], *sorted(one["threads"] for one in env["earlier"])] == [3, 1, 2]


def test_an_unfinished_run_says_the_command_that_goes_on(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = [
        "run",
        "finetune",
        "--set",
        f"task={three_classes}",
        "--set",
        f"model={model_folder}",
        "--set",
        "attack=none",
    ]
    command += ["--set", "train.epochs=1", "--set", "max_length=32", "--out", "runs/my own"]
    with monkeypatch.context() as patch:
        stopped(patch, TrainingRun, "_update")
        tickets(capsys, *command, code=130)
    shown, _ = tickets(capsys, "ls", "runs")
    assert "my own  unfinished" in shown
    assert "reviews.csv" in shown
    assert model_folder.name in shown
    goes_on = next(line for line in shown.splitlines() if line.startswith("  resume: ")).removeprefix("  resume: ")
    assert shlex.split(goes_on) == ["tickets", *command]
    _, said = tickets(capsys, "report", "runs/my own", code=2)
    assert "is not finished" in said
    assert goes_on in said
    assert "report" in tickets(capsys, *shlex.split(goes_on)[1:])[0]
    shown, _ = tickets(capsys, "ls", "runs")
    assert "my own  done  " in shown
    assert "resume" not in shown
    assert not (tmp_path / "runs" / "my own" / "command.json").exists()


def test_runs_of_one_title_are_told_apart(capsys: Capture, tmp_path: Path) -> None:
    for name, task, model, day in (("a", "sst2", "minilm", 1), ("b", "/data/mine.csv", "bert-base-uncased", 2)):
        folder = make_run(tmp_path / name)
        config = {"recipe": {"title": "The same", "source": {"task": task}, "model": model}}
        (folder / "config.json").write_text(json.dumps(config))
        os.utime(folder / "config.json", (86400 * day + 43200,) * 2)
    shown, _ = tickets(capsys, "ls", "runs", "--folder", str(tmp_path))
    rows = [re.split(" {2,}", line) for line in shown.splitlines()]
    assert [[*row[:2], row[2][:10], *row[3:]] for row in rows] == [
        ["a", "unfinished", "1970-01-02", "sst2", "minilm", "The same"],
        ["b", "unfinished", "1970-01-03", "/data/mine.csv", "bert-base-uncased", "The same"],
    ]


def test_an_attack_that_was_stopped_is_not_called_something_else(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "attacked"
    command = ["attack", str(model_folder), "--data", str(three_classes), "--n", "4", "--out", str(out)]
    with monkeypatch.context() as patch:
        patch.setattr("robust_tickets.attack.result.AttackResult.of", _interrupted)
        tickets(capsys, *command, code=130)
    _, said = tickets(capsys, "report", str(out), code=2)
    assert f"the attack in {out} is not finished: 4 examples are done so far" in said
    assert f"tickets attack … --out {out}" in said
    tickets(capsys, *command)
    tickets(capsys, "report", str(out))


def _interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_model_s_folder_is_no_unfinished_run(capsys: Capture, model_folder: Path) -> None:
    _, said = tickets(capsys, "report", str(model_folder), code=2)
    assert "neither a finished run nor a finished attack" in said


def test_one_odd_name_does_not_hide_the_other_runs(capsys: Capture, tmp_path: Path) -> None:
    for name, task in (("a", "sst2"), ("b", "x" * 5000)):
        folder = make_run(tmp_path / name)
        (folder / "config.json").write_text(
            json.dumps({"recipe": {"title": "One", "source": {"task": task}, "model": "minilm"}})
        )
    shown, _ = tickets(capsys, "ls", "runs", "--folder", str(tmp_path))
    assert len(shown.splitlines()) == 2
