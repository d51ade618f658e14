"""The base class of classifiers: what models, ONNX files and Python functions share."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np

from robust_tickets.classifier.encode import LONG, SHORT, Encoded, Inputs, Side, Text, check_tokens, encoded, rows_of
from robust_tickets.classifier.tokenizer import Splicer
from robust_tickets.config import canonical
from robust_tickets.errors import FAILED, TicketsError, tokenising

if TYPE_CHECKING:
    import torch

    from robust_tickets.classifier.classifier import ModelClassifier

MAX_LENGTH = 128  # tokens; GLUE in all three papers
TOKEN_BUDGET = 8192  # padded tokens in one forward pass: 64 texts of full length
# How much a batch may move a class's log-odds, by the type that is computed in; measured maxima are about a tenth of these.
NOISE = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}
ORDINARY = 16.0  # logits up to which that holds
HINT = "load the classifier for the task: load_classifier(name, task)"


class TaskLike(Protocol):
    """What a classifier needs to know of a task."""

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def columns(self) -> Sequence[str]: ...


class Classifier(ABC):
    """Texts in, logits out: a ``ModelClassifier``, an ``OnnxClassifier`` or a ``CallableClassifier``.

    Texts are strings, or tuples of one or two strings. Logits are float32, in the order of the texts, whatever the batches were.
    """

    kind: ClassVar[str]  # in messages
    batch_size: int | None = None  # texts in one call, of a function that names a number

    def __init__(
        self, *, labels: Sequence[str], max_length: int, identity: str, columns: Sequence[str] | None = None
    ) -> None:
        self.labels = checked_labels(labels)
        self.max_length, self.identity = int(max_length), identity
        self.columns, self.columns_known = tuple(columns or ("text",)), columns is not None

    @classmethod
    def wrap(
        cls,
        function: Callable[..., Any],
        *,
        labels: Sequence[str],
        columns: Sequence[str] | None = None,
        batch_size: int | None = None,
        retries: int = 0,
        rate_limit: float | None = None,
        timeout: float | None = None,
        backoff: float = 0.5,
        name: str | None = None,
    ) -> Classifier:
        """Make a classifier of a function from a list of strings (pairs: of 2-tuples) to probabilities (texts, labels).

        A transformers pipeline for texts is one too: answers in {"label": …, "score": …} are matched to ``labels`` by name. For a
        function that is slow, far away or paid for: ``batch_size`` texts in one call, ``retries`` of a call that raised (after
        ``backoff`` seconds, then twice as long each time), ``rate_limit`` calls a second, ``timeout`` seconds for an answer.
        ``name``: what results call it, by default its module and its own name.
        """
        from robust_tickets.classifier.callable import CallableClassifier, CallOptions

        options = CallOptions(
            batch_size=batch_size, retries=retries, rate_limit=rate_limit, timeout=timeout, backoff=backoff
        )
        return CallableClassifier(function, labels=labels, columns=columns, options=options, name=name)

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, max_length: int | None = None, dtype: str = "float32", device: str | None = None
    ) -> Self:
        """Load a saved classifier of any family that transformers has, ``"RUN:ARM"`` of a run, or an ONNX file or folder."""
        from robust_tickets.classifier.loading import load_classifier

        found = load_classifier(name, max_length=max_length, dtype=dtype, device=device)
        if not isinstance(found, cls):
            raise TicketsError(f"{name} is {found.kind}, expected {cls.kind}", code="classifier.type")
        return found

    @abstractmethod
    def encode(self, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
        """Give each text as it is classified; ``max_length`` in place of the classifier's own."""

    @abstractmethod
    def forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Compute the logits of one batch, float32 on the CPU."""

    @abstractmethod
    def _hash_outputs(self, total: hashlib._Hash) -> None:
        """Add what determines the outputs, besides labels, length and columns."""

    @property
    def noise(self) -> float:
        """How far other texts in a batch may move a log-odds."""
        return 0.0

    def fresh(self) -> Self:
        """The same without kept answers and calls in halves, so that what is asked depends on the texts alone."""
        return self

    def probe(self, texts: Iterable[tuple[str, ...]]) -> tuple[list[list[float] | None], Exception | None]:
        """Fingerprint a function by its probabilities of ``texts``, None where it failed, and the last problem; others have a digest."""
        return [], None

    def copy(self) -> Self:
        """A copy that can change without the original; a wrapped function is shared."""
        return copy.copy(self)

    def to(self, device: str | torch.device) -> Self:
        return self

    @property
    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    @property
    def cut_at(self) -> int | None:
        """Tokens of a text that are read; None if unknown."""
        return self.max_length

    def cuts(self, text: Text) -> bool:
        """Whether ``text`` has more tokens than are read."""
        return self.cut_at is not None and self.encode([text], self.max_length + 1)[0].size > self.max_length

    @property
    def digest(self) -> str:
        """sha256 of what determines the outputs. Reads every weight of a model, about 1 s a GiB."""
        total = hashlib.sha256(canonical([list(self.labels), self.max_length, list(self.columns)]).encode())
        self._hash_outputs(total)
        return total.hexdigest()

    def batches(self, sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
        """Positions in batches of like size: of at most ``batch_size`` texts where that is given, else within ``budget``."""
        if self.batch_size is None:
            return batches_by_size(sizes, budget)
        order, most = sorted(range(len(sizes)), key=lambda i: -sizes[i]), self.batch_size
        return (order[start : start + most] for start in range(0, len(order), most))

    def logits(self, texts: Sequence[Text], token_budget: int | None = None) -> np.ndarray:
        """Logits (texts, labels) in float32. ``token_budget``: padded tokens in one forward pass."""
        return self.logits_of_rows(self.encode(texts), token_budget)

    def logits_of_rows(self, rows: Sequence[Encoded], token_budget: int | None = None) -> np.ndarray:
        """``logits`` of texts that are encoded already."""
        out = np.zeros((len(rows), len(self.labels)), dtype=np.float32)
        for where in self.batches([row.size for row in rows], token_budget or TOKEN_BUDGET):
            out[where] = self.forward([rows[i] for i in where]).numpy()
        return out

    def predict(self, texts: Sequence[Text], token_budget: int | None = None) -> tuple[list[str], np.ndarray]:
        """The label of each text and its probabilities (texts, labels)."""
        texts = rows_of(texts)
        for number, row in enumerate(texts):
            if self.columns_known and len(row) != len(self.columns):  # it would be answered as something else
                message = f"text {number} has {len(row)} column(s), {self.identity} reads {', '.join(self.columns)}"
                raise TicketsError(message, hint="give strings, or tuples for pairs", code="text.columns")
        p = probabilities(self.logits(texts, token_budget))
        return [self.labels[i] for i in p.argmax(axis=1)], p

    def named(self, labels: Sequence[str]) -> Self:
        """Name unnamed classes (LABEL_0, LABEL_1, …), in the order of the outputs."""
        names = checked_labels(labels)
        if names != self.labels and (not unnamed(self.labels) or len(names) != len(self.labels)):
            message = f"{self.identity} calls its classes {', '.join(self.labels)}; got the names {', '.join(names)}"
            raise TicketsError(message, hint="--label-map translates those of the data", code="classifier.labels")
        self.labels = names
        return self

    def check_columns(self, columns: Sequence[str], name: str, *, assumed: bool = False) -> None:
        """Refuse texts of another number of columns than it is known, or only ``assumed``, to read."""
        if (self.columns_known or assumed) and len(columns) != len(self.columns):
            message = (
                f"{name} has the text columns {', '.join(columns)}, {self.identity!r} reads {', '.join(self.columns)}"
            )
            hint = HINT if assumed else "name the text: --text sentence, or --text premise,hypothesis for a pair"
            raise TicketsError(message, hint=hint, code="classifier.columns")

    def check_task(self, task: TaskLike | None) -> None:
        """Refuse a task with other labels (names and order), or with another number of text columns."""
        task = as_task(task)
        if self.labels != tuple(task.labels):
            message = (
                f"the classifier's labels are {self.labels!r:.60}, those of {task.name} {tuple(task.labels)!r:.60}"
            )
            raise TicketsError(message, hint=HINT, code="classifier.labels")
        self.check_columns(task.columns, task.name, assumed=True)

    def needs_model(self, what: str) -> ModelClassifier:
        """The classifier, which is to be ``what``; refused where it is no model."""
        raise TicketsError(f"{self.kind} cannot be {what}", hint="load a model", code="classifier.no_model")

    def save_pretrained(self, folder: str | Path) -> Path:
        """Save a model; any other classifier is refused."""
        return self.needs_model("saved").save_pretrained(folder)

    def __repr__(self) -> str:
        return f"Classifier({self.identity!r}, {self.kind}, labels={list(self.labels)}, max_length={self.cut_at})"


class TokenClassifier(Classifier):
    """A classifier that reads token ids, cut to ``max_length``, in batches that its ``inputs`` allow."""

    inputs: Inputs

    def __init__(self, *, tokenizer: Any, **shared: Any) -> None:
        super().__init__(**shared)
        self.tokenizer = tokenizer
        self._splicer: tuple[Any, Splicer | None] | None = None  # made when texts are first encoded

    @abstractmethod
    def _run(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Compute the logits of rows that may share a batch."""

    @property
    def precision(self) -> str:
        """The type that it computes in."""
        return "float32"

    @property
    def noise(self) -> float:
        return 0.0 if self.inputs.side == "alone" else NOISE.get(self.precision, NOISE["bfloat16"])

    @property
    def token_types(self) -> bool:
        """Whether the two texts of a pair differ in their token types."""
        return "token_type_ids" in self.inputs.names

    def encode(self, texts: Sequence[Text], max_length: int | None = None) -> list[Encoded]:
        """Token ids, token types and size of each text."""
        rows = rows_of(texts)
        if self._splicer is None or self._splicer[0] is not self.tokenizer:
            with tokenising():
                self._splicer = self.tokenizer, Splicer.of(self.tokenizer)
        return encoded(self.tokenizer, self._splicer[1], rows, max_length or self.max_length, self.token_types)

    def forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Compute the logits of one batch, float32 on the CPU."""
        import torch

        check_tokens(rows)
        logits = torch.zeros((len(rows), len(self.labels)))  # out of inference mode: callers may do arithmetic in place
        for where in self.inputs.together(rows):
            logits[where] = self._run([rows[i] for i in where])
        check_logits(logits, self.identity)
        return logits

    def _choose_side(self, sides: Sequence[Side]) -> None:
        """Pad as the first of ``sides`` that leaves every answer as it is alone; where none does, texts share no batch."""
        short, long = self.encode([SHORT, LONG])
        cut, noise = self.encode([LONG], short.size)[0], self.noise
        self.inputs = alone = replace(self.inputs, side="alone")
        wanted = self.forward([short, cut, long]).numpy()
        for side in sides:
            rows = [short, cut] if side == "equal" else [short, cut, long]
            if side == "equal" and short == cut:
                continue  # to a tokenizer that knows no word of them they are one text, which shows nothing
            self.inputs = replace(alone, side=side)
            try:
                moved = np.abs(self.forward(rows).numpy() - wanted[: len(rows)]).max()
            except Exception:  # a family that refuses batches or padding says so in its own way
                continue
            if moved <= noise * max(1.0, float(np.abs(wanted).max()) / ORDINARY):
                return
        self.inputs = alone


def as_classifier(value: Any, what: str) -> Classifier:
    """``value``, which is to be ``what``; refused unless it is a classifier."""
    if isinstance(value, Classifier):
        return value
    message = f"expected a classifier to be {what}, got a {type(value).__name__}"
    hint = "rt.load_classifier(name, task) gives one, or rt.Classifier.wrap(function, labels=[…]); it comes before the task"
    raise TicketsError(message, hint=hint, code="classifier.type")


def as_model(value: Any, what: str) -> ModelClassifier:
    """``as_classifier`` for what needs a model."""
    return as_classifier(value, what).needs_model(what)


def as_task(value: Any) -> TaskLike:
    """``value``; refused unless it is a loaded task."""
    if not hasattr(value, "labels"):
        hint = "task = rt.load_task(name or file), then give task"
        raise TicketsError(f"expected a loaded task, got {value!r:.80}", hint=hint, code="task.type")
    return cast(TaskLike, value)


def checked_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels as a tuple; refused are all but two or more different names."""
    names = () if isinstance(labels, str) or not isinstance(labels, Iterable) else tuple(map(str, labels))
    if len(names) < 2 or len(set(names)) != len(names):
        message = f"a classifier needs a list of two or more different labels, got {labels!r:.80}"
        hint = 'labels=["bad", "good"], in the order of the outputs'
        raise TicketsError(message, hint=hint, code="classifier.labels")
    return names


def unnamed(labels: Sequence[str]) -> bool:
    """Whether these are the names that transformers writes for unnamed classes."""
    return all(label == f"LABEL_{i}" for i, label in enumerate(labels))


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax of every row."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True)) if len(logits) else logits
    return powers / powers.sum(axis=1, keepdims=True)


def log_probabilities(p: np.ndarray) -> np.ndarray:
    """Logits whose softmax is ``p``."""
    return np.log(np.clip(p, np.finfo(np.float32).tiny, None))


def check_logits(logits: torch.Tensor, identity: str) -> None:
    """Refuse numbers that are not finite."""
    import torch

    if not torch.isfinite(logits).all():
        message = f"the model {identity!r} gave logits that are not finite"
        raise TicketsError(message, hint="its weights are broken", exit_code=FAILED, code="classifier.not_finite")


def batches_by_size(sizes: Sequence[int], budget: int, *, longest_first: bool = True) -> Iterator[list[int]]:
    """Positions in batches of like size whose padded size (texts times the longest) stays within ``budget``."""
    batch: list[int] = []
    # stable; the longest first, so that the first batch shows at once whether memory suffices
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i] if longest_first else sizes[i]):
        if batch and (len(batch) + 1) * max(sizes[batch[0]], sizes[i]) > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


T = TypeVar("T")
R = TypeVar("R")
LESS = "lower token_budget, or the classifier's max_length"


def in_halves(
    run: Callable[[list[T]], list[R]],
    items: list[T],
    alone: Callable[[T, Exception], R],
    *,
    ends: Callable[[Exception], Exception | None],
    smaller: Callable[[list[T], int], None] = lambda items, half: None,
) -> list[R]:
    """``run(items)``; a call that fails is made in halves, after ``smaller(items, half)``, down to one item, which ``alone`` answers for.

    What ``ends`` gives for a failure is raised at once.
    """
    try:
        return run(items)
    except Exception as problem:
        end = ends(problem)
        if end is problem or not items:
            raise
        if end is not None:
            raise end from None
        if len(items) == 1:
            return [alone(items[0], problem)]
    half = len(items) // 2  # outside the handler, which holds what the failed call had in memory
    smaller(items, half)
    first = in_halves(run, items[:half], alone, ends=ends, smaller=smaller)
    return first + in_halves(run, items[half:], alone, ends=ends, smaller=smaller)


def out_of_memory(problem: BaseException) -> bool:
    """Whether memory was short: Python and CUDA have types for it, torch on a CPU or on Apple's GPU only a message."""
    import torch

    if isinstance(problem, MemoryError | torch.OutOfMemoryError):
        return True
    words = ("out of memory", "can't allocate memory")
    return isinstance(problem, RuntimeError) and any(each in str(problem).lower() for each in words)


def reason_of(problem: Exception) -> str:
    """An exception in one line of a report."""
    return problem.message if isinstance(problem, TicketsError) else f"{type(problem).__name__}: {problem}"
