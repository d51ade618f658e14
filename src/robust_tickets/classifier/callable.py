"""What a wrapped callable returns, checked and turned into logits: log p, so that softmax gives its p back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robust_tickets.classifier.checkpoint import check_head
from robust_tickets.config import Settings, setting
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError, tokenising

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


HINT = "return probabilities, one row a text and one column a label, rows summing to 1 (apply softmax to logits)"


def log_probabilities(
    function: Callable[..., Any] | None, rows: Sequence[tuple[str, ...]], labels: Sequence[str], name: str
) -> np.ndarray:
    """Ask ``function`` for the probabilities of ``rows``; single texts are passed as strings, pairs as tuples."""
    assert function is not None
    with tokenising():  # a pipeline does
        answer = function([row if len(row) > 1 else row[0] for row in rows])
    given = by_label(answer, labels, name)
    try:
        p = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise TicketsError(f"{name} did not return numbers: {problem}", hint=HINT) from None
    if p.shape != (len(rows), len(labels)):
        # one that cannot count ends an attack: each example that is right would fail, and the rest pass for 0 %
        code = BAD_INPUT if p.shape[:1] == (len(rows),) or _counts(function, len(rows[0])) else FAILED
        wanted = (len(rows), len(labels))
        raise TicketsError(
            f"{name} returned shape {p.shape}, expected {wanted} (texts, labels)", hint=HINT, exit_code=code
        )
    if not np.isfinite(p).all():
        raise TicketsError(f"{name} returned values that are not finite", hint=HINT)
    wrong = np.flatnonzero((p < -1e-6).any(axis=1) | (abs(p.sum(axis=1) - 1) > 1e-3))
    if len(wrong):
        raise TicketsError(f"{name} returned {p[wrong[0]].tolist()} for text {wrong[0]}: no probabilities", hint=HINT)
    return np.log(np.clip(p, np.finfo(np.float32).tiny, None)).astype(np.float32)


def _counts(function: Callable[..., Any], columns: int) -> bool:
    """Whether it answers for each of two ordinary texts; then a text that it left out is itself at fault."""
    texts = ("a good film", "a bad film")
    try:
        return len(function([text if columns == 1 else (text,) * columns for text in texts])) == len(texts)
    except Exception:
        return False


HOPELESS = 10  # failed calls of one text in a row, with all their retries
CALM = 100  # calls without a failure after which more texts at once are tried again: the limit may have been a moment's
MOST = 1e6  # seconds to wait, or calls a second; a thread cannot wait for ever
KEPT = 4_000_000  # characters of texts whose answers are kept


@dataclass(frozen=True, kw_only=True)
class Calls(Settings):
    """How a function is called."""

    batch_size: int | None = setting(None, at_least=1)  # texts in one call; by default as many as make 512 words
    retries: int = setting(0, at_least=0)  # further tries of a call that raised
    rate_limit: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")  # calls a second
    # seconds to wait for an answer
    timeout: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")
    backoff: float = setting(0.5, at_least=0)  # seconds before the first retry, then twice as long each time


PLAIN = Calls()  # of a function that is near: its answers are not kept


class Caller:
    """``function`` called as ``calls`` says."""

    def __init__(self, function: Callable[..., Any], name: str, calls: Calls) -> None:
        self.function, self.name, self.calls = function, name, calls
        self.free_at = 0.0  # when the next call may start
        self.failed = 0  # calls in a row that failed for good
        self.kept: dict[Any, Any] = {}
        self.held = 0  # characters in kept
        self.most: int | None = None  # texts at once, since more of them failed
        self.calm = 0  # calls since the last failure
        self.culprit: Any = None  # the last text that failed alone: asked about first, it fails no other's call

    def __call__(self, texts: Sequence[Any], afresh: bool = False) -> Any:
        """Its answers; ``afresh``: past those that are kept, and keeping none."""
        kept = {} if afresh else self.kept
        wanted = [text for text in dict.fromkeys(texts) if text not in kept]
        rows: dict[Any, Any] = {text: kept[text] for text in texts if text in kept}
        if self.culprit in wanted:
            wanted.remove(self.culprit)
            wanted.insert(0, self.culprit)
        before = self.most
        while wanted:
            part = wanted[
                : 1 if wanted[0] == self.culprit else min(filter(None, (self.calls.batch_size, self.most, len(wanted))))
            ]
            try:
                answer = self._patiently(part)
            except TicketsError:
                raise  # it knows better
            except Exception:
                self.calm = 0
                if len(part) == 1:
                    self.culprit, self.most = part[0], before  # the text was at fault, not how many there were
                    raise
                self.most = len(part) // 2
                continue
            answer = answer.detach().cpu().tolist() if hasattr(answer, "detach") else answer
            answer = answer.to_numpy() if hasattr(answer, "to_numpy") else answer  # a table's rows, not its columns
            if not hasattr(answer, "__len__") or len(answer) != len(part):
                return answer  # not one row a text: the check that follows says so
            wanted = wanted[len(part) :]
            rows |= dict(zip(part, answer, strict=True))
            if self.calls != PLAIN and not afresh:
                self._keep(part, answer)
            self.calm += 1
            if self.most is not None and self.calm >= CALM:
                self.most, self.calm = 2 * self.most, 0
        return [rows[text] for text in texts]

    def _patiently(self, part: list[Any]) -> Any:
        for attempt in range(self.calls.retries + 1):
            if attempt:
                time.sleep(self.calls.backoff * 2 ** (attempt - 1))
            self._wait()
            try:
                answer = self._within_time(part)
            except TicketsError:
                raise  # it knows better
            except Exception as problem:
                last = problem
            else:
                self.failed = 0
                return answer
        self.failed += len(part) == 1
        if self.calls.retries and self.failed >= HOPELESS:
            raise TicketsError(
                f"{self.name} failed {self.failed} calls in a row, {self.calls.retries + 1} times each: {type(last).__name__}: {last}",
                hint="see that it answers, then give the same command again: what is done is kept",
                exit_code=FAILED,
            ) from last
        raise last

    def _wait(self) -> None:
        if self.calls.rate_limit is None:
            return
        now = time.monotonic()
        if self.free_at > now:
            time.sleep(self.free_at - now)
        self.free_at = max(now, self.free_at) + 1 / self.calls.rate_limit

    def _within_time(self, part: list[Any]) -> Any:
        if self.calls.timeout is None:
            return self.function(part)
        said: list[Any] = []

        def call() -> None:
            try:
                said.append((True, self.function(part)))
            except Exception as problem:
                said.append((False, problem))

        thread = threading.Thread(
            target=call, daemon=True
        )  # one that never returns must not hold the process back at its end
        thread.start()
        thread.join(self.calls.timeout)
        if not said:
            raise TimeoutError(f"no answer within {self.calls.timeout:g} s")
        fine, answer = said[0]
        if not fine:
            raise answer
        return answer

    def _keep(self, part: Sequence[Any], answer: Any) -> None:
        for text, row in zip(part, answer, strict=True):
            self.kept[text] = row
            self.held += _characters(text)
        while self.held > KEPT:
            oldest = next(iter(self.kept))
            del self.kept[oldest]
            self.held -= _characters(oldest)


def _characters(text: Any) -> int:
    return 64 + (len(text) if isinstance(text, str) else sum(map(len, text)))  # 64: what an empty text costs about
