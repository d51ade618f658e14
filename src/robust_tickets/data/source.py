"""Where texts come from: the files, folders, packages and Hub datasets behind a task's name, split by split."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import Settings, setting
from robust_tickets.data.readers import READERS, Record, Rows, numbered, open_rows
from robust_tickets.data.registered_tasks import TASKS, TaskSpec, task_named
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import look_again
from robust_tickets.locate import packaged
from robust_tickets.progress import say

if TYPE_CHECKING:
    from robust_tickets.data.task import Task

ALL = "all"  # the one split of a lone file, before it is divided
NONE = "none"  # as validation: nothing selects
# a file's name without its ending: split, part of it, and where it is one shard of several, which and of how many
NAMED = re.compile(
    r"(train|training|validation|valid|val|dev|eval|test|testing)(_matched|_mismatched)?(?:[-_](\d+)-of-(\d+))?",
    re.IGNORECASE,
)
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


def _no_such(path: Path) -> TicketsError:
    return TicketsError(f"no such file or folder: {path}", hint=look_again(path), code="data.not_found")


@dataclass
class RawSplits:
    """The splits of a source as it is, before roles are given to them. ``labels``: names the source itself declares."""

    name: str
    splits: dict[str, list[Rows]]
    notes: list[str] = field(default_factory=list)
    labels: tuple[str, ...] = ()
    spec: TaskSpec | None = None


def path_text(source: str | Path) -> str:
    """A name or a path as text; a path is never read as the name of a task."""
    if not isinstance(source, str | PathLike):
        message = f"a task is loaded by its name or its file, got a {type(source).__name__}"
        hint = 'write the rows to a file and give its path: frame.to_parquet("reviews.parquet")'
        raise TicketsError(message, hint=hint, code="data.not_a_source")
    return source if isinstance(source, str) else os.path.join(".", source)


def find(given: TaskSource) -> RawSplits:
    """What is behind the task's name, and behind the files given beside it."""
    found = _find(given.task, given.data)
    for name, extra in (("validation", given.validation), ("test", given.test)):
        if extra is not None and extra != NONE:
            if ALL in found.splits:
                found.splits["train"] = found.splits.pop(ALL)
            if name in found.splits:
                found.notes.append(f"{name}: {extra} instead of {found.splits[name][0].name}")
            found.splits[name] = [open_rows(Path(extra).expanduser())]
    return found


def _find(source: str, data: str | None) -> RawSplits:
    """A registered name first, then a path, then a registered name spelt another way, then a Hub id."""
    name, path = task_named(source), Path(source).expanduser()
    if spec := TASKS.get(name):
        found = _registered(name, spec, data)
        if data is None and os.path.exists(name):
            found.notes.append(f"{name} is the registered task, not what is called so here; for that say ./{name}")
        return found
    if data is not None:
        hint = f"give the files themselves: load_task({data!r}); or one of: {', '.join(sorted(TASKS))}"
        message = f"data= gives a registered task local files, and {source!r} is not one"
        raise TicketsError(message, hint=hint, code="data.not_registered")
    if path.exists():
        return from_path(path)
    hub_id = HUB_ID.fullmatch(source)
    if hub_id and path.suffix.lower() not in READERS:
        return from_hub(hub_id[1], hub_id[2] or "")
    if path.suffix or len(path.parts) > 1:
        raise _no_such(path)
    message = f"{source!r} is no registered task, no file, no folder and no Hub id (owner/name)"
    raise TicketsError(message, hint=did_you_mean(source, TASKS), code="data.not_found")


def from_path(path: Path, config: str = "") -> RawSplits:
    """A file, or a folder of files that are called by their splits."""
    if not path.is_dir():
        return RawSplits(path.stem, {ALL: [open_rows(path)]})
    name, files = path.resolve().name, _files(path, config)
    groups: dict[str, list[Path]] = {}
    for file in files:
        if named := NAMED.fullmatch(file.stem.lower()):
            split = {"tr": "train", "te": "test"}.get(named[1][:2], "validation") + (named[2] or "")
            groups.setdefault(split, []).append(file)
    unknown = [file.name for file in files if not NAMED.fullmatch(file.stem)]
    if len(files) == 1 and unknown:
        return RawSplits(name, {ALL: [open_rows(files[0])]})
    if not groups:
        message = f"{path} holds no data file that is called train, validation (dev, valid) or test"
        hint = f"name files so, with an ending of {', '.join(READERS)}; or give one file and test=…, validation=…"
        raise TicketsError(message, hint=hint, code="data.no_files")
    notes = [f"{name}: not used: {', '.join(unknown)}"] if unknown else []
    splits = {split: [open_rows(f) for f in _shards(split, members)] for split, members in sorted(groups.items())}
    return RawSplits(name, splits, notes)


def _files(folder: Path, config: str) -> list[Path]:
    """The data files of a folder, or of the one below it where a Hub download keeps them."""
    below = [f for f in sorted(folder.iterdir()) if f.is_dir() and not f.name.startswith(".")]
    for place in (folder, folder / config, folder / "data", *below[: len(below) == 1]):
        files = sorted(place.iterdir()) if place.is_dir() else []
        files = [f for f in files if f.is_file() and f.suffix.lower() in READERS and not f.name.startswith(".")]
        if files:
            return files
    return []


def _shards(split: str, files: list[Path]) -> list[Path]:
    """The files of a split in order: one file, or every shard of a set."""
    shards = {f: NAMED.fullmatch(f.stem) for f in files}
    sets = {(m[1], m[4], f.suffix) for f, m in shards.items() if m}
    if len(sets) != 1 or len(files) != int(next(iter(sets))[1] or 1):
        message = (
            f"the split {split!r} is not one file, nor all shards of one set: {', '.join(f.name for f in files[:6])}"
        )
        raise TicketsError(message, hint="keep one file, or every shard", code="data.shards")
    return sorted(files, key=lambda f: int(shards[f][3] or 0))  # type: ignore[index]


def _registered(name: str, spec: TaskSpec, data: str | None) -> RawSplits:
    if data is not None:
        path = Path(data).expanduser()
        if not path.exists():
            raise _no_such(path)
        found = from_path(path, spec.config)
        found.notes.insert(0, f"{name}: read from {path.name}")
    elif spec.package:
        folder = packaged(spec.package, os.path.dirname(spec.file))
        if folder is None:
            message = f"the task {name} needs the Python package {spec.package}, which is not there"
            raise TicketsError(message, hint=f"pip install {spec.pip}", code="data.no_package")
        found = RawSplits(name, {ALL: [open_rows(folder / os.path.basename(spec.file))]})
    else:
        found = from_hub(spec.hub, spec.config)
    return RawSplits(name, found.splits, found.notes, spec.labels, spec)


class HubRows(Rows):
    """One split of a Hub dataset; its fingerprint stands for its content."""

    def __init__(self, name: str, dataset: Any) -> None:
        self.name = self.title = name
        self.dataset, self.columns, self.size = dataset, tuple(dataset.column_names), int(dataset.dataset_size or 0)

    def key(self) -> str:
        return hashlib.sha256(f"{self.dataset._fingerprint} {len(self.dataset)}".encode()).hexdigest()

    def classes(self, label: str) -> tuple[str, ...]:
        return tuple(getattr(self.dataset.features.get(label), "names", None) or ())

    def records(self, wanted: tuple[str, ...]) -> Iterator[Record]:
        batches = self.dataset.select_columns(list(dict.fromkeys(wanted))).iter(batch_size=1000)
        return numbered([batch[name] for name in wanted] for batch in batches)


def from_hub(hub_id: str, config: str = "") -> RawSplits:
    """Every split of a Hub dataset."""
    shown = f"{hub_id} ({config})" if config else hub_id
    local = f"without network: elsewhere `hf download --repo-type dataset {hub_id} --local-dir FOLDER`, then give the folder"
    local += " (of a registered task as data=FOLDER; of a corpus with a config as corpus=FOLDER/CONFIG)"
    try:
        import datasets
    except ImportError:
        message = f"reading {shown} from the Hub needs the package datasets, which is not installed"
        raise TicketsError(message, hint=f"pip install datasets; {local}", code="data.no_package") from None
    say(f"looking for {shown} in the Hub's cache and on the Hub")
    try:
        # datasets 3 asks on the terminal
        found = datasets.load_dataset(hub_id, config or None, trust_remote_code=False)
    except Exception as problem:  # the Hub's client raises many types, most of them for the same few reasons
        first = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        message = f"could not get {shown} from the Hub or its cache: {first}"
        hint = f"check the id, and its config (owner/name:config); {local}"
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="data.hub") from None
    splits: dict[str, list[Rows]] = {name: [HubRows(f"{shown}/{name}", split)] for name, split in found.items()}
    return RawSplits(hub_id.rpartition("/")[2], splits)
