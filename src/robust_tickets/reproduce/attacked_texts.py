"""Attacked texts: the original, and the attack's version for one model of each arm, changed words marked.

An outcome keeps every example's status and the texts of some successes, so a card has the status on each arm, and the texts that were kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from markupsafe import Markup

from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError
from robust_tickets.report.charts import colour
from robust_tickets.report.format import GLUE
from robust_tickets.report.html import MACROS
from robust_tickets.report.text_diff import folded, opening
from robust_tickets.reproduce.aggregate import Against, Standing, attacks_on, by_task, number
from robust_tickets.reproduce.arms import task_title
from robust_tickets.reproduce.outcome import Outcome, ids_of

ARMS = 8  # on a card: those with most runs
MOST = 90  # cards on the page
SIZE = 900_000  # characters of markup, likewise
OPEN = 4  # in sight without the script
STATUSES = {
    "f": ("failed", "held"), "s": ("success", "fooled"), "k": ("skipped", "wrong before"), "u": ("error", "error"), "e": ("error", "error"),
}  # fmt: skip


class ArmResult(NamedTuple):
    """One example on the model of one arm."""

    one: Standing
    outcome: Outcome  # of that model
    letter: str
    queries: int
    text: Mapping[str, Any] | None


def texts(found: Sequence[Standing], folder: Path) -> Markup | None:
    """Cards: of every task and attack, first those on which the arms differ and of which most texts were kept."""
    pairs = [(members, attack) for members in by_task(found).values() for attack in attacks_on(members)]
    groups = [(attack, cases) for members, attack in pairs if (cases := _cases(members, attack, folder))]
    if not groups:
        return None
    cards, arms, attacks = list[Markup](), dict[str, str](), dict[str, str]()
    for attack, cases in groups:
        left, begun = SIZE // len(groups), len(cards)
        best = sorted(cases.items(), key=lambda case: (not _differ(case[1]), -sum(r.text is not None for r in case[1])))
        for id, results in best[: max(1, MOST // len(groups))]:
            made = _card(id, attack, results)
            card = MACROS.card(made)
            left -= len(card)
            if left < 0 and len(cards) > begun:
                break
            cards.append(card)
            arms |= {str(result.one.place): result.one.title for result in results}
            attacks[made.attack] = f"{task_title(results[0].one.task)}: {attack.title}"
    explanation = (
        "One model of each arm, its lowest seed; of many arms those with most runs. Struck out: the original words. Marked: what the attack "
        f"wrote. {len(cards)} texts are here; the result files keep the first successes of every run."
    )
    fields = [("Attack ", "attack", "any", attacks)] if len(attacks) > 1 else []
    fields.append(("Outcome ", "outcome", "any", dict(STATUSES.values())))
    fields += [("for ", "arm", "any arm", arms)] if len(arms) > 1 else []
    return Markup("<p>{}</p>{}").format(explanation, MACROS.cases(fields, True, cards[:OPEN], cards[OPEN:]))


def _cases(members: Sequence[Standing], attack: Against, folder: Path) -> dict[str, list[ArmResult]]:
    """The results on each arm by example, if some text of it was kept."""
    cases: dict[str, list[ArmResult]] = {}
    shown = sorted((one for one in members if attack in one.attacks), key=lambda one: (-one.units, one.place))[:ARMS]
    for one in sorted(shown, key=lambda one: one.place):
        outcome = min(one.outcomes, key=lambda outcome: (outcome.unit.repeat, outcome.unit.seed))
        attacked = attack.on(outcome)
        try:
            ids = ids_of(folder, attacked.examples) if attacked is not None else ()
        except TicketsError:  # without the ids texts cannot be assigned
            continue
        if attacked is not None:
            kept = {
                str(text.get("id")): text for text in attacked.texts if text.get("original") and text.get("perturbed")
            }
            for id, letter, queries in zip(ids, attacked.statuses, attacked.queries, strict=False):
                cases.setdefault(id, []).append(ArmResult(one, outcome, letter, queries, kept.get(id)))
    return {id: results for id, results in cases.items() if any(result.text is not None for result in results)}


def _differ(results: Sequence[ArmResult]) -> bool:
    return len({result.letter for result in results}) > 1


def _card(id: str, attack: Against, results: Sequence[ArmResult]) -> SimpleNamespace:
    task, first = results[0].one.task, next(result.text for result in results if result.text is not None)
    names, value = TASKS[task].labels if task in TASKS else (), first.get("label")
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return SimpleNamespace(
        id=id,
        attack=f"{task}:{attack.name}:{attack.split}",
        title=f"{task_title(task)} · {attack.title}",
        label=names[value] if known else str(value),  # type: ignore[index]
        differs=_differ(results),
        original=[opening(column) for column in _columns(first["original"])],
        outcomes=[_result(result) for result in results],
    )


def _result(result: ArmResult) -> dict[str, Any]:
    status, word = STATUSES[result.letter]
    notes, perturbed = [f"{result.queries} queries"] if result.letter in "fs" else [], []
    if result.text is not None:
        before, after = (number(result.outcome, result.text.get(key)) for key in ("before", "after"))
        if before is not None and after is not None:
            notes.append(f"true label from {100 * before:.0f} to {100 * after:.0f}{GLUE}%")
        old, new = _columns(result.text["original"]), _columns(result.text["perturbed"])
        perturbed = [folded(a, b) for a, b in zip([*old, *[""] * (len(new) - len(old))], new, strict=False)]
    return {
        "arm": result.one.place, "title": result.one.title, "colour": colour(result.one.place), "status": status, "word": word,
        "notes": ", ".join(notes), "perturbed": perturbed,
    }  # fmt: skip


def _columns(value: Any) -> list[str]:
    """A text's columns: a pair has two."""
    return [str(part) for part in value] if isinstance(value, list | tuple) else [str(value)]
