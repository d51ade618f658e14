"""A Python function or a transformers pipeline as a classifier: its answers are checked and turned into logits, log p."""

from __future__ import annotations

import copy
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from robust_tickets.classifier.base import MAX_LENGTH, Classifier, log_probabilities
from robust_tickets.classifier.encode import Encoded, Text, rows_of
from robust_tickets.classifier.loading import check_head
from robust_tickets.config import Settings, setting
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError, tokenising

PROBES = 8  # texts that a function is asked about, to distinguish it from others of the same name
UNSTEADY = 0.01  # by which answers to one text may differ: services round, and batch
HOPELESS = 10  # failed calls of one text in a row, with all their retries
CALM = 100  # calls without a failure after which more texts at once are tried again: the limit may have been a moment's
MOST = 1e6  # seconds to wait, or calls a second; a thread cannot wait for ever
KEPT = 4_000_000  # characters of texts whose answers are kept
ROUNDING = 1e-6  # by which the top one of two may be below a half
NUMBERED = re.compile(r"label_(\d+)")  # names that transformers gives to unnamed classes
HINT = "return probabilities, one row a text and one column a label, rows summing to 1 (apply softmax to logits)"
ALL = "let it give every class: pipeline(…, top_k=None)"
SOFTMAX = 'let it give probabilities that sum to 1: pipeline(…, function_to_apply="softmax")'


@dataclass(frozen=True, kw_only=True)
class CallOptions(Settings):
    """How a function is called."""

    batch_size: int | None = setting(None, at_least=1)  # texts in one call; by default as many as make 512 words
    retries: int = setting(0, at_least=0)  # further tries of a call that raised
    rate_limit: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")  # calls a second
    # seconds to wait for an answer
    timeout: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")
    backoff: float = setting(0.5, at_least=0)  # seconds before the first retry, then twice as long each time


PLAIN = CallOptions()  # of a function that is near: its answers are not kept


class CallableClassifier(Classifier):
    """``function`` gives probabilities of ``labels``; its answers are taken at their word: the same text gets the same one."""

    kind = "a wrapped callable"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        labels: Sequence[str],
        columns: Sequence[str] | None = None,
        options: CallOptions = PLAIN,
        name: str | None = None,
    ) -> None:
        if not callable(function):
            message = f"wrap expects a callable, got {function!r:.60} ({type(function).__name__})"
            raise TicketsError(message, hint="give a function from texts to probabilities", code="callable.type")
        if name is None:
            own = getattr(function, "__qualname__", type(function).__qualname__)
            name = f"{getattr(function, '__module__', '')}.{own}"
        name = f"callable:{name}"
        super().__init__(labels=labels, max_length=MAX_LENGTH, identity=name, columns=columns)
        self.function = Caller(_adapted(function, self.labels, name), name, options)
        self.batch_size = options.batch_size
        self._keeping = self._halving = True

    @property
    def cut_at(self) -> None:
        """A function cuts texts as it likes."""
        return None

    def encode(self, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
        """The texts themselves, sized by words."""
        return [
            Encoded(columns=row, size=1 + sum(column.count(" ") for column in row)) for row in rows_of(texts)
        ]  # fmt: skip

    def forward(self, rows: Sequence[Encoded]) -> Any:
        """Ask for probabilities; single texts are passed as strings, pairs as tuples."""
        import torch

        with tokenising():  # a pipeline does
            texts = [row.columns if len(row.columns) > 1 else row.columns[0] for row in rows]
            answer = self.function(texts, keeping=self._keeping, halving=self._halving)
        given = _by_label(answer, self.labels, self.identity)
        try:
            p = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError) as problem:
            raise self._refused(f"did not return numbers: {problem}") from None
        wanted = (len(rows), len(self.labels))
        if p.shape != wanted:
            # one that cannot count ends an attack: each example that is right would fail, and the rest pass for 0 %
            counts = p.shape[:1] == wanted[:1] or self._counts(len(rows[0].columns))
            message = f"returned shape {p.shape}, expected {wanted} (texts, labels)"
            raise self._refused(message, BAD_INPUT if counts else FAILED)
        wrong = np.flatnonzero(~((p >= -1e-6).all(axis=1) & (abs(p.sum(axis=1) - 1) <= 1e-3)))  # NaN is wrong
        if len(wrong):
            raise self._refused(f"returned {p[wrong[0]].tolist()} for text {wrong[0]}: no probabilities")
        return torch.from_numpy(log_probabilities(p).astype(np.float32))

    def _refused(self, what: str, exit_code: int = BAD_INPUT) -> TicketsError:
        return TicketsError(f"{self.identity} {what}", hint=HINT, exit_code=exit_code, code="callable.answer")

    def _counts(self, columns: int) -> bool:
        """Whether it answers for each of two ordinary texts; then a text that it left out is itself at fault."""
        rows = [text if columns == 1 else (text,) * columns for text in ("a good film", "a bad film")]
        try:
            return len(self.function(rows, keeping=False)) == 2
        except Exception:
            return False

    def unhalved(self) -> Self:
        twin = copy.copy(self)
        twin._halving = False
        return twin

    def fresh(self) -> Self:
        twin = copy.copy(self)
        twin._keeping = False
        return twin

    def probe(self, texts: Iterable[tuple[str, ...]]) -> tuple[list[list[float] | None], Exception | None]:
        """The probabilities of each text by a new call, None where it failed, and the last problem."""
        found: list[list[float] | None] = []
        problem: Exception | None = None
        now = self.fresh()
        for text in texts:
            try:
                found.append(np.exp(now.logits([text])[0].astype(np.float64)).round(4).tolist())
            except Exception as failure:  # this text's own, unless all fail
                problem = failure
                found.append(None)
        return found, problem

    def _hash_outputs(self, total: hashlib._Hash) -> None:
        total.update(self.identity.encode())


class Caller:
    """``function`` called as ``options`` say; a call that fails is made in halves until the text at fault is found."""

    def __init__(self, function: Callable[..., Any], name: str, options: CallOptions) -> None:
        self.function, self.name, self.options = function, name, options
        self.free_at = 0.0  # when the next call may start
        self.failed = 0  # calls in a row that failed for good
        self.kept: dict[Any, Any] = {}
        self.held = 0  # characters in kept
        self.most: int | None = None  # texts at once, since more of them failed
        self.calm = 0  # calls since the last failure
        self.culprit: Any = None  # the last text that failed alone: asked about first, it fails no other's call

    def __call__(self, texts: Sequence[Any], keeping: bool = True, halving: bool = True) -> Any:
        """Its answers; ``keeping``: kept ones too, and the new ones are kept. Without ``halving`` a call that fails raises."""
        kept = self.kept if keeping else {}
        wanted = [text for text in dict.fromkeys(texts) if text not in kept]
        rows: dict[Any, Any] = {text: kept[text] for text in texts if text in kept}
        culprit = self.culprit if halving else None
        wanted.sort(key=lambda text: text != culprit)
        before = self.most
        while wanted:
            most = min(filter(None, (self.options.batch_size, self.most if halving else None, len(wanted))))
            part = wanted[: 1 if wanted[0] == culprit else most]
            try:
                answer = self._retried(part)
            except TicketsError:
                raise  # it knows better
            except Exception:
                self.calm = 0
                if not halving:
                    raise
                if len(part) == 1:
                    self.culprit, self.most = part[0], before  # the text was at fault, not how many there were
                    raise
                self.most = len(part) // 2
                continue
            answer = answer.detach().cpu().tolist() if hasattr(answer, "detach") else answer
            answer = answer.to_numpy() if hasattr(answer, "to_numpy") else answer  # a table's rows, not its columns
            if not hasattr(answer, "__len__") or len(answer) != len(part):
                return answer  # not one row a text, which the check that follows refuses
            wanted = wanted[len(part) :]
            rows |= dict(zip(part, answer, strict=True))
            if keeping and self.options != PLAIN:
                self._keep(part, answer)
            self.calm += 1
            if self.most is not None and self.calm >= CALM:
                self.most, self.calm = 2 * self.most, 0
        return [rows[text] for text in texts]

    def _retried(self, part: list[Any]) -> Any:
        for attempt in range(self.options.retries + 1):
            if attempt:
                time.sleep(self.options.backoff * 2 ** (attempt - 1))
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
        if self.options.retries and self.failed >= HOPELESS:
            raise TicketsError(
                f"{self.name} failed {self.failed} calls in a row, {self.options.retries + 1} times each: "
                f"{type(last).__name__}: {last}",
                hint="see that it answers, then give the same command again: what is done is kept",
                exit_code=FAILED,
                code="callable.failed",
            ) from last
        raise last

    def _wait(self) -> None:
        if self.options.rate_limit is not None:
            now = time.monotonic()
            if self.free_at > now:
                time.sleep(self.free_at - now)
            self.free_at = max(now, self.free_at) + 1 / self.options.rate_limit

    def _within_time(self, part: list[Any]) -> Any:
        if self.options.timeout is None:
            return self.function(part)
        outcome: list[tuple[Any, Exception | None]] = []

        def call() -> None:
            try:
                outcome.append((self.function(part), None))
            except Exception as problem:
                outcome.append((None, problem))

        thread = threading.Thread(target=call, daemon=True)  # one that never returns must not keep the process alive
        thread.start()
        thread.join(self.options.timeout)
        if not outcome:
            raise TimeoutError(f"no answer within {self.options.timeout:g} s")
        answer, problem = outcome[0]
        if problem is not None:
            raise problem
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


def _adapted(function: Callable[..., Any], labels: tuple[str, ...], name: str) -> Callable[..., Any]:
    """``function``; a pipeline of transformers is given pairs in its own form, all others get tuples.

    Refused is a pipeline whose scores are not the probabilities of ``labels``.
    """
    bases = {base.__name__: base for base in type(function).__mro__ if base.__module__.startswith("transformers.")}
    if "Pipeline" not in bases:
        return function

    def ask(texts: Sequence[Any]) -> Any:
        return function([text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts])

    stock: Any = bases.get("TextClassificationPipeline")
    if stock is None or getattr(type(function), "postprocess", None) is not stock.postprocess:
        return ask  # one of the user's own: its answers are checked, as any function's are
    pipe: Any = function
    config, options = pipe.model.config, getattr(pipe, "_postprocess_params", {})
    scoring, names = _scoring(config, options.get("function_to_apply")), list(map(str, config.id2label.values()))
    if len(names) == 1:
        return _with_its_opposite(ask, names[0], scoring, labels, name)
    if scoring != "softmax":
        check_head(config, name)  # of many labels at once, or of numbers
    top_only = options.get("top_k", 1) is not None
    if scoring == "sigmoid" or (top_only and scoring != "softmax"):
        message = f"{name} scores its classes by {scoring}: no probabilities"
        raise TicketsError(message, hint=SOFTMAX, code="callable.pipeline")
    if top_only and len(names) > len(labels):  # what is left of 1 is not the other one's
        message = f"{name} has {len(names)} classes ({', '.join(names)}), got {len(labels)} labels"
        raise TicketsError(message, hint="name them all", code="callable.pipeline")
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
            hint=f'name the class of its sigmoid as one of two labels (pipeline.model.config.id2label = {{0: "{labels[-1]}"}}), '
            "or give a function that returns a probability of every label",
            code="callable.pipeline",
        )

    def both(texts: Sequence[Any]) -> list[list[float]]:
        scores = [float((row[0] if isinstance(row, list) else row)["score"]) for row in ask(texts)]
        return [[1 - score, score] if alike[0] else [score, 1 - score] for score in scores]

    return both


def _by_label(given: Any, labels: Sequence[str], name: str) -> Any:
    """Scores in the order of ``labels`` where answers name their labels, in whatever order and case; any other answer as it is."""
    if not isinstance(given, list | tuple) or not any(map(_is_named, given)):
        return given
    return [
        _scores(row, labels, f"{name} answered text {place} with {row!r:.120}") for place, row in enumerate(given)
    ]  # fmt: skip


def _is_named(row: Any) -> bool:
    if isinstance(row, Mapping):
        return "label" in row and "score" in row
    return isinstance(row, list | tuple) and bool(row) and all(isinstance(p, Mapping) and _is_named(p) for p in row)


def _class_of(called: str, labels: Sequence[str]) -> int | None:
    """By name, then by name in any case, then by the number of LABEL_0, LABEL_1, …"""
    if called in labels:
        return labels.index(called)
    alike = [i for i, label in enumerate(labels) if label.casefold() == called.casefold()]
    if alike:
        return alike[0] if len(alike) == 1 else None
    number = NUMBERED.fullmatch(called.casefold())
    return int(number[1]) if number and int(number[1]) < len(labels) else None


def _scores(row: Any, labels: Sequence[str], answered: str) -> list[float]:
    """The score of every class. Of two classes the top one is enough: the other has the rest."""

    def refused(why: str, hint: str) -> TicketsError:
        return TicketsError(f"{answered}: {why}", hint=hint, code="callable.answer")

    if not _is_named(row):
        raise refused("other texts got labels and scores", ALL)
    scores: dict[int, float] = {}
    for pair in [row] if isinstance(row, Mapping) else row:
        place = _class_of(str(pair["label"]), labels)
        if place is None:
            hint = "give labels by the names that it answers with (--labels; in Python labels=[…]); --label-map translates the data's"
            raise refused(f"{pair['label']} is none of {', '.join(labels)}", hint)
        if place in scores:
            raise refused("two scores for one class", f"one score for each of {', '.join(labels)}")
        try:
            scores[place] = float(pair["score"])
        except (TypeError, ValueError):
            raise refused("a score is no number", HINT) from None
    if len(labels) == 2 and len(scores) == 1:
        ((top, score),) = scores.items()
        if score < 0.5 - ROUNDING:
            raise refused("of two classes one is given, and it is not the top one", ALL)
        scores[1 - top] = 1 - score
    if missing := [label for place, label in enumerate(labels) if place not in scores]:
        raise refused(f"the score of {', '.join(missing)} is missing", ALL)
    return [scores[place] for place in range(len(labels))]
