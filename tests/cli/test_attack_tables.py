"""``tickets attack --csv --parquet``, and ``tickets report`` of an attack folder."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pyarrow import parquet
from test_attack import Capture, albert, attack, outcomes, rows

from calling import tickets

__all__ = ["albert"]


def test_tables_and_the_page(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    data, out = rows(tmp_path / "d.jsonl"), tmp_path / "a"
    flags = ("--csv", str(tmp_path / "t.csv"), "--parquet", str(tmp_path / "deep" / "t.parquet"))
    told = attack(capsys, albert, data, out, *flags)
    assert told["tables"] == [str(tmp_path / "t.csv"), str(tmp_path / "deep" / "t.parquet")]
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as stream:
        assert [row["original_text"] for row in csv.DictReader(stream)] == [
            line["original"][0] for line in outcomes(out)
        ]
    assert parquet.read_table(tmp_path / "deep" / "t.parquet")["id"].to_pylist() == told["ids"]
    (tmp_path / "t.csv").unlink()
    attack(capsys, albert, data, out, "--csv", str(tmp_path / "t.tsv"))  # done before: only the table is made
    assert (tmp_path / "t.tsv").is_file()
    assert "tables" not in attack(capsys, albert, data, out)
    page = tickets(capsys, "report", str(out))["report"]
    assert Path(page) == out / "report.html"
    assert "Accuracy against query budget" in Path(page).read_text("utf-8") or told["suc"] is None


@pytest.mark.parametrize("flags", [("--csv", "t.xlsx"), ("--parquet", "t.csv"), ("--csv", ".")])
def test_a_table_that_cannot_be_is_refused_before_the_attack(
    capsys: Capture,
    albert: Path,
    tmp_path: Path,
    flags: tuple[str, str],
) -> None:
    said = attack(capsys, albert, rows(tmp_path / "d.jsonl"), tmp_path / "a", *flags, code=2)["error"]
    assert "table" in said["message"] or "folder" in said["message"]
    assert not (tmp_path / "a").exists()


def test_a_table_never_takes_the_place_of_the_data(capsys: Capture, albert: Path, tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("text,label\na good film,good\na bad plot,bad\n")
    before = data.read_text()
    other = tmp_path / "seen.csv"
    other.write_text(before)
    for table in (data, other, tmp_path / "x" / ".." / "d.csv"):
        said = attack(capsys, albert, data, tmp_path / "a", "--seen", str(other), "--csv", str(table), code=2)["error"][
            "message"
        ]
        assert "is a file to read from" in said
    assert (
        "d.csv is a file"
        in attack(capsys, albert, data, tmp_path / "a", "--csv", str(data / "t.csv"), code=2)["error"]["message"]
    )
    assert (data.read_text(), other.read_text(), (tmp_path / "a").exists()) == (before, before, False)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder that not even root can write to")
@pytest.mark.parametrize("flag", ["--csv", "--parquet"])
def test_a_folder_that_cannot_be_written_to_is_found_out_before_the_attack(
    capsys: Capture, albert: Path, tmp_path: Path, flag: str
) -> None:
    table = f"/proc/self/t.{flag.strip('-')}"
    assert attack(capsys, albert, rows(tmp_path / "d.jsonl"), tmp_path / "a", flag, table, code=2)["error"]["hint"]
    assert not (tmp_path / "a").exists()
