"""A Python function or a transformers pipeline as a classifier: its answers are checked and turned into logits, log p."""

from __future__ import annotations

import copy
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from robust_tickets.classifier.base import MAX_LENGTH, Classifier, log_probabilities
from robust_tickets.classifier.encode import Encoded, Text, rows_of
from robust_tickets.classifier.loading import check_head
from robust_tickets.config import Settings, setting
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError, tokenising

if TYPE_CHECKING:
    import torch

PROBES = 8  # texts that a function is asked about, to distinguish it from others of the same name
UNSTEADY = 0.01  # by which answers to one text may differ: services round, and batch
HOPELESS = 10  # failed calls of one text in a row, with all their retries
CALM = (
    100  # calls without a failure after which more texts at once are tried again: the limit may have been of the moment
)
MOST = 1e6  # seconds to wait, or calls a second; a thread cannot wait for ever
KEPT = 5_000  # texts whose answers are kept
NUMBERED = re.compile(r"label_(\d+)")  # names that transformers gives to unnamed classes
HINT = "return probabilities, one row a text and one column a label, rows summing to 1 (apply softmax to logits)"
NAMES = "give a score for every class, by the names of --labels (in Python labels=[…])"


@dataclass(frozen=True, kw_only=True)
class CallOptions(Settings):
    """How a function is called."""

    batch_size: int | None = setting(None, at_least=1)  # texts in one call; by default as many as make 512 words
    retries: int = setting(0, at_least=0)  # further tries of a call that raised
    rate_limit: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")  # calls a second
    timeout: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")  # seconds for an answer
    backoff: float = setting(0.5, at_least=0)  # seconds before the first retry, then twice as long each time


PLAIN = CallOptions()  # of a function that is near: its answers are not kept


class CallableClassifier(Classifier):
    """``function`` gives probabilities of ``labels``; its answers are taken at their word: the same text gets the same one."""

    kind = "a wrapped callable"
    cut_at = None  # a function cuts texts as it likes

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
            message = f"{name or 'the function'} is {function!r:.60} ({type(function).__name__}), expected a callable"
            raise TicketsError(message, hint="give a function from texts to probabilities", code="callable.type")
        own = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        name = f"callable:{own if name is None else name}"
        super().__init__(labels=labels, max_length=MAX_LENGTH, identity=name, columns=columns)
        self.function = Caller(_adapted(function, tuple(labels), name), name, options)
        self.batch_size = options.batch_size
        self._fresh = False

    def encode(self, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
        """The texts themselves, sized by words."""
        rows = rows_of(texts)
        return [Encoded(columns=row, size=1 + sum(column.count(" ") for column in row)) for row in rows]

    def forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Ask for probabilities; single texts are passed as strings, pairs as tuples."""
        import torch

        texts = [row.columns if len(row.columns) > 1 else row.columns[0] for row in rows]
        with tokenising():  # a pipeline does
            answers = self.function(texts, fresh=self._fresh)
        try:
            p = np.array([_row(answer, self.labels) for answer in answers], dtype=np.float64)
        except (TypeError, ValueError, KeyError, RuntimeError) as problem:  # the last of tensors with gradients
            raise _refused(self.identity, f"did not return numbers: {problem}", NAMES) from None
        right = p.shape == (len(rows), len(self.labels))
        if not right or not ((p >= -1e-6).all(axis=1) & (abs(p.sum(axis=1) - 1) <= 1e-3)).all():  # NaN is wrong
            raise _refused(self.identity, f"returned {p.tolist()!r:.120}: no probabilities of {', '.join(self.labels)}")
        return torch.from_numpy(log_probabilities(p).astype(np.float32))

    def fresh(self) -> Self:
        twin = copy.copy(self)
        twin._fresh = True
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
    """Calls ``function`` as ``options`` say: so often a second, again where it failed, within a time; keeps its answers."""

    def __init__(self, function: Callable[..., Any], name: str, options: CallOptions) -> None:
        self.function, self.name, self.options = function, name, options
        self.free_at = 0.0  # when the next call may start
        self.failed = 0  # calls in a row that failed for good
        self.kept: dict[Any, Any] = {}
        self.most = 0  # texts a call, since larger ones failed; 0: all
        self.calm = 0  # calls since the last failure
        self.culprit: Any = None  # the last text that failed alone

    def __call__(self, texts: Sequence[Any], *, fresh: bool = False) -> list[Any]:
        """One row a text; equal texts are asked about once. A call that fails is made in halves, down to the text at fault.

        The size that worked is kept for further calls, and doubled again after ``CALM`` of them; a text that failed alone is asked about
        first, so that it fails no other's call. ``fresh``: neither in halves nor with answers that are kept.
        """
        keeping = not fresh and self.options != PLAIN
        rows = {text: self.kept[text] for text in texts if text in self.kept} if keeping else {}
        wanted = [text for text in dict.fromkeys(texts) if text not in rows]
        if not fresh:
            wanted.sort(key=lambda text: text != self.culprit)
        before = self.most
        while wanted:
            part = wanted[: 1 if wanted[0] == self.culprit else self.most or None] if not fresh else wanted
            try:
                answers = self._answers(part)
            except TicketsError:
                raise  # it knows better
            except Exception:
                if fresh:
                    raise
                if len(part) == 1:
                    self.culprit, self.most = part[0], before  # the text was at fault, not how many there were
                    raise
                self.most, self.calm = len(part) // 2, 0
                continue
            wanted = wanted[len(part) :]
            rows |= dict(zip(part, answers, strict=True))
            if keeping:
                self.kept.update(zip(part, answers, strict=True))
                for oldest in list(islice(self.kept, max(0, len(self.kept) - KEPT))):
                    del self.kept[oldest]
            self.calm += 1
            if self.most and self.calm >= CALM:
                self.most, self.calm = 2 * self.most, 0
        return [rows[text] for text in texts]

    def _answers(self, part: list[Any]) -> list[Any]:
        """The rows of a call; where they are not one a text, the function is broken, and what asks it ends."""
        answer = self._retried(part)
        for how in ("detach", "cpu", "to_numpy", "tolist"):  # of a tensor, of a table, of an array
            answer = getattr(answer, how)() if hasattr(answer, how) else answer
        answer = np.asarray(answer).tolist() if hasattr(answer, "__array__") else answer  # of TensorFlow's tensors
        if not isinstance(answer, list | tuple) or len(answer) != len(part):
            message = f"returned {answer!r:.80}, expected one row for each of {len(part)} text(s)"
            raise _refused(self.name, message, exit_code=FAILED)
        return list(answer)

    def _retried(self, part: list[Any]) -> Any:
        for attempt in range(self.options.retries + 1):
            if attempt:
                time.sleep(self.options.backoff * 2 ** (attempt - 1))
            if self.options.rate_limit is not None:
                now = time.monotonic()
                if self.free_at > now:
                    time.sleep(self.free_at - now)
                self.free_at = max(now, self.free_at) + 1 / self.options.rate_limit
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
            message = f"{self.name} failed {self.failed} calls in a row: {type(last).__name__}: {last}"
            hint = "see that it answers, then give the same command again: what is done is kept"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="callable.failed") from last
        raise last

    def _within_time(self, part: list[Any]) -> Any:
        if self.options.timeout is None:
            return self.function(part)
        future: Future[Any] = Future()

        def call() -> None:
            try:
                future.set_result(self.function(part))
            except Exception as problem:
                future.set_exception(problem)

        thread = threading.Thread(target=call, daemon=True)  # one that never returns must not keep the process alive
        thread.start()
        thread.join(self.options.timeout)
        if not future.done():
            raise TimeoutError(f"no answer within {self.options.timeout:g} s")
        return future.result()


def _refused(name: str, what: str, hint: str = HINT, exit_code: int = BAD_INPUT) -> TicketsError:
    return TicketsError(f"{name} {what}", hint=hint, exit_code=exit_code, code="callable.answer")


def _adapted(function: Callable[..., Any], labels: tuple[str, ...], name: str) -> Callable[..., Any]:
    """``function``; a pipeline of transformers is given pairs in its own form, and asked for the probability of every class.

    A model of one output is the sigmoid of the class it is named after: the other class has the rest.
    """
    bases = {base.__name__: base for base in type(function).__mro__ if base.__module__.startswith("transformers.")}
    if "Pipeline" not in bases:
        return function
    stock: Any = bases.get("TextClassificationPipeline")
    every: dict[str, Any] = {}
    one: int | None = None
    if stock is not None and getattr(type(function), "postprocess", None) is stock.postprocess:
        config: Any = function.model.config  # type: ignore[attr-defined]
        asked = getattr(function, "_postprocess_params", {}).get("function_to_apply")
        chosen = getattr(asked, "name", str(asked)).lower()  # by the user, who knows what the outputs mean
        if config.num_labels == 1 and len(labels) == 2 and (chosen == "sigmoid" or config.problem_type != "regression"):
            named = config.id2label[0].casefold()
            if NUMBERED.fullmatch(named) is None:  # LABEL_0 names no class: most such outputs are the second's
                one = next((place for place, label in enumerate(labels) if label.casefold() == named), None)
        if one is None and (chosen != "softmax" or config.num_labels == 1):
            check_head(config, name)
        every = {"top_k": None, "function_to_apply": "softmax" if one is None else "sigmoid"}

    def ask(texts: Sequence[Any]) -> Any:
        given = [text if isinstance(text, str) else {"text": text[0], "text_pair": text[1]} for text in texts]
        answers = function(given, **every)
        if one is None:
            return answers
        return [[1 - row["score"], row["score"]][:: 1 if one else -1] for (row,) in answers]

    return ask


def _row(answer: Any, labels: Sequence[str]) -> Any:
    """The probabilities of a text; of labels and scores, as pipelines give them, the score of each of ``labels``, by name."""
    pairs = [answer] if isinstance(answer, Mapping) else answer
    if not isinstance(pairs, list | tuple) or not all(isinstance(pair, Mapping) for pair in pairs):
        return answer
    scores = {_class_of(str(pair["label"]), labels): float(pair["score"]) for pair in pairs}
    if len(scores) < len(pairs) or set(scores) != set(range(len(labels))):
        raise ValueError(f"{answer!r:.120} has not one score for each of {', '.join(labels)}")
    return [scores[place] for place in range(len(labels))]


def _class_of(called: str, labels: Sequence[str]) -> int | None:
    """By name, then by name in any case, then by the number of LABEL_0, LABEL_1, …"""
    alike = [i for i, label in enumerate(labels) if label.casefold() == called.casefold()]
    if called in labels:
        return labels.index(called)
    if alike:
        return alike[0] if len(alike) == 1 else None
    number = NUMBERED.fullmatch(called.casefold())
    return int(number[1]) if number and int(number[1]) < len(labels) else None
