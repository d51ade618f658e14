"""What an attack on one example may want to know. It yields one of these and is sent the answer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from inspect import isgenerator
from typing import Any

import numpy as np


@dataclass(slots=True, eq=False)
class Row:
    """The victim's answer to one input; texts with equal token ids share one."""

    probabilities: np.ndarray  # float32, one per class
    logits: np.ndarray  # float32, divided by the temperature; of a callable, log p
    predicted: int  # the most probable class at temperature 1, so that no rounding at another one changes it
    exact: bool = False  # run alone, so that it depends on nothing but the text


@dataclass(slots=True)
class Ask:
    """Ask the victim about texts; the answer is one ``Row`` each. ``known`` are the rows this example has seen, by input."""

    texts: Sequence[tuple[str, ...]]
    known: dict[Any, Row]
    alone: bool = False  # every text in a batch of its own, also where it is known
    passes: int = 0  # forward passes this question cost, filled in by the victim's service
    service: str = field(default="victim", init=False)


@dataclass(slots=True)
class Encode:
    """Ask the sentence encoder about texts; the answer is one vector each, not necessarily of unit length."""

    texts: Sequence[str]
    alone: bool = False
    service: str = field(default="encoder", init=False)


@dataclass(slots=True)
class Fill:
    """Ask the masked language model which words suit the tokens of a text; the answer is an ``attack.masked.Filled``."""

    text: str
    rows: int = 0  # tokens to answer for at least, padding behind the text included
    at: int | None = None  # only this token
    alone: bool = False
    service: str = field(default="masked", init=False)


@dataclass(slots=True)
class Slope:
    """Ask how steep the victim's loss is at words of a text; the answer is an array, one number for each of ``words``."""

    text: Any  # attack.text.Text
    words: Sequence[int]
    odds: bool = False  # the slope of the log-odds instead, which does not vanish where the victim is sure
    cut: bool = True  # see ``attack.gradient``
    alone: bool = False
    service: str = field(default="gradient", init=False)


Steps = Generator[Any, Any, Any]  # yields questions, is sent answers, returns a result


def steps(result: Any) -> Steps:
    """Run a part of the kit that either has its result at once or asks for something first."""
    if isgenerator(result):
        return (yield from result)
    return result
