"""What tests of attacks share: toy victims, small data, and slow literal twins of the text surgery and of the search."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, Rules
from robust_tickets.classifier import Classifier
from robust_tickets.resources.words import word_list, words

MARK = "\ufdd0"  # stands between columns in the literal twins; no text of the tests holds it
VARIES = {"seconds", "env", "forward_passes"}  # what may differ between two results of the same attack
RAW = {"score_before", "score_after", "similarity", "confidence", "forward_passes"}


def draw(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()[:6], "big")


@cache
def weight(salt: int, word: str, label: int, grid: int) -> int:
    return draw(salt, word, label) % grid - grid // 2


def toy_victim(salt: int = 0, classes: int = 2, grid: int = 7) -> Classifier:
    """Adds up a weight per word and class, from a coarse grid, so that scores tie often."""

    def judge(texts: Sequence[Any]) -> np.ndarray:
        rows = []
        for text in texts:
            said = word_list(text if isinstance(text, str) else "\n".join(text))
            logits = [sum(weight(salt, w, c, grid) for w in said) / 4 for c in range(classes)]
            top = max(logits)
            powers = [math.exp(x - top) for x in logits]
            rows.append([p / sum(powers) for p in powers])
        return np.array(rows)

    return Classifier.wrap(judge, labels=[f"c{i}" for i in range(classes)])


def victim_of(word: str) -> Classifier:
    """Sure of itself while it sees the word."""

    def judge(texts: Sequence[Any]) -> np.ndarray:
        joined = (text if isinstance(text, str) else " ".join(text) for text in texts)
        p = np.array([0.8 if word in text.lower() else 0.2 for text in joined])
        return np.stack([1 - p, p], axis=1)

    return Classifier.wrap(judge, labels=["neg", "pos"])


def example_of(columns: str | Sequence[str], *, rules: Rules = OWN, **given: Any) -> tuple[ExampleState, Text]:
    """The state of an example with this text, and the text."""
    text = Text.of(columns, rules)
    given = {"column_names": ("text",) * len(text.columns), "noise": 0.0, **given}
    return ExampleState(original=text, goal=Untargeted(0), **given), text


@dataclass(frozen=True, kw_only=True)
class Assembled(Attack):
    """A recipe on resources at hand."""

    inner: Any
    parts: dict[str, Any] = field(metadata={"unsaid": True})

    @property
    def white_box(self) -> bool:  # type: ignore[override]
        return self.inner.white_box  # type: ignore[no-any-return]

    def resources(self) -> dict[str, Any]:
        return {}

    def prepare(self, device: str) -> GreedySearch:
        return self.inner.assemble(Loaded(**self.parts))  # type: ignore[no-any-return]


def literal_replace(columns: Sequence[str], index: int, new: str) -> tuple[str, ...]:
    """The text surgery as the specification words it, on one joined string that is scanned anew."""
    joined = MARK.join(columns)
    start, end = words(joined)[index]
    left, right = joined[:start], joined[end:]
    if not words(new) and right:
        if index == 0:
            right = right[1:] if right[0] == " " else right
        elif left.endswith(" "):
            left = left[:-1]
    return tuple((left + new + right).split(MARK))


def literal_window(columns: Sequence[str], index: int, size: int) -> str:
    """``size`` words around word ``index``, moved inwards at the ends, as one string from the first to the last of them."""
    joined = "\n".join(columns)
    spans = words(joined)
    first = index - math.ceil((size - 1) / 2)
    if first < 0 or len(spans) <= size:
        first = 0
    elif index + (size - 1) / 2 >= len(spans):
        first = len(spans) - size
    last = min(first + size, len(spans)) - 1
    return joined[spans[first][0] : spans[last][1]]


class Literal:
    """The greedy search, one example and one text at a time."""

    def __init__(self, clf: Classifier, label: int) -> None:
        self.clf, self.label, self.queries = clf, label, 0

    def probabilities(self, columns: tuple[str, ...]) -> np.ndarray:
        return torch.softmax(self.clf.forward(self.clf.encode([columns])), dim=-1).numpy()[0]

    def ask(self, columns: tuple[str, ...]) -> float:
        self.queries += 1
        return float(np.float32(1) - self.probabilities(columns)[self.label])

    def turned(self, columns: tuple[str, ...]) -> bool:
        return int(self.probabilities(columns).argmax()) != self.label

    def attack(
        self,
        columns: tuple[str, ...],
        *,
        allowed: Callable[[tuple[str, ...]], set[int]],
        swaps: Callable[[str], Sequence[str]],
        passes: Callable[[tuple[str, ...], tuple[str, ...], int, str], float | None],
        saliency: bool,
    ) -> tuple[str, tuple[str, ...], int]:
        """``passes(original, current, index, new)`` gives the similarity of a candidate, or None where a constraint says no."""
        best = self.ask(columns)
        if self.turned(columns):
            return "skipped", columns, self.queries
        said = word_list(MARK.join(columns))
        places = list(set(range(len(said))) & allowed(columns))
        scores = [self.ask(literal_replace(columns, i, "[UNK]" if saliency else "")) for i in places]
        if saliency:
            grown = np.exp(np.array(scores, dtype=np.float32) - np.float32(max(scores, default=0)))
            gains = []
            for i in places:
                tried = [self.ask(literal_replace(columns, i, new)) for new in swaps(said[i]) if new != said[i]]
                gains.append(max(tried, default=0.0))
            scores = list((grown / grown.sum()).astype(np.float32) * np.array(gains, dtype=np.float64))
        order = np.array(places, dtype=np.int64)[(-np.array(scores, dtype=np.float64)).argsort()]
        current, changed = columns, set()
        for i in order:
            now = word_list(MARK.join(current))
            if i in changed or i not in allowed(current):
                continue
            found = []
            for new in swaps(now[i]):
                if new == now[i]:
                    continue
                similarity = passes(columns, current, int(i), new)
                if similarity is not None:
                    found.append((literal_replace(current, i, new), similarity))
            found.sort(key=lambda pair: "\n".join(pair[0]))
            answers = [(self.ask(text), text, similarity) for text, similarity in found]
            answers.sort(key=lambda answer: -answer[0])
            if not answers or answers[0][0] <= best:
                continue
            best, current = answers[0][:2]
            changed.add(i)
            if self.turned(current):
                leading = []
                for answer in answers:
                    if not self.turned(answer[1]):
                        break
                    leading.append(answer)
                return "success", max(leading, key=lambda answer: answer[2])[1], self.queries
        return "failed", current, self.queries


def stable_files(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """result.json and examples.jsonl without what may vary."""
    result = json.loads((folder / "result.json").read_text())
    lines = [json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()]
    return {k: v for k, v in result.items() if k not in VARIES}, [
        {k: v for k, v in x.items() if k not in RAW} for x in lines
    ]


def levenshtein(a: str, b: str) -> int:
    """The textbook's table, one row at a time."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]
