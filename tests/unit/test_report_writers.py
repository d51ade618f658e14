"""One table, four writers: what a reader sees is the same everywhere, and the values are whole where machines read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fake_run import make_run
from robust_tickets.report.html import ENVIRONMENT, MACROS
from robust_tickets.report.run_data import read_run
from robust_tickets.report.tables import Cell, Column, Row, Table, arms_table, to_markdown, to_records

TABLE = Table(
    caption="Some numbers",
    label="numbers",
    first="arm",
    columns=(Column(title="under attack", key="aua"), Column(title="empty", key="none"), Column(title="kind", number=False)),
    rows=(
        Row(name="a|b", cells=(Cell(text="33.3 %", value=100 / 3, below="1–2", notes=(2,)), Cell(text="–"), Cell(text="<i>"))),
    ),
)  # fmt: skip


def test_records_hold_the_values() -> None:
    assert to_records(TABLE) == [{"arm": "a|b", "aua": 100 / 3, "none": "–", "kind": "<i>"}]


def test_markdown_keeps_every_cell_in_its_column() -> None:
    head, rule, row = to_markdown(TABLE).splitlines()
    assert head == "| arm | under attack | empty | kind |"
    assert rule == "| --- | --: | --: | --- |"
    assert row == "| a\\|b | 33.3 % (1–2) | – | <i> |"


def test_html_escapes_and_holds_the_values() -> None:
    text = str(MACROS.table(TABLE))
    assert f'<data value="{100 / 3!r}">33.3 %</data>' in text
    assert 'href="#-note-2"' in text
    assert "&lt;i&gt;" in text
    assert "<i>" not in text


def test_columns_without_a_value_are_left_out(tmp_path: Path) -> None:
    assert [column.key for column in TABLE.filled().columns] == ["aua"]
    run = read_run(make_run(tmp_path / "r"))
    for record, arm in zip(to_records(arms_table(run, "pwws", "r1")), run.arms, strict=True):
        assert (record["arm"], record["aua"]) == (arm.title, arm.attacks[0].aua)


@pytest.mark.parametrize("words", ["<b>", "\u202e", "\ud800", "\x1b[0m", '"'])
def test_no_text_passes_a_template_as_it_is(words: str) -> None:
    shown = ENVIRONMENT.from_string("<p title=\"{{ w }}\">{{ [w, w]|join(', ') }}{{ w ~ w }}</p>").render(w=words)
    assert not re.search(r"<b>|[\u202e\ud800\x1b]", shown)
    assert shown.count('"') == 2
