"""Rows that a run leaves out are listed: in the log, in its folder and on its page."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from robust_tickets.cli.main import main
from robust_tickets.data import diagnostics
from robust_tickets.data.diagnostics import LISTED, SHOWN, announce, write_bad_rows
from robust_tickets.data.task import BadRow, Task
from robust_tickets.files import read_json, write_json
from robust_tickets.report.html import write_report
from robust_tickets.stages import BAD_ROWS

RECIPE = '[train]\nepochs = 1\nmax_steps = 1\nevaluate = "never"\n[arms.whole]\n'
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, out: Path, data: Path, model: Path) -> str:
    recipe = out.with_suffix(".toml")
    recipe.write_text(f'title = "One"\n{RECIPE}')
    with pytest.raises(SystemExit) as end:
        main(
            [
                "run",
                str(recipe),
                "--set",
                f"task={data}",
                "--set",
                f"model={model}",
                "--set",
                "max_length=32",
                "--out",
                str(out),
            ]
        )
    said = capsys.readouterr()
    assert end.value.code == 0, said.err
    return said.err + said.out


def test_a_run_lists_them(capsys: Capture, three_classes: Path, model_folder: Path, tmp_path: Path) -> None:
    whole = three_classes.read_text()
    with open(three_classes, "a", encoding="utf-8") as stream:
        stream.write('"",good\nthe film 7 was never labelled,\n')
    said = run(capsys, tmp_path / "r", three_classes, model_folder)
    listed = list(csv.reader((tmp_path / "r" / BAD_ROWS).read_text("utf-8").splitlines()))
    assert listed[0] == ["file", "row", "reason"]
    assert [(row, reason) for _, row, reason in listed[1:]] == [("302", "empty text"), ("303", "missing label")]
    assert f"data: all bad rows are listed in {tmp_path / 'r' / BAD_ROWS}" in said
    assert f"first {three_classes}:302" in said
    assert [f"data: left out {three_classes}:{line}" in said for line in (302, 303)] == [False, True], (
        "the first is told already"
    )
    assert "bad_rows.csv in the run folder lists them" in " ".join(said.split())
    page = (tmp_path / "r/report.html").read_text("utf-8")
    assert "Rows that were left out" in page
    assert "reviews.csv:303: missing label" in page
    assert BAD_ROWS in json.loads((tmp_path / "r/manifest.json").read_text())["files"]
    three_classes.write_text(whole)
    assert "bad_rows" not in run(capsys, tmp_path / "r", three_classes, model_folder)
    assert not (tmp_path / "r" / BAD_ROWS).exists(), "the file is mended"
    assert "Rows that were left out" not in (tmp_path / "r/report.html").read_text("utf-8")


def test_a_flood_is_cut(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "MOST", 150)
    bad = tuple(BadRow("a.csv", i, "empty text") for i in range(1, 201))
    task = Task("t", ("a", "b"), ("text",), {}, skipped=bad)
    write_bad_rows(tmp_path, [task, task])
    assert len((tmp_path / BAD_ROWS).read_text("utf-8").splitlines()) == 151
    assert "the first 150 of 200 bad rows are listed in" in capsys.readouterr().err
    assert len(diagnostics.shown(bad)) == SHOWN
    (odd := tmp_path / "odd").mkdir()
    write_bad_rows(odd, [Task("t", ("a",), ("text",), {}, skipped=(BadRow("\udc80.csv", 1, "empty text"),))])
    assert "?.csv,1" in (odd / BAD_ROWS).read_text("utf-8")
    announce(task)
    said = capsys.readouterr().err
    assert said.count("data: left out") == LISTED - 1, "the first is told in a note"
    assert f"and {200 - LISTED} more bad rows" in said


def test_a_file_of_the_user_s_is_left_alone(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / BAD_ROWS).write_text("mine\n")
    task = Task("t", ("a", "b"), ("text",), {}, skipped=(BadRow("a.csv", 1, "empty text"),))
    write_bad_rows(tmp_path, [task])
    assert "is there and not of a run" in capsys.readouterr().err
    write_bad_rows(tmp_path, [])
    assert (tmp_path / BAD_ROWS).read_text() == "mine\n"


def test_the_page_repeats_the_warnings_of_the_data(tmp_path: Path) -> None:
    from fake_run import make_run

    folder = make_run(tmp_path / "r", n=4)
    about = read_json(folder / "arms.json")
    about["task"] |= {"warnings": ["test has <few> rows", 3], "bad_rows": ["a.csv:1: <b>"], "skipped_rows": 200}
    write_json(folder / "arms.json", about)
    page = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    assert "The data: test has &lt;few&gt; rows." in page
    assert "The first 1 of 200; bad_rows.csv in the run folder lists more." in page
    assert "a.csv:1: &lt;b&gt;" in page
