"""Whether a seed fixes a result: runs of one seed beside runs of other seeds."""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.report import format as numbers
from robust_tickets.report.markup import Html, scroll, tag
from robust_tickets.reproduce.aggregate import Repeated, models_told, repeated
from robust_tickets.reproduce.arms import arm_title
from robust_tickets.reproduce.claims import spreads
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import Standing, attacks_of, by_task, exact, where
from robust_tickets.reproduce.wording import count

FIRST = 2  # attacks in sight, on the first task
HEADS = (
    "method, attack",
    "seeds",
    "range over seeds",
    "deviation over seeds",
    "runs of a seed",
    "range over them",
    "deviation over them",
    "its 95 % interval",
)


def seeds(found: Sequence[Standing], outcomes: Sequence[Outcome]) -> Html | None:
    """Of every arm with a repeated seed; points of accuracy under attack, largest minus smallest."""
    first: list[Html] = []
    rest: list[Html] = []
    widest, models, again = 0.0, [], list[Repeated]()
    for k, ((task, backbone), members) in enumerate(by_task(found).items()):
        own = [
            one
            for one in outcomes
            if (one.unit.task, one.unit.backbone, one.unit.flavour) == (task, backbone, "corrected")
        ]
        if here := repeated(outcomes, task=task, backbone=backbone):
            models.append(tag("p", f"{where((task, backbone))}: {models_told(here)}"))
            again += here
        for i, attack in enumerate(attacks_of(members)):
            for one in spreads(own, task=task, attack=attack.name, split=attack.split or None, backbone=backbone):
                if one.within_range is None or one.between_range is None:
                    continue
                widest = max(widest, one.within_range)
                name = tag(
                    "th", arm_title(one.name), tag("small", f"{where((task, backbone))}, {attack.title}"), scope="row"
                )
                values = (one.seeds, one.between_range, one.between, one.repeated, one.within_range, one.within)
                cells = [tag("td", _value(value), class_="number") for value in values]
                row = tag("tr", name, *cells, tag("td", numbers.span(one.within_interval), class_="number"))
                (first if k == 0 and i < FIRST else rest).append(row)
    if not first and not rest:
        return None
    more = (
        tag("details", tag("summary", f"{len(rest)} more, under other attacks and on other tasks"), _table(rest))
        if rest
        else None
    )
    said = f"{_fixed(again)} Runs of one seed lie up to {widest:.1f} points apart."
    question = tag("h3", "Does the seed fix the result?")
    verdict = tag("p", said, class_="verdict lesser")
    return tag("article", question, verdict, *models, _table(first) if first else None, more, class_="answer")


def _fixed(again: Sequence[Repeated]) -> str:
    """By the hashes of the weights; numbers under attack differ a little between two attacks on one model too."""
    if not again:
        return "The weights were not kept by their hash."
    apart = [one for one in again if one.models > 1]
    if not apart:
        return (
            f"In these runs it does: {'each seed' if len(again) > 1 else 'the seed'} that was run again gave one model."
        )
    return f"Not always: of {count(len(again), 'seed')} run again, {len(apart)} gave more than one model."


def _table(rows: Sequence[Html]) -> Html:
    head = tag("tr", *[tag("th", words, scope="col", class_="number" if i else None) for i, words in enumerate(HEADS)])
    told = (
        "Accuracy under attack, points: range, best minus worst, and standard deviation, over seeds and over runs of one seed. Ranges grow "
        "with the number of runs; deviations can be compared, but from so few runs they are known within wide intervals."
    )
    caption = tag("caption", tag("span", told))
    return scroll("Runs of one seed", tag("table", caption, tag("thead", head), tag("tbody", *rows)))


def _value(value: float | None) -> Html | str:
    if value is None:
        return numbers.NONE
    return tag("data", value if isinstance(value, int) else f"{value:.1f}", value=exact(value))
