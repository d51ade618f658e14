"""Label values to classes: equal numbers, missing values, doubtful names, and files whose labels must fit a model's."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.cli.options import mapped
from robust_tickets.data.load import load_task
from robust_tickets.data.schema import canonical, label_text, match
from robust_tickets.errors import TicketsError

WHOLE = {"test": "all"}


def labelled(path: Path, values: list[str], rows: int = 200) -> Path:
    """A csv whose labels go round ``values``."""
    with open(path, "w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows([("text", "label"), *((f"text {i}", values[i % len(values)]) for i in range(rows))])
    return path


@pytest.mark.parametrize(
    ("value", "text"),
    [("1.0", "1"), ("01", "1"), ("+1", "1"), ("1.", "1"), ("1e0", "1"), (" 1 ", "1"), (1.0, "1"), (1, "1"), ("-0", "0"), (".50", "0.5"),
     (0.5, "0.5"), ("1e999", "1e999"), ("1_0", "1_0"), ("١", "١"), ("inf", "inf"),
     ("9" * 30, "9" * 30), ("v1.0", "v1.0"), (True, "true")],
)  # fmt: skip
def test_equal_numbers_have_one_spelling(value: object, text: str) -> None:
    assert label_text(value) == (text, "")


@given(number=st.one_of(st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False)))
def test_spelling_keeps_the_number(number: float) -> None:
    assert float(canonical(str(number))) == number
    assert canonical(canonical(str(number))) == canonical(str(number))
    assert canonical(str(float(number))) == canonical(repr(float(number) + 0.0))


def test_one_and_one_point_zero_are_one_class(tmp_path: Path) -> None:
    task = load_task(labelled(tmp_path / "a.csv", ["1", "1.0", "0", "0.0"]))
    assert task.labels == ("0", "1")
    assert sum(int((s.labels == 1).sum()) for s in task.splits.values()) == 100
    assert load_task(tmp_path / "a.csv", labels=("0.0", "1.0")).labels == (
        "0.0",
        "1.0",
    )  # a model trained on such names


def test_no_value_is_a_missing_label(tmp_path: Path) -> None:
    values = [float(i % 2) for i in range(400)]
    values[3] = float("nan")
    column = pa.array([*values[:-1], None])
    pq.write_table(pa.table({"text": [f"t {i}" for i in range(400)], "label": column}), tmp_path / "a.parquet")
    task = load_task(tmp_path / "a.parquet")
    assert task.labels == ("0", "1")
    assert [(b.row, b.reason) for b in task.skipped] == [(4, "missing label"), (400, "missing label")]


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        (["negative", "positive"], [0, 1]),
        (["POSITIVE", "Negative"], [1, 0]),
        (["1", "0"], [1, 0]),
        (["1.0", "0.0"], [1, 0]),
        (["1"], [1]),
        (["positive"], [1]),
    ],
)
def test_a_file_is_matched_to_the_labels_of_a_model(tmp_path: Path, values: list[str], ids: list[int]) -> None:
    task = load_task(labelled(tmp_path / "a.csv", values), labels=("negative", "positive"), splits=WHOLE)
    assert task.labels == ("negative", "positive")
    assert task.test.labels.tolist() == [ids[i % len(ids)] for i in range(200)]
    assert any("no row of the class(es) negative" in w for w in task.warnings) == (len(ids) == 1)


@pytest.mark.parametrize("values", [["up", "down"], ["1", "2"], ["negative", "neutral"], ["-1", "0"]])
def test_labels_that_do_not_fit_are_listed_on_both_sides(tmp_path: Path, values: list[str]) -> None:
    with pytest.raises(TicketsError) as caught:
        load_task(labelled(tmp_path / "a.csv", values), labels=("negative", "positive"), splits=WHOLE)
    assert caught.value.exit_code == 2


def test_case_matters_where_two_classes_differ_in_nothing_else() -> None:
    assert match(["pos", "Pos", "POS"], ["Pos", "pos"], "here").ids == {"pos": 1, "Pos": 0}


def test_ids_of_a_declared_task_mean_its_own_names(tmp_path: Path) -> None:
    rows = labelled(tmp_path / "validation.csv", ["0", "1"])
    rows.write_text(rows.read_text().replace("text,label", "sentence,label"))
    turned = load_task("sst2", data=tmp_path, labels=("Positive", "Negative"))  # a model with the other order
    assert turned.test.labels[:2].tolist() == [1, 0]
    unnamed = load_task("sst2", data=tmp_path, labels=("LABEL_0", "LABEL_1"))
    assert unnamed.test.labels[:2].tolist() == [0, 1]
    assert any("classes matched by position: negative, positive are LABEL_0, LABEL_1" in n for n in unnamed.notes)
    for labels in (("negative", "neutral"), ("NEG", "POS"), ("a", "b", "c")):
        with refused("labels.other"):
            load_task("sst2", data=tmp_path, labels=labels)


def test_ids_in_test_for_names_in_train_are_a_guess_that_is_said(tmp_path: Path) -> None:
    train = labelled(tmp_path / "a.csv", ["no", "yes"])
    test = labelled(tmp_path / "b.csv", ["0", "1"])
    test.write_text(test.read_text().replace("text ", "other "))
    assert "test: the ids 0, 1 read as no, yes" in load_task(train, test=test).warnings
    assert "test: the ids 0, 1 read as no, yes" in load_task(train, test=test, labels=("no", "yes")).notes


def test_a_number_in_a_label_map_is_the_class_called_so_where_classes_are_called_by_numbers() -> None:
    stars, data = ("1", "2", "3"), ("bad", "fine")
    assert match(data, stars, "x.csv", label_map={"bad": 1, "fine": 3}).ids == {
        "bad": 0,
        "fine": 2,
    }  # not the classes beside them
    assert match(data, ("1", "0"), "x.csv", label_map={"bad": 1, "fine": 0}).ids == {"bad": 0, "fine": 1}
    with refused("labels.map") as caught:
        match(
            data, stars, "x.csv", label_map={"bad": 0, "fine": 1}
        )  # one as a position and one as a name would both be the class 1
    with pytest.raises(TicketsError) as caught:
        match(data, ("1", "2"), "x.csv", by_id=False)
    flag = caught.value.hint.rpartition(" ")[2]
    assert match(data, ("1", "2"), "x.csv", label_map=mapped(flag)).ids == {
        "bad": 0,
        "fine": 1,
    }  # the flag to paste


def test_a_map_by_the_names_that_a_source_declares_goes_before_classes_called_by_its_numbers() -> None:
    """The model's classes are called 0 and 1, the data's 0 and 1 are declared as neg and pos: the map says which is which."""
    found = match(["0", "1"], ("0", "1"), "hub", ("neg", "pos"), label_map={"neg": "1", "pos": "0"})
    assert found.ids == {"0": 1, "1": 0}
