"""Limits that settings declare at their fields: every one holds, in every registered component, however a subclass sets its default."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from robust_tickets.config import Settings, counted, fraction, mark, resource, setting, to_plain, uncounted
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ADVERSARIES, ATTACKS, METHODS
from robust_tickets.train.finetune import FineTune


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
    removed: float = fraction(0.3)
    steps: int = setting(3, at_least=1, hint="3 is the paper's")
    share: float | None = setting(None, above=0, at_most=1)
    way: Literal["a", "b"] = "a"
    words: str | None = resource(required=True)
    every: float = setting(30.0, at_least=0, counts=False)


@dataclass(frozen=True, kw_only=True)
class Other(Base):
    steps: int = 5
    every: float = 60.0


@pytest.mark.parametrize("cls", [Base, Other])
@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"removed": 1}, "settings.limit"),
        ({"removed": -0.1}, "settings.limit"),
        ({"removed": math.nan}, "settings.limit"),
        ({"removed": None}, "settings.number"),
        ({"removed": "half"}, "settings.number"),
        ({"steps": 0}, "settings.limit"),
        ({"steps": 1.5}, "settings.whole_number"),
        ({"steps": True}, "settings.whole_number"),
        ({"share": 0}, "settings.limit"),
        ({"way": "c"}, "settings.choice"),
        ({"words": "none"}, "settings.required"),
        ({"every": -1}, "settings.limit"),
    ],
)
def test_limits(cls: Any, given: dict[str, Any], code: str) -> None:
    with pytest.raises(TicketsError, match=f"{cls.__name__}.{next(iter(given))} ") as found:
        cls(**given)
    assert found.value.code == code


def test_what_lies_within_the_limits_is_taken() -> None:
    assert Base(removed=0, steps=1, share=1, every=0.0).share == 1
    assert Base(share=None, words="elsewhere").share is None


def test_what_does_not_count_is_left_out() -> None:
    assert uncounted(Other) == ("every",)
    assert counted(Other()) == {k: v for k, v in to_plain(Other()).items() if k != "every"}
    for cls in (FineTune, *(METHODS.get(name) for name in ("earlyrobust", "earlybert", "orticket", "robustt", "imp"))):
        assert set(uncounted(cls)) == {"engine", "checkpoint_every", "checkpoint_steps"}


@pytest.mark.parametrize("registry", [METHODS, ADVERSARIES, ATTACKS], ids=lambda registry: registry.kind)
def test_every_component_refuses_what_lies_outside(registry: Any) -> None:
    for name in registry.names():
        cls = registry.get(name)
        assert issubclass(cls, Settings), name
        for field in dataclasses.fields(cls):
            limits = mark(cls, field.name, "limits", {})
            step = {"at least": -1, "above": 0, "at most": 1, "below": 0}
            beyond = [limit + step[name] for name, limit in limits.items()]
            for value in beyond:
                with pytest.raises(TicketsError, match=rf"{cls.__name__}\.{field.name} must be") as found:
                    cls(**{field.name: value})
                assert found.value.code in ("settings.limit", "settings.whole_number")
