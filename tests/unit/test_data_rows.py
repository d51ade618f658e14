"""Bad rows and odd columns: each is named with its file and line, none stops a run below one in a hundred."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calling import tickets
from robust_tickets.data import arrow_tables as table
from robust_tickets.data.load import load_task
from robust_tickets.errors import TicketsError
from tables import ROWS, write_csv
from tiny import tiny_classifier


def test_one_class_and_too_many_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match="only one class"):
        load_task(write_csv(tmp_path / "a.csv", [(t, "same") for t, _ in ROWS]))
    rows = [(f"t {i}", f"label {i}") for i in range(table.MOST_LABELS + 5)]
    with pytest.raises(TicketsError, match="more than 1000 different values"):
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
    with pytest.raises(TicketsError, match=r"7 of 2009 rows are bad \(strict allows none\)") as caught:
        load_task(path, strict=True)
    assert caught.value.exit_code == 2
    assert f"{path}:2004: missing label" in str(caught.value)
    assert "and 2 more" in str(caught.value)


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


@pytest.mark.parametrize("verb", ["predict", "attack"])
def test_a_damaged_page_of_parquet_is_the_files_fault(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny_classifier(labels=("0", "1")).save_pretrained(tmp_path / "model")
    data = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": [f"film {i}" for i in range(3000)], "label": [i % 2 for i in range(3000)]}),
        data,
        row_group_size=999,
    )
    column = pq.read_metadata(data).row_group(2).column(0)
    whole, start = data.read_bytes(), column.dictionary_page_offset
    data.write_bytes(whole[:start] + b"\xff" * 99 + whole[start + 99 :])
    flags = {
        "predict": ["--out", str(tmp_path / "o.csv")],
        "attack": ["--attack", "pwws", "--out", str(tmp_path / "o")],
    }
    error = tickets(capsys, verb, str(tmp_path / "model"), "--data", str(data), *flags[verb], code=2)["error"]
    assert str(data) in error["message"]
    assert len(error["message"].splitlines()) == 1


def test_more_than_one_percent_stops(tmp_path: Path) -> None:
    at_limit = [*ROWS[:198], ("", "good"), ("", "good")]
    assert len(load_task(write_csv(tmp_path / "a.csv", at_limit)).skipped) == 2
    with pytest.raises(TicketsError, match=r"3 of 200 rows are bad \(at most 1% are skipped\)"):
        load_task(write_csv(tmp_path / "b.csv", [*ROWS[:197], *[("", "good")] * 3]))


def test_an_open_quote_loses_no_row_silently(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS)
    text = path.read_text().replace("a fine sentence number 150,", '"a fine sentence number 150,')
    path.write_text(text)
    with pytest.raises(TicketsError, match="50 of 200 rows are bad"):
        load_task(path)


def test_very_long_fields_are_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    task = load_task(write_csv(tmp_path / "a.csv", [*ROWS, (long, "good")]))
    assert max(int(s.lengths.max()) for s in task.splits.values()) == len(long)


def test_label_unknown_in_train_is_a_bad_row(tmp_path: Path) -> None:
    train = write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "held.csv", [*[(f"other {t}", y) for t, y in ROWS], ("odd one", "ugly")])
    task = load_task(train, test=tmp_path / "held.csv")
    assert [(b.row, b.reason) for b in task.skipped] == [(202, "unknown label 'ugly'")]
    assert len(task.test) == 200
    with pytest.raises(TicketsError, match="unknown label 'ugly'"):
        load_task(train, test=tmp_path / "held.csv", strict=True)


@pytest.mark.parametrize(
    ("header", "row", "texts", "label"),
    [
        (("review", "stars"), ("r {}", "1"), ("review",), "stars"),
        (("stars", "whatever"), ("1", "r {}"), ("whatever",), "stars"),
        (("foo", "bar"), ("r {}", "x"), ("foo",), "bar"),
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
    ("header", "question"),
    [
        (("label", "target", "text"), "which column holds the label"),
        (("title", "notes", "label"), "which column holds the text"),
        (("review", "comment", "label"), "which column holds the text"),
        (("left", "right"), "which column holds the label"),
    ],
)
def test_several_readings_are_asked_about(tmp_path: Path, header: tuple[str, ...], question: str) -> None:
    rows = [tuple(f"{name} {i}" for name in header) for i in range(100)]
    with pytest.raises(TicketsError, match=question) as caught:
        load_task(write_csv(tmp_path / "a.csv", rows, header))
    assert all(repr(name) in str(caught.value) for name in header)
    assert "--set text=" in caught.value.hint


def test_missing_header_and_wrong_names(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS[1:], ROWS[0])
    with pytest.raises(TicketsError, match="which column holds the label"):
        load_task(path)
    path = write_csv(tmp_path / "b.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("first row", "0"))
    with pytest.raises(TicketsError, match="which column holds the label"):
        load_task(path)
    path = write_csv(
        tmp_path / "d.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("text", "7")
    )  # a number names no column
    with pytest.raises(TicketsError, match="which column holds the label"):
        load_task(path)
    with pytest.raises(TicketsError, match="has no column 'txt'; it has 'text'"):
        load_task(write_csv(tmp_path / "c.csv", ROWS), text="txt")
    with pytest.raises(TicketsError, match="both text and label"):
        load_task(tmp_path / "c.csv", text="text", label="text")


def test_unreadable_sources(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("text,label\n")
    (tmp_path / "wide.csv").write_text("text,label\nx,1\n", encoding="utf-16")
    (tmp_path / "fake.parquet").write_text("text,label\n")
    (tmp_path / "a.xlsx").write_text("")
    (tmp_path / "nothing").mkdir()
    for name, message in {
        "empty.csv": "has no rows",
        "header.csv": "no labelled row, so no class",
        "wide.csv": "UTF-16",
        "fake.parquet": "not a readable parquet",
        "a.xlsx": "files end in",
        "absent.csv": "no such file",
        "nothing": "holds no data file",
    }.items():
        with pytest.raises(TicketsError, match=message):
            load_task(tmp_path / name)
    with pytest.raises(TicketsError, match="is no registered task") as caught:
        load_task("sst3")
    assert "sst2" in caught.value.hint
    with pytest.raises(TicketsError, match="data= gives files to a registered task"):
        load_task("sst3", data=tmp_path)


def test_broken_texts_that_are_attacked_as_they_are_are_told(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes(
        b"text,label\n" + b"".join(f"caf\xe9 {i},{'ab'[i % 2]}\n".encode("latin-1") for i in range(8)) + b"plain,a\n"
    )
    for _ in range(2):  # read, then found in the cache
        task = load_task(path, splits={"test": "all"}, any_text=True)
        assert task.test[0].texts == ("caf\ufffd 0",)
        told = "latin.csv: 8 of 9 rows hold broken UTF-8, which the classifier reads as U+FFFD; latin.csv is not UTF-8"
        assert any(said.startswith(told) for said in task.warnings)
    path.write_text("text,label\n" + "".join(f"café {i},{'ab'[i % 2]}\n" for i in range(8)), encoding="utf-8")
    assert not any("UTF-8" in said for said in load_task(path, splits={"test": "all"}, any_text=True).warnings)


def test_half_a_pair_in_json_is_not_called_broken_utf8(tmp_path: Path) -> None:
    """The file is ASCII: to convert it from Latin-1 would mend nothing."""
    path = tmp_path / "cut.jsonl"
    texts = [f"film {i}" + "\ud83d" * (i == 3) for i in range(8)]
    path.write_text("".join(json.dumps({"text": text, "label": "ab"[i % 2]}) + "\n" for i, text in enumerate(texts)))
    (told,) = [said for said in load_task(path, splits={"test": "all"}, any_text=True).warnings if "U+FFFD" in said]
    assert told == "cut.jsonl: 1 of 8 rows hold half of a surrogate pair, which the classifier reads as U+FFFD"
