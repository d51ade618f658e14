"""What the page shows of attacks: folders without a run, budgets, queries, folded texts, filters, notes beside numbers."""

from __future__ import annotations

import html
import json
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_report import parse

from fake_run import add_plan, make_run
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_json
from robust_tickets.report.figures import budget_curves, curves, query_histogram
from robust_tickets.report.html import MACROS, read_folders, write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.text_diff import folded, sentences


def lone(tmp_path: Path, *, title: str = "minilm", folder: str = "one", arm: int = 0, **more: object) -> Path:
    """An attack folder by itself."""
    run = make_run(tmp_path / f"run-{folder}")
    shutil.copytree(run / f"attack/{arm:08x}", tmp_path / folder)
    result = read_json(tmp_path / folder / "result.json")
    result |= {"model": {"identity": f"models/{title}", "digest": title, "labels": ["negative", "positive"]}}
    result |= {
        "task": {
            "split": "test",
            "digest": "34",
            "columns": ["text"],
            "labels": ["negative", "positive"],
            "by_class": [50, 70],
        },
        "schema": 2,
    }
    write_json(tmp_path / folder / "result.json", result | more)
    return tmp_path / folder


def page_of(tmp_path: Path, folders: object) -> str:
    text = write_report(tmp_path / "r.html", folders).read_text("utf-8")  # type: ignore[arg-type]
    parse(text)
    return html.unescape(text).replace("\u00a0", " ")


def test_a_lone_attack_has_a_page(tmp_path: Path) -> None:
    conditions = {
        "semantics": "textattack-0.3.11",
        "compat": None,
        "scoring": "log-odds",
        "temperature": 2.5,
        "subset": "balanced",
    }
    fit = {"calibration": {"fitted": True, "n": 400, "split": "train"}, "query_budget": 200}
    text = page_of(tmp_path, lone(tmp_path, **conditions, **fit))
    assert "<h1>PWWS on minilm</h1>" in text
    for words in (
        "this package's own rules, written from textattack-0.3.11", "scored by log-odds",
        "temperature 2.5, calibrated on 400 rows of train",
        "as even over the classes as the rows allow, seed 0", "at most 200 queries a text", "Accuracy against query budget",
        "How many queries it took",
        "The attacked texts", "true label <b>positive", "one/examples.jsonl",
    ):  # fmt: skip
        assert words in text, words
    assert "FLOPs" not in text  # no column without a number


def test_victims_attacked_alike_are_compared(tmp_path: Path) -> None:
    folders = [lone(tmp_path, title=name, folder=name, arm=k) for k, name in enumerate(("first", "second"))]
    (run,) = read_folders(folders)
    assert [arm.title for arm in run.arms] == ["first", "second"]
    assert list(run.attack_titles) == ["pwws"]
    assert "McNemar p" in page_of(tmp_path, folders)
    # the same victim under another budget is another attack on the same arm
    (run,) = read_folders([*folders, lone(tmp_path, title="first", folder="budget", query_budget=50)])
    assert len(run.arms) == 2
    assert list(run.attack_titles.values()) == ["PWWS (no query budget)", "PWWS (query budget 50)"]
    # and so is a copy of it in fewer bits
    (run,) = read_folders([folders[0], lone(tmp_path, title="first", folder="bits", precision="bfloat16")])
    assert (len(run.arms), list(run.attack_titles.values())) == (1, ["PWWS", "PWWS (precision bfloat16)"])
    # the same way twice: two victims that only share a name
    (run,) = read_folders([folders[0], lone(tmp_path, title="first", folder="again", arm=2)])
    assert [arm.title for arm in run.arms] == ["first (first)", "first (again)"]


def test_a_lone_attack_of_another_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match="schema 99"):
        write_report(tmp_path / "r.html", lone(tmp_path, schema=99))


def test_the_curve_counts_what_fell(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "r")
    path = folder / "attack/00000000/examples.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["fell_at"] = 10 if row["status"] == "success" else None
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_run(folder)
    first, second, _ = curves(run, "pwws")
    attacked = sum(row["status"] in ("success", "failed") for row in rows)
    held = sum(row["status"] == "failed" for row in rows)
    assert first.at(9)[0] == pytest.approx(100 * attacked / len(rows))
    assert (
        first.at(10)[0] == pytest.approx(100 * held / len(rows)) == pytest.approx(run.arms[0].attacks[0].aua, abs=1e-3)
    )
    # without the number, the queries at the end stand for it
    queries = sorted(e.queries for e in run.arms[1].attacks[0].texts if e.status == "success")
    assert second.falls == tuple(queries)
    assert len(budget_curves(run)) == 1
    assert "median" in query_histogram(run)
    add_plan(folder, query_budget=60)


@settings(max_examples=150)
@given(st.text("ab .!?\n。é", max_size=300), st.text("ab .!?\n。é", max_size=300))
def test_sentences_hold_both_texts(before: str, after: str) -> None:
    found = list(sentences(before, after))
    assert "".join(old for s in found for _, old, _ in s.parts) == before
    assert "".join(new for s in found for _, _, new in s.parts) == after
    assert all(old == new for s in found for same, old, new in s.parts if same)


def test_huge_texts_stay_small_and_quick() -> None:
    words = " ".join(f"w{i % 97}" for i in range(10_000))
    start = time.monotonic()
    shown = MACROS.quote(folded(words, words.replace("w5 ", "two words ", 40)))
    assert time.monotonic() - start < 10
    assert len(shown) < 200_000
    assert len(MACROS.quote(folded("x" * 2_000_000, "y" * 2_000_000))) < 20_000


def test_the_page_is_capped_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robust_tickets.report.html.MOST", 40)
    text = page_of(tmp_path, make_run(tmp_path / "r"))
    assert text.count('<article class="case"') == 40
    monkeypatch.setattr("robust_tickets.report.html.SIZE", 10_000)
    assert page_of(tmp_path, tmp_path / "r").count('<article class="case"') < 20
