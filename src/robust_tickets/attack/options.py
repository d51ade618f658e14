"""Options of an attack besides its recipe. Imports no numpy, so that the command line can list them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

from robust_tickets.config import Settings, one_of, setting
from robust_tickets.errors import TicketsError

CALIBRATED = "calibrated"
PRECISIONS = ("bfloat16", "float16")


class _Named(Settings):
    """Settings that are keyword arguments, flags and keys of a recipe: their names are enough for an error."""

    def shown(self, name: str) -> str:
        return name


@dataclass(frozen=True, kw_only=True)
class AttackOptions(_Named):
    """The options of an attack: keyword arguments of its call, flags of `tickets attack`, keys of a recipe's [attack].

    Parameters
    ----------
    n
        How many examples; 0 for all.
    seed
        Which balanced or random examples.
    subset
        Which: as even over the classes as the rows allow, random, the first as the papers' code takes them, or the
        first-of-each class.
    split
        Another split than the one the task attacks.
    temperature
        What the logits are divided by: a number, or calibrated.
    precision
        Attack a copy of the model in fewer bits, which a GPU is faster with; the result says how many outcomes the model
        itself does not confirm.
    query_budget
        At most so many queries an example.
    max_failed
        Percent of the examples, and never fewer than three, above which failed ones end the command with exit code 3.
    """

    n: int = setting(200, at_least=0, hint="0 attacks all rows")
    seed: int = 0
    subset: Literal["balanced", "random", "first", "first-of-each"] = "balanced"
    split: str | None = None
    temperature: float | Literal["calibrated"] = 1.0
    precision: Literal["bfloat16", "float16"] | None = None
    query_budget: int | None = setting(None, at_least=1, hint="leave it out for none")
    max_failed: float = setting(1.0, at_least=0, at_most=100, hint="leave it out for 1", counts=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision is not None:
            one_of("precision", self.precision, PRECISIONS)
        number = self.temperature if isinstance(self.temperature, Real) else math.nan
        if self.temperature != CALIBRATED and not 0 < number < math.inf:
            raise TicketsError(
                f"temperature is a number above 0 or {CALIBRATED!r}, got {self.temperature!r}",
                hint="1 leaves a victim as it is",
                code="settings.limit",
            )


@dataclass(frozen=True, kw_only=True)
class Speed(_Named):
    """How fast an attack runs and how much memory it takes; no result depends on it.

    Parameters
    ----------
    token_budget
        Padded tokens in one forward pass; changes speed and memory, not results.
    live
        Examples under attack at the same time; changes speed and memory, not results.
    workers
        Processes that look words up for a model on a GPU; 0 for none besides this one. Changes speed and memory, not results.
    """

    token_budget: int | None = setting(None, at_least=1, hint="leave it out for the default", counts=False)
    live: int | None = setting(None, at_least=1, hint="leave it out for the default", counts=False)
    workers: int | None = setting(None, at_least=0, hint="0 attacks in one process", counts=False)
