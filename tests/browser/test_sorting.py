"""The leaderboard's columns sort by mouse and by keyboard, and say so to a screen reader."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tab import Tab

HEADS = "[...document.querySelectorAll('table.board thead th')]"
STATES = f"{HEADS}.map((one) => one.getAttribute('aria-sort'))"
COLUMN = """[...document.querySelectorAll('table.board tbody tr')].map((row) => {
  const cell = row.cells[%d], data = cell.querySelector('data');
  return data ? Number(data.value) : %s ? cell.textContent.trim() : null;
})"""


@pytest.fixture
def page(pages: Callable[[str], Path]) -> Path:
    return pages("results")


def check(tab: Tab, place: int, words: bool) -> tuple[str, list[float | str]]:
    """The rows stand as the heading says, and only that one says anything; which way, and the column."""
    states = tab.run(STATES)
    (way,) = [state for state in states if state]
    assert states[place] == way
    column = tab.run(COLUMN % (place, "true" if words else "false"))
    held = [value for value in column if value is not None]
    assert column[: len(held)] == held  # what has no value stays below
    ordered = sorted(held, key=str.casefold) if words else sorted(held)
    assert held == (ordered if way == "ascending" else ordered[::-1])
    return way, column


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_every_column_sorts_both_ways(tab: Tab, page: Path, by: str) -> None:
    tab.open(page)
    kinds = tab.run(f"{HEADS}.map((one) => one.dataset.sort)")
    assert len(kinds) > 4
    assert set(kinds) == {"text", "high", "low"}
    names = tab.run("[...document.querySelectorAll('table.board tbody th')].map((one) => one.textContent)")
    started = tab.run(STATES)
    check(tab, started.index("descending"), words=False)  # as it came
    for place, kind in enumerate(kinds):
        button = f"table.board thead th:nth-child({place + 1}) button"
        ways = []
        for key in ("Enter", " "):
            if by == "mouse":
                tab.click(button)
            else:
                tab.run(f"document.querySelector({button!r}).focus()")
                tab.press(key)
                assert tab.run(
                    f"document.activeElement === document.querySelector({button!r})"
                )  # the focus stays where it was
            way, _ = check(tab, place, kind == "text")
            ways.append(way)
            assert way in tab.run("document.querySelector('#board output[aria-live]').textContent")
        better = "descending" if kind == "high" else "ascending"
        if started[place] is None:
            assert ways[0] == better, kinds[place]
        assert set(ways) == {"ascending", "descending"}
    shown_now = tab.run("[...document.querySelectorAll('table.board tbody th')].map((one) => one.textContent)")
    assert sorted(shown_now) == sorted(names)  # nothing was lost on the way
    assert tab.complaints == []


def test_a_number_leads_to_its_runs(tab: Tab, page: Path) -> None:
    tab.open(page)
    link = "table.board tbody a.origin"
    target = tab.run(f"document.querySelector({link!r}).hash.slice(1)")
    find = f"document.getElementById({target!r})"
    assert tab.run(f"{find}.open") is False
    tab.click(link)
    tab.settle()
    assert tab.run(f"{find}.open") is True
    top = tab.run(f"{find}.getBoundingClientRect().top")
    assert -1 <= top < 900
