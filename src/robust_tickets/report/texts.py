"""Attacked texts: the original once, then what each arm did with it, changed words marked.

The marks come from comparing the two texts word by word, not from what an attack says it changed: the page shows what is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from robust_tickets.report.figures.axes import colour
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.model import Arm, Example, Run

MOST = 120  # examples on the page; the files hold all
OPEN = 6  # of them shown at once
OUTCOMES = {"success": "fooled", "failed": "held", "skipped": "wrong before", "error": "error"}
_WORDS = re.compile(r"[\w'’-]+|\s+|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One example as every arm met it."""

    id: str
    outcomes: tuple[tuple[int, Arm, Example], ...]

    @property
    def split(self) -> bool:
        """Whether the arms fared differently."""
        return len({example.status for _, _, example in self.outcomes}) > 1


def texts(run: Run, attack: str) -> Html | None:
    """All cases of one attack: those on which the arms differ come first, each group in the order of the attack set."""
    cases = _cases(run, attack)
    if not cases:
        return None
    ordered = sorted(cases, key=lambda case: (not case.split, all(e.status == "skipped" for _, _, e in case.outcomes)))[:MOST]
    differ = sum(case.split for case in cases)
    told = f"{len(cases)} texts attacked with {run.attack_titles[attack]}; the arms fared differently on {differ}. Those come first."
    if len(cases) > MOST:
        told += f" {MOST} are shown, examples.jsonl holds all."
    shown = [_card(run, case) for case in ordered]
    more = None
    if len(shown) > OPEN:
        more = tag("details", tag("summary", f"{len(shown) - OPEN} more texts"), *shown[OPEN:], class_="more")
    return join([tag("p", told), _filters(run), tag("div", *shown[:OPEN], more, class_="cases")])


def _cases(run: Run, attack: str) -> list[Case]:
    found: dict[str, list[tuple[int, Arm, Example]]] = {}
    for i, arm in enumerate(run.arms):
        result = arm.attack(attack)
        for example in result.examples if result else ():
            found.setdefault(example.id, []).append((i, arm, example))
    return [Case(id=key, outcomes=tuple(rows)) for key, rows in found.items()]


def _filters(run: Run) -> Html:
    """Controls that the script shows; without it the page simply lists everything."""
    outcome = [tag("option", word, value=status) for status, word in OUTCOMES.items()]
    arm = [tag("option", a.title, value=str(i)) for i, a in enumerate(run.arms)]
    return tag(
        "form",
        tag("label", "Outcome ", tag("select", tag("option", "any", value=""), *outcome, name="outcome")),
        tag("label", "for ", tag("select", tag("option", "any arm", value=""), *arm, name="arm")),
        tag("label", "containing ", tag("input", type="search", name="words", autocomplete="off")),
        tag("output", "", aria_live="polite"),
        class_="filters",
        hidden=True,
    )


def _card(run: Run, case: Case) -> Html:
    first = case.outcomes[0][2]
    rows = [_outcome(run, i, arm, example) for i, arm, example in case.outcomes]
    head = tag("p", tag("span", case.id, class_="id"), " true label ", tag("b", run.label(first.label)), class_="about")
    return tag("article", head, _text(first.original), tag("ul", *rows), class_="case")


def _outcome(run: Run, index: int, arm: Arm, example: Example) -> Html:
    word = OUTCOMES[example.status]
    notes = []
    if example.status == "success":
        notes.append(f"now {run.label(example.predicted)}")
    if example.queries is not None and example.status in ("success", "failed"):
        notes.append(f"{example.queries} queries")
    if example.error:
        notes.append(example.error)
    head = tag(
        "p",
        tag("span", arm.title, class_=f"arm {colour(index)}"),
        " ",
        tag("span", word, class_=f"chip {example.status}"),
        " ",
        tag("small", ", ".join(notes)) if notes else None,
    )
    changed = example.perturbed is not None and example.status == "success"
    body = _text(_marked(example.original, example.perturbed or ())) if changed else None
    return tag("li", head, body, data_arm=str(index), data_outcome=example.status)


def _text(columns: Sequence[object]) -> Html:
    return join([tag("blockquote", tag("bdi", column, dir="auto")) for column in columns])


def _marked(before: Sequence[str], after: Sequence[str]) -> list[Html]:
    pairs = [(before[i] if i < len(before) else "", text) for i, text in enumerate(after)]
    return [mark(old, new) for old, new in pairs]


def mark(before: str, after: str) -> Html:
    """``after`` with every changed word marked and what it replaced struck out before it."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    parts: list[Html] = []
    for same, a, b in _runs(old, new):
        if same:
            parts.append(join(b))
            continue
        gone, come = "".join(a), "".join(b)
        parts.append(tag("del", gone) if gone.strip() else Html(""))
        parts.append(Html(" ") if gone.strip() and come.strip() else Html(""))
        parts.append(tag("ins", come) if come.strip() else join([come]))
    return join(parts)


def _runs(old: list[str], new: list[str]) -> list[tuple[bool, list[str], list[str]]]:
    if len(old) == len(new):  # word for word, the usual case; cheap and never shifted by a repeated word
        return [(a == b, [a], [b]) for a, b in zip(old, new, strict=True)]
    codes = SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return [(kind == "equal", old[a:b], new[c:d]) for kind, a, b, c, d in codes]
