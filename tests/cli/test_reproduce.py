"""``tickets reproduce``: the contents of the papers, and one table as published; no torch, no number lost on a usual terminal."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from calling import tickets
from robust_tickets.cli.main import main
from robust_tickets.reproduce.published import cells, papers, table, tables


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *arguments])
    out = capsys.readouterr()
    assert end.value.code == 0, out.err
    return out.out


@pytest.mark.parametrize("paper", ["er", "rt", "or"])
def test_a_list_of_one_paper(capsys: pytest.CaptureFixture[str], paper: str) -> None:
    told = tickets(capsys, "reproduce", "--list", "--paper", paper)
    assert [entry["id"] for entry in told["tables"]] == [one.id for one in tables() if one.paper == paper]
    assert told["numbers"] == sum(entry["numbers"] for entry in told["tables"]) > 0
    assert [one["id"] for one in told["papers"]] == [paper]


@pytest.mark.parametrize("id", [one.id for one in tables()])
def test_a_table_is_printed_whole(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, id: str) -> None:
    """On a usual terminal no number is lost; on a wider one no name is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    out = said(capsys, id, "--published")
    words = Counter(out.replace("−", "").split())
    for text, count in Counter(_printed(c.metric, c.value) for c in cells(id)).items():
        assert words[text] >= count, text
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "100")
    joined = " ".join(said(capsys, id, "--published").split())
    assert all(row.name in joined for row in table(id).rows)
    for note in (
        *table(id).notes,
        *{paper.id: paper for paper in papers()}[table(id).paper].notes,
        table(id).source,
        table(id).shows,
    ):
        assert note in joined


def test_json_has_cells_notes_and_findings(capsys: pytest.CaptureFixture[str]) -> None:
    told = tickets(capsys, "reproduce", "or-t1", "--published")
    assert told["id"] == "OR-T1"
    assert len(told["cells"]) == 300
    assert all(cell["source"] == "ORTicket (LREC-COLING 2024), Table 1" for cell in told["cells"])
    assert len([one for one in told["findings"] if one["others"] == ["ER-T1"]]) == 27
    assert any("ER-T1" in note for note in told["notes"])
    assert set(told["metrics"]) == {"clean", "aua", "suc", "queries"}


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "ER-T1 --campaign A",
        "ER-T1 ER-T2 --published",
        "ER-T1 --paper er",
        "ER-T1 --list",
        "--list --published",
        "--page x.html --only task=sst2",
        "--job bert-base-uncased/sst2/finetune/corrected/seed-0 --seeds 3",
        "ER-T1 --search-only",
        "ER-T9 --published",
        "RT-T7 --published",
    ],
)
def test_what_cannot_be_asked_is_refused(capsys: pytest.CaptureFixture[str], arguments: str) -> None:
    assert tickets(capsys, "reproduce", *arguments.split(), code=2)["error"]["hint"]


@pytest.mark.parametrize(
    "arguments", ["--list --json", "ER-T1 --published", "ER-T1 --only task=sst2 --dry-run --budget 20m"]
)
def test_it_imports_no_torch(arguments: str, tmp_path: Path) -> None:
    given = ["reproduce", *arguments.split(), *(["--results", str(tmp_path)] if "--dry-run" in arguments else [])]
    code = (
        "import sys\nfrom robust_tickets.cli.main import main\n"
        f"try:\n    main({given!r})\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _printed(metric: str, value: float) -> str:
    return f"{value:.0f}" if metric.endswith("_millions") else str(value)
