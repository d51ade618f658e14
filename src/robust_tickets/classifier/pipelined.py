"""Functions that answer in the words of a transformers pipeline: for each text a list of {"label": …, "score": …}, or the top one alone.

A pipeline itself can be asked how it makes scores, and is: of two classes that it scores each by itself (sigmoid), or not at all (logits),
the top one says nothing about the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from robust_tickets.classifier.heads import check_head
from robust_tickets.errors import TicketsError

ALL = "let it tell every class: pipeline(…, top_k=None)"
SOFTMAX = 'let it give probabilities that sum to 1: pipeline(…, function_to_apply="softmax")'
ROUNDING = 1e-6  # by which the top one of two may be below a half
NUMBERED = re.compile(r"label_(\d+)")  # what transformers calls classes that nobody named


def fed(function: Callable[..., Any], labels: Sequence[str], name: str) -> Callable[..., Any]:
    """``function``; a pipeline of transformers is given pairs in the way it takes them, all others get tuples.

    Refused is a pipeline whose scores are not the probabilities of ``labels``.
    """
    theirs = {base.__name__: base for base in type(function).__mro__ if base.__module__.startswith("transformers.")}
    if "Pipeline" not in theirs:
        return function

    def ask(texts: Sequence[Any]) -> Any:
        return function([text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts])

    judge: Any = theirs.get("TextClassificationPipeline")
    if judge is None or getattr(type(function), "postprocess", None) is not judge.postprocess:
        return ask  # one of the user's own: its answers are looked at, as any function's are
    return _of_one_class(function, ask, tuple(labels), name)


def _of_one_class(pipe: Any, ask: Callable[..., Any], labels: tuple[str, ...], name: str) -> Callable[..., Any]:
    """``ask``, where it tells what is needed of the one class that a text has."""
    config, asked = pipe.model.config, getattr(pipe, "_postprocess_params", {})
    scoring, told, top = (
        _scoring(config, asked.get("function_to_apply")),
        list(config.id2label.values()),
        asked.get("top_k", 1),
    )
    if len(told) == 1:
        return _with_its_opposite(ask, str(told[0]), scoring, labels, name)
    if scoring != "softmax":
        check_head(config, name)  # of many labels at once, or of numbers
    if scoring == "sigmoid":
        raise TicketsError(
            f"{name} scores each of its {len(told)} classes by itself (sigmoid): no probabilities", hint=SOFTMAX
        )
    if top is not None and scoring != "softmax":
        raise TicketsError(f"{name} tells the top class alone, by its logit: no probability", hint=SOFTMAX)
    if top is not None and len(told) > len(labels):  # what is left of 1 is not the other one's
        raise TicketsError(
            f"{name} has {len(told)} classes ({', '.join(map(str, told))}), got {len(labels)} labels",
            hint="name them all",
        )
    return ask


def _scoring(config: Any, given: Any) -> str:
    """What a pipeline makes of logits, by the rules of its ``postprocess``: softmax, sigmoid or none."""
    kind = getattr(config, "problem_type", None)
    if given is not None:
        return str(getattr(given, "name", given)).lower()
    if kind == "regression":
        return "none"
    return "sigmoid" if kind == "multi_label_classification" or config.num_labels == 1 else "softmax"


def _with_its_opposite(
    ask: Callable[..., Any], one: str, scoring: str, labels: tuple[str, ...], name: str
) -> Callable[..., Any]:
    """A model of one output: where that is the sigmoid of a named class, the other class has the rest; nothing is guessed."""
    alike = [place for place, label in enumerate(labels) if label.casefold() == one.casefold()]
    if scoring != "sigmoid" or len(labels) != 2 or len(alike) != 1 or NUMBERED.fullmatch(one.casefold()):
        raise TicketsError(
            f"{name} has one output ({one}, scored by {scoring}), got the labels {', '.join(labels)}",
            hint="a sigmoid is taken as the probability of the class it is named after, of two: name it as one of the labels "
            f'(pipeline.model.config.id2label = {{0: "{labels[-1]}"}}), or give a function that returns a probability of every label',
        )

    def both(texts: Sequence[Any]) -> list[list[float]]:
        scores = [float((row[0] if isinstance(row, list) else row)["score"]) for row in ask(texts)]
        return [[1 - score, score] if alike[0] else [score, 1 - score] for score in scores]

    return both


def by_label(given: Any, labels: Sequence[str], name: str) -> Any:
    """Scores in the order of ``labels`` where answers name their labels, in whatever order and case; any other answer as it is."""
    if not isinstance(given, list | tuple) or not any(map(_is_named, given)):
        return given
    rows = [[row] if isinstance(row, Mapping) else row for row in given]
    for place, row in enumerate(rows):
        if not _is_named(row):
            raise TicketsError(
                f"{name} answered text {place} with {row!r:.80}, others with labels and scores", hint=ALL
            )
    names = list(dict.fromkeys(str(told["label"]) for row in rows for told in row))
    classes = {called: _class_of(called, labels) for called in names}
    unknown = [called for called in names if classes[called] is None]
    if unknown:
        raise TicketsError(
            f"{name} answers with the label(s) {', '.join(unknown)}, expected {', '.join(labels)}",
            hint="give labels by the names that it answers with (--labels; in Python labels=[…]); "
            "what the data calls them is said by --label-map",
        )
    return [
        _scores(row, classes, labels, f"{name} answered text {place} with {row!r:.120}")
        for place, row in enumerate(rows)
    ]


def _is_named(row: Any) -> bool:
    if isinstance(row, Mapping):
        return "label" in row and "score" in row
    return (
        isinstance(row, list | tuple)
        and bool(row)
        and all(isinstance(told, Mapping) and _is_named(told) for told in row)
    )


def _class_of(called: str, labels: Sequence[str]) -> int | None:
    """By name, then by name in any case, then by the number of LABEL_0, LABEL_1, …"""
    if called in labels:
        return labels.index(called)
    alike = [i for i, label in enumerate(labels) if label.casefold() == called.casefold()]
    if alike:
        return alike[0] if len(alike) == 1 else None
    number = NUMBERED.fullmatch(called.casefold())
    return int(number[1]) if number and int(number[1]) < len(labels) else None


def _scores(
    row: Sequence[Mapping[str, Any]], classes: Mapping[str, int | None], labels: Sequence[str], answered: str
) -> list[float]:
    """The score of every class. Of two classes the top one is enough: the other has the rest."""
    try:
        scores = {classes[str(told["label"])]: float(told["score"]) for told in row}
    except (TypeError, ValueError):
        raise TicketsError(
            f"{answered}: a score is no number", hint="give every label the probability of its class"
        ) from None
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
