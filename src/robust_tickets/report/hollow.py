"""Arms whose numbers under attack mean nothing: a model that gives every text one class is right on that class, whatever is attacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from robust_tickets.attack.flags import ONE_ANSWER
from robust_tickets.measure.metrics import only_class
from robust_tickets.report.run_data import Arm, number

COUNTS = ("n", "precision", "recall")


def one_answer(per_class: Sequence[Mapping[str, Any]]) -> str | None:
    """The class that every row of an evaluation got; none where there were several, or where the file does not say."""
    rows = [{key: value for key in COUNTS if (value := number(row.get(key))) is not None} for row in per_class]
    if any(len(row) < len(COUNTS) for row in rows):
        return None
    place = only_class(rows)
    return None if place is None else str(per_class[place].get("label", place))


def trained_to_one(arm: Arm) -> bool:
    """Whether the arm gave all rows of the split it was evaluated on one class."""
    return arm.evaluation is not None and one_answer(arm.evaluation.per_class) is not None


def hollow(arm: Arm, attack: str) -> bool:
    """Whether what ``attack`` found on the arm says nothing. Where there is an evaluation, which has more texts, that decides."""
    found = arm.attack(attack)
    if found is not None and arm.evaluation is not None and arm.evaluation.per_class:
        return trained_to_one(arm)
    return found is not None and ONE_ANSWER in found.codes


def said(arms: Sequence[Arm], titles: str) -> str:
    """One sentence on such arms, which ``titles`` lists: what is wrong, what to do, and what not to believe."""
    many = len(arms) > 1
    texts = "every text" if all(map(trained_to_one, arms)) else "every attacked text"
    cure = (
        "train longer or on more rows"
        if all(arm.evaluation is not None for arm in arms)
        else "see what the victim does with its texts"
    )
    return f"{titles} give{'' if many else 's'} {texts} one class: {cure}; {'their' if many else 'its'} numbers under attack say nothing."
