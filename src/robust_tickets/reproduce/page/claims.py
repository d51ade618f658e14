"""The questions that were fixed before the runs, and what the runs answer: differences with their intervals, the margin, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from robust_tickets.report import format as numbers
from robust_tickets.report.charts import Scale, label, line
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.arms import arm_title, attack_title, task_title
from robust_tickets.reproduce.claims import (
    Claim,
    Family,
    Judged,
    answered,
    family,
    judge,
    small,
    table_names,
    told,
    word,
)
from robust_tickets.reproduce.goals import goals, reached_of
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import anchor_of, exact
from robust_tickets.reproduce.wording import count, listed, merged, numberless
from robust_tickets.stats.compare_runs import FEWEST_SHOWN, RunComparison

WIDTH, HEIGHT = 300, 34  # pixels of a difference's drawing
ROOM = 1.05  # of a drawing, over what it must hold
HEADLINES = ("A", "B")  # families whose answers stand at the top of the page
VERDICTS = {
    "sturdier": "sure",
    "less sturdy": "worse",
    "equivalent": "same",
    "undecided": "open",
    "too few runs": "few",
}
CHIPS = {True: "sure", False: "success", None: "few"}  # how a goal that is reached, is not, or cannot be told is marked


def judged_all(outcomes: Sequence[Outcome], folder: Path) -> dict[str, tuple[Judged, ...]]:
    """Every family of the campaigns. Families of the papers' tables stand with their tables."""
    return {id: judge(id, outcomes, folder) for id in told()["families"]}


def claims(found: Mapping[str, Sequence[Judged]]) -> Html | None:
    """Those of which something was run."""
    parts = [answer(family(id), judged) for id, judged in found.items() if any(one.comparison for one in judged)]
    return join(parts) if parts else None


def reached(outcomes: Sequence[Outcome], folder: Path, judged: Sequence[Judged]) -> Html | None:
    """The goals of the chosen recipe; ``judged``: their family. Nothing where none of it was run."""
    if not any(one.comparison for one in judged):
        return None
    met = goals(outcomes, folder, judged)
    items = [
        tag(
            "li",
            tag("p", tag("b", goal.asked), tag("small", goal.told), class_="name"),
            tag("p", tag("span", goal.verdict, class_=f"chip {CHIPS[goal.reached]}")),
        )
        for goal in met
    ]
    given = told()["goals"]
    said = f"{arm_title(given['arm'])} against {arm_title(given['against'])}: {reached_of(met)}."
    return tag(
        "article",
        tag("h3", "Does the recipe that trains on word swaps reach its goals?"),
        tag("p", said, class_="verdict lesser"),
        tag("ul", *items, class_="claims goals"),
        class_="answer",
    )


def short(found: Mapping[str, Sequence[Judged]]) -> Html | None:
    """The campaigns' two questions and their answers, for the top of the page."""
    parts = []
    for id in HEADLINES:
        made = [one for one in found[id] if one.comparison]
        if made:
            parts += [tag("dt", family(id).question), tag("dd", answered(made))]
    return tag("dl", *parts, class_="short") if parts else None


def answer(of: Family, judged: Sequence[Judged]) -> Html:
    """A question and its claims, on one axis."""
    made = [one for one in judged if one.comparison]
    sure = [end for one in made if one.comparison and one.comparison.enough for end in (one.comparison.interval or ())]
    reach = max(
        2 * of.margin, *(abs(end) for end in (*sure, *(one.comparison.difference for one in made if one.comparison)))
    )
    several = len({one.claim.task for one in judged}) > 1
    rows = [_row(one, of.margin, reach, several) for one in made]
    rest = [one for one in judged if not one.comparison]
    told = (
        f"{of.title}. Accuracy under attack, first minus second, in points, mean over training runs; below it Welch's 95{numbers.GLUE}% "
        "interval over runs, which speaks of these texts, and a bootstrap's over runs and texts, which speaks of others like them, "
        f"both where each side has {FEWEST_SHOWN} runs or more. The grey band is the margin of ±{of.margin:g}. {_adjusted(of, made)} "
        "A name leads to its runs."
    )
    if any(any(_beyond(one.comparison, reach)) for one in made if one.comparison):
        told += " Where an interval ends in an arrow, it goes on."
    tasks = [f"{task_title(one.claim.task)}, " if several else "" for one in rest]
    missing = [
        tag("li", f"{task}{_named(one)}, {attack_title(one.claim.attack)}: {one.why}")
        for task, one in zip(tasks, rest, strict=True)
    ]
    more = tag("details", tag("summary", f"{len(rest)} claims without runs"), tag("ul", *missing)) if rest else None
    said = tag("p", answered(made), class_="verdict lesser")
    listed = tag("ul", *rows, class_="claims")
    return tag(
        "article",
        tag("h3", of.question),
        said,
        listed,
        tag("p", told, class_="quiet"),
        _against(made),
        more,
        class_="answer",
    )


def _adjusted(of: Family, made: Sequence[Judged]) -> str:
    """How many claims Holm counts, on each task by itself. The same pair may stand in another family too."""
    ready: dict[str, list[RunComparison]] = {}
    for one in made:
        if one.comparison and one.comparison.enough:
            ready.setdefault(one.claim.task, []).append(one.comparison)
    if not ready:
        return "No claim has the five runs that it takes."
    counted = listed([_counted(of, task, found[0].of, len(found)) for task, found in ready.items()])
    return f"Verdicts are by Welch's test, adjusted by Holm for {counted}; elsewhere on this page the same pair may be one of more."


def _counted(of: Family, task: str, number: int, ready: int) -> str:
    """A campaign's claims are all to be run; of a table, many never will be, and count all the same."""
    paper = of.id in table_names()
    where, rest = (
        (f"of this table on {task_title(task)}", "without five runs a side so far")
        if paper
        else ("here", "still to be run")
    )
    return f"the {count(number, 'claim')} {where}" + (f" ({number - ready} of them {rest})" if ready < number else "")


def _against(made: Sequence[Judged]) -> Html | None:
    """What was substituted, and what the runs say against themselves."""
    substituted = dict.fromkeys(words for one in made for words in one.substituted)
    notes = _notes(made)
    parts = [tag("p", f"Substituted: {'; '.join(substituted)}.", class_="quiet") if substituted else None]
    if notes:
        items = tag("ul", *[tag("li", words) for words in notes])
        parts.append(
            tag(
                "details",
                tag("summary", f"What these runs and attacks did otherwise ({len(notes)})"),
                items,
                class_="against",
            )
        )
    return join(parts) if any(parts) else None


def _notes(made: Sequence[Judged]) -> tuple[str, ...]:
    """What all arms say alike, once; what one says, under its name."""
    every = {name for one in made for name in (one.claim.arm, one.claim.other)}
    arms: dict[str, set[str]] = {}
    said = [(arm, words) for one in made for arm, _, words in (note.partition(": ") for note in one.notes)]
    for arm, words in said:
        arms.setdefault(numberless(words), set()).add(arm)
    return merged(words if arms[numberless(words)] == every else f"{arm_title(arm)}: {words}" for arm, words in said)


def table_claims(id: str, judged: Sequence[Judged]) -> Html | None:
    """The claims of a paper's table, closed: the method of the paper against the other rows."""
    if not any(one.comparison for one in judged):
        return None
    said = [word(one.comparison) for one in judged if one.comparison]
    counts = {verdict: said.count(verdict) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return tag("details", tag("summary", f"{family(id).question}, by our runs: {told}"), answer(family(id), judged))


def _named(one: Judged) -> str:
    return f"{arm_title(one.claim.arm)} − {arm_title(one.claim.other)}"


def _row(one: Judged, margin: float, reach: float, several: bool) -> Html:
    c = one.comparison
    assert c is not None
    pair = tag("b", _origin(one.claim, c.arm), " − ", _origin(one.claim, c.other))
    where = f"{task_title(one.claim.task)}, " if several else ""  # a table may be run on several tasks
    name = tag("p", pair, tag("small", f"{where}{attack_title(one.claim.attack)}"), class_="name")
    verdict = tag("p", tag("span", word(c), class_=f"chip {VERDICTS[word(c)]}"), _p(c), class_="verdict-of")
    value = tag("data", numbers.points(c.difference), value=exact(c.difference))
    span = tag("small", numbers.signed_span(c.shown)) if c.shown else None
    over = tag("small", "other texts: ", numbers.signed_span(c.shown_over_examples)) if c.shown_over_examples else None
    return tag("li", name, tag("p", value, span, over, class_="value"), _drawing(c, margin, reach), verdict)


def _origin(claim: Claim, arm: str) -> Html:
    unit = Unit(backbone=claim.backbone, task=claim.task, arm=arm)
    return tag("a", arm_title(arm), href=f"#{anchor_of(unit)}", class_="origin")


def _p(c: RunComparison) -> Html:
    """The p value that the verdict rests on: for an equivalence, that of lying further apart than the margin."""
    told = f"{c.n[0]} and {c.n[1]} runs"
    if c.verdict == "equivalent":
        told += f", p of ±{c.margin:g} or more {numbers.p_value(c.adjusted_equivalence_p)}"
    elif c.adjusted_p is not None:
        told += f", p of no difference {numbers.p_value(c.adjusted_p)}{small(c)}"
    return tag("small", told)


def _beyond(c: RunComparison, reach: float) -> tuple[bool, bool]:
    """Which ends of the interval the drawing has no room for."""
    low, high = c.shown or (0.0, 0.0)
    return low < -reach * ROOM, high > reach * ROOM


def _drawing(c: RunComparison, margin: float, reach: float) -> Html:
    middle = 13
    scale = Scale(low=-reach * ROOM, high=reach * ROOM, start=2, end=WIDTH - 2)
    kind = "arm2" if c.verdict == "different" and c.difference > 0 else "arm1" if c.verdict == "different" else "arm0"
    parts = [
        tag("rect", x=scale(-margin), y=2, width=scale(margin) - scale(-margin), height=22, rx=3, class_="margin"),
        line(scale(0), 0, scale(0), 26, "median"),
        label(scale(-margin), 33, f"−{margin:g}", "middle", "small"),
        label(scale(0), 33, "0", "middle", "small"),
        label(scale(margin), 33, f"+{margin:g}", "middle", "small"),
    ]
    if c.shown:
        start, end = (min(max(scale(v), scale.start), scale.end) for v in c.shown)  # few runs may reach past any axis
        parts.append(line(start, middle, end, middle, f"bar {kind}"))
        tips = [(x, side) for x, side, beyond in zip((start, end), (1, -1), _beyond(c, reach), strict=True) if beyond]
        for x, side in tips:
            corners = f"{x},{middle} {x + 8 * side},{middle - 6} {x + 8 * side},{middle + 6}"
            parts.append(tag("polygon", points=corners, class_=f"{kind} solid tip"))
    parts.append(tag("circle", cx=scale(c.difference), cy=middle, r=5.5, class_=f"{kind} solid"))
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT + 2}", "width": WIDTH, "height": HEIGHT + 2}
    return tag("svg", *parts, **size, aria_hidden="true")
