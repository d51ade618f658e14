"""Universal tags by a spaCy pipeline: a substitute for NLTK's tagger, with its names.

spaCy's pipelines tag in the scheme of Universal Dependencies; NLTK's universal tag set is the older one of Petrov, Das and McDonald
(2012), whose twelve names the tags are brought to. Words are given as they are: spaCy's own tokenizer is not asked.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.lexicon.remembering import Remembering

GET = 'pip install "robust-tickets[spacy]", then python -m spacy download en_core_web_sm'
UNUSED = ("ner", "parser", "lemmatizer", "senter", "entity_ruler", "textcat")  # parts that give no part of speech
UNIVERSAL = {
    "ADJ": "ADJ",
    "ADP": "ADP",
    "ADV": "ADV",
    "AUX": "VERB",
    "CCONJ": "CONJ",
    "CONJ": "CONJ",
    "DET": "DET",
    "INTJ": "X",
    "NOUN": "NOUN",
    "NUM": "NUM",
    "PART": "PRT",
    "PRON": "PRON",
    "PROPN": "NOUN",
    "PUNCT": ".",
    "SCONJ": "CONJ",
    "SYM": ".",
    "VERB": "VERB",
}


def pipeline_files(path: Path) -> list[Path] | None:
    """The files of a pipeline folder; none if it is none."""
    if not (path / "config.cfg").is_file() or not (path / "meta.json").is_file():
        return None
    hidden = {"README.md", "LICENSE", "LICENSES_SOURCES"}
    return [
        file
        for file in sorted(path.glob("**/*"))
        if file.is_file() and file.name not in hidden and "__pycache__" not in file.parts
    ]


def pipeline_folder(name: str) -> Path | None:
    """Where a pipeline lies: a path, or the name of an installed package (which holds it in a folder named with its version)."""
    path = Path(name).expanduser()
    spec = None if path.exists() or not name.isidentifier() else importlib.util.find_spec(name)
    if spec is None:
        return path if path.exists() else None
    for place in map(Path, spec.submodule_search_locations or []):
        for folder in [place, *sorted(place.glob(f"{name}-*"))]:
            if pipeline_files(folder):
                return folder
    return None


def name_of(path: Path) -> str:
    """What a pipeline calls itself: spacy:en_core_web_sm-3.8.0."""
    said = read_json(path / "meta.json")
    parts = [str(said[key]) for key in ("lang", "name") if said.get(key)] if isinstance(said, dict) else []
    return f"spacy:{'_'.join(parts) or path.name}" + (f"-{said['version']}" if parts and said.get("version") else "")


class SpacyTagger(Remembering):
    """``tags(words)`` gives one universal tag a word, in context."""

    def __init__(self, pipeline: Any) -> None:
        super().__init__()
        self._pipeline = pipeline

    @classmethod
    def load(cls, path: Path | str) -> SpacyTagger:
        try:
            import spacy
        except ImportError:
            raise TicketsError("this tagger needs the package spacy, which is not installed", hint=GET) from None
        try:
            pipeline = spacy.load(Path(path), exclude=list(UNUSED))
            found = cls(pipeline)
            tagged = any(token.pos_ for token in found._read(["the", "film"]))
        except (OSError, ValueError, KeyError, AttributeError, ImportError) as problem:
            why = (str(problem).splitlines() or [type(problem).__name__])[0]
            raise TicketsError(
                f"the spaCy pipeline {path} could not be loaded: {why}", hint="get it again, for this version of spaCy"
            ) from None
        if not tagged:
            raise TicketsError(
                f"the spaCy pipeline {path} gives no parts of speech",
                hint="give one with a tagger, such as en_core_web_sm",
            )
        return found

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(UNIVERSAL.get(token.pos_, "X") for token in self._read(words)) if words else ()

    def _read(self, words: Sequence[str]) -> Any:
        from spacy.tokens import Doc

        read = Doc(self._pipeline.vocab, words=list(words))
        for _, part in self._pipeline.pipeline:
            read = part(read)
        return read
