"""Made-up resources that both sides of the comparison use: victim, word vectors, sentence encoder, tagger, masked language model's table.

Needs nothing but numpy, so that the environment of TextAttack and this package's tests can import the same file. Everything is a pure
function of its input (SHA-256 of words, float32 arithmetic in a fixed order), chosen so that what decides an attack happens often: equal
scores, cosines and similarities on both sides of the thresholds, tags that forbid a swap, words no resource knows.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

import numpy as np
from made_texts import PLAIN, STEMS, corpus

WIDTH = 16  # of a word vector
CLUSTERS = 60
VOCABULARY = 620
TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=1 << 20)
def number(*parts: object) -> int:
    """A number from what it is given, the same everywhere."""
    text = "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:6], "big")


def generator(*parts: object) -> np.random.Generator:
    return np.random.default_rng(number(*parts))


# --- the victim: a sum of coarse weights, one a word and class, so that scores tie now and then


@lru_cache(maxsize=1 << 16)
def _weights(word: str, classes: int) -> tuple[int, ...]:
    return tuple(number("weight", word, c, classes) % 9 - 4 for c in range(1, classes))


def logits(texts: list[tuple[str, ...]], classes: int) -> np.ndarray:
    """float32, (texts, classes). Rows never sum to 1 (TextAttack takes such rows for probabilities): 0.0613 sees to it."""
    return np.array([_logits(columns, classes) for columns in texts], dtype=np.float32).reshape(len(texts), classes)


@lru_cache(maxsize=1 << 16)
def _logits(columns: tuple[str, ...], classes: int) -> tuple[float, ...]:
    said = [token for column, text in enumerate(columns) for token in (f"<{column}>", *TOKEN.findall(text))]
    totals = map(sum, zip(*(_weights(word, classes) for word in said), strict=True))
    return 0.0, *(4.0 * total / (8 + len(said)) + 0.0613 for total in totals)


# --- word vectors in clusters: cosines of 0.2 to 0.95 within one


def vocabulary() -> list[str]:
    rest = (f"{stem}{ending}" for ending in ("", "s", "ed", "ing", "ly", "or", "an", "et") for stem in STEMS)
    return list(dict.fromkeys([*PLAIN, *rest]))[:VOCABULARY]


@lru_cache(maxsize=1)
def vectors() -> tuple[list[str], np.ndarray]:
    """The words and their vectors, float32. A few words share a vector, so that neighbours tie."""
    words = vocabulary()
    middles = generator("middles").normal(size=(CLUSTERS, WIDTH))
    matrix = np.empty((len(words), WIDTH), dtype=np.float32)
    for row, word in enumerate(words):
        spread = (0.35, 0.7, 1.1)[number("spread", word) % 3]
        matrix[row] = middles[number("cluster", word) % CLUSTERS] + spread * generator("own", word).normal(size=WIDTH)
        if row and number("twin", word) % 29 == 0:
            matrix[row] = matrix[row - 1]
    return words, matrix


def neighbour_table(words: list[str], matrix: np.ndarray, count: int) -> np.ndarray:
    """Row i: i itself, then its ``count`` nearest by cosine in float64, ties by row. What TextAttack calls nn.npy."""
    wide = matrix.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1)
    table = np.empty((len(words), count + 1), dtype=np.int64)
    for row in range(len(words)):
        cosines = (wide * wide[row]).sum(axis=1) / (norms * norms[row])
        order = np.lexsort((np.arange(len(words)), -cosines))
        table[row] = [row, *[int(i) for i in order if i != row][:count]]
    return table


# --- the sentence encoder: a sum of word vectors, by the first letters of words, so that some swaps do not show


@lru_cache(maxsize=1 << 16)
def _sense(word: str) -> np.ndarray:
    return generator("sense", word[:6]).normal(size=24) * (4.0 if number("loud", word) % 7 == 0 else 1.0)


def encode(texts: list[str]) -> np.ndarray:
    """float32, (texts, 24). Every seventh word weighs four times as much, so that similarities spread over the thresholds."""
    return np.array([_vector(text) for text in texts], dtype=np.float32).reshape(len(texts), 24)


@lru_cache(maxsize=1 << 16)
def _vector(text: str) -> np.ndarray:
    parts = [np.full(24, 0.3), *(_sense(word.lower()) for word in TOKEN.findall(text))]
    return np.sum(parts, axis=0).astype(np.float32)


# --- the tagger: by ending, and by the word before

TAGS = ("NOUN", "VERB", "ADJ", "ADV")
ENDINGS = {"ly": "ADV", "ing": "VERB", "ed": "VERB", "s": "NOUN", "y": "ADJ", "or": "NOUN"}


def tags(said: list[str]) -> list[str]:
    found: list[str] = []
    for place, word in enumerate(said):
        tag = _tag(word.lower())
        found.append("ADJ" if place and found[-1] == "ADV" and tag == "NOUN" else tag)
    return found


@lru_cache(maxsize=1 << 16)
def _tag(plain: str) -> str:
    return next((tag for ending, tag in ENDINGS.items() if plain.endswith(ending)), TAGS[number("tag", plain[:3]) % 3])


def digest() -> str:
    """SHA-256 over what the resources answer about the corpus, to four decimals: the files of results hold it."""
    total = hashlib.sha256()
    words, matrix = vectors()
    total.update(repr((words, matrix.astype(np.float64).round(4).tolist())).encode())
    for sample in corpus():
        said = list(TOKEN.findall(" ".join(sample.texts)))
        answers = (logits([sample.texts], sample.classes), encode(list(sample.texts)))
        total.update(
            repr(([(answer.astype(np.float64).round(4) + 0.0).tolist() for answer in answers], tags(said))).encode()
        )
    return total.hexdigest()
