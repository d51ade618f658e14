"""Drawn: a figure made from our runs. Its panels stand beside or under one another as the page is wide; each has its numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.report.markup import Html, join, scroll, tag

NOTHING = Html("")
WIDE = 320  # pixels of a panel: a phone's page without its margins, and a third of a wide one


@dataclass(frozen=True, kw_only=True)
class Table:
    """The numbers behind a panel, for those who cannot see it and those who want them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One drawing; an empty ``svg`` goes with a ``why``. ``sources`` are the ids of the units whose numbers it shows."""

    title: str
    svg: Html = NOTHING
    table: Table | None = None
    why: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure: ``svg`` holds what could be drawn, ``why`` says what could not and how to get it; either may be empty."""

    id: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def svg(self) -> Html:
        return join(tag("div", panel.svg) for panel in self.panels if panel.svg)

    @property
    def why(self) -> str:
        return " ".join(dict.fromkeys(panel.why for panel in self.panels if panel.why))

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for panel in self.panels for source in panel.sources))


def show(drawn: Drawn) -> Html:
    """The whole figure for a page: drawings, caption, what is missing, and the numbers in a table that opens."""
    missing = tag("p", tag("b", "Not drawn: "), *_coded(drawn.why), class_="quiet") if drawn.why else None
    if not drawn.svg:
        return tag("div", missing, class_="undrawn")
    drawings = tag("figure", tag("div", drawn.svg, class_="panels"), tag("figcaption", drawn.caption))
    return join([drawings, missing, _numbers(drawn)])


def _coded(words: str) -> list[object]:
    """Commands stand between backticks."""
    return [tag("code", part) if k % 2 else part for k, part in enumerate(words.split("`"))]


def _numbers(drawn: Drawn) -> Html:
    tables = [_table(panel.title, panel.table) for panel in drawn.panels if panel.table is not None]
    return tag("details", tag("summary", f"{drawn.id} in numbers"), *tables)


def _table(title: str, table: Table) -> Html:
    head = tag(
        "thead", tag("tr", *(tag("th", words, scope="col", class_=_class(k)) for k, words in enumerate(table.head)))
    )
    rows = [
        tag("tr", tag("th", first, scope="row"), *(tag("td", words) for words in rest)) for first, *rest in table.rows
    ]
    return scroll(title, tag("table", tag("caption", tag("span", title)), head, tag("tbody", *rows), class_="numbers"))


def _class(place: int) -> str | None:
    return "number" if place else None
