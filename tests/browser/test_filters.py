"""The filters and pages of a report's attacked texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tab import Tab

from fake_run import add_plan, make_run
from robust_tickets.report.html import write_report

N, PAGE = 120, 12
FIELD = "document.querySelector('form.filters').elements.{}"
TOLD = "document.querySelector('.turner output').textContent"
SHOWN = "[...document.querySelectorAll('.case')].filter((one) => one.checkVisibility()).map((one) => one.querySelector('.id').textContent)"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run with two plans of one attack, and its report."""
    folder = make_run(tmp_path_factory.mktemp("filters") / "run", n=N)
    add_plan(folder, query_budget=50)
    return folder, write_report(folder / "report.html", folder)


def rows(folder: Path, arm: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"attack/{arm:08x}/examples.jsonl").read_text().splitlines()]


def choose(tab: Tab, **values: str) -> str:
    """Set fields as a reader does; what the page then says. The script waits a little for more typing."""
    for name, value in values.items():
        field = FIELD.format(name)
        if name == "words":
            tab.run(f"{field}.focus(); {field}.select(); 0")
            tab.write(value)
        else:
            tab.run(f"{field}.value = {value!r}; {field}.dispatchEvent(new Event('input', {{ bubbles: true }})); 0")
    tab.run("new Promise((done) => setTimeout(() => done(0), 200))")
    return tab.run(TOLD)


def fitting(told: str) -> int:
    found = re.fullmatch(r"1 to 12 of (\d+) that fit, of 240 texts", told)
    assert found, told
    return int(found[1])


def test_filters_count_what_fits(tab: Tab, run: tuple[Path, Path]) -> None:
    folder, page = run
    tab.open(page)
    assert tab.run(TOLD) == "1 to 12 of 240 texts"
    assert len(tab.run(SHOWN)) == PAGE
    assert fitting(choose(tab, label="=1", attack="1")) == sum(row["label"] == 1 for row in rows(folder, 0))
    tab.run("document.querySelector('form.filters [type=reset]').focus()")
    tab.press("Enter")
    assert choose(tab) == "1 to 12 of 240 texts"
    assert fitting(choose(tab, outcome="success", arm="2")) == 2 * sum(
        row["status"] == "success" for row in rows(folder, 2)
    )
    assert fitting(choose(tab, outcome="", arm="", words="Sisters")) == 2 * sum(
        "sisters" in row["original"][0] for row in rows(folder, 0)
    )
    assert choose(tab, words="NO SUCH WORD") == "none of 240 texts fits"
    assert tab.run(SHOWN) == []
    assert tab.complaints == []


def test_pages_turn_and_end(tab: Tab, run: tuple[Path, Path]) -> None:
    tab.open(run[1])
    first = tab.run(SHOWN)
    buttons = [f".turner button:nth-of-type({i})" for i in (1, 2)]
    assert tab.run(f"document.querySelector({buttons[0]!r}).disabled")
    tab.click(buttons[1])
    assert tab.run(TOLD) == "13 to 24 of 240 texts"
    assert not set(first) & set(tab.run(SHOWN))
    tab.click(buttons[0])
    assert tab.run(SHOWN) == first
    tab.run(f"document.querySelector({buttons[1]!r}).focus()")
    for _ in range(240 // PAGE - 1):
        tab.press("Enter")
    assert tab.run(TOLD) == "229 to 240 of 240 texts"
    assert tab.run(f"document.querySelector({buttons[1]!r}).disabled")
