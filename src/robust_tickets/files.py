"""Files: atomic writes, hashes, JSON. A reader never sees half a file."""

from __future__ import annotations

import difflib
import glob
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from robust_tickets.errors import FAILED, DamagedError, TicketsError

DAMAGED = "damaged"  # the folder for files that were made again


def write_bytes(path: Path, data: bytes) -> Path:
    """Write ``data`` beside ``path``, flush it to disk, then rename: a kill leaves the old file or the new one."""
    return write_chunks(path, (data,))


def write_chunks(path: Path, chunks: Iterable[bytes]) -> Path:
    """``write_bytes`` for what is made piece by piece; never holds more than one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep(path)
        with open(part, "wb") as out:
            out.writelines(chunks)
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path)
    except OSError as problem:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise TicketsError(
            f"could not write {path}: {problem.strerror}", hint="check the disk and the folder's rights", exit_code=FAILED
        ) from None
    except BaseException:  # whoever makes the chunks failed, or the user stopped it
        part.unlink(missing_ok=True)
        raise
    return path


def check_writable(folder: Path) -> None:
    """Refuse a folder that nothing can be written to, there already or to be made: told before the work of hours, not after it."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(place))
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as problem:
        why = f"{above} is a file" if os.path.isfile(above) else problem.strerror
        raise TicketsError(f"nothing can be written to {folder}: {why}", hint="check its rights, or give another folder") from None


def look_again(path: Path) -> str:
    """A hint for a path that is not there: the name beside it that is nearly the same, if there is one."""
    try:
        names = os.listdir(path.parent)
    except FileNotFoundError:
        return f"check the path: there is no folder {path.parent}"
    except OSError as problem:
        return f"check the path: {path.parent} cannot be looked into ({problem.strerror})"
    near = difflib.get_close_matches(path.stem, {Path(name).stem for name in names}, n=1, cutoff=0.6)  # the ending alone makes none alike
    close = difflib.get_close_matches(path.name, [name for name in names if [Path(name).stem] == near], n=1, cutoff=0)
    return f"did you mean {path.with_name(close[0])}?" if close else "check the path"


def sweep(path: Path, kind: str = "part") -> None:
    """Remove what processes that were killed while writing ``path``, a file or a folder, left beside it: ``.NAME.PID.part``."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*.{kind}"):
        pid = part.name.split(".")[-2]
        if pid.isdigit() and not _runs(int(pid)):
            if part.is_dir() and not part.is_symlink():
                shutil.rmtree(part, ignore_errors=True)
            else:
                part.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_text(path: Path, text: str) -> Path:
    return write_bytes(path, text.encode("utf-8", "surrogatepass"))


def write_json(path: Path, value: Any) -> Path:
    return write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
    except FileNotFoundError:
        raise TicketsError(f"no such file: {path}", hint=look_again(path)) from None
    except OSError as problem:  # a folder, or no right to read it
        raise TicketsError(f"could not read {path}: {problem.strerror}", hint="check the path and its rights") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise DamagedError(f"{path} is not valid JSON: {problem}", hint="the file is damaged: remove it and run again") from None


def mapping(value: Any) -> Mapping[str, Any]:
    """What should be a JSON object; empty where it is none."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """What should be a JSON list; something else is its one member, nothing is none."""
    return value if isinstance(value, list) else [] if value is None else [value]


def set_aside(path: Path, folder: Path) -> None:
    """Move a file that is to be made again out of the way, into ``damaged`` in ``folder``; what lies there already stays."""
    aside = folder / DAMAGED
    place = next(place for n in count(1) if not (place := aside / (path.name if n == 1 else f"{path.name}.{n}")).exists())
    try:
        aside.mkdir(exist_ok=True)
        os.replace(path, place)
    except FileNotFoundError:  # nothing to keep, or another process was here first
        return
    except OSError as problem:
        hint = "check the disk and the folder's rights"
        raise TicketsError(f"could not move {path} to {place}: {problem.strerror}", hint=hint, exit_code=FAILED) from None


def sha256_file(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
