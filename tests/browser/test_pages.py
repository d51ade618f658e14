"""What every page keeps to in a browser: quiet, alone, narrow and wide, light and dark, by keyboard, by ear, however hostile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from showing import KEPT, KINDS, WORDS, shown
from tab import Tab

MEGABYTES = 5
CONTRAST = 4.5  # to 1: WCAG 2's AA for text of any size
FOREIGN = "img, iframe, link, object, [onload], [onerror], [onfocus], [onmouseover], [href^=javascript], [action]"
MORE = 12  # presses beyond the number of controls: scrollable boxes that the browser itself lets the keyboard reach


def none(found: list[str], where: str = "") -> None:
    """Nothing was found; else all of it is told."""
    assert not found, "\n".join([where, *found])


@pytest.fixture(params=[*KINDS, *KEPT], ids=str)
def page(request: pytest.FixtureRequest, pages: Callable[[str], Path]) -> Path:
    return pages(request.param) if request.param in KINDS else request.param


def test_it_opens_in_silence_and_alone(tab: Tab, page: Path) -> None:
    assert page.stat().st_size < MEGABYTES * 1_000_000
    tab.open(page)
    none(tab.complaints)
    assert {address for address in tab.requests if not address.startswith("data:")} == {page.as_uri()}
    assert tab.run("document.title && document.documentElement.lang && document.compatMode") == "CSS1Compat"
    paths = tab.run(
        "[...document.querySelectorAll('a[href]')].map((one) => one.getAttribute('href')).filter((to) => !to.startsWith('#'))"
    )
    none([path for path in paths if not (page.parent / path).is_file()], "links to files that are not there")


@pytest.mark.parametrize("width", [360, 1600])
def test_it_fits_the_screen(tab: Tab, page: Path, width: int) -> None:
    tab.open(page, width=width)
    none(tab.look("wide", width))
    tab.look("unfold")
    tab.settle()
    none(tab.look("wide", width))


def test_its_text_stands_out_by_day_and_by_night(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.look("unfold")
    for scheme, ends in (("light", (0.7, 1.0)), ("dark", (0.0, 0.1))):
        tab.scheme(scheme)
        tab.settle()
        assert ends[0] <= tab.look("ground") <= ends[1], scheme
        seen = tab.look("faint", CONTRAST)
        assert seen["asked"] > 10
        none(seen["found"], scheme)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab: Tab, page: Path) -> None:
    tab.open(page)
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        count = tab.look("watch")
        assert count > 0
        tab.press("Tab", count + MORE)
        walked = tab.look("walked")
        none(walked["unreached"], f"{scheme}: not reached")
        none(walked["dull"], f"{scheme}: no ring to be seen")


def test_it_reads_in_order(tab: Tab, page: Path) -> None:
    tab.open(page)
    tab.look("unfold")
    none(tab.look("headings"))
    for what in ("tables", "pictures"):
        seen = tab.look(what)
        assert seen["asked"] > 0
        none(seen["found"], what)
    none(tab.look("anchors"))
    none(tab.nameless())


@pytest.mark.parametrize("kind", ["report", "results"])
def test_without_its_script_it_shows_everything(tab: Tab, pages: Callable[[str], Path], kind: str) -> None:
    tab.open(pages(kind), width=360, script=False)
    assert tab.look("nodes", "form:not([hidden])") == 0  # a control that does nothing is not offered
    assert tab.look("nodes", ".case[hidden], thead button") == 0
    tab.look("unfold")
    tab.settle()
    none(tab.look("wide", 360))


@pytest.mark.parametrize("kind", ["report", "results"])
def test_hostile_texts_are_inert(tab: Tab, tmp_path: Path, kind: str) -> None:
    """With the page's policy nobody tries anything; without it the escapes alone hold."""
    page = shown(kind, tmp_path, hostile=True)
    for policy in (True, False):
        tab.open(page, width=360, policy=policy)
        tab.look("unfold")
        tab.settle()
        none(tab.look("wide", 360))
        text = tab.look("text")
        assert WORDS in text
        assert "⟨U+202E⟩" in text
        assert not set("\u202e\u2066\u200f\u061c") & set(text)
        assert [tab.look("nodes", name) for name in ("script", "style", FOREIGN)] == [1, 1, 0]
        assert tab.run("window.harm ?? null") is None
        assert (tab.complaints, tab.dialogs, set(tab.requests)) == ([], [], {page.as_uri()})
