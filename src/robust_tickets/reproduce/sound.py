"""Whether result files agree with themselves and each other: a number changed by hand, or one run counted twice, shows beside it.

No seal: a file that was changed throughout passes, and the repository's history is what speaks against it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    from robust_tickets.reproduce.outcome import Outcome

NEAR = 1e-6  # texts: shares are kept with all their digits
FOOLED = "s"
HINT = "restore the file; results are not edited"


def check(outcome: Outcome) -> None:
    """Refuse an outcome that contradicts itself."""
    for found in (_seed(outcome), _clean(outcome), _attacks(outcome)):
        if found:
            raise TicketsError(f"{outcome.unit.id}: {found}", hint=HINT)


def check_apart(outcomes: Sequence[Outcome]) -> None:
    """Refuse two seeds of an arm with one model: a run copied to another seed would make intervals narrower. A repeat may give it again."""
    known: dict[Any, Outcome] = {}
    for one in sorted(outcomes, key=lambda one: one.unit):
        if trained := one.inputs.get("trained"):
            unit = one.unit
            before = known.setdefault((unit.task, unit.arm, unit.backbone, unit.flavour, trained), one).unit
            if before.seed != unit.seed:
                raise TicketsError(
                    f"{before.id} and {unit.id} hold one trained model",
                    hint="a seed is a run of its own: remove the copy",
                )


def check_texts(outcome: Outcome, ids: Mapping[str, Sequence[str]]) -> None:
    """Refuse statuses that the texts kept beside them contradict: those are texts that fooled the model. ``ids``: by their hash."""
    for one in outcome.attacks:
        letters = dict(zip(ids.get(one.examples, ()), one.statuses, strict=False))  # too few are told elsewhere
        for text in one.texts:
            if letters.get(str(text.get("id")), FOOLED) != FOOLED:
                told = f"{outcome.unit.id}, {one.name}: {text['id']} fooled the model by its text, and did not by its status"
                raise TicketsError(told, hint=HINT)


def _seed(outcome: Outcome) -> str | None:
    recipe = outcome.config.get("recipe")
    own = recipe.get("seed", outcome.unit.seed) if isinstance(recipe, dict) else outcome.unit.seed
    return None if own == outcome.unit.seed else f"its config has the seed {own}"


def _clean(outcome: Outcome) -> str | None:
    """Accuracy is a count of the evaluated texts, and that of its classes."""
    clean: dict[str, Any] = {name: outcome.clean.get(name) for name in ("accuracy", "n", "per_class")}
    value, n, classes = clean.values()
    if not _number(value):
        return None  # said where it is asked for
    if not 0 <= value <= 100:
        return f"a clean accuracy of {value} %"
    if not _number(n):
        return None
    right = value * n / 100
    if abs(right - round(right)) > NEAR * n:
        return f"a clean accuracy of {value} %, which is no count of {n} texts"
    try:
        told = math.fsum(one["recall"] * one["n"] / 100 for one in classes) if classes else right
    except (KeyError, TypeError):
        return "its classes cannot be read"
    return None if abs(told - right) <= NEAR * n else f"{right:.0f} of {n} texts are right, by its classes {told:.0f}"


def _attacks(outcome: Outcome) -> str | None:
    twice = [name for name, count in Counter(one.name for one in outcome.attacks).items() if count > 1]
    return f"{twice[0]} stands in it twice" if twice else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
