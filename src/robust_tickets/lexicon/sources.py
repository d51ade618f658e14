"""Where synonyms come from: the shipped WordNet, word vectors, or a file of word lists; each with the digest of its content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.lexicon import stopwords, wordnet
from robust_tickets.lexicon.resolve import Resource, note, resolve
from robust_tickets.lexicon.vector_files import lacks
from robust_tickets.lexicon.vectors import Vectors
from robust_tickets.lexicon.word_lists import read_lists, word_files
from robust_tickets.lexicon.words import like

NEIGHBOURS = 50  # of a word in the vectors, and
NEAR = 0.5  # their cosine: TextFooler's
PUBLISHED = "counterfitted_neighbors.json"  # lists of counter-fitted neighbours, at most 8 a word
HOW = (
    'give "wordnet" (needs nothing), "vectors" (`tickets doctor` says how to get them), or the path of word vectors or of a JSON file of '
    "word lists: source=… in Python, --set source=… on the command line"
)
LookUp = Callable[[Sequence[str]], Sequence[Sequence[str]]]  # the candidates of each of some words, best first


def source_of(source: str) -> Resource:
    """What ``source`` names, with the digest of its content; refuses what is not there."""
    if source == "wordnet":
        return Resource(
            kind="synonyms",
            name="WordNet 3.0",
            path=Path(),
            origin="this package",
            digest=wordnet.digest(),
            substitute=False,
        )
    path = Path(source).expanduser()
    if path.suffix == ".json" and path.is_file():
        said = note(path)
        return Resource(
            kind="neighbours",
            name=str(said.get("name", path.stem)),
            path=path,
            origin="given path",
            digest=_content(path, path.stat().st_size, path.stat().st_mtime_ns),
            substitute=bool(said.get("substitute", True)),
        )
    if source != "vectors" and not path.exists():
        came = f"{PUBLISHED} came with Jia et al. (2019), Certified Robustness to Adversarial Word Substitutions; "
        where = "" if path.is_absolute() else f" (looked in {Path.cwd()})"
        raise TicketsError(
            f"no such source of synonyms: {source}{where}", hint=(came if path.name == PUBLISHED else "") + HOW
        )
    if source != "vectors" and not word_files(path):
        why = f" ({lacks(path)})" if lacks(path) else ""
        raise TicketsError(
            f"{source} is no source of synonyms: it holds neither word vectors nor lists of words{why}", hint=HOW
        )
    return resolve("vectors", None if source == "vectors" else source, setting="source")


def look_up_in(source: Resource) -> LookUp:
    """The candidates of words in ``source``; re-cased like the word, but for WordNet's, which PWWS takes as they are written."""
    if source.kind == "synonyms":
        return lambda asked: [wordnet.synonyms(word) for word in asked]
    if source.kind == "neighbours":
        lists = read_lists(source.path)
        return lambda asked: [[like(word, near) for near in lists.get(word.lower(), ())] for word in asked]
    vectors = Vectors.load(source.path, digest=source.digest)

    def nearest(asked: Sequence[str]) -> Sequence[Sequence[str]]:
        found = vectors.table((word.lower() for word in asked), NEIGHBOURS)
        return [[like(word, near) for near, cosine in found.get(word.lower(), ()) if cosine >= NEAR] for word in asked]

    return nearest


def stop_words(source: Resource) -> frozenset[str]:
    """Those that the attack with the same source leaves alone."""
    return stopwords.NLTK if source.kind == "synonyms" else stopwords.TEXTFOOLER


@lru_cache(maxsize=64)
def _content(path: Path, _size: int, _time: int) -> str:
    """SHA-256 of a file of word lists; size and time are there to see one that changed within one process.

    The lists are read once to see that they are such: a run asks for the digest before its search, which may take hours.
    """
    try:
        read_lists(path)
    except TicketsError as problem:
        raise TicketsError(problem.message, hint=f"{problem.hint}; or {HOW}") from None
    return sha256_file(path)
