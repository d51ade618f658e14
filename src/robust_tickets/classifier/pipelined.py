"""Functions that answer in the words of a transformers pipeline: for each text a list of {"label": …, "score": …}, or the top one alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robust_tickets.errors import TicketsError

ALL = "let it tell every class: pipeline(…, top_k=None)"
ROUNDING = 1e-6  # by which the top one of two may be below a half
NUMBERED = re.compile(r"label_(\d+)")  # what transformers calls classes that nobody named


def fed(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``; a pipeline of transformers is given pairs in the way it takes them, all others get tuples."""
    if not any(base.__name__ == "Pipeline" and base.__module__.startswith("transformers.") for base in type(function).__mro__):
        return function
    return lambda texts: function([text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts])


def by_label(given: Any, labels: Sequence[str], name: str) -> Any:
    """Scores in the order of ``labels`` where answers name their labels, in whatever order and case; any other answer as it is."""
    if not isinstance(given, list | tuple) or not any(map(_is_named, given)):
        return given
    rows = [[row] if isinstance(row, Mapping) else row for row in given]
    for place, row in enumerate(rows):
        if not _is_named(row):
            raise TicketsError(f"{name} answered text {place} with {row!r:.80}, others with labels and scores", hint=ALL)
    names = list(dict.fromkeys(str(told["label"]) for row in rows for told in row))
    classes = {called: _class_of(called, labels) for called in names}
    unknown = [called for called in names if classes[called] is None]
    if unknown:
        raise TicketsError(
            f"{name} answers with the label(s) {', '.join(unknown)}, expected {', '.join(labels)}",
            hint="give labels by the names that it answers with (--labels; in Python labels=[…]); "
            "what the data calls them is said by --label-map",
        )
    return [_scores(row, classes, labels, f"{name} answered text {place} with {row!r:.120}") for place, row in enumerate(rows)]


def _is_named(row: Any) -> bool:
    if isinstance(row, Mapping):
        return "label" in row and "score" in row
    return isinstance(row, list | tuple) and bool(row) and all(isinstance(told, Mapping) and _is_named(told) for told in row)


def _class_of(called: str, labels: Sequence[str]) -> int | None:
    """By name, then by name in any case, then by the number of LABEL_0, LABEL_1, …"""
    if called in labels:
        return labels.index(called)
    alike = [i for i, label in enumerate(labels) if label.casefold() == called.casefold()]
    if alike:
        return alike[0] if len(alike) == 1 else None
    number = NUMBERED.fullmatch(called.casefold())
    return int(number[1]) if number and int(number[1]) < len(labels) else None


def _scores(row: Sequence[Mapping[str, Any]], classes: Mapping[str, int | None], labels: Sequence[str], answered: str) -> list[float]:
    """The score of every class. Of two classes the top one is enough: the other has the rest."""
    try:
        scores = {classes[str(told["label"])]: float(told["score"]) for told in row}
    except (TypeError, ValueError):
        raise TicketsError(f"{answered}: a score is no number", hint="give every label the probability of its class") from None
    if len(scores) < len(row):
        raise TicketsError(f"{answered}: two scores for one class", hint=f"one score for each of {', '.join(labels)}")
    if len(labels) == 2 and len(scores) == 1:
        (top, score), *_ = scores.items()
        if score < 0.5 - ROUNDING or top is None:
            raise TicketsError(f"{answered}: of two classes one was told, and it is not the top one", hint=ALL)
        scores[1 - top] = 1 - score
    missing = [label for place, label in enumerate(labels) if place not in scores]
    if missing:
        raise TicketsError(f"{answered}: the score of {', '.join(missing)} is missing", hint=ALL)
    return [scores[place] for place in range(len(labels))]
