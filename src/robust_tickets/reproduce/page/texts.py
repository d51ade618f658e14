"""Attacked texts: the original, and what the attack made of it for one model of each arm, changed words marked.

An outcome keeps some successes' texts and every example's fate, so that a card says of each arm whether it held; a text stands there where
it was kept. Texts are hostile input: ``report.text_diff`` and ``report.markup`` escape them and show what cannot be seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import colour
from robust_tickets.report.html import MACROS
from robust_tickets.report.markup import Html, join, tag
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.reproduce.aggregate import number
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.outcome import Attacked, Outcome, ids_of
from robust_tickets.reproduce.page.standing import Against, Standing, attacks_of, by_task

ARMS = 8  # on a card: those with most runs
MOST = 90  # cards on the page
SIZE = 900_000  # characters of markup, likewise
OPEN = 4  # in sight without the script
FATES = {
    "s": ("success", "fooled"),
    "f": ("failed", "held"),
    "k": ("skipped", "wrong before"),
    "u": ("error", "error"),
    "e": ("error", "error"),
}


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of one example on one arm's model."""

    one: Standing
    outcome: Outcome  # of that model
    letter: str
    queries: int
    text: Mapping[str, Any] | None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One example under one attack."""

    id: str
    task: str
    attack: Against
    fates: tuple[Fate, ...]

    @property
    def first(self) -> Mapping[str, Any]:
        return next(fate.text for fate in self.fates if fate.text is not None)

    @property
    def differ(self) -> bool:
        return len({fate.letter for fate in self.fates}) > 1


def texts(found: Sequence[Standing], folder: Path) -> Html | None:
    """Cards: of every task and attack, those first on which the arms fared differently and most texts were kept."""
    groups = [_cases(members, attack, folder) for members in by_task(found).values() for attack in attacks_of(members)]
    groups = [sorted(cases, key=_worth) for cases in groups if cases]
    if not groups:
        return None
    most, size = max(1, MOST // len(groups)), SIZE // len(groups)
    shown = [pair for cases in groups for pair in _fitting(cases[:most], size)]
    told = "One model of each arm, its lowest seed; of many arms those with most runs. "
    told += "Struck out: what stood there. Marked: what the attack wrote. "
    told += f"{len(shown)} texts are here; the result files keep the first successes of every run."
    more = None
    if len(shown) > OPEN:
        more = tag(
            "details",
            tag("summary", f"{len(shown) - OPEN} more texts"),
            *[card for card, _ in shown[OPEN:]],
            class_="more",
        )
    listed = tag("div", *[card for card, _ in shown[:OPEN]], more, class_="cases")
    return join([tag("p", told), _filters([case for _, case in shown]), listed, MACROS.turner()])


def _cases(members: Sequence[Standing], attack: Against, folder: Path) -> list[Case]:
    fates: dict[str, list[Fate]] = {}
    shown = sorted((one for one in members if attack in one.attacks), key=lambda one: (-one.units, one.place))[:ARMS]
    for one in sorted(shown, key=lambda one: one.place):
        outcome = min(one.outcomes, key=lambda outcome: (outcome.unit.repeat, outcome.unit.seed))
        attacked = _attacked(outcome, attack)
        if attacked is None:
            continue
        try:
            ids = ids_of(folder, attacked.examples)
        except TicketsError:  # without the ids there is no telling which text is whose
            continue
        kept = {str(text.get("id")): text for text in attacked.texts if text.get("original") and text.get("perturbed")}
        for id, letter, queries in zip(ids, attacked.statuses, attacked.queries, strict=False):
            fates.setdefault(id, []).append(
                Fate(one=one, outcome=outcome, letter=letter, queries=queries, text=kept.get(id))
            )
    return [
        Case(id=id, task=members[0].task, attack=attack, fates=tuple(rows))
        for id, rows in fates.items()
        if any(fate.text is not None for fate in rows)
    ]


def _worth(case: Case) -> tuple[bool, int]:
    """Small for what is worth looking at."""
    return not case.differ, -sum(fate.text is not None for fate in case.fates)


def _attacked(outcome: Outcome, attack: Against) -> Attacked | None:
    split = attack.split or outcome.clean.get("split")
    return next((one for one in outcome.attacks if one.name == attack.name and one.split == split), None)


def _fitting(cases: Sequence[Case], size: int) -> list[tuple[Html, Case]]:
    found: list[tuple[Html, Case]] = []
    for case in cases:
        card = _card(case)
        size -= len(card)
        if size < 0 and found:
            break
        found.append((card, case))
    return found


def _filters(cases: Sequence[Case]) -> Html:
    attacks = {_which(case): f"{task_title(case.task)}: {case.attack.title}" for case in cases}
    arms = {str(fate.one.place): fate.one.title for case in cases for fate in case.fates}
    outcomes = dict(FATES.values())
    return tag(
        "form",
        MACROS.choice("Attack ", "attack", "any", attacks) if len(attacks) > 1 else None,
        MACROS.choice("Outcome ", "outcome", "any", outcomes),
        MACROS.choice("for ", "arm", "any arm", arms) if len(arms) > 1 else None,
        tag("label", tag("input", type="checkbox", name="differ"), " arms differ"),
        tag("label", "Containing ", tag("input", type="search", name="words", autocomplete="off")),
        tag("button", "Show all", type="reset"),
        class_="filters",
        hidden=True,
        aria_label="Which texts to show",
    )


def _which(case: Case) -> str:
    return f"{case.task}:{case.attack.name}:{case.attack.split}"


def _card(case: Case) -> Html:
    where = f" {task_title(case.task)} · {case.attack.title} · true label "
    head = tag(
        "p",
        tag("span", case.id, class_="id"),
        where,
        tag("b", label(case.task, case.first.get("label"))),
        class_="about",
    )
    body = join([opening(column) for column in columns(case.first["original"])])
    rows = [_fate(fate) for fate in case.fates]
    return tag(
        "article", head, body, tag("ul", *rows), class_="case", data_attack=_which(case), data_differ=case.differ
    )


def _fate(fate: Fate) -> Html:
    status, word = FATES[fate.letter]
    asked = f"{fate.queries} queries" if fate.letter in "fs" else ""
    if (
        fate.text is not None
        and (sure := [number(fate.outcome, fate.text.get(key)) for key in ("before", "after")])
        and None not in sure
    ):
        asked += f", true label from {100 * (sure[0] or 0):.0f} to {100 * (sure[1] or 0):.0f}\u00a0%"
    name = tag("span", fate.one.title, class_=f"arm {colour(fate.one.place)}")
    head = tag("p", name, " ", tag("span", word, class_=f"chip {status}"), " ", tag("small", asked) if asked else None)
    body = None
    if fate.text is not None:
        old, new = columns(fate.text["original"]), columns(fate.text["perturbed"])
        body = join([folded(a, b) for a, b in zip([*old, *[""] * (len(new) - len(old))], new, strict=False)])
    return tag("li", head, body, data_arm=str(fate.one.place), data_outcome=status)


def columns(value: Any) -> list[str]:
    """A text's columns: a pair has two."""
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]


def label(task: str, value: Any) -> str:
    """A label's name, where the task is a registered one."""
    names = TASKS[task].labels if task in TASKS else ()
    return (
        names[value]
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
        else str(value)
    )
