"""One paper: what is to be known about its numbers, its tables with ours beside them, its figures redrawn from our runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.figures.drawn import Drawn
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.figures import one_figure
from robust_tickets.reproduce.page.tables import key, table
from robust_tickets.reproduce.published import Paper, tables
from robust_tickets.reproduce.tables import Filled


def paper_part(
    paper: Paper, filled: Mapping[str, Filled], figures: Mapping[str, Drawn], outcomes: Sequence[Outcome]
) -> Html:
    """Tables with runs of ours first; those without are folded together, so that a reader meets results before gaps."""
    own = [one for one in tables() if one.paper == paper.id]
    ran = [one for one in own if one.kind == "table" and filled[one.id].ran]
    idle = [one for one in own if one.kind == "table" and not filled[one.id].ran]
    shown = [one for one in own if one.kind == "figure" and figures[one.id].svg]
    blank = [one for one in own if one.kind == "figure" and not figures[one.id].svg]
    notes = tag("ul", *[tag("li", note) for note in paper.notes])
    parts: list[Html | None] = [
        tag("p", tag("cite", paper.title), f". {paper.authors}; {paper.venue}."),
        tag("details", tag("summary", "What is to be known about all of its numbers"), notes, class_="against"),
    ]
    parts.append(key() if ran else None)
    parts += [table(filled[one.id], outcomes) for one in ran]
    parts += [one_figure(one, figures[one.id]) for one in shown]
    if idle or blank:
        rest = [
            *[table(filled[one.id], outcomes) for one in idle],
            *[one_figure(one, figures[one.id]) for one in blank],
        ]
        named = ", ".join(one.id for one in (*idle, *blank))
        parts.append(tag("details", tag("summary", f"Nothing run yet: {named}"), *rest, class_="idle"))
    return join(parts)
