"""No name that a stranger chose moves the cursor, rings, or reorders a line of the terminal."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from calling import Capture, called
from fake_run import make_run
from robust_tickets import PWWS, Classifier
from robust_tickets.data.task import Split
from robust_tickets.files import read_json, write_json, write_text
from tiny import tiny_classifier

EVIL = "\x1b]0;owned\x07\x9b31m\u202etxt\r\x08"
UNSEEN = {*EVIL} - {*"]0;owned31mtxt"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a stranger, with such names wherever one may stand."""
    folder = tmp_path_factory.mktemp("world")
    make_run(
        folder / "runs" / "done",
        arms=((f"a{EVIL}", f"A{EVIL}", 0.4, 80.0, True), (f"b{EVIL}", f"B{EVIL}", 0.3, 80.0, False)),
        n=20,
    )
    for place in (folder / "runs" / "done" / "attack").iterdir():
        victim = Classifier.wrap(lambda texts: [[0.2, 0.8] for _ in texts], labels=["bad", "good"])
        PWWS()(victim, Split.of([("a good film",)], [1]), n=0).save(place)
        told = read_json(place / "result.json")
        write_json(place / "result.json", {**told, "attack": f"pwws{EVIL}", "flags": [EVIL], "flag_codes": [EVIL]})
    recipe = {"title": f"title{EVIL}", "source": {"task": f"task{EVIL}"}, "model": f"model{EVIL}"}
    write_json(folder / "runs" / "begun" / "config.json", {"recipe": recipe})
    write_json(folder / "runs" / "begun" / "command.json", {"command": f"tickets run x; echo {EVIL}"})
    write_text(
        folder / "recipe.toml",
        f"title = {json.dumps(EVIL)}\nmodel = {json.dumps('none' + EVIL)}\n[arms.x]\ntitle = {json.dumps(EVIL)}\n",
    )
    tiny_classifier(labels=(f"bad{EVIL}", "good")).save_pretrained(folder / "model")
    with open(folder / "texts.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["text", "label"], *([f"a film {n}", f"x{EVIL}"] for n in range(4))])
    return folder


ATTACK = ["attack", "model", "--data", "texts.csv", "--attack", "deepwordbug"]
COMMANDS: dict[str, tuple[list[str], int]] = {
    "ls": (["ls", "runs", "--folder", "runs"], 0),
    "check": (["check", "runs/done", "--min", "aua=1"], 0),
    "check: unknown": (["check", "runs/done:other", "--min", "aua=1"], 2),
    "report": (["report", "runs/done", "--out", "page.html"], 0),
    "run": (["run", "recipe.toml", "--out", "out"], 2),
    "run: unknown": (["run", f"none{EVIL}", "--debug"], 2),
    "export": (["export", "runs/done:other", "--out", "out"], 2),
    "predict": (["predict", "model", "--data", "texts.csv", "--out", "out.csv"], 0),
    "attack": ([*ATTACK, "--out", "attacked", "--label-map", f"x{EVIL}=1"], 0),
    "attack: labels": ([*ATTACK, "--out", "out"], 2),
    "usage": (["attack", "model", EVIL], 2),
}


@pytest.mark.parametrize("asked", COMMANDS)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_control_character_reaches_the_terminal(
    asked: str, as_json: bool, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(world)
    arguments, code = COMMANDS[asked]
    out, err = called(capsys, *arguments, *(["--json"] if as_json else []), code=code)
    assert not UNSEEN & {*out, *err}
    if as_json:
        told = json.loads(out)
        assert isinstance(told, dict)
        assert asked != "ls" or any(EVIL in run["title"] for run in told["runs"])  # data are as they are


def test_styles_stay(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm-256color"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1m" in called(capsys, "reproduce", "ER-T1", "--published")[0]
