"""Files: atomic writes, locks, hashes, JSON and TOML. A reader never sees half a file."""

from __future__ import annotations

import difflib
import glob
import hashlib
import json
import os
import platform
import secrets
import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from robust_tickets.errors import FAILED, DamagedError, TicketsError
from robust_tickets.progress import say

DAMAGED = "damaged"  # the folder for files that were made again
OLD = 24 * 3600.0  # seconds: what another host left unfinished for so long, it does not write any more
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


# --- writing


@contextmanager
def writing(path: Path | None) -> Iterator[None]:
    """Work on a file, whose failures (a full disk, no right) are errors that name it."""
    try:
        yield
    except OSError as problem:
        message, hint = (
            f"could not write {path}: {problem.strerror or problem}",
            "check the disk and the folder's rights",
        )
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="file.not_written") from None


def write_chunks(path: Path, chunks: Iterable[bytes]) -> Path:
    """Write beside ``path``, flush it to disk, then rename: a kill leaves the old file or the new one. Holds one chunk at a time."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part_of(path) as part:
            with open(part, "ab") as out:
                out.writelines(chunks)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, path)
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    return write_chunks(path, (data,))


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8", "surrogatepass"))


def write_json(path: Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def part_of(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A new file, or folder, beside ``path`` to write into and to rename; where that is not reached, it is removed.

    Its name is no other process's, of this host or another one on the same volume, and it is locked meanwhile, so that none sweeps it.
    """
    sweep(path)
    held = None
    while held is None:  # another process may sweep it before it is locked
        part = path.with_name(f".{path.name}.{_host()}-{secrets.token_hex(4)}.part")
        if folder:
            part.mkdir()
        held = hold(part, 0 if folder else os.O_CREAT | os.O_EXCL)
    try:
        yield part
    except BaseException:
        _remove(part)
        raise
    finally:
        os.close(held)


def hold(path: Path, flags: int = 0) -> int | None:
    """A descriptor that keeps a file or folder locked until it is closed; None where another process holds it, or has removed it."""
    if os.name != "posix":  # there nobody can rename or remove an open file, this process neither
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.open(path, flags | NO_LINK | (os.O_RDONLY if path.is_dir() else os.O_RDWR), 0o666)
    if claim(handle) is not False and os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def sweep(path: Path, kind: str = "part") -> None:
    """Remove what processes that were killed while writing ``path``, a file or a folder, left beside it: ``.NAME.HOST-….part``.

    Of this host, what no process holds; of others, whose locks may not be seen from here, what was besides not touched for a day.
    """
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.{kind}"):
        with suppress(OSError):
            old = time.time() - part.lstat().st_mtime > OLD
            handle = os.open(part, (os.O_RDONLY if part.is_dir() else os.O_RDWR) | NO_LINK)
            try:
                free = claim(handle)
                if free is not False and (old or (free and part.name.split(".")[-2].startswith(f"{_host()}-"))):
                    _remove(part)
            finally:
                os.close(handle)


@cache
def _host() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, there already or to be made, before hours of work."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as problem:
        message, hint = f"nothing can be written to {folder}: {problem}", "check its rights, or give another folder"
        raise TicketsError(message, hint=hint, code="file.not_writable") from None


# --- locks


def claim(file: int | BinaryIO, *, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed, against any process on its volume: whether that was done, None where there are no locks."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(file if isinstance(file, int) else file.fileno(), blocking=wait)
    except OSError:  # a file system without locks
        return None


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep a second process out of ``folder`` while this one works in it; ``wait`` for one that is there already, else refuse.

    The lock goes with the process, however it ends.
    """
    if folder.exists() and not folder.is_dir():
        raise TicketsError(f"{folder} is a file", hint="give a folder as --out", code="run.folder_is_file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "ab", opener=no_link)  # noqa: SIM115  # held until the work is done
    except OSError as problem:
        message = f"could not make {folder}: {problem.strerror}"
        raise TicketsError(message, hint="give another --out", code="run.folder_not_made") from None
    with lock:
        if claim(lock) is False:
            if not wait:
                message, hint = f"another process is working in {folder}", "wait for it, or give another --out"
                raise TicketsError(message, hint=hint, exit_code=FAILED, code="run.busy")
            say(f"waiting for another process that works in {folder}")
            claim(lock, wait=True)
        yield


def no_link(path: str, flags: int) -> int:
    """An ``opener`` that refuses a link: what is appended to or locked in a folder is a file of that folder."""
    return os.open(path, flags | NO_LINK, 0o666)


# --- reading


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as problem:
        hint = "the file is damaged: remove it and run again"
        raise DamagedError(f"{path} is not valid JSON: {problem}", hint=hint, code="file.json") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as problem:  # not UTF-8, a number of thousands of digits
        message = f"{path} is not valid TOML: {problem}"
        raise DamagedError(message, hint="mend the line it names", code="config.toml") from None


def read_bytes(path: Path) -> bytes:
    """What a file holds; an error that names it where it cannot be read."""
    if path.is_fifo():  # its end may never come
        raise TicketsError(f"{path} is a pipe, expected a file", hint="see what put it there", code="file.pipe")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint=look_again(path), code="file.not_found") from None
    except OSError as problem:  # a folder, or no right to read it
        message = f"could not read {path}: {problem.strerror}"
        raise TicketsError(message, hint="check the path and its rights", code="file.unreadable") from None


def look_again(path: Path) -> str:
    """A hint for a path that is not there: the name beside it that is nearly the same, if there is one."""
    try:
        stems = {Path(name).stem: name for name in os.listdir(path.parent)}  # the ending alone makes none alike
    except OSError as problem:
        return f"check the path: {path.parent}: {problem.strerror}"
    near = difflib.get_close_matches(path.stem, stems, n=1)
    return f"did you mean {path.with_name(stems[near[0]])}?" if near else "check the path"


def mapping(value: Any) -> Mapping[str, Any]:
    """What should be a JSON object; empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """What should be a JSON list; something else is its one member, nothing is none."""
    return value if isinstance(value, list) else [] if value is None else [value]


def sha256_file(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --- folders


def within(folder: Path, name: str) -> Path:
    """The place in ``folder`` that a file of it names; one outside, by its name or by a link, is refused."""
    place = folder / name
    if not place.resolve().is_relative_to(folder.resolve()):
        hint = "what is not in the folder is given by its own path"
        raise TicketsError(f"{folder} names {name}, which lies outside of it", hint=hint, code="file.outside")
    return place


def drop_links(folder: Path) -> None:
    """Remove the links in a folder that another package writes files into by their names."""
    for path in folder.glob("*"):
        if path.is_symlink():
            path.unlink()


def set_aside(path: Path, folder: Path) -> None:
    """Move a file that is to be made again out of the way, into ``damaged`` in ``folder``; what lies there already stays."""
    aside = folder / DAMAGED
    names = (path.name if n == 1 else f"{path.name}.{n}" for n in count(1))
    place = next(place for name in names if not (place := aside / name).exists())
    with writing(place), suppress(FileNotFoundError):  # nothing to keep, or another process was here first
        aside.mkdir(exist_ok=True)
        os.replace(path, place)
