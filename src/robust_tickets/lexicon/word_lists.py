"""Lists of near words in a JSON file, ``{"good": ["fine", "decent"], …}``, best first, in the place of word vectors.

Published lists (those of counter-fitted neighbours by Jia et al., 2019) come without their cosines: a listed word counts as near enough,
and no cosine is known of any pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.lexicon.vector_files import LISTS, vector_files
from robust_tickets.lexicon.vectors import Neighbours, Vectors


class WordLists:
    """What an attack asks of :class:`Vectors`, from lists."""

    def __init__(self, lists: Mapping[str, list[str]]) -> None:
        self.lists = lists

    def __len__(self) -> int:
        return len(self.lists)

    def __contains__(self, word: str) -> bool:
        return word in self.lists

    def cosine(self, a: str, b: str) -> float | None:
        """Not known, of any pair."""
        return None

    def neighbours(self, word: str, n: int) -> Neighbours:
        """At most ``n`` words of the list, in its order; none for an unknown word."""
        return [(near, math.nan) for near in self.lists.get(word, ())[:n]]

    def table(self, words: Iterable[str], n: int) -> Mapping[str, Neighbours]:
        """``neighbours`` of every known word."""
        return {word: self.neighbours(word, n) for word in sorted(set(words)) if word in self.lists}


def read_lists(path: Path) -> dict[str, list[str]]:
    """The lists of a file; refuses what is no table of lists of words."""
    lists = read_json(path)
    if not isinstance(lists, dict) or not all(
        isinstance(near, list) and all(isinstance(n, str) for n in near) for near in lists.values()
    ):
        raise TicketsError(
            f"{path} is not a table of word lists", hint='expected JSON: {"good": ["fine", "decent"], …}'
        )
    return lists


def word_files(path: Path) -> list[Path] | None:
    """The files of word vectors (``lexicon.vector_files``) or of lists at ``path``; none if there are none."""
    if path.suffix == ".json" and path.is_file():
        return None if path.name in (*LISTS, "resource.json") else [path]
    return vector_files(path)


def load_words(path: Path, digest: str | None = None) -> Vectors | WordLists:
    """Whichever of the two lies at ``path``."""
    return WordLists(read_lists(path)) if path.suffix == ".json" else Vectors.load(path, digest=digest)
