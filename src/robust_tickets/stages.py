"""What determines a result, the stage folder that it names, and the run folder with a manifest written last.

A stage's folder is named by the hash of what determines it (its key). ``stage.json``, written last, lists the stage's files with
their sizes and hashes: where it is there and fits, the stage is done and is never run again. Where it does not fit, the stage is run
again, and what is damaged is kept in ``damaged``.
Anything else in the folder is the work of an interrupted run, which the stage's own code resumes.

What counts is marked at the fields (``setting(counts=False)``); a component adds what the files behind it hold (``resources``, ``inputs``)
and a plug-in its own file. Where files lie, how many tokens go through the model at once and on which device count nowhere.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from robust_tickets._version import __version__
from robust_tickets.config import counted, digest, to_plain
from robust_tickets.environment import environment
from robust_tickets.errors import DamagedError, TicketsError, inside
from robust_tickets.files import DAMAGED, listed, locked, mapping, read_json, set_aside, sha256_file, within, write_json
from robust_tickets.progress import say, warn
from robust_tickets.registry import code_of, name_of

SCHEMA = 1
# what stages write into their folder; anything else in it is the user's and none of our business. The scores of an unstructured ticket
# (scores.safetensors) are listed in the manifest only: they may be removed to save disk, and the stage is still done.
STAGE_FILES = (
    "ticket.safetensors", "ticket.json", "trace.jsonl", "distances.json", "metrics.jsonl", "model", "evaluation.json", "cost.json",
    "adversary.json", "result.json", "examples.jsonl",
)  # fmt: skip
# what the phases of a search leave behind: listed in the manifest, not needed again
PHASE_FILES = ("scores.safetensors", "tuned", "round-*")
SHARERS = "processes.json"
# rows that a run left out, and how many: who has more has one fault in all of them
BAD_ROWS, BAD_ROWS_KEPT = ("bad_rows.csv", 10_000)
RUN_FILES = ("config.json", "env.json", BAD_ROWS, "arms.json", "report.html")
# bytes of a file that is looked into at a glance; of a larger one, which is weights, its size has to do
HASHED = 1 << 22
COMMAND = "command.json"  # how an unfinished run is resumed; arms.json says it of a finished one


def stage_key(stage: str, component: Any = None, **inputs: Any) -> dict[str, Any]:
    """All that determines the result of a ``stage``: the component's settings, what it reads, and ``inputs``; none is left out.

    A setting that names what ``component.inputs()`` reads (a corpus) counts by what that holds.
    """
    key = {"version": __version__, "stage": stage, **{name: v for name, v in inputs.items() if v is not None}}
    if component is None:
        return key
    read = component.inputs() if callable(getattr(component, "inputs", None)) else {}
    settings = {name: value for name, value in counted(component).items() if name not in read}
    used = {"inputs": read, "resources": resources_of(component), "code": code_of(component)}
    key |= {"method": {"name": name_of(component), **settings}}
    return key | {name: to_plain(value) for name, value in used.items() if value}


def resources_of(component: Any) -> dict[str, Any]:
    """What the files behind the components inside a component hold, by their fields: a path says where they lie, not what they are."""
    found: dict[str, Any] = {}
    for f in dataclasses.fields(component):
        inner = getattr(component, f.name)
        if dataclasses.is_dataclass(inner) and not isinstance(inner, type):
            with inside(f.name):
                if read := inner.resources() if hasattr(inner, "resources") else None:
                    found[f.name] = read
                found |= {f"{f.name}.{name}": value for name, value in resources_of(inner).items()}
    return found


class Digested(Protocol):
    """What names its content by a hash: a classifier, a task."""

    @property
    def digest(self) -> str: ...


def identity_of(method: Any, clf: Digested, task: Digested) -> str:
    """Hash of what determines a training in a folder of its own: settings, rows, starting weights, the files behind its adversary."""
    return digest(stage_key("training", method, task=task.digest, model=clf.digest))


def same_work(path: Path | None, found: Any, wanted: Any) -> None:
    """Refuse to resume or to take what ``path`` holds, where that is the work of other settings, data or starting weights."""
    if found != wanted:
        message = f"{path} holds the work of another run (other settings, data or starting weights)"
        hint = "give another folder as --out, or remove this one to start over"
        raise TicketsError(message, hint=hint, code="stage.other_work")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The folder of one stage's work, and the key that names it."""

    folder: Path
    key: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Path relative to the run folder, as ``search/1a2b3c4d``."""
        return Path(*self.folder.parts[-2:]).as_posix()

    @property
    def sharers(self) -> int:
        """The most processes that were at work on the device while it ran, as far as that was noted."""
        noted = record(self.folder / SHARERS).get("processes")
        return noted if isinstance(noted, int) else 1

    @property
    def mark(self) -> Path:
        return self.folder / "stage.json"

    def done(self) -> bool:
        """Whether an earlier run finished this stage and its files are, at a glance, still what they were."""
        return self.mark.is_file() and self._harmed(HASHED) is None

    def found(self, what: str) -> bool:
        """``done`` with all weights hashed, and reported; where a file is gone or not what it was, the stage is to be run again.

        That file and the mark are set aside: with them a half-made stage could be taken for a whole one.
        """
        if not self.mark.is_file():
            return False
        harmed = self._harmed()
        if harmed is None:
            say(f"{what}: found done in {self.name}")
            return True
        state = f"is damaged (kept in {self.folder / DAMAGED})" if harmed.is_file() else "is missing"
        warn(f"{what}: {harmed} {state}: {self.name} is run again")
        # the mark last: after a kill in between, a file is still missing
        for path in dict.fromkeys((harmed, self.mark)):
            set_aside(path, self.folder)
        return False

    def _harmed(self, most: float = math.inf) -> Path | None:
        """The file of a finished stage that is gone or not what it was, which may be the mark; none where all is well.

        Of files of more bytes than ``most`` the size has to do.
        """
        try:
            about = read_json(self.mark)
            if isinstance(about["key"], dict):
                same_work(self.folder, (about["schema"], about["key"]), (SCHEMA, to_plain(self.key)))
            for name, entry in about["files"].items():
                path, size = self.folder / name, entry["bytes"]
                if ".." in path.parts or not path.is_relative_to(
                    self.folder
                ):  # what is harmed is moved: none but our own
                    return self.mark
                if not path.is_file() or path.stat().st_size != size:
                    return path
                if size <= most and sha256_file(path) != entry["sha256"]:
                    return path
        except (DamagedError, KeyError, TypeError, AttributeError):
            return self.mark
        return None

    def finish(self) -> None:
        """Mark the stage as done."""
        write_json(self.mark, {"schema": SCHEMA, "key": to_plain(self.key), "files": listing(self.folder, STAGE_FILES)})


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A run's folder.

    ``processes`` may work in the folder at a time, each stage being one's (``alone``); none: this one has the whole of it, by ``locked``.
    """

    folder: Path
    processes: int | None = None

    def stage(self, kind: str, key: Mapping[str, Any]) -> Stage:
        """The stage that ``key`` determines, in its folder under ``kind``."""
        stage = Stage(folder=within(self.folder, f"{kind}/{digest(key)[:8]}"), key=key)
        stage.folder.mkdir(parents=True, exist_ok=True)
        return stage

    def made(self, name: str) -> Stage:
        """A finished stage by its name."""
        folder = within(self.folder, name)
        return Stage(folder=folder, key=record(folder / "stage.json").get("key", {}))

    @contextmanager
    def alone(self, stage: Stage) -> Iterator[None]:
        """Hold the stage while it is looked at, run or read: who comes second waits, and finds it done.

        How many processes share the device is noted where the stage is still to be run: a time taken then is no time of the method.
        """
        if self.processes is None:
            yield
            return
        with locked(stage.folder, wait=True):
            if not stage.done() and self.processes > stage.sharers:
                write_json(stage.folder / SHARERS, {"processes": self.processes})
            yield

    def begin(self, config: Mapping[str, Any]) -> None:
        """Write config.json; where another one lies there, what was concluded from it goes first, its finished stages stay."""
        path = self.folder / "config.json"
        if path.is_file() and record(path) != config:
            for name in ("manifest.json", "report.html", "arms.json"):
                (self.folder / name).unlink(missing_ok=True)
        write_json(path, config)

    def resumed_by(self, command: str) -> None:
        """Note the command that resumes the run, until it is finished; the file's time is when it was begun."""
        if command and command != command_of(self.folder):
            write_json(self.folder / COMMAND, {"command": command})

    def done(self) -> bool:
        """Whether the manifest is there and belongs to the config beside it."""
        config = self.folder / "config.json"
        listed_as = mapping(mapping(record(self.folder / "manifest.json").get("files")).get("config.json"))
        return config.is_file() and listed_as.get("sha256") == sha256_file(config)

    def finish(self, stages: Iterable[str]) -> None:
        """Write the manifest, last of all: the run's own files and those of its stages, with sizes and hashes."""
        files = listing(self.folder, RUN_FILES)
        for stage in sorted(set(stages)):
            left = [path.name for pattern in PHASE_FILES for path in (self.folder / stage).glob(pattern)]
            inner = listing(self.folder / stage, (*STAGE_FILES, "stage.json", *left))
            files |= {f"{stage}/{name}": entry for name, entry in inner.items()}
        write_json(self.folder / "manifest.json", {"schema": SCHEMA, "files": files})
        (self.folder / COMMAND).unlink(missing_ok=True)


class OneStage(RunFolder):
    """A folder that holds one stage and nothing else: the ``--out`` of a verb."""

    def stage(self, kind: str, key: Mapping[str, Any]) -> Stage:
        return Stage(folder=self.folder, key=key)

    @contextmanager
    def alone(self, stage: Stage) -> Iterator[None]:
        with locked(self.folder):
            yield


def record(path: Path) -> dict[str, Any]:
    """What a file of notes about work says; nothing where there is none, or where it is damaged, with a warning: then nothing is done."""
    try:
        found = read_json(path) if path.is_file() else {}
    except DamagedError:
        found = None
    if isinstance(found, dict):
        return found
    warn(f"{path} is damaged, and taken as not there")
    return {}


def command_of(folder: Path) -> str:
    """The command that resumes an unfinished run; empty where none is noted."""
    return str(record(folder / COMMAND).get("command", ""))


def listing(folder: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Those of ``names`` that are in ``folder`` (folders with all their files), each file with its size and sha256."""
    found = {}
    own = (folder / name for name in names)
    for path in sorted(p for one in own for p in ([one] if one.is_file() else one.rglob("*"))):
        if path.is_file() and not path.name.endswith(".part"):
            found[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    return found


_command = ""  # what was typed, while that is carried out


@contextmanager
def typed(command: str) -> Iterator[None]:
    """What is made meanwhile was made by this command."""
    global _command
    before, _command = _command, command
    try:
        yield
    finally:
        _command = before


def made(files: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """``environment``, the date, the command if one was typed, and the data's files (name, sha256): for readers, in no digest."""
    data = [{"name": name, "sha256": content} for name, content in dict.fromkeys(files)]
    known = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "command": _command, "data": data}
    return {**environment(), **{name: value for name, value in known.items() if value}}


def with_earlier(env: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """``env``, and under ``earlier`` the other environments of the run whose env.json is ``path``: it may be resumed elsewhere."""
    before, now = record(path), dict(environment())
    known = [
        {name: one[name] for name in now if name in one}
        for one in map(mapping, [*listed(before.get("earlier")), before])
    ]
    earlier = [one for i, one in enumerate(known) if one and one != now and one not in known[:i]]
    return {**env, "earlier": earlier} if earlier else dict(env)
