"""The engine finds what a slow literal search finds: status, text and query count, example by example."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from attacking import MARK, Assembled, Literal, draw, literal_replace, literal_window, toy_victim
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.data.task import Split
from robust_tickets.resources import wordnet
from robust_tickets.resources.vectors import Vectors
from robust_tickets.resources.words import NLTK, TEXTFOOLER, word_list
from robust_tickets.seeds import numpy_generator

SPELT = (
    "good film bad story the The is plot warm dull actor great not very loud quick happy sad run house dog cat well-made "
    "don't U.S. I movie fine nice really dark light"
)
WORDS = SPELT.split()
ENDS = [" ", " ", " ", ", ", ". ", "! ", " (", ") ", " - ", "  "]


def texts(seed: int, count: int, longest: int) -> list[str]:
    generator = numpy_generator(seed, "texts")
    found = []
    for _ in range(count):
        parts = [w + e for w, e in zip(generator.choice(WORDS, longest), generator.choice(ENDS, longest), strict=True)]
        text = "".join(parts[: int(generator.integers(1, longest + 1))])
        found.append(
            text.upper() if generator.random() < 0.1 else text.capitalize() if generator.random() < 0.2 else text
        )
    return found


def allowed(stop: frozenset[str], names: tuple[str, ...], columns: tuple[str, ...]) -> set[int]:
    first = len(word_list(columns[0])) if names == ("premise", "hypothesis") else 0
    return {i for i, word in enumerate(word_list(MARK.join(columns))) if word not in stop and i >= first}


@pytest.mark.parametrize(("classes", "pairs"), [(2, False), (3, False), (2, True)])
def test_pwws_equals_the_literal_search(classes: int, pairs: bool) -> None:
    seen = set()
    for salt in range(3):
        clf = toy_victim(salt, classes)
        made = texts(salt, 16, 14)
        rows = list(zip(made, texts(salt + 50, 16, 6), strict=True)) if pairs else [(t,) for t in made]
        labels = [Literal(clf, 0).probabilities(row).argmax() if i % 5 else 0 for i, row in enumerate(rows)]
        split = Split.of(rows, labels, columns=("premise", "hypothesis") if pairs else ("text",))
        result = PWWS()(clf, split, n=0, live=1 + 7 * salt)
        for row, outcome in zip(rows, result.examples(), strict=True):
            wanted = Literal(clf, outcome.label).attack(
                row,
                allowed=partial(allowed, NLTK, ()),  # PWWS has no rule about columns
                swaps=wordnet.synonyms,
                passes=lambda original, current, index, new: 1.0,
                saliency=True,
            )
            assert (outcome.status, outcome.perturbed or row, outcome.queries) == wanted
            seen.add(outcome.status)
    assert {"success", "skipped"} <= seen


def made_up() -> dict[str, Any]:
    vocabulary = sorted({w.lower() for w in WORDS} | {f"word{i}" for i in range(30)} | {"two words"})
    generator = numpy_generator(0, "vectors")
    middles = generator.normal(size=(6, 12))
    matrix = np.stack([middles[draw(w) % 6] + 0.6 * generator.normal(size=12) for w in vocabulary]).astype(np.float32)

    def encode(given: list[str]) -> np.ndarray:
        rows = [
            np.sum([numpy_generator(draw(w), "w").normal(size=8) for w in word_list(t)] or [np.ones(8)], axis=0)
            for t in given
        ]
        return np.array(rows, dtype=np.float32)

    def tags(said: list[str]) -> list[str]:
        return [("NOUN", "VERB", "ADJ", "ADV")[draw(w.lower(), i % 3) % 4] for i, w in enumerate(said)]

    return {"vectors": Vectors(vocabulary, matrix), "tagger": tags, "encoder": encode}


@pytest.mark.parametrize("names", [("text",), ("premise", "hypothesis"), ("question", "sentence")])
def test_textfooler_equals_the_literal_search(names: tuple[str, ...]) -> None:
    parts = made_up()
    inner = TextFooler(neighbours=8, word_similarity=0.5, sentence_similarity=0.85, window=7)

    def passes(original: tuple[str, ...], current: tuple[str, ...], index: int, new: str) -> float | None:
        before, said = word_list(MARK.join(original)), word_list(new)
        for k, word in enumerate(said):
            if index + k >= len(before):
                return None
            cosine = parts["vectors"].cosine(before[index + k].lower(), word.lower())
            if cosine is not None and cosine < 0.5:
                return None
            around = [before[max(0, index + k - 4) : index + k], before[index + k + 1 : index + k + 4]]
            kinds = []
            for one in (before[index + k], word):
                context = [*around[0], one, *around[1]]
                kinds.append(parts["tagger"](context)[context.index(one)])
            if kinds[0] != kinds[1] and set(kinds) != {"NOUN", "VERB"}:
                return None
        after = literal_replace(current, index, new)
        if len(word_list(MARK.join(after))) < 7:
            return 1.0
        u, v = parts["encoder"]([literal_window(current, index, 7), literal_window(after, index, 7)]).astype(np.float64)
        cosine = min(1.0, float(u @ v) / float(np.linalg.norm(u) * np.linalg.norm(v)))
        return cosine if 1 - math.acos(cosine) / math.pi >= 0.85 else None

    def swaps(word: str) -> list[str]:
        near = [w for w, _ in parts["vectors"].neighbours(word.lower(), 8)]
        if word.islower():
            return near
        if word.isupper() and len(word) > 1:
            return [w.upper() for w in near]
        return [w.capitalize() for w in near] if word[0].isupper() and word[1:].islower() else near

    seen = set()
    for salt in range(3):
        clf = toy_victim(salt, grid=9)
        made = texts(salt, 14, 18)
        rows = list(zip(made, texts(salt + 50, 14, 9), strict=True)) if len(names) > 1 else [(t,) for t in made]
        labels = [Literal(clf, 0).probabilities(row).argmax() for row in rows]
        result = Assembled(inner=inner, parts=parts)(clf, Split.of(rows, labels, columns=names), n=0)
        for row, outcome in zip(rows, result.examples(), strict=True):
            wanted = Literal(clf, outcome.label).attack(
                row, allowed=partial(allowed, TEXTFOOLER, names), swaps=swaps, passes=passes, saliency=False
            )
            assert (outcome.status, outcome.perturbed or row, outcome.queries) == wanted
            seen.add(outcome.status)
            if names == ("premise", "hypothesis") and outcome.perturbed:
                assert outcome.perturbed[0] == row[0]
    assert {"success", "failed"} <= seen
