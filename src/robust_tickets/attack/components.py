"""Base classes of the components of an attack: transformations, and constraints on words and on candidates.

Transformations and constraints are registered components with settings like any other. Each method returns its result, or is a generator
that yields questions (``example.Ask``, ``Encode``, …), is sent the answers and then returns it. A question names the service that answers
it; a component whose questions nobody else answers brings the service along (``services``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING

from robust_tickets.attack.example import ExampleState, Steps
from robust_tickets.attack.text import BETWEEN_COLUMNS, Text
from robust_tickets.config import Settings, resources_in

if TYPE_CHECKING:
    from robust_tickets.attack.scheduler import Service


@dataclass(eq=False, slots=True)
class Candidate:
    """Word ``index`` of ``base`` replaced by ``new``; strings are made when they are wanted and not kept."""

    base: Text
    index: int
    new: str
    cosine: float | None = None  # similarity that a constraint measured
    likeness: float | None = None  # the same in the constraint's own metric, which chooses among successes
    sharpen: Callable[[], Steps] | None = None  # measures it again, exactly

    @property
    def measured(self) -> float | None:
        """The cosine for the record. A text too short for its constraint counts as equal in the search, which is no measurement."""
        return None if self.sharpen is None else self.cosine

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.swapped(self.index, self.new)

    @property
    def key(self) -> str:
        return BETWEEN_COLUMNS.join(self.columns)

    @property
    def text(self) -> Text:
        return self.base.replace(self.index, self.new)

    def window(self, around: int, size: float) -> str:
        """``text.window``, for which the whole text need not be made."""
        return self.base.window_with(self.index, self.new, around, size)

    @property
    def local(self) -> bool:
        """Whether the texts differ in this one word only."""
        return self.base.local(self.new)

    def count(self) -> int:
        """How many words the candidate has."""
        return self.base.count(self.index, self.new)

    def placed(self) -> list[tuple[int, str]]:
        """The words the replacement puts into the text, and where; more than one where it holds several."""
        return self.base.placed(self.index, self.new)


class Component(Settings):
    """A transformation or a constraint."""

    def describe(self) -> str:
        """What the result says of it; by default the first lines of its class's docstring, and its settings."""
        name, text = type(self).__name__, type(self).__doc__ or ""
        if text.startswith(f"{name}("):  # a dataclass without a docstring has its signature there
            text = ""
        loaded = resources_in(self)  # the result names them apart; as objects they are at another address every time
        settings: list[str] = (
            [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in loaded]
            if is_dataclass(self)
            else []
        )
        words = " ".join(text.partition("\n\n")[0].split()) or name
        return f"{words} ({', '.join(settings)})" if settings else words

    def services(self) -> Mapping[str, Service]:
        """What answers its questions, by the name that these carry; the victim and its gradient are there anyway."""
        return {}


class Transformation(Component):
    """What may stand in a word's place."""

    def replacements(self, example: ExampleState, text: Text, index: int) -> Sequence[str] | Steps:
        raise NotImplementedError

    def warm(self, words: Iterable[str]) -> None:
        """Look up all these words at once, where that is cheaper than one by one."""


class WordConstraint(Component):
    """Which words may change at all."""

    def allowed(self, example: ExampleState, text: Text) -> set[int]:
        raise NotImplementedError

    def may_change(self, word: str) -> bool:
        """Whether a word may change, wherever it is."""
        return True


class Constraint(Component):
    """Which candidates pass; all of them replace one and the same word of ``current``."""

    def keep(self, example: ExampleState, candidates: list[Candidate], current: Text) -> list[Candidate] | Steps:
        raise NotImplementedError
