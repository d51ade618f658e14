"""What looks at pages finds faults: a page without any, and the same page with one fault at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from devtools import Browser, BrowserError
from tab import Tab

GOOD = """<!doctype html><html lang="en"><head><title>t</title><meta name="viewport" content="width=device-width">
<style>body {{ color: #222; background: #fff; }} {style}</style></head><body>
<nav><a href="#x">to the link</a></nav><h1>One</h1><h2>Two</h2><p>Words that can be read.</p>
<table><caption>c</caption><tr><th scope="col">a</th><th scope="col">b</th></tr><tr><td>1</td><td>2</td></tr></table>
<svg role="img" aria-label="a drawing" width="20" height="20"><text y="15">w</text></svg>
<svg aria-hidden="true" width="20" height="20"></svg>
<div style="overflow-x: auto; position: relative" tabindex="0" role="region" aria-label="box">
<p style="width: 3000px">wide, and held</p></div>
<a href="#x" id="x">link</a> <button>press</button> <button disabled style="color: #ddd">off</button>{body}</body></html>"""
FAULTS = {  # which question finds it -> the fault
    "wide": [
        ("", "<p style='width: 500px'>too wide</p>"),
        ("", "<div style='overflow-x: auto; width: 90px'><i style='position: absolute; left: 600px'>free</i></div>"),
        ("body { overflow-x: hidden }", "<p style='width: 500px'>cut off</p>"),
        ("", "<meta name=viewport content='width=980'>"),
    ],
    "menu": [
        ("nav { overflow-x: auto; white-space: nowrap }", f"<nav>{'<a href=#x>one of many</a> ' * 9}</nav>"),
        ("nav { overflow: hidden }", "<nav><a href=#x style='position: relative; left: 340px'>cut off</a></nav>"),
        ("", "<nav><a href=#x style='position: absolute; left: -9px'>cut off</a></nav>"),
    ],
    "faint": [
        ("p { color: #999 }", ""),
        ("p { opacity: .4 }", ""),
        ("td { background: color-mix(in oklab, black 70%, white) }", ""),
        ("text { fill: #ccc }", ""),
        ("@media (prefers-color-scheme: light) { h2 { color: rgb(0 0 0 / 30%) } }", ""),
    ],
    "headings": [("", "<h4>skips</h4>"), ("", "<h1>again</h1>"), ("", "<h2> </h2>")],
    "tables": [
        ("", "<table><caption>c</caption><tr><td>1</td></tr></table>"),
        ("", "<table><caption>c</caption><tr><th>no scope</th></tr></table>"),
        ("", "<table><tr><th scope=col>a</th></tr></table>"),
        ("", "<table><caption>c</caption><tr><th scope=col>a</th></tr><tr><td>1</td><td>2</td></tr></table>"),
    ],
    "pictures": [("", "<svg width=5 height=5></svg>"), ("", "<img src='data:,'>")],
    "drawings": [
        ("", "<svg role=img aria-label=d width=50 height=20><text x=30 y=15>too long a word</text></svg>"),
        ("", "<svg role=img aria-label=d width=90 height=20><text x=5 y=15>one</text><text x=9 y=15>two</text></svg>"),
    ],
    "broken": [
        (
            "th { overflow-wrap: anywhere; width: 20px }",
            "<table><caption>c</caption><tr><th scope=row>SynonymHotFlip</th></tr></table>",
        ),
        (
            "th { word-break: break-all; width: 20px }",
            "<table><caption>c</caption><tr><th scope=row><b>SynonymSwap</b></th></tr></table>",
        ),
    ],
    "anchors": [("", "<a href='#nowhere'>lost</a>")],
    "nameless": [("", "<button></button>"), ("", "<input>")],
    "unreached": [("", "<button onfocus='x.focus()'>sends back</button><button>never</button>")],
    "dull": [(":focus { outline: none }", ""), (":focus-visible { outline: 2px solid #eee }", "")],
    "covered": [
        ("", "<div style='position: fixed; inset: 0; background: #fff'></div>"),
        (".x { position: absolute; left: -90px }", "<a class=x href=#x>off</a>"),
    ],
    "complaints": [
        ("", "<script>console.error('no')</script>"),
        ("", "<script>null.x</script>"),
        ("", "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\"><script>1</script>"),
    ],
    "requests": [
        ("", "<img alt='' src='http://elsewhere.invalid/a.png'>"),
        ("", "<style>@import url(https://elsewhere.invalid/a.css);</style>"),
        ("p { background: url(beside.png) }", ""),
        ("", "<script>new WebSocket('ws://elsewhere.invalid')</script>"),
        ("", "<script>fetch('beside.json').catch(() => 0)</script>"),
    ],
    "dialogs": [("", "<script>setTimeout(() => alert('hello'))</script>")],
}


def ask(tab: Tab, page: Path, what: str) -> list[str]:
    """What one question finds on a page."""
    tab.complaints.clear()
    tab.requests.clear()
    tab.dialogs.clear()
    tab.open(page, width=360)
    if what in ("complaints", "dialogs", "requests"):
        tab.settle()
        return [found for found in getattr(tab, what) if found != page.as_uri()]
    if what == "nameless":
        return tab.nameless()
    if what == "covered":
        return tab.covered(tab.look("watch"))
    if what in ("unreached", "dull"):
        tab.press("Tab", tab.look("watch") + 2)
        return tab.look("walked")[what]
    found = tab.look(what, *{"wide": [360], "menu": [360], "faint": [4.5]}.get(what, []))
    return found if isinstance(found, list) else found["found"]


@pytest.mark.parametrize("what", list(FAULTS))
def test_each_question_finds_its_faults(tab: Tab, tmp_path: Path, what: str) -> None:
    page = tmp_path / "page.html"
    page.write_text(GOOD.format(style="", body=""), "utf-8")
    assert ask(tab, page, what) == []
    for style, body in FAULTS[what]:
        page.write_text(GOOD.format(style=style, body=body), "utf-8")
        assert ask(tab, page, what), (style, body)


def test_the_drivers_words(tab: Tab, tmp_path: Path) -> None:
    """Its errors say what went wrong and where; a tab goes on after them."""
    with pytest.raises(BrowserError, match=r"nowhere\.html: net::ERR_FILE_NOT_FOUND"):
        tab.open(tmp_path / "nowhere.html")
    with pytest.raises(BrowserError, match="nothing is not defined"):
        tab.run("nothing")
    with pytest.raises(BrowserError, match=r"No\.such: .*wasn't found"):
        tab.send("No.such")
    assert tab.run("Promise.resolve([1, 'ü\\u0000'])") == [1, "ü\0"]


def test_a_click_meets_what_it_is_for(tab: Tab, tmp_path: Path) -> None:
    """Below boxes that grow while they are scrolled to, and not through what lies above it."""
    page = tmp_path / "page.html"
    late = (
        "<p style='content-visibility: auto; contain-intrinsic-size: 9px; border: 1px solid'>"
        + "word<br>" * 40
        + "</p>"
    )
    cover = "<div style='position: fixed; inset: 0' hidden></div>"
    page.write_text(
        GOOD.format(
            style="", body=late * 8 + cover + "<button class=b onclick='this.dataset.met = 1'>b</button>" + late
        ),
        "utf-8",
    )
    tab.open(page).click(".b")
    assert tab.run("document.querySelector('.b').dataset.met") == "1"
    tab.run("document.querySelector('[hidden]').hidden = false")
    with pytest.raises(BrowserError, match=r"\.b cannot be clicked"):
        tab.click(".b")


def test_a_browser_that_ends_at_once_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "browser"
    path.write_text("#!/bin/sh\necho no screen >&2\n", "utf-8")
    path.chmod(0o755)
    with pytest.raises(BrowserError, match=r"the browser has gone; it said: no screen"):
        Browser(str(path), tmp_path / "folder")
