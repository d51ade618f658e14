"""Datasets from the Hub (or its local cache), through the optional package ``datasets``, which is imported only here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from robust_tickets.data.rows import Record, Rows
from robust_tickets.data.source import Source
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import say


class HubRows(Rows):
    """One split of a Hub dataset; its fingerprint stands for its content."""

    def __init__(self, name: str, dataset: Any) -> None:
        self.name = self.title = name
        self.dataset = dataset
        self.columns = tuple(dataset.column_names)
        self.size, self.position, self.notes = int(dataset.dataset_size or 0), 0, ()

    def key(self) -> str:
        return hashlib.sha256(f"{self.dataset._fingerprint} {len(self.dataset)}".encode()).hexdigest()

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        number, total = 0, max(1, len(self.dataset))
        for batch in self.dataset.select_columns(list(dict.fromkeys(wanted))).iter(batch_size=1000):
            for values in zip(*(batch[name] for name in wanted), strict=True):
                number += 1
                yield Record(number, values, "")
            self.position = self.size * number // total


def from_hub(hub_id: str, config: str = "", task: str = "", use: str = "") -> Source:
    """Every split of a Hub dataset; ``use`` is what to write for a folder with its files, where that is no task."""
    shown = f"{hub_id} ({config})" if config else hub_id
    call = f'load_task("{task}", data="FOLDER")' if task else 'load_task("FOLDER")'
    local = use or f"{call} (--set data=FOLDER; tickets reproduce takes --data, the folder that holds it)"
    try:
        import datasets
    except ImportError:
        raise TicketsError(
            f"reading {shown} from the Hub needs the package datasets, which is not installed",
            hint=f"pip install datasets; or download its files elsewhere and give the folder: {local}",
        ) from None
    say(f"looking for {shown} in the Hub's cache and on the Hub")
    try:
        found = datasets.load_dataset(
            hub_id, config or None, trust_remote_code=False
        )  # datasets 3 asks on the terminal
    except Exception as problem:  # the Hub's client raises many types, most of them for the same few reasons
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise TicketsError(
            f"could not get {shown} from the Hub or its cache: {first}",
            hint=f"without network: on another machine run `hf download --repo-type dataset {hub_id} --local-dir FOLDER`, "
            f"copy FOLDER here and use {local}; with network: check the id, and its config (owner/name:config)",
            exit_code=FAILED,
        ) from None
    splits: dict[str, list[Rows]] = {name: [HubRows(f"{shown}/{name}", split)] for name, split in found.items()}
    return Source(hub_id.rpartition("/")[2], splits)


def declared_labels(rows: Rows, label: str) -> tuple[str, ...] | None:
    """The label names a Hub dataset declares, in id order."""
    feature = rows.dataset.features.get(label) if isinstance(rows, HubRows) else None
    names = getattr(feature, "names", None)
    return tuple(names) if names else None
