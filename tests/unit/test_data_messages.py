"""What is said about odd sources: warnings on leaks and small splits, and errors that name what is wrong."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from refusing import refused
from robust_tickets.attack.examples import attack_set
from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split
from robust_tickets.deploy.predict import open_texts
from robust_tickets.errors import TicketsError


def csv_of(path: Path, word: str, rows: int = 200, classes: int = 2) -> Path:
    path.write_text("text,label\n" + "".join(f"{word} {i},{'abc'[i % classes]}\n" for i in range(rows)))
    return path


def test_validation_and_test_must_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = csv_of(tmp_path / "a.csv", "train"), csv_of(tmp_path / "t.csv", "test")
    turned = tmp_path / "turned.csv"
    head, *lines = test.read_text().splitlines()
    turned.write_text("\n".join([head, *reversed(lines)]))
    for same in (test, turned):
        with refused("data.same_texts") as caught:
            load_task(train, test=test, validation=same)
        assert caught.value.exit_code == 2
    turned.write_text("\n".join([head, *lines[:40], *(f"new {line}" for line in lines)]))
    task = load_task(train, test=test, validation=turned)
    assert [w for w in task.warnings if "40 of 200 rows of test have a text that is also in validation" in w]
    assert not load_task(train, test=test).warnings
    assert capsys.readouterr() == ("", "")


def test_nonsense_numbers_are_refused(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", "row")
    for number in (0, -5):
        with pytest.raises(TicketsError, match=f"max_rows must be at least 1, got {number}"):
            load_task(path, max_rows=number)
    split = Split.of(["a", "b"], [0, 1])
    assert attack_set(split, 0, 0, 2).tolist() == [0, 1]
    with pytest.raises(TicketsError, match="cannot be -1"):
        attack_set(split, -1, 0, 2)


def test_leading_blank_lines_are_skipped(tmp_path: Path) -> None:
    rows = csv_of(tmp_path / "plain.csv", "row").read_text()
    plain = load_task(tmp_path / "plain.csv")
    (tmp_path / "b.csv").write_text("\n  \n\n" + rows.replace(",", ";"))
    (tmp_path / "c.tsv").write_text("\n\n" + rows.replace(",", "\t"))
    for name in ("b.csv", "c.tsv"):
        assert load_task(tmp_path / name).digest == plain.digest
    (tmp_path / "bad.csv").write_text("\n\n" + rows + ",a\n")
    assert [b.row for b in load_task(tmp_path / "bad.csv").skipped] == [204]
    (tmp_path / "bad.tsv").write_text("\n\n" + rows.replace(",", "\t") + "\ta\n")
    assert [b.row for b in load_task(tmp_path / "bad.tsv").skipped] == [204]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_is_named(tmp_path: Path, indent: int | None) -> None:
    rows = [{"text": f"t {i}", "label": i % 2} for i in range(3000)]
    path = tmp_path / "a.jsonl"
    for text in (json.dumps(rows, indent=indent), "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n"):
        path.write_text(text)
        with refused("data.format"):
            load_task(path)
    path.write_text("\n".join(["[1, 2]", *map(json.dumps, rows)]))  # a stray array is one bad row
    assert [b.row for b in load_task(path).skipped] == [1]
    path.write_text(json.dumps(rows[0], indent=2))
    with refused("data.format"):
        load_task(path)


def test_headers_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label,label\n" + "".join(f"t {i},a,b\n" for i in range(20)))
    with refused("data.unclear_column"):
        load_task(path)
    with refused("data.no_column"):
        load_task(path, text="text", label="label")
    rows = csv_of(tmp_path / "b.csv", "row" * 30).read_text()
    (tmp_path / "cr.tsv").write_bytes(rows.replace(",", "\t").replace("\n", "\r").encode())
    with refused("data.format"):
        load_task(tmp_path / "cr.tsv")
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"column {i} {'x' * 60}" for i in range(500)) + "\n")
    for options in ({}, {"text": "zzz"}):
        with pytest.raises(TicketsError):
            load_task(wide, **options)
    for ask in (
        lambda: load_task(tmp_path / "b.csv", text=("text", "text")),
        lambda: open_texts(tmp_path / "b.csv", ("text", "text")),
    ):
        with pytest.raises(TicketsError, match="'text' twice"):
            ask()


def test_fields_that_a_bar_separates_are_not_inferred(tmp_path: Path) -> None:
    """They are one column; texts alone would be taken with their labels inside."""
    for name in ("bars.csv", "bars.tsv"):
        path = tmp_path / name
        path.write_text("text|label\n" + "".join(f"a film of number {i}|{'ab'[i % 2]}\n" for i in range(40)))
        for read in (load_task, partial(load_task, text="text", label="label"), open_texts):
            with pytest.raises(TicketsError, match=r"'text\|label'"):
                read(str(path))
        assert open_texts(path, text="text|label")[1] == ("text|label",)
