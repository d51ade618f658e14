"""What taggers share: contexts are remembered, because an attack asks for the same ones again, and one may be asked for a single word."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

CONTEXTS = 1 << 15  # tag sequences, about 10 MB
LONGEST = 1000  # characters of a context that is remembered


class Remembering:
    """``tags(words)`` over ``_tag``, which a tagger supplies; the tagger itself may be called like ``tags``."""

    def __init__(self) -> None:
        self._remembered = lru_cache(maxsize=CONTEXTS)(self._tag)

    def tags(self, words: Sequence[str]) -> list[str]:
        """The universal tag of every word of this context ("X" for a tag without one)."""
        return list(self._told(tuple(words)))

    __call__ = tags

    def at(self, words: Sequence[str], place: int) -> str:
        """``tags(words)[place]``, which may cost less."""
        return self._told(tuple(words))[place]

    def _told(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return self._remembered(words) if sum(map(len, words)) <= LONGEST else self._tag(words)

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        raise TypeError(f"{type(self).__name__} has no _tag")  # a mistake of its author
