"""A figure as a file of its own: the drawings, their numbers, and what could not be drawn. The page of all results has the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path

from robust_tickets.files import write_text
from robust_tickets.report.markup import Html, tag
from robust_tickets.reproduce.figures.drawn import Drawn, show
from robust_tickets.reproduce.figures.figure import figure
from robust_tickets.reproduce.job import Flavour
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.published import table

STYLES = (("report", "style.css"), ("reproduce.figures", "style.css"))


def draw(
    id: str,
    outcomes: Sequence[Outcome],
    folder: Path,
    flavour: Flavour = "corrected",
    places: Collection[tuple[str, str]] | None = None,
) -> Drawn:
    """The figure from our runs; of ``places`` (backbone and task) alone, where some were asked for."""
    return figure(id, outcomes, folder, flavour=flavour, places=places)


def write(drawn: Drawn, folder: Path) -> Path:
    """``FOLDER/<id>.html``, which loads nothing."""
    of = table(drawn.id)
    style = Html("\n".join((files(f"robust_tickets.{where}") / name).read_text("utf-8") for where, name in STYLES))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{of.id}: {of.title}"),
        tag("style", style),
    )
    body = tag(
        "body", tag("main", tag("h1", f"{of.id}: {of.title}"), tag("p", f"{of.source}. {of.shows}"), show(drawn))
    )
    return write_text(folder / f"{of.id}.html", "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n")
