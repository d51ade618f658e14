"""Where resources lie: a given path, the cache, another tool's folder, an installed package, the Hub, in this order.

Nothing is fetched at import, and a missing resource says what it is, where it was looked for and how to get it. What is given is taken
or refused; it never falls through to something else. What each kind is stands in ``lexicon.kinds``.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json
from robust_tickets.lexicon import encoder
from robust_tickets.lexicon.digests import digest_of, packaged
from robust_tickets.lexicon.kinds import KINDS, NOTE, Kind, Place
from robust_tickets.registry import FUNCTION, code_files, imported

NONE = "none"  # as a resource's name: do without it


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One found resource; everything but ``path`` and ``function`` belongs into a result file."""

    kind: str
    name: str
    path: Path  # of a function the file that defines it
    origin: str  # "given path", "given function", "cache", "installed folder", "package …" or "Hub …"
    digest: str
    substitute: bool  # not the one of the papers
    function: Callable[..., Any] | None = None

    def record(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "name": self.name,
            "origin": self.origin,
            "digest": self.digest,
            "substitute": self.substitute,
        }


@dataclass(frozen=True, kw_only=True)
class Status:
    """A line of ``tickets doctor``."""

    kind: str
    what: str
    found: bool
    where: str  # where it was found, or all places looked at
    substitute: bool
    get: str  # how to get it


@dataclass(frozen=True, kw_only=True)
class Found:
    path: Path
    origin: str
    name: str
    substitute: bool | None = None  # none: resource.json or the kind says it


def resolve(kind: str, explicit: str | Path | None = None, *, setting: str | None = None) -> Resource:
    """The resource of ``kind``; ``explicit`` is a path, the name of an installed one ("minilm"), "use:PATH", a Hub id or module:function.

    ``setting``: the field that names it, where that is not called after its kind.
    """
    known = _kind(kind)
    if explicit is not None and _is_function(known, str(explicit)):
        return _function(kind, str(explicit))
    looked: list[str] = []
    found = _given(known, str(explicit), looked) if explicit is not None else _search(kind, known, looked, network=True)
    if found is None:
        raise TicketsError(
            f"no {kind} found: {known.what}. Looked at: {'; '.join(looked)}", hint=_hint(kind, setting or kind)
        )
    package, get = _absent(known, found.path)
    if package:
        raise TicketsError(f"no {kind} can be used: {_unusable(found, package)}", hint=get)
    name, substitute = _named(known, found)
    digest = digest_of(known.files(found.path) or [])
    return Resource(kind=kind, name=name, path=found.path, origin=found.origin, digest=digest, substitute=substitute)


def resolve_all(asked: Mapping[str, str | None]) -> dict[str, Resource]:
    """``resolve`` for every kind but those asked as "none"; what is missing is said of all at once."""
    found: dict[str, Resource] = {}
    missing: list[TicketsError] = []
    for kind, explicit in asked.items():
        if explicit != NONE:
            try:
                found[kind] = resolve(kind, explicit)
            except TicketsError as problem:
                missing.append(problem)
    if missing:
        raise TicketsError("\n".join(each.message for each in missing), hint="\n".join(each.hint for each in missing))
    return found


def status(kind: str | None = None) -> list[Status]:
    """What is there and what is not, without the network and without importing what would use it."""
    lines = []
    for key in [kind] if kind else KINDS:
        known, looked = _kind(key), list[str]()
        try:
            found = _search(key, known, looked, network=False)
            name, substitute = _named(known, found) if found else ("", False)
        except TicketsError as problem:  # a damaged resource.json
            found, looked, substitute = None, [problem.message], False
        where = f"{name}, {found.origin}: {found.path}" if found else "; ".join(looked)
        get = _get(key)
        if found:
            package, how = _absent(known, found.path)
            where, get = (f"{_unusable(found, package)}", how) if package else (where, get)
            found = None if package else found
        lines.append(
            Status(
                kind=key,
                what=known.what,
                found=bool(found),
                where=where,
                substitute=bool(found) and substitute,
                get=get,
            )
        )
    return lines


def _given(kind: Kind, text: str, looked: list[str]) -> Found | None:
    prefix, colon, rest = text.partition(":")
    if colon and prefix in kind.prefixes:
        own, path = kind.prefixes[prefix], Path(rest).expanduser()
        if own.files(path):
            return Found(path=path, origin="given path", name=own.name, substitute=False)
        looked.append(f"{rest} (given), which is not {own.what}")
        return None
    path = Path(text).expanduser()
    if path.exists():
        if kind.files(path):
            return Found(path=path, origin="given path", name=path.stem if path.is_file() else path.resolve().name)
        looked.append(f"{path} (given), which does not hold it" + _because(kind, path))
        return None
    if text in kind.packages:
        return _package(kind, text, looked)
    looked.append(f"{path} (given), which does not exist")
    parts = text.split("/")
    if text in kind.published or (len(parts) == 2 and all(parts) and not text.startswith((".", "~", "/"))):
        return _hub(kind, text, looked, network=True)
    return None


def _is_function(kind: Kind, text: str) -> bool:
    named = kind.function and FUNCTION.fullmatch(text) is not None
    return named and text.partition(":")[0] not in kind.prefixes and not Path(text).expanduser().exists()


def _function(kind: str, name: str) -> Resource:
    """A function of the user's as a resource: known by its name and by the file that defines it."""
    function = imported(name)
    files = code_files(name, function)
    if not callable(function) or not files:
        raise TicketsError(
            f"{kind}={name} is {function!r:.60} ({type(function).__name__}), expected a function that a file defines",
            hint=f"name one as docs/attacks/resources.md has it: {kind}=my_module:function",
        )
    return Resource(
        kind=kind,
        name=name,
        path=files[-1],
        origin="given function",
        digest=digest_of(files),
        substitute=True,
        function=function,
    )


def _search(key: str, kind: Kind, looked: list[str], *, network: bool) -> Found | None:
    cache = cache_place("resources", key)
    try:
        inside = [cache, *sorted(folder for folder in cache.iterdir() if folder.is_dir())]
    except OSError:  # not there, or not for us to read
        inside = []
    here = [folder for folder in inside if _files(kind, folder)]
    if here:
        best = min(
            here, key=lambda folder: bool(note(folder).get("substitute", kind.is_substitute(folder)))
        )  # the published one first
        return Found(path=best, origin="cache", name=best.name)
    looked.append(f"the cache ({cache})" + "".join(_because(kind, folder) for folder in inside))
    folders = kind.folders()
    for place in folders:
        if _files(kind, place.path) and not _absent(kind, place.path)[0]:
            return _placed(place)
    if folders:
        looked.append(
            f"{kind.owner} (" + ", ".join(f"{place.path}{_because(kind, place.path)}" for place in folders) + ")"
        )
    for embedded in kind.packages:
        if found := _package(kind, embedded, looked):
            return found
    if kind.hub:
        return _hub(kind, kind.hub, looked, network=network)
    # one more place: there, but for a package
    return next((_placed(place) for place in folders if _files(kind, place.path)), None)


def _placed(place: Place) -> Found:
    return Found(
        path=place.path, origin="installed folder", name=place.name or place.path.name, substitute=place.substitute
    )


def _package(kind: Kind, name: str, looked: list[str]) -> Found | None:
    package, inside = kind.packages[name]
    folder = packaged(package, inside)
    if folder is not None and kind.files(folder):
        return Found(path=folder, origin=f"package {package}", name=name)
    looked.append(f"the package {package} ({'without it' if importlib.util.find_spec(package) else 'not installed'})")
    return None


def _hub(kind: Kind, repository: str, looked: list[str], *, network: bool) -> Found | None:
    why = "not in its cache"
    folder = _hub_cache(repository)
    if folder is None or not kind.files(folder):
        if not network:
            looked.append(f"the Hub's {repository} ({why})")
            return None
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        patterns = [*encoder.FILES, "*.txt", "*.npy", "*.json"]  # never pickles
        try:
            folder = Path(snapshot_download(repository, allow_patterns=patterns))
        except (OSError, ValueError, HfHubHTTPError, HFValidationError) as problem:
            folder, why = None, (str(problem).splitlines() or [type(problem).__name__])[0]
    if folder is not None and kind.files(folder):
        published = repository in kind.published
        return Found(path=folder, origin=f"Hub {repository}", name=repository, substitute=False if published else None)
    looked.append(f"the Hub's {repository} ({why if folder is None else 'it does not hold it'})")
    return None


def _hub_cache(repository: str) -> Path | None:
    """What the Hub's own cache holds of a repository, found without importing its library."""
    home = Path(
        os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    ).expanduser()
    root = (
        Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser() / f"models--{repository.replace('/', '--')}"
    )
    try:
        commit = (root / "refs" / "main").read_text(encoding="ascii").strip()
        folder = root / "snapshots" / commit
        return folder if commit.isalnum() and folder.is_dir() else None
    except (OSError, UnicodeDecodeError):
        return None


def note(path: Path) -> dict[str, object]:
    """What the ``resource.json`` beside or inside ``path`` says; empty without one."""
    file = (path if path.is_dir() else path.parent) / NOTE
    said = read_json(file) if file.is_file() else {}
    if not isinstance(said, dict) or not isinstance(said.get("substitute", False), bool):
        raise TicketsError(f'{file} is not {{"name": …, "substitute": true or false}}', hint="correct or remove it")
    return said


def _named(kind: Kind, found: Found) -> tuple[str, bool]:
    """What a resource is called and whether it is a substitute: its resource.json comes first, then what is known of its place."""
    said = note(found.path)
    usual = kind.is_substitute(found.path) if found.substitute is None else found.substitute
    return str(said.get("name", kind.name or found.name)), bool(said.get("substitute", usual))


def _absent(kind: Kind, path: Path) -> tuple[str, str]:
    """The package that is needed to use what lies at ``path`` and is not installed, and how to get it; empty if none is."""
    for package, get in kind.needs(path):
        if importlib.util.find_spec(package) is None:
            return package, get
    return "", ""


def _unusable(found: Found, package: str) -> str:
    return f"the package {package} is not installed, which {found.path} needs"


def _files(kind: Kind, path: Path) -> list[Path] | None:
    """``kind.files``; none where somebody else's home may not be looked into, as in a container that runs under another user."""
    try:
        return kind.files(path)
    except PermissionError:
        return None


def _because(kind: Kind, path: Path) -> str:
    try:
        why = kind.lacks(path)
    except PermissionError as problem:
        why = problem.strerror or "may not be read"
    return f": {why}" if why else ""


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise TicketsError(f"no resource of kind {kind!r}", hint=did_you_mean(kind, KINDS))
    return KINDS[kind]


def _get(kind: str) -> str:
    return KINDS[kind].get.format(cache=cache_place("resources", kind))


def _hint(kind: str, setting: str) -> str:
    return f"{_get(kind)}; or name it: {setting}=PATH in Python, --set {setting}=PATH on the command line"
