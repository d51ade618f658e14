"""SHA-256 of a resource's files; that of a big file is remembered on disk, so that 440 MB are read once and not at every start.

What is remembered counts for one path, file number, size, and times of last change (content, and content or rights: the second cannot
be set back by a program, so a file that was changed and dressed in its old date is read again). Where the cache cannot be written
nothing is remembered.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file, write_text

BIG = 1 << 20  # bytes; below that reading is as fast as looking it up


def digest_of(files: Iterable[Path]) -> str:
    """One SHA-256 over names and contents, whatever the order."""
    lines = [f"{file.name} {_digest(_state(file))}" for file in files]
    return hashlib.sha256("\n".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of one file's content."""
    return _digest(_state(file))


State = tuple[Path, int, int, int, int]


def _state(file: Path) -> State:
    try:
        said = os.stat(file)
    except OSError as problem:
        raise TicketsError(f"could not read {file}: {problem.strerror}", hint="check the path and its rights") from None
    return file.resolve(), said.st_ino, said.st_size, said.st_mtime_ns, said.st_ctime_ns


@lru_cache(maxsize=1024)
def _digest(state: State) -> str:
    file, size = state[0], state[2]
    place = cache_place("digests", hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()[:32])
    if size >= BIG:
        with suppress(OSError, UnicodeDecodeError):
            said = place.read_text(encoding="ascii").strip()
            if len(said) == 64 and set(said) <= set("0123456789abcdef"):
                return said
    try:
        found = sha256_file(file)
    except OSError as problem:
        raise TicketsError(f"could not read {file}: {problem.strerror}", hint="check the path and its rights") from None
    if size >= BIG and _state(file) == state:  # else it changed while it was read
        with suppress(TicketsError):  # no cache to write to
            write_text(place, found + "\n")
    return found
