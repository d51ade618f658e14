"""Run folder: content-addressed stages that are done once, and a manifest written last.

A stage's folder is named by the hash of what determines it (its key). ``stage.json``, written last, lists the stage's files with
their sizes and hashes: where it is there and fits, the stage is done and is never run again. Anything else in the folder is the work of
an interrupted run, which the stage's own code goes on from.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from robust_tickets.config import digest, to_plain
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file, write_json

SCHEMA = 1
PACKAGES = ("robust-tickets", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy", "scipy", "pyarrow")
NOT_LISTED = ("checkpoint", ".lock")  # working files of a stage, gone or irrelevant once it is done


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One house's work for one key."""

    folder: Path
    key: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Path relative to the run folder, as ``search/1a2b3c4d``."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def done(self) -> bool:
        """Whether an earlier run finished this stage and its files are still there."""
        mark = self.folder / "stage.json"
        if not mark.is_file():
            return False
        about = read_json(mark)
        if not isinstance(about, dict) or about.get("schema") != SCHEMA or about.get("key") != to_plain(self.key):
            raise TicketsError(f"{mark} belongs to other work", hint="two keys share a hash or the file was edited: remove the folder")
        try:
            sizes = {name: entry["bytes"] for name, entry in about["files"].items()}
        except (KeyError, TypeError, AttributeError):
            raise TicketsError(f"{mark} is damaged", hint="remove it: the stage is then run again") from None
        return all((self.folder / name).is_file() and (self.folder / name).stat().st_size == size for name, size in sizes.items())

    def finish(self) -> None:
        """Mark the stage as done."""
        write_json(self.folder / "stage.json", {"schema": SCHEMA, "key": to_plain(self.key), "files": listing(self.folder)})


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's folder."""

    folder: Path

    def stage(self, house: str, key: Mapping[str, Any]) -> Stage:
        """The stage of ``house`` that ``key`` determines; makes its folder."""
        folder = self.folder / house / digest(key)[:8]
        folder.mkdir(parents=True, exist_ok=True)
        return Stage(folder=folder, key=key)

    def finish(self) -> None:
        """Write the manifest, last of all: every file, its size and sha256."""
        write_json(self.folder / "manifest.json", {"schema": SCHEMA, "files": listing(self.folder, but=("manifest.json",))})

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out of the folder while this one works in it."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise TicketsError(
                    f"another process is working in {self.folder}", hint="wait for it, or give another --out", exit_code=FAILED
                ) from None
            yield


def listing(folder: Path, but: tuple[str, ...] = ("stage.json",)) -> dict[str, dict[str, Any]]:
    """Every file below ``folder`` with its size and sha256, working files left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if path.is_file() and inner.name not in but and not path.name.endswith(".part") and not set(inner.parts) & set(NOT_LISTED):
            found[inner.as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
    return found


@cache
def environment() -> Mapping[str, Any]:
    """Where a number was made: interpreter, machine, device and versions."""
    import torch

    on_gpu = torch.cuda.is_available()
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": versions(),
    }


def versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
    """Installed versions, without importing anything."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
