"""What a run folder holds when some arms are walked, and what may not be written over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robust_tickets.cli.main import main

RECIPE = """
title = "Matched"
[search]
name = "omp"
sparsity = 0.3
[train]
epochs = 1
max_steps = 1
evaluate = "never"
[arms.found]
search = true
[arms.drawn]
ticket = "found"
draw = {sparsity = 0.6}
[arms.matched]
search = {name = "random", match = "matrix"}
like = "drawn"
[arms.whole]
[arms.rounds]
search = {name = "imp", sparsity = 0.1, epochs = 1, evaluation_rows = 5}
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    said = capsys.readouterr()
    assert end.value.code == code, said.err
    return said.out, said.err


def test_the_manifest_lists_every_file_of_a_run_also_of_arms_that_are_not_walked(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "matched.toml").write_text(RECIPE)
    out = tmp_path / "r"
    common = [
        "run", str(tmp_path / "matched.toml"), "--set", f"task={three_classes}", "--set", f"model={model_folder}", "--set", "max_rows=24",
        "--set", "max_length=32", "--out", str(out),
    ]  # fmt: skip
    shown, said = run(capsys, *common, "--set", "arms=matched,rounds")
    assert "done already" not in said
    files = json.loads((out / "manifest.json").read_text())["files"]
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there - files.keys() == {"manifest.json", ".lock"}
    assert len([name for name in files if name.startswith("search/") and name.endswith("stage.json")]) == 3, (
        "the one it matches too"
    )
    assert "Where the tickets come from" in shown
    assert "with the counts of drawn" in shown
    assert "No speed comes from matched and rounds" in shown
    _, again = run(capsys, *common, "--set", "arms=matched,rounds")
    assert "done already" in again
    for lost in (*out.glob("search/*/ticket.safetensors"), *out.glob("ticket/*/ticket.json"), out / "manifest.json"):
        lost.unlink()
    _, mended = run(capsys, *common, "--set", "arms=matched,rounds")
    assert "estimate" in mended or "run folder" in mended
    assert json.loads((out / "manifest.json").read_text())["files"].keys() == files.keys(), (
        "what was lost is made again"
    )
    shown, other = run(capsys, *common, "--set", "arms=drawn", "--json")
    assert "done already" not in other, "the same folder, another walk"
    assert "estimate" in other or "run folder" in other
    told = json.loads(shown)
    assert told["arms"][0]["story"] == "the ticket of found, drawn with sparsity 0.6"
    assert told["arms"][0]["branch"] == {"of": "found", "draw": {"sparsity": 0.6}}
    assert any("No speed" in words for words in told["warnings"])


def test_a_draw_is_not_written_over_a_search(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    search = [
        "search",
        "omp",
        "--model",
        str(model_folder),
        "--task",
        str(three_classes),
        "--max-length",
        "32",
        "--out",
        str(tmp_path / "t"),
    ]
    run(capsys, *search)
    before = (tmp_path / "t" / "ticket.safetensors").read_bytes()
    _, said = run(capsys, "draw", str(tmp_path / "t"), "--sparsity", "0.7", "--out", str(tmp_path / "t"), code=2)
    assert "finished work" in said
    assert (tmp_path / "t" / "ticket.safetensors").read_bytes() == before
    run(capsys, "draw", str(tmp_path / "t"), "--sparsity", "0.7", "--out", str(tmp_path / "d"))
    _, said = run(capsys, "draw", str(tmp_path / "t"), "--out", str(three_classes), code=2)
    assert "is a file" in said
    _, said = run(capsys, "search", "omp", *search[2:-1], str(tmp_path / "x"), "--like", str(tmp_path / "d"), code=2)
    assert "matches no other ticket" in said


def test_which_arm_searches_elsewhere_is_part_of_the_runs_name(three_classes: Path, model_folder: Path) -> None:
    from robust_tickets.experiment.recipe import resolve
    from robust_tickets.experiment.runner import prepare

    other = three_classes.with_name("other.csv")
    other.write_text("\n".join(three_classes.read_text().splitlines()[:200]) + "\n")

    def folder(*elsewhere: str) -> Path:
        arms = {
            name: {"searched_on": {"task": str(other)}} if name in elsewhere else {"search": True}
            for name in ("a", "b")
        }
        top = {"title": "Mine", "task": str(three_classes), "model": str(model_folder), "max_length": 32, "arms": arms}
        return prepare(resolve("mine", {**top, "search": {"name": "earlyrobust"}})).run.folder

    assert len({folder("a"), folder("b"), folder("a", "b"), folder()}) == 4
    assert folder("a") == folder("a")
