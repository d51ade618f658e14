"""The cache folder: what is made of other files, and kept so that it is made once. Work never stops because it cannot be written."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file, write_json
from robust_tickets.progress import warn

Found = TypeVar("Found")
# temporary folders of this process, and of those that it forks, by the cache they stand for
_stand_ins: dict[Path, Path] = {}


def cache_place(*parts: str) -> Path:
    """Where a folder of the user's cache is or would be: ``ROBUST_TICKETS_CACHE``, else ``XDG_CACHE_HOME``, else ``~/.cache``."""
    root = os.environ.get("ROBUST_TICKETS_CACHE")
    base = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "robust-tickets"
    return base.joinpath(*parts)


def cache_writable() -> bool:
    """Whether the cache can be written, or made; only looks."""
    place = cache_place().absolute()
    there = next(folder for folder in (place, *place.parents) if os.path.exists(folder))
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)


def cache_folder(*parts: str) -> Path:
    """A folder of the user's cache (see ``cache_place``), made if missing, to be read and written.

    Where it cannot be written (a read-only home or container), a temporary one that goes with the process, with one warning.
    """
    folder = cache_place(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(folder, os.W_OK | os.X_OK) else "no right to write"
    except OSError as problem:
        why = problem.strerror or str(problem)
    if why:
        root = cache_place()
        if root not in _stand_ins:
            _stand_ins[root] = _stand_in(root, why)
        folder = _stand_ins[root].joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _stand_in(root: Path, why: str) -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="robust-tickets-"))
    except OSError as problem:
        message = (
            f"the cache folder {root} cannot be written ({why}), nor can a temporary one be made ({problem.strerror})"
        )
        hint = "set ROBUST_TICKETS_CACHE to a folder that can be written"
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="cache.not_writable") from None
    owner = os.getpid()  # one forked from it that ends first would take the files of all others
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    warn(
        f"the cache folder {root} cannot be written ({why}): {folder} stands for it until the process ends, and texts and tables of words "
        "are read again every time; ROBUST_TICKETS_CACHE names another folder"
    )
    return folder


def cached(read: Callable[[Path], Found | None], *parts: str) -> tuple[Found | None, Path]:
    """What ``read`` finds at a place of the cache, and that place; where it finds nothing, or nothing whole, one that can be written.

    So a cache that can only be read is read, and nothing is made or logged where it has what is asked for.
    """
    place = cache_place(*parts)
    found = read(place)
    if found is not None:
        return found, place
    other = cache_folder(*parts[:-1]) / parts[-1]
    return (read(other) if other != place else None), other


def write_report(path: Path, report: Mapping[str, Any], *files: Path) -> dict[str, Any]:
    """Write the report on the finished ``files`` beside them, with their hashes and its own; what ``read_report`` gives back."""
    whole = {**report, "files": {file.name: sha256_file(file) for file in files}}
    read: dict[str, Any] = read_json(write_json(path, {**whole, "sha256": _digest(whole)}))
    return read


def read_report(path: Path) -> dict[str, Any] | None:
    """A report that was written last, if it and its files are as they were written; where they are not, a warning, and none."""
    if not os.path.isfile(path):
        return None
    try:
        report: dict[str, Any] = read_json(path)
        rest = {key: value for key, value in report.items() if key != "sha256"}
        same = (sha256_file(path.with_name(name)) == expected for name, expected in rest["files"].items())
        if report["sha256"] == _digest(rest) and all(same):
            return report
    except (TicketsError, OSError, LookupError, TypeError, AttributeError, ValueError):  # not what was written here
        pass
    warn(f"what the cache has at {path} is damaged: made again")
    return None


def _digest(report: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()
