"""Attacked texts: the original, and the attack's version for one model of each arm, changed words marked.

An outcome keeps every example's status and the texts of some successes, so a card has the status on each arm, and the texts that were kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.report.format import GLUE
from robust_tickets.report.html import Case, Result, cards
from robust_tickets.reproduce.aggregate import Against, Standing, attacks_on, by_task, number, place
from robust_tickets.reproduce.outcome import LETTERS, Outcome, ids_of

ARMS = 8  # on a card: those with most runs
MOST = 90  # cards on the page
SIZE = 900_000  # characters of markup, likewise
OPEN = 4  # in sight without the script
STATUSES = {letter: status for status, letter in LETTERS.items()}


def texts(found: Sequence[Standing], folder: Path) -> Markup | None:
    """Cards: of every task and attack, first those on which the arms differ and of which most texts were kept."""
    groups = {
        f"{place(*where)} · {attack.title}": cases
        for where, members in by_task(found).items()
        for attack in attacks_on(members)
        if (cases := _cases(members, attack, folder))
    }
    if not groups:
        return None
    markup, shown = cards(groups, MOST, SIZE, OPEN)
    explanation = (
        "One model of each arm, its lowest seed; of many arms those with most runs. Struck out: the original words. Marked: what the attack "
        f"wrote. {shown} texts are here; the result files keep the first successes of every run."
    )
    return Markup("<p>{}</p>{}").format(explanation, markup)


def _cases(members: Sequence[Standing], attack: Against, folder: Path) -> list[Case]:
    """The examples of which some text was kept, with their results on each arm."""
    results, kept = dict[str, list[Result]](), dict[str, Mapping[str, Any]]()
    shown = sorted((one for one in members if attack in one.attacks), key=lambda one: (-one.units, one.place))[:ARMS]
    for one in sorted(shown, key=lambda one: one.place):
        outcome = min(one.outcomes, key=lambda outcome: (outcome.unit.repeat, outcome.unit.seed))
        attacked = attack.on(outcome)
        if attacked is None:
            continue
        try:
            ids = ids_of(folder, attacked.examples)
        except TicketsError:  # without the ids texts cannot be assigned
            continue
        whole = {str(of.get("id")): of for of in attacked.texts if of.get("original") and of.get("perturbed")}
        kept = whole | kept
        for id, letter, queries in zip(ids, attacked.statuses, attacked.queries, strict=False):
            text = whole.get(id, {})
            notes = [*([f"{queries} queries"] if letter in "fs" else []), *_chance(outcome, text)]
            about = one.place, one.title, STATUSES[letter], ", ".join(notes)
            results.setdefault(id, []).append(Result(*about, _columns(text.get("perturbed", ()))))
    names = TASKS[members[0].task].labels if members[0].task in TASKS else ()
    return [
        Case(id, _label(kept[id].get("label"), names), _columns(kept[id]["original"]), every)
        for id, every in results.items()
        if id in kept
    ]


def _chance(outcome: Outcome, text: Mapping[str, Any]) -> list[str]:
    before, after = (number(outcome, text.get(key)) for key in ("before", "after"))
    if before is None or after is None:
        return []
    return [f"true label from {100 * before:.0f} to {100 * after:.0f}{GLUE}%"]


def _label(value: Any, names: Sequence[str]) -> str:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return names[value] if known else str(value)


def _columns(value: Any) -> list[str]:
    """A text's columns: a pair has two."""
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
