"""Odd sources: bad rows, headers and columns, each with its file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from refusing import refused
from robust_tickets.data import arrow_tables as table
from robust_tickets.data.load import load_task
from robust_tickets.deploy.predict import open_texts
from tables import ROWS, write_csv


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


def test_a_json_array_is_refused(tmp_path: Path) -> None:
    rows = [{"text": f"t {i}", "label": i % 2} for i in range(3000)]
    path = tmp_path / "a.jsonl"
    for text in (json.dumps(rows), json.dumps(rows, indent=1), json.dumps(rows[0], indent=2)):
        path.write_text(text)
        with refused("data.no_rows"):
            load_task(path)
    path.write_text("\n".join(["[1, 2]", *map(json.dumps, rows)]))  # a stray array is one bad row
    assert [b.row for b in load_task(path).skipped] == [1]


def test_headers_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label,label\n" + "".join(f"t {i},a,b\n" for i in range(20)))
    with refused("data.unclear_column"):
        load_task(path)
    with refused("data.no_column"):
        load_task(path, text="text", label="label")
    csv_of(tmp_path / "b.csv", "row")
    for ask in (load_task, open_texts):
        with refused("data.columns"):
            ask(tmp_path / "b.csv", text=("text", "text"))
    path.write_text("text|label\n" + "".join(f"a film of number {i}|{'ab'[i % 2]}\n" for i in range(40)))
    for ask in (load_task, open_texts):  # texts would be taken with their labels inside
        with refused("data.unclear_column"):
            ask(path)
    assert open_texts(path, text="text|label")[1] == ("text|label",)


def test_one_class_and_too_many_are_refused(tmp_path: Path) -> None:
    with refused("labels.too_few"):
        load_task(write_csv(tmp_path / "a.csv", [(t, "same") for t, _ in ROWS]))
    rows = [(f"t {i}", f"label {i}") for i in range(table.MOST_LABELS + 5)]
    with refused("data.too_many_labels"):
        load_task(write_csv(tmp_path / "b.csv", rows), text="text", label="label")


def test_each_kind_of_bad_csv_row_is_listed_with_its_line(tmp_path: Path) -> None:
    good = b"".join(f"sentence {i},{i % 2}\n".encode() for i in range(2000))
    bad = b"".join(
        [
            b'"two\nlines",1\n',  # good: lines 2002 and 2003
            b"no label,\n",  # 2004
            b"too,many,1\n",  # 2005
            b"broken \xff\xfe bytes,1\n",  # 2006
            b"  ,1\n",  # 2007
            b"nul \x00 byte,1\n",  # 2008
            b'"quoted"rest,1\n',  # 2009
            b"alone\n",  # 2010
            b"\n",  # an empty line is no row
            b"last good one,0\n",
        ]
    )
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + good + bad)
    for _ in range(2):  # the second time from the cache
        task = load_task(path)
        assert [(b.row, b.file) for b in task.skipped] == [(n, str(path)) for n in range(2004, 2011)]
        reasons = [b.reason for b in task.skipped]
        expected = ["missing label", "got 3", "broken UTF-8", "empty text", "NUL", "broken quoting", "got 1"]
        assert all(word in reason for word, reason in zip(expected, reasons, strict=True)), reasons
        assert sum(map(len, task.splits.values())) == 2002
        assert ("two\nlines",) in {e.texts for s in task.splits.values() for e in s}
        assert any("skipped 7 bad of 2009 rows" in note for note in task.notes)
    with refused("data.bad_rows") as caught:
        load_task(path, strict=True)
    assert caught.value.exit_code == 2


def test_each_kind_of_bad_jsonl_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    good = b"".join(json.dumps({"text": f"t {i}", "label": i % 2}).encode() + b"\n" for i in range(1000))
    bad = [
        b"{not json",
        b"[1, 2]",
        b'{"text": "x"}',
        b'{"text": 3, "label": 1}',
        b'{"text": "\xff", "label": 1}',
        b'{"text": "\\ud800", "label": 1}',
    ]
    bad.append(b'{"text": "deep", "label": ' + b"[" * 100_000 + b"}")
    path.write_bytes(good + b"\n".join(bad) + b"\n")
    task = load_task(path)
    assert [b.row for b in task.skipped] == list(range(1001, 1008))
    assert [b.reason.split(",")[0] for b in task.skipped] == [
        "not valid JSON",
        "not a JSON object",
        "missing label",
        "the text is a int",
        "broken UTF-8",
        "broken UTF-8",
        "not valid JSON",
    ]


def test_broken_utf8_in_parquet_costs_one_row(tmp_path: Path) -> None:
    raw = [b"fine %d" % i for i in range(300)]
    raw[7] = b"broken \xff"
    column = pa.array(raw, pa.binary())
    column = pa.Array.from_buffers(pa.string(), len(column), column.buffers())
    pq.write_table(pa.table({"text": column, "label": [i % 2 for i in range(300)]}), tmp_path / "a.parquet")
    task = load_task(tmp_path / "a.parquet")
    assert [(b.row, b.reason) for b in task.skipped] == [(8, "broken UTF-8")]


def test_more_than_one_percent_stops(tmp_path: Path) -> None:
    at_limit = [*ROWS[:198], ("", "good"), ("", "good")]
    assert len(load_task(write_csv(tmp_path / "a.csv", at_limit)).skipped) == 2
    with refused("data.bad_rows"):
        load_task(write_csv(tmp_path / "b.csv", [*ROWS[:197], *[("", "good")] * 3]))


def test_an_open_quote_loses_no_row_silently(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS)
    text = path.read_text().replace("a fine sentence number 150,", '"a fine sentence number 150,')
    path.write_text(text)
    with refused("data.bad_rows"):
        load_task(path)


def test_very_long_fields_are_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    task = load_task(write_csv(tmp_path / "a.csv", [*ROWS, (long, "good")]))
    assert max(int(s.lengths.max()) for s in task.splits.values()) == len(long)


def test_label_unknown_in_train_is_a_bad_row(tmp_path: Path) -> None:
    train = write_csv(tmp_path / "train.csv", ROWS)
    others = [(f"other {t}", y) for t, y in ROWS]
    write_csv(tmp_path / "held.csv", [*others[:50], ("odd one", "ugly"), *others[50:], ("", "good")])
    task = load_task(train, test=tmp_path / "held.csv")
    assert [(b.row, b.reason) for b in task.skipped] == [(52, "unknown label 'ugly'"), (203, "empty text")]
    assert len(task.test) == 200
    with refused("data.bad_rows"):
        load_task(train, test=tmp_path / "held.csv", strict=True)


def test_rows_to_attack_may_hold_any_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\n" + b"good,1\nbad,0\n" * 90 + b",1\nnul \x00 byte,0\nbroken \xff byte,1\n")
    with refused("data.bad_rows"):
        load_task(path, splits={"test": "all"})
    task = load_task(path, splits={"test": "all"}, any_text=True)
    assert [example.texts[0] for example in task.test][-3:] == ["", "nul \x00 byte", "broken \ufffd byte"]
    assert any("1 of 183 rows hold broken UTF-8" in warning for warning in task.warnings)


@pytest.mark.parametrize(
    ("header", "row", "texts", "label"),
    [
        (("review", "stars"), ("r {}", "1"), ("review",), "stars"),
        (("stars", "whatever"), ("1", "r {}"), ("whatever",), "stars"),
        (("foo", "text"), ("x", "r {}"), ("text",), "foo"),
        (("idx", "question", "sentence", "label"), ("{}", "q {}", "s {}", "x"), ("question", "sentence"), "label"),
        (("text", "label", "source"), ("r {}", "x", "web"), ("text",), "label"),
        (("", "sentence", "label"), ("{}", "r {}", "x"), ("sentence",), "label"),
    ],
)
def test_columns_with_one_reading_are_inferred(
    tmp_path: Path, header: tuple[str, ...], row: tuple[str, ...], texts: tuple[str, ...], label: str
) -> None:
    rows = [
        tuple((v + str(i % 2) if header[j] == label else v.format(i)) for j, v in enumerate(row)) for i in range(100)
    ]
    task = load_task(write_csv(tmp_path / "a.csv", rows, header))
    assert task.columns == texts
    assert len(task.labels) == 2
    assert any(repr(label) in note for note in task.notes)


@pytest.mark.parametrize(
    "header",
    [("label", "target", "text"), ("title", "notes", "label"), ("review", "comment", "label"), ("left", "right")],
)
def test_several_readings_are_asked_about(tmp_path: Path, header: tuple[str, ...]) -> None:
    rows = [tuple(f"{name} {i}" for name in header) for i in range(100)]
    with refused("data.unclear_column"):
        load_task(write_csv(tmp_path / "a.csv", rows, header))


def test_missing_header_and_wrong_names(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS[1:], ROWS[0])
    with refused("data.unclear_column"):
        load_task(path)
    path = write_csv(tmp_path / "b.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("first row", "0"))
    with refused("data.unclear_column"):
        load_task(path)
    path = write_csv(
        tmp_path / "d.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("text", "7")
    )  # a number names no column
    with refused("data.unclear_column"):
        load_task(path)
    with refused("data.no_column"):
        load_task(write_csv(tmp_path / "c.csv", ROWS), text="txt")
    with refused("data.columns"):
        load_task(tmp_path / "c.csv", text="text", label="text")


def test_unreadable_sources(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("text,label\n")
    (tmp_path / "wide.csv").write_text("text,label\nx,1\n", encoding="utf-16")
    (tmp_path / "fake.parquet").write_text("text,label\n")
    (tmp_path / "a.xlsx").write_text("")
    (tmp_path / "nothing").mkdir()
    for name, code in {
        "empty.csv": "data.no_rows",
        "header.csv": "data.no_rows",
        "wide.csv": "data.encoding",
        "fake.parquet": "data.unreadable",
        "a.xlsx": "data.format",
        "absent.csv": "data.not_found",
        "nothing": "data.no_files",
    }.items():
        with refused(code):
            load_task(tmp_path / name)
    with refused("data.not_found"):
        load_task("sst3")
    with refused("data.not_registered"):
        load_task("sst3", data=tmp_path)
