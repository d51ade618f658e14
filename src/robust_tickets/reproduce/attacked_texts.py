"""Attacked texts: the original, and what the attack made of it for one model of each arm, changed words marked.

An outcome keeps some successes' texts and every example's fate, so that a card says of each arm whether it held; a text stands there where
it was kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from markupsafe import Markup

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import colour
from robust_tickets.report.format import GLUE
from robust_tickets.report.html import MACROS
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.reproduce.aggregate import (
    Against,
    Standing,
    attacks_on,
    by_task,
    number,
)
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.outcome import Outcome, ids_of

ARMS = 8  # on a card: those with most runs
MOST = 90  # cards on the page
SIZE = 900_000  # characters of markup, likewise
OPEN = 4  # in sight without the script
FATES = {
    "f": ("failed", "held"), "s": ("success", "fooled"), "k": ("skipped", "wrong before"), "u": ("error", "error"), "e": ("error", "error"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Fate:
    """What became of one example on one arm's model."""

    one: Standing
    outcome: Outcome  # of that model
    letter: str
    queries: int
    text: Mapping[str, Any] | None


def texts(found: Sequence[Standing], folder: Path) -> Markup | None:
    """Cards: of every task and attack, those first on which the arms fared differently and most texts were kept."""
    pairs = [(members, attack) for members in by_task(found).values() for attack in attacks_on(members)]
    groups = [(attack, cases) for members, attack in pairs if (cases := _cases(members, attack, folder))]
    if not groups:
        return None
    cards, arms, attacks = list[Markup](), dict[str, str](), dict[str, str]()
    for attack, cases in groups:
        left, begun = SIZE // len(groups), len(cards)
        for id, fates in sorted(cases.items(), key=_worth)[: max(1, MOST // len(groups))]:
            card = MACROS.card(_card(id, attack, fates))
            left -= len(card)
            if left < 0 and len(cards) > begun:
                break
            cards.append(card)
            arms |= {str(fate.one.place): fate.one.title for fate in fates}
            attacks[_which(fates[0].one.task, attack)] = f"{task_title(fates[0].one.task)}: {attack.title}"
    explanation = (
        "One model of each arm, its lowest seed; of many arms those with most runs. Struck out: what stood there. Marked: what the attack "
        f"wrote. {len(cards)} texts are here; the result files keep the first successes of every run."
    )
    fields = [("Attack ", "attack", "any", attacks)] if len(attacks) > 1 else []
    fields.append(("Outcome ", "outcome", "any", dict(FATES.values())))
    fields += [("for ", "arm", "any arm", arms)] if len(arms) > 1 else []
    return Markup("<p>{}</p>{}").format(explanation, MACROS.cases(fields, True, cards[:OPEN], cards[OPEN:]))


def _cases(members: Sequence[Standing], attack: Against, folder: Path) -> dict[str, list[Fate]]:
    """By example that some text was kept of, what became of it on each arm."""
    fates: dict[str, list[Fate]] = {}
    shown = sorted((one for one in members if attack in one.attacks), key=lambda one: (-one.units, one.place))[:ARMS]
    for one in sorted(shown, key=lambda one: one.place):
        outcome = min(one.outcomes, key=lambda outcome: (outcome.unit.repeat, outcome.unit.seed))
        attacked = attack.on(outcome)
        if attacked is None:
            continue
        try:
            ids = ids_of(folder, attacked.examples)
        except TicketsError:  # without the ids there is no telling which text is whose
            continue
        kept = {str(text.get("id")): text for text in attacked.texts if text.get("original") and text.get("perturbed")}
        for id, letter, queries in zip(ids, attacked.statuses, attacked.queries, strict=False):
            fate = Fate(one=one, outcome=outcome, letter=letter, queries=queries, text=kept.get(id))
            fates.setdefault(id, []).append(fate)
    return {id: rows for id, rows in fates.items() if any(fate.text is not None for fate in rows)}


def _worth(case: tuple[str, Sequence[Fate]]) -> tuple[bool, int]:
    """Small for what is worth looking at."""
    return not _differ(case[1]), -sum(fate.text is not None for fate in case[1])


def _differ(fates: Sequence[Fate]) -> bool:
    return len({fate.letter for fate in fates}) > 1


def _which(task: str, attack: Against) -> str:
    return f"{task}:{attack.name}:{attack.split}"


def _card(id: str, attack: Against, fates: Sequence[Fate]) -> SimpleNamespace:
    task, first = fates[0].one.task, next(fate.text for fate in fates if fate.text is not None)
    names, value = TASKS[task].labels if task in TASKS else (), first.get("label")
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return SimpleNamespace(
        id=id,
        attack=_which(task, attack),
        title=f"{task_title(task)} · {attack.title}",
        label=names[value] if known else str(value),  # type: ignore[index]
        differs=_differ(fates),
        original=[opening(column) for column in _columns(first["original"])],
        outcomes=[_fate(fate) for fate in fates],
    )


def _fate(fate: Fate) -> dict[str, Any]:
    status, word = FATES[fate.letter]
    notes, perturbed = [f"{fate.queries} queries"] if fate.letter in "fs" else [], []
    if fate.text is not None:
        before, after = (number(fate.outcome, fate.text.get(key)) for key in ("before", "after"))
        if before is not None and after is not None:
            notes.append(f"true label from {100 * before:.0f} to {100 * after:.0f}{GLUE}%")
        old, new = _columns(fate.text["original"]), _columns(fate.text["perturbed"])
        perturbed = [folded(a, b) for a, b in zip([*old, *[""] * (len(new) - len(old))], new, strict=False)]
    return {
        "arm": fate.one.place, "title": fate.one.title, "colour": colour(fate.one.place), "status": status, "word": word,
        "notes": ", ".join(notes), "perturbed": perturbed,
    }  # fmt: skip


def _columns(value: Any) -> list[str]:
    """A text's columns: a pair has two."""
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
