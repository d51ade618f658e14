"""The papers' figures redrawn from our runs, and what robustness costs: drawings are of ``reproduce.figures``, this places them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.arms import arm_title
from robust_tickets.reproduce.figures.drawn import Drawn, show
from robust_tickets.reproduce.figures.lengths import lengths
from robust_tickets.reproduce.figures.pareto import pareto
from robust_tickets.reproduce.figures.sweeps import place
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import Standing, anchor_of, attacks_of, by_task, flattered
from robust_tickets.reproduce.published import Table
from robust_tickets.reproduce.wording import count

IN_SIGHT = 8  # arms that a figure names as its sources; of more the list is folded


def one_figure(of: Table, found: Drawn) -> Html:
    """A figure under its id, with what the paper's own shows, and the runs that it is made of."""
    head = tag("h3", tag("span", of.id, class_="id"), " ", of.title)
    said = tag("p", f"In the paper: {of.shows}", class_="quiet")
    notes = tag("ul", *[tag("li", note) for note in of.notes])
    known = tag("details", tag("summary", "What is known against it"), notes, class_="against") if of.notes else None
    return tag("article", head, said, show(found), _sources(found), known, id=of.id, class_="table")


def _sources(found: Drawn) -> Html | None:
    """Links to the lists of runs, an arm a link."""
    arms: dict[str, list[Unit]] = {}
    for unit in map(Unit.of_id, found.sources):
        arms.setdefault(anchor_of(unit), []).append(unit)
    links = [
        tag("a", f"{arm_title(own[0].arm)}, {place(own[0].backbone, own[0].task)}", href=f"#{anchor}", class_="origin")
        for anchor, own in arms.items()
    ]
    if not links:
        return None
    said = f"Drawn from {count(len(found.sources), 'run')} of {count(len(links), 'arm')}"
    if len(links) > IN_SIGHT:
        return tag("details", tag("summary", said), tag("p", join(links, "; "), ".", class_="quiet"))
    return tag("p", f"{said}: ", join(links, "; "), ".", class_="quiet")


def by_length(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> Html | None:
    """Accuracy against the length of training, where some arm was trained at several."""
    drawn = lengths(outcomes, folder, {one.arm: one.place for one in found})
    if not drawn.svg:
        return None
    said = "Each point is a schedule of its own, whose learning rate falls to 0 at its end: another training, not a later look at one."
    return join([tag("p", said), show(drawn), _sources(drawn)])


def trade_off(found: Sequence[Standing], outcomes: Sequence[Outcome], folder: Path) -> Html | None:
    """Accuracy under attack against the size of the model and the time of making it, on every task, under the attack that most arms met."""
    parts: list[Html | None] = []
    for (task, backbone), members in by_task(found).items():
        for attack in [one for one in attacks_of(members) if not one.split][:1]:
            looks = {one.arm: one.place for one in members}
            drawn = pareto(outcomes, folder, task=task, attack=attack.name, backbone=backbone, looks=looks)
            if drawn.svg:
                parts += [
                    show(drawn),
                    tag("p", flattered(members), class_="quiet") if flattered(members) else None,
                    _sources(drawn),
                ]
    return join(parts) if parts else None
