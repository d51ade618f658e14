"""Files: atomic writes, locks, hashes, JSON. A reader never sees half a file."""

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


def write_bytes(path: Path, data: bytes) -> Path:
    """Write ``data`` beside ``path``, flush it to disk, then rename: a kill leaves the old file or the new one."""
    return write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> Path:
    """``write_bytes`` for what is made piece by piece; never holds more than one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part_of(path) as part:
            with open(part, "ab") as out:
                out.writelines(chunks)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, path)
    except OSError as problem:
        raise TicketsError(
            f"could not write {path}: {problem.strerror}",
            hint="check the disk and the folder's rights",
            exit_code=FAILED,
            code="file.not_written",
        ) from None
    return path


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
    handle = os.open(path, flags | NO_LINK | (os.O_RDWR if flags or not path.is_dir() else os.O_RDONLY), 0o666)
    if claim(handle) is not False and os.fstat(handle).st_nlink:
        return handle
    os.close(handle)
    return None


def claim(file: int | BinaryIO, *, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed, against any process on its volume: whether that was done, None where there are no locks."""
    from filelock import lock_descriptor

    try:
        return lock_descriptor(file if isinstance(file, int) else file.fileno(), blocking=wait)
    except OSError:  # a file system without locks
        return None


class BusyError(TicketsError):
    """Another process is at work there."""


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
        raise TicketsError(
            f"could not make {folder}: {problem.strerror}", hint="give another --out", code="run.folder_not_made"
        ) from None
    with lock:
        if claim(lock) is False:
            if not wait:
                hint = "wait for it, or give another --out"
                raise BusyError(f"another process is working in {folder}", hint=hint, exit_code=FAILED, code="run.busy")
            say(f"waiting for another process that works in {folder}")
            claim(lock, wait=True)
        yield


def check_writable(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, there already or to be made, before hours of work."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as problem:
        why = f"{above} is a file" if os.path.isfile(above) else problem.strerror
        raise TicketsError(
            f"nothing can be written to {folder}: {why}",
            hint="check its rights, or give another folder",
            code="file.not_writable",
        ) from None


def look_again(path: Path) -> str:
    """A hint for a path that is not there: the name beside it that is nearly the same, if there is one."""
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return f"check the path: there is no folder {path.parent}"
    except OSError as problem:
        return f"check the path: {path.parent} cannot be looked into ({problem.strerror})"
    # the ending alone makes none alike
    near = difflib.get_close_matches(path.stem, {Path(name).stem for name in names}, n=1, cutoff=0.6)
    close = difflib.get_close_matches(path.name, [name for name in names if [Path(name).stem] == near], n=1, cutoff=0)
    return f"did you mean {path.with_name(close[0])}?" if close else "check the path"


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


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8", "surrogatepass"))


def write_json(path: Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    if path.is_fifo():  # its end may never come
        raise TicketsError(f"{path} is a pipe, expected a file", hint="see what put it there", code="file.pipe")
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint=look_again(path), code="file.not_found") from None
    except OSError as problem:  # a folder, or no right to read it
        raise TicketsError(
            f"could not read {path}: {problem.strerror}", hint="check the path and its rights", code="file.unreadable"
        ) from None
    except (ValueError, RecursionError) as problem:
        raise DamagedError(
            f"{path} is not valid JSON: {problem}",
            hint="the file is damaged: remove it and run again",
            code="file.json",
        ) from None


def mapping(value: Any) -> Mapping[str, Any]:
    """What should be a JSON object; empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """What should be a JSON list; something else is its one member, nothing is none."""
    return value if isinstance(value, list) else [] if value is None else [value]


def within(folder: Path, name: str) -> Path:
    """The place in ``folder`` that a file of it names; one outside, by its name or by a link, is refused."""
    place = folder / name
    if not place.resolve().is_relative_to(folder.resolve()):
        raise TicketsError(
            f"{folder} names {name}, which lies outside of it",
            hint="what is not in the folder is given by its own path",
            code="file.outside",
        )
    return place


def no_link(path: str, flags: int) -> int:
    """An ``opener`` that refuses a link: what is appended to or locked in a folder is a file of that folder."""
    return os.open(path, flags | NO_LINK, 0o666)


def drop_links(folder: Path) -> None:
    """Remove the links in a folder that another package writes files into by their names."""
    for path in folder.glob("*"):
        if path.is_symlink():
            path.unlink()


def set_aside(path: Path, folder: Path) -> None:
    """Move a file that is to be made again out of the way, into ``damaged`` in ``folder``; what lies there already stays."""
    aside = folder / DAMAGED
    place = next(
        place for n in count(1) if not (place := aside / (path.name if n == 1 else f"{path.name}.{n}")).exists()
    )
    try:
        aside.mkdir(exist_ok=True)
        os.replace(path, place)
    except FileNotFoundError:  # nothing to keep, or another process was here first
        return
    except OSError as problem:
        hint = "check the disk and the folder's rights"
        raise TicketsError(
            f"could not move {path} to {place}: {problem.strerror}", hint=hint, exit_code=FAILED, code="file.not_moved"
        ) from None


def sha256_file(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
