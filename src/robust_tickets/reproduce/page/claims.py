"""The questions that were fixed before the runs, and what the runs answer: differences with their intervals, the margin, a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robust_tickets.measure.verdict import RunComparison
from robust_tickets.report import numbers
from robust_tickets.report.figures.axes import Scale, label, line
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.reproduce.claims import Family, Judged, family, judge, told
from robust_tickets.reproduce.names import arm_title, attack_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.page.standing import exact

WIDTH, HEIGHT = 300, 34  # pixels of a difference's drawing
VERDICTS = {"different": "sure", "equivalent": "same", "undecided": "open", "too few runs": "few"}


def claims(outcomes: Sequence[Outcome], folder: Path) -> Html | None:
    """Every family of the campaigns of which something was run. Families of the papers' tables stand with their tables."""
    found = [(family(id), judge(id, outcomes, folder)) for id in told()["families"]]
    parts = [answer(of, judged) for of, judged in found if any(one.comparison for one in judged)]
    return join(parts) if parts else None


def answer(of: Family, judged: Sequence[Judged]) -> Html:
    """A question and its claims, on one axis."""
    made = [one for one in judged if one.comparison]
    sure = [end for one in made if one.comparison and one.comparison.enough for end in (one.comparison.interval or ())]
    reach = max(2 * of.margin, *(abs(end) for end in (*sure, *(one.comparison.difference for one in made if one.comparison))))
    rows = [_row(one, of.margin, reach) for one in made]
    rest = [one for one in judged if not one.comparison]
    told = (
        f"{of.title}. Accuracy under attack, first minus second, in points, mean over training runs, with Welch's 95{numbers.GLUE}% "
        f"interval; the grey band is the margin of ±{of.margin:g}. Verdicts are adjusted for the {len(made)} claims together (Holm)."
    )
    missing = [tag("li", f"{_named(one)}, {attack_title(one.claim.attack)}: {one.why}") for one in rest]
    more = tag("details", tag("summary", f"{len(rest)} claims without runs"), tag("ul", *missing)) if rest else None
    said = tag("p", _said(made), class_="verdict lesser")
    listed = tag("ul", *rows, class_="claims")
    return tag("article", tag("h3", of.question), said, listed, tag("p", told, class_="quiet"), more, class_="answer")


def table_claims(id: str, judged: Sequence[Judged]) -> Html | None:
    """The claims of a paper's table, closed: the method of the paper against the other rows."""
    if not any(one.comparison for one in judged):
        return None
    counts = {verdict: sum(one.verdict == verdict for one in judged if one.comparison) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return tag("details", tag("summary", f"{family(id).question}, by our runs: {told}"), answer(family(id), judged))


def _said(made: Sequence[Judged]) -> str:
    """The answer in short, from the verdicts alone: what is sure, then how many claims are not."""
    counts = {verdict: [one for one in made if one.verdict == verdict] for verdict in VERDICTS}
    told = [_sure(one) for one in (*counts["different"], *counts["equivalent"])]
    rest = {"undecided": counts["undecided"], "left open by too few runs": counts["too few runs"]}
    for words, found in rest.items():
        if len(found) == len(made):
            told.append(f"All {len(found)} claims are {words}." if len(found) > 1 else f"It is {words}.")
        elif found:
            told.append(f"{len(found)} of {len(made)} claims {'are' if len(found) > 1 else 'is'} {words}.")
    return " ".join(told)


def _sure(one: Judged) -> str:
    c = one.comparison
    assert c is not None
    first, second, how = arm_title(c.arm), arm_title(c.other), f"under {attack_title(one.claim.attack)}"
    if one.verdict == "equivalent":
        return f"{first} and {second} are alike within {c.margin:g} points {how}."
    return f"{first} is {'sturdier' if c.difference > 0 else 'weaker'} than {second} by {abs(c.difference):.1f} points {how}."


def _named(one: Judged) -> str:
    return f"{arm_title(one.claim.arm)} − {arm_title(one.claim.other)}"


def _row(one: Judged, margin: float, reach: float) -> Html:
    c = one.comparison
    assert c is not None
    name = tag("p", tag("b", _named(one)), tag("small", attack_title(one.claim.attack)), class_="name")
    verdict = tag("p", tag("span", one.verdict, class_=f"chip {VERDICTS[one.verdict]}"), _p(c), class_="verdict-of")
    value = tag("data", numbers.points(c.difference), value=exact(c.difference))
    span = tag("small", numbers.signed_span(c.interval)) if c.interval else None
    return tag("li", name, tag("p", value, span, class_="value"), _drawing(c, margin, reach), verdict)


def _p(c: RunComparison) -> Html:
    told = f"{c.n[0]} and {c.n[1]} runs"
    if c.adjusted_p is not None:
        told += f", p adjusted {numbers.p_value(c.adjusted_p)}"
    return tag("small", told)


def _drawing(c: RunComparison, margin: float, reach: float) -> Html:
    middle = 13
    scale = Scale(low=-reach * 1.05, high=reach * 1.05, start=2, end=WIDTH - 2)
    kind = "arm2" if c.verdict == "different" and c.difference > 0 else "arm1" if c.verdict == "different" else "arm0"
    parts = [
        tag("rect", x=scale(-margin), y=2, width=scale(margin) - scale(-margin), height=22, rx=3, class_="margin"),
        line(scale(0), 0, scale(0), 26, "median"),
        label(scale(-margin), 33, f"−{margin:g}", "middle", "small"),
        label(scale(0), 33, "0", "middle", "small"),
        label(scale(margin), 33, f"+{margin:g}", "middle", "small"),
    ]
    if c.interval:
        start, end = (min(max(scale(v), scale.start), scale.end) for v in c.interval)  # few runs may reach past any axis
        parts.append(line(start, middle, end, middle, f"bar {kind}"))
    parts.append(tag("circle", cx=scale(c.difference), cy=middle, r=5.5, class_=f"{kind} solid"))
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT + 2}", "width": WIDTH, "height": HEIGHT + 2}
    return tag("svg", *parts, **size, aria_hidden="true")
