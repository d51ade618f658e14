"""Puts the comparison's own resources where TextAttack looks for its own. Call ``install`` before ``import textattack``.

TextAttack's algorithms are not touched. What is replaced is what it would download (vectors, sentence encoder, tagger, WordNet, stop words,
masked language model) and packages that none of the recipes use but that no longer import (flair) or would be very large (TensorFlow).
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

GONE = ("stanza",)  # asked for lazily by every version, used by none of the recipes
WORDNET = Path("/usr/share/wordnet")  # Debian's wordnet-base: WordNet 3.0's own files


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What both sides of the comparison use."""

    words: list[str]
    matrix: np.ndarray
    nearest: np.ndarray  # row i: i, then its neighbours
    encode: Callable[[list[str]], np.ndarray]
    tags: Callable[[list[str]], list[str]]
    stopwords: list[str]
    masked: Callable[[], tuple[Any, Any]] | None = None  # model and tokenizer, made when they are asked for


def install(parts: Parts, cache: Path) -> None:
    warnings.filterwarnings("ignore")
    _environment(cache)
    import transformers  # noqa: F401  # looks at which packages there are: before there are stand-ins

    _vectors(parts, cache)
    _flair()
    _encoders(parts.encode)
    _nltk(parts)
    if parts.masked is not None:
        _masked(parts.masked)


def _environment(cache: Path) -> None:
    os.environ.update(TA_CACHE_DIR=str(cache), HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "post_install_check_3").touch()  # TextAttack downloads corpora unless this is there


def _vectors(parts: Parts, cache: Path) -> None:
    """TextAttack's own file formats, pickles among them: versions before 0.3.7 read these files while they are imported."""
    folder = cache / "word_embeddings" / "paragramcf"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "paragram.npy", parts.matrix)
    np.save(folder / "nn.npy", parts.nearest)
    index = {word: row for row, word in reversed(list(enumerate(parts.words)))}
    (folder / "wordlist.pickle").write_bytes(pickle.dumps(index))
    for name in ("mse_dist.p", "cos_sim.p"):
        # a nested default dictionary, as TextAttack's own files hold: an unknown pair is computed and kept
        (folder / name).write_bytes(pickle.dumps(_Pairs()))


class _Pairs(dict):  # type: ignore[type-arg]
    def __missing__(self, key: int) -> dict[int, float]:
        self[key] = {}
        return self[key]


def _module(name: str, **content: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module
    return module


def _flair() -> None:
    class Tokenizer:
        pass

    class Sentence:
        pass

    class SequenceTagger:
        pass

    data = _module("flair.data", Tokenizer=Tokenizer, Sentence=Sentence)
    models = _module("flair.models", SequenceTagger=SequenceTagger)
    _module("flair", data=data, models=models, device=None, __path__=[])


def _encoders(encode: Callable[[list[str]], np.ndarray]) -> None:
    def load(url: str) -> Callable[[list[str]], Any]:
        return lambda sentences: types.SimpleNamespace(numpy=lambda: encode(list(sentences)))

    class SentenceTransformer:
        def __init__(self, name: str) -> None:
            self.name = name

        def to(self, device: Any) -> SentenceTransformer:
            return self

        def encode(self, sentences: list[str]) -> np.ndarray:
            return encode(list(sentences))

    _module("tensorflow_hub", load=load)
    _module("tensorflow_text")  # 0.3.4 imports it for an encoder in other languages
    _module("sentence_transformers", SentenceTransformer=SentenceTransformer)


def _nltk(parts: Parts) -> None:
    import nltk
    import nltk.corpus

    nltk.download = lambda *names, **options: True
    nltk.pos_tag = lambda said, tagset=None, lang="eng": list(zip(said, parts.tags(list(said)), strict=True))
    nltk.corpus.stopwords = types.SimpleNamespace(words=lambda language: list(parts.stopwords))
    if WORDNET.is_dir():
        nltk.corpus.wordnet = _wordnet(WORDNET)
    else:
        nltk.corpus.wordnet = types.SimpleNamespace(langs=lambda: ["eng"])  # PWWS then fails, the others do not ask


def _wordnet(folder: Path) -> Any:
    """NLTK's reader on WordNet's own files; TextAttack asks it for "eng", which is the reader without other languages."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
    from check_wordnet import reader

    scratch = Path(tempfile.mkdtemp(prefix="wordnet"))
    inner = reader(folder, scratch)
    return types.SimpleNamespace(langs=lambda: ["eng"], synsets=lambda word, lang="eng": inner.synsets(word))


def _masked(make: Callable[[], tuple[Any, Any]]) -> None:
    import transformers

    made: list[tuple[Any, Any]] = []

    def pair() -> tuple[Any, Any]:
        if not made:
            made.append(make())
        return made[0]

    for place, auto in enumerate((transformers.AutoModelForMaskedLM, transformers.AutoTokenizer)):
        setattr(auto, "from_pretrained", staticmethod(lambda name, place=place, **options: pair()[place]))  # noqa: B010


def versions() -> dict[str, str]:
    """Of what decided the results."""
    from importlib.metadata import version

    found = {name: version(name) for name in ("numpy", "torch", "transformers", "nltk")}
    return {"python": ".".join(map(str, sys.version_info[:3])), **found}


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
