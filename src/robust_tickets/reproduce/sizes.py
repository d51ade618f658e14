"""Sizes of what lies in the folders that were given: rows of a task, and a backbone's weights beside BERT-base's. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.reproduce.places import Places

BASE = 12 * (4 * 768**2 + 2 * 768 * 3072)  # weights of BERT-base's layers
LEAST = 0.05  # of its time that a step of the smallest model takes


def rows_of(places: Places, task: str) -> Mapping[str, int]:
    """Rows of each split in the task's folder; empty where there is none, or where they cannot be counted at a glance."""
    return _rows(places.data / task) if places.data is not None else {}


def share_of(places: Places, backbone: str) -> float:
    """What a step of the backbone costs beside one of BERT-base."""
    return max(LEAST, (weights_of(places, backbone) or BASE) / BASE)


def weights_of(places: Places, backbone: str) -> int | None:
    """Weights of the matrices of its layers, by the config in its folder; none where that cannot be told."""
    return _weights(places.models / backbone / "config.json") if places.models is not None else None


@cache
def _rows(folder: Path) -> dict[str, int]:
    from robust_tickets.data.source import from_path

    try:
        return {split: sum(_count(one.path) for one in readers) for split, readers in from_path(folder).splits.items()}
    except (TicketsError, OSError):
        return {}


def _count(path: Path) -> int:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as stream:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    return lines - (path.suffix != ".jsonl")  # the header


@cache
def _weights(config: Path) -> int | None:
    try:
        told = read_json(config)
        layers, hidden, neurons = (
            int(told[name]) for name in ("num_hidden_layers", "hidden_size", "intermediate_size")
        )
    except (TicketsError, OSError, KeyError, TypeError, ValueError):
        return None
    return layers * (4 * hidden**2 + 2 * hidden * neurons)
