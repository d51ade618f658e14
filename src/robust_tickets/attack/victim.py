"""The victim's service: questions of many examples in, rows of probabilities out.

Texts are taken by length, tokenised a portion at a time, looked up by token ids (per example: what it has seen; across examples: what
this round already ran) and run in batches of at most ``token_budget`` padded tokens; on a GPU, in fixed shapes (see ``shapes``) unless a
budget was asked for. Softmax is taken in float32 on the CPU.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from robust_tickets.attack.asking import Ask, Row
from robust_tickets.attack.failures import within_memory
from robust_tickets.attack.shapes import Shapes
from robust_tickets.classifier import Classifier, Encoded

# How much a batch may move a class's log-odds, by the type the model computes in; measured maxima are about a tenth of these.
NOISE = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}
BUDGETS = {"cpu": 512, "gpu": 32_768}  # padded tokens a batch: a CPU likes small batches, a GPU must be fed
CHARACTERS = 2_000_000  # tokenised at a time; about half a million tokens, a second of a GPU's work and some 20 MB
LIVE = {"cpu": 8, "gpu": 1024}  # examples under attack at the same time; on a CPU few suffice, and progress is steadier

Answer = tuple[np.ndarray, np.ndarray, int]  # probabilities, logits and predicted class of one input


class Sent:
    """Stands for the shapes in a worker process."""

    def __init__(self, send: Callable[[Any], Any]) -> None:
        self.send = send

    def logits(self, rows: list[Encoded]) -> Any:
        import torch

        return torch.from_numpy(self.send(rows))


class Victim:
    """A classifier as a service of the scheduler."""

    def __init__(self, clf: Classifier, token_budget: int | None = None, temperature: float = 1.0) -> None:
        self.clf, self.temperature = clf, temperature
        where = "cpu" if clf.model is None or clf.device.type == "cpu" else "gpu"
        self.token_budget = token_budget or BUDGETS[where]
        self.live = LIVE[where]
        self.shapes: Shapes | Sent | None = Shapes.of(clf) if token_budget is None else None
        self.groups = (
            2 if where == "gpu" else 1
        )  # while one half's texts are on the GPU, the other half's words are looked up
        self.rounding = _noise(clf) * max(
            1.0, 1 / temperature
        )  # a temperature below 1 makes the logits' rounding larger too
        self.noise = 0.0 if self.shapes else self.rounding

    @property
    def divisible(self) -> bool:
        """Whether worker processes may share the work: the forward passes are then a function of token ids alone."""
        return self.shapes is not None

    def half(self, send: Callable[[Any], Any]) -> Victim:
        """The part of the service that runs in a worker (see ``workers``): everything but the forward passes."""
        twin = copy.copy(self)
        twin.shapes = Sent(send)
        return twin

    def together(self, requests: Sequence[list[Encoded]]) -> list[Any]:
        """The logits of each worker's rows."""
        assert self.shapes is not None  # without fixed shapes there are no workers
        logits = self.shapes.logits([row for rows in requests for row in rows]).numpy()
        ends = np.cumsum([len(rows) for rows in requests])[:-1]
        return np.split(logits, ends)

    def answer(self, questions: Sequence[Ask]) -> list[list[Row]]:
        asking: dict[tuple[str, ...], list[Ask]] = {}
        for question in questions:
            question.passes = 0  # a question may come again after a failed batch
            for text in question.texts:
                asking.setdefault(text, []).append(question)
        keys: dict[tuple[str, ...], bytes] = {}
        fresh: dict[bytes, Answer] = {}
        exact: dict[bytes, Answer] = {}
        for portion in _portions(sorted(asking, key=_characters)):
            ordinary: dict[bytes, tuple[Encoded, Ask]] = {}
            alone: dict[bytes, tuple[Encoded, Ask]] = {}
            for text, encoded in zip(portion, self.clf.encode(portion), strict=True):
                keys[text] = key = _key(encoded)
                for question in asking[text]:
                    if question.alone and key not in exact:
                        alone.setdefault(key, (encoded, question))
                    elif not question.alone and key not in question.known and key not in fresh:
                        ordinary.setdefault(key, (encoded, question))
            fresh |= self._run(ordinary, self.token_budget)
            exact |= self._run(alone, 1)
        return [[_row(question, keys[text], fresh, exact) for text in question.texts] for question in questions]

    def _run(self, wanted: dict[bytes, tuple[Encoded, Ask]], budget: int) -> dict[bytes, Answer]:
        import torch

        keys = list(wanted)
        found: dict[bytes, Answer] = {}
        sizes = [wanted[key][0].size for key in keys]
        batches = [list(range(len(keys)))] if self.shapes is not None and keys else self.clf.batches(sizes, budget)
        for where in batches:
            logits = self._logits([wanted[keys[i]][0] for i in where])
            probabilities = torch.softmax(logits, dim=-1)
            predicted = probabilities.numpy().argmax(axis=1)
            if self.temperature != 1:
                logits = logits / self.temperature
                probabilities = torch.softmax(logits, dim=-1)
            for i, p, z, top in zip(where, probabilities.numpy(), logits.numpy(), predicted, strict=True):
                found[keys[i]] = p.copy(), z.copy(), int(top)
                wanted[keys[i]][1].passes += 1
        return found

    def _logits(self, rows: list[Encoded]) -> Any:
        """Logits of a batch; one too large for the memory is cut in halves, and the batches to come are smaller."""
        import torch

        if self.shapes is not None:
            return self.shapes.logits(rows)
        parts = within_memory(
            lambda some: [self.clf.logits_of_encoded(some)],
            rows,
            lambda row: f"one text of {row.size} tokens",
            self._smaller,
        )
        return torch.cat(parts)

    def _smaller(self, rows: list[Encoded], half: int) -> None:
        self.token_budget = max(1, min(self.token_budget, half * rows[0].size))


def _noise(clf: Classifier) -> float:
    if clf.inputs is not None and clf.inputs.side == "alone":
        return 0.0  # no two texts share a batch
    if clf.model is not None:
        return NOISE.get(str(clf.model.dtype).removeprefix("torch."), NOISE["bfloat16"])
    # a graph computes in batches; a callable is taken at its word: the same text gets the same answer
    return NOISE["float32"] if clf.graph is not None else 0.0


def _characters(text: tuple[str, ...]) -> int:
    return sum(map(len, text))


def _portions(texts: list[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """Texts in lists of about ``CHARACTERS``, in their order: token ids take many times the memory of the text."""
    portion: list[tuple[str, ...]] = []
    held = 0
    for text in texts:
        if portion and held + _characters(text) > CHARACTERS:
            yield portion
            portion, held = [], 0
        portion.append(text)
        held += _characters(text)
    if portion:
        yield portion


def _row(question: Ask, key: bytes, fresh: dict[bytes, Answer], exact: dict[bytes, Answer]) -> Row:
    row = question.known.get(key)
    if question.alone:
        if row is None:
            row = question.known[key] = Row(*exact[key])
        row.probabilities, row.logits, row.predicted, row.exact = *exact[key], True
    elif row is None:
        row = question.known[key] = Row(*fresh[key])
    return row


def _key(encoded: Encoded) -> bytes:
    """A short name of an input: 16 bytes instead of hundreds of numbers, for the thousands of rows an example may see."""
    if encoded.columns:  # a callable's input is its text
        data = "\x00".join(f"{len(part)} {part}" for part in encoded.columns).encode("utf-8", "surrogatepass")
    else:
        data = encoded.data + b"/" + encoded.kinds
    return hashlib.blake2b(data, digest_size=16).digest()
