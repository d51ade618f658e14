"""A replay that a folder already holds: the same one may be made again, another is not written over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json

SCHEMA = 1
REPLAY, ROWS = "replay.json", "rows.jsonl"


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """Nothing, where there is no folder or nothing in it."""

    place: Path | None = None
    models: tuple[str, ...] | None = None  # their digests

    @classmethod
    def of(cls, place: Path | None, sources: Sequence[Mapping[str, Any]], label_map: Any) -> Earlier:
        if place is None or not (place / REPLAY).is_file():
            return cls()
        held = read_json(place / REPLAY)
        try:
            same = held["schema"] == SCHEMA and held["label_map"] == label_map
            same = same and [_content(one) for one in held["sources"]] == [_content(one) for one in sources]
            models = tuple(one["digest"] for one in held["models"])
        except (KeyError, TypeError):
            same, models = False, ()
        if not same:
            raise cls(place=place)._another("texts or another label map")
        return cls(place=place, models=models)

    def check(self, told: Sequence[Mapping[str, Any]], all_of_them: bool = False) -> None:
        now = tuple(one["digest"] for one in told)
        if self.models is not None and now != (self.models if all_of_them else self.models[: len(now)]):
            raise self._another("models")

    def _another(self, what: str) -> TicketsError:
        hint = f"give another folder, or remove {self.place}/{REPLAY} and {ROWS} to start anew"
        return TicketsError(f"{self.place} holds a replay of other {what}", hint=hint)


def _content(source: Mapping[str, Any]) -> tuple[Any, ...]:
    return source["digest"], tuple(source["labels"]), source["rows"], source.get("originals")
