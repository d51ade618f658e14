"""The victim's service: questions of many examples in, rows of probabilities out.

Texts are tokenised together, looked up by token ids (per example: what it has seen; across examples: what this round already runs),
sorted by length and run in batches of at most ``token_budget`` padded tokens. Softmax is taken in float32 on the CPU.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from robust_tickets.attack.asking import Ask, Row
from robust_tickets.classifier import Classifier, Encoded, batches_by_size

# How much a batch may move a class's log-odds, by the type the model computes in; measured maxima are about a tenth of these.
NOISE = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}
BUDGETS = {"cpu": 512, "gpu": 32_768}  # padded tokens a batch: a CPU likes small batches, a GPU must be fed
LIVE = {"cpu": 8, "gpu": 256}  # examples under attack at the same time; on a CPU few suffice, and progress is steadier


class Victim:
    """A classifier as a service of the scheduler."""

    def __init__(self, clf: Classifier, token_budget: int | None = None) -> None:
        self.clf = clf
        where = "cpu" if clf.model is None or clf.device.type == "cpu" else "gpu"
        self.token_budget = token_budget or BUDGETS[where]
        self.live = LIVE[where]
        # a callable is taken at its word: the same text gets the same answer
        self.noise = 0.0 if clf.model is None else NOISE.get(str(clf.model.dtype).removeprefix("torch."), NOISE["bfloat16"])

    def answer(self, questions: Sequence[Ask]) -> list[list[Row]]:
        different = list(dict.fromkeys(text for question in questions for text in question.texts))
        inputs = dict(zip(different, self.clf.encode(different), strict=True))
        keys = {text: _key(encoded) for text, encoded in inputs.items()}
        ordinary: dict[bytes, tuple[Encoded, Ask]] = {}
        alone: dict[bytes, tuple[Encoded, Ask]] = {}
        for question in questions:
            question.passes = 0  # a question may come again after a failed batch
            for text in question.texts:
                key = keys[text]
                if question.alone:
                    alone.setdefault(key, (inputs[text], question))
                elif key not in question.known:
                    ordinary.setdefault(key, (inputs[text], question))
        fresh = self._run(ordinary, self.token_budget)
        exact = self._run(alone, 1)
        return [[_row(question, keys[text], fresh, exact) for text in question.texts] for question in questions]

    def _run(self, wanted: dict[bytes, tuple[Encoded, Ask]], budget: int) -> dict[bytes, np.ndarray]:
        import torch

        keys = list(wanted)
        found: dict[bytes, np.ndarray] = {}
        for where in batches_by_size([wanted[key][0].size for key in keys], budget):
            logits = self.clf.logits_of_encoded([wanted[keys[i]][0] for i in where])
            probabilities = torch.softmax(logits, dim=-1).numpy()
            for i, p in zip(where, probabilities, strict=True):
                found[keys[i]] = p.copy()
                wanted[keys[i]][1].passes += 1
        return found


def _row(question: Ask, key: bytes, fresh: dict[bytes, np.ndarray], exact: dict[bytes, np.ndarray]) -> Row:
    row = question.known.get(key)
    if question.alone:
        if row is None:
            row = question.known[key] = Row(exact[key])
        row.probabilities, row.exact = exact[key], True
    elif row is None:
        row = question.known[key] = Row(fresh[key])
    return row


def _key(encoded: Encoded) -> bytes:
    """A short name of an input: 16 bytes instead of hundreds of numbers, for the thousands of rows an example may see."""
    parts: tuple[Any, ...] = encoded.ids
    if parts and isinstance(parts[0], str):  # a callable's input is its text
        data = "\x00".join(f"{len(part)} {part}" for part in parts).encode("utf-8", "surrogatepass")
    else:
        data = np.asarray(parts, dtype="<i8").tobytes() + b"/" + np.asarray(encoded.types, dtype="<i8").tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()
