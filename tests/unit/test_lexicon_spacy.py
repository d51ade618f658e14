"""spaCy as a tagger: NLTK's twelve names, words as they are given; with a stand-in everywhere, with a toy pipeline where spaCy is."""

from __future__ import annotations

import builtins
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from robust_tickets.errors import TicketsError
from robust_tickets.lexicon import spacy_tagger
from robust_tickets.lexicon.resolve import resolve
from robust_tickets.lexicon.spacy_tagger import UNIVERSAL, SpacyTagger
from robust_tickets.lexicon.tagger import Tagger

TWELVE = {
    "ADJ",
    "ADP",
    "ADV",
    "CONJ",
    "DET",
    "NOUN",
    "NUM",
    "PRON",
    "PRT",
    "VERB",
    "X",
    ".",
}  # of Petrov, Das and McDonald
SAID = {
    "the": "DET",
    "film": "NOUN",
    "Anna": "PROPN",
    "is": "AUX",
    "well-made": "ADJ",
    "and": "CCONJ",
    "to": "PART",
    "!": "PUNCT",
}
HERE = importlib.util.find_spec("spacy") is not None


def pipeline(folder: Path, version: str = "3.8.0") -> Path:
    folder.mkdir(parents=True)
    (folder / "config.cfg").write_text("[nlp]\n")
    (folder / "meta.json").write_text(json.dumps({"lang": "en", "name": "core_web_sm", "version": version}))
    return folder


@pytest.fixture
def spacy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in whose one part looks words up in SAID."""

    class Doc(list):
        def __init__(self, vocab: object, words: list[str]) -> None:
            super().__init__(SimpleNamespace(text=word, pos_="") for word in words)

    def part(doc: Doc) -> Doc:
        stand_in.calls += 1
        for token in doc:
            token.pos_ = SAID.get(token.text, "SPACE")
        return doc

    def load(path: Path, exclude: list[str]) -> Any:
        assert "ner" in exclude
        return SimpleNamespace(vocab=None, pipeline=stand_in.parts)

    stand_in: Any = ModuleType("spacy")
    stand_in.load, stand_in.calls, stand_in.parts = load, 0, [("tagger", part)]
    tokens: Any = ModuleType("spacy.tokens")
    tokens.Doc = Doc
    monkeypatch.setitem(sys.modules, "spacy", stand_in)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    return stand_in


def test_every_tag_has_one_of_the_twelve_names() -> None:
    open_and_closed = {
        "ADJ",
        "ADV",
        "INTJ",
        "NOUN",
        "PROPN",
        "VERB",
        "ADP",
        "AUX",
        "CCONJ",
        "DET",
        "NUM",
        "PART",
        "PRON",
        "SCONJ",
    }
    assert open_and_closed | {"PUNCT", "SYM"} <= set(UNIVERSAL)
    assert set(UNIVERSAL.values()) == TWELVE


def test_words_are_taken_as_they_are_and_contexts_remembered(tmp_path: Path, spacy: Any) -> None:
    tagger = Tagger.load(pipeline(tmp_path / "p"))
    assert isinstance(tagger, SpacyTagger)
    words = ["Anna", "is", "well-made", "and", "the", "film", "to", "?", "!"]
    expected = ["NOUN", "VERB", "ADJ", "CONJ", "DET", "NOUN", "PRT", "X", "."]
    assert tagger.tags(words) == expected
    calls = spacy.calls
    assert tagger.tags(words) == expected
    assert spacy.calls == calls
    assert tagger.tags([]) == []


def test_a_pipeline_without_tags_is_refused(tmp_path: Path, spacy: Any) -> None:
    spacy.parts = []
    with pytest.raises(TicketsError, match="gives no parts of speech"):
        Tagger.load(pipeline(tmp_path / "p"))

    def damaged(*_: object, **__: object) -> None:
        raise OSError("[E053] Could not read config file")

    spacy.load = damaged
    with pytest.raises(TicketsError, match=r"could not be loaded.*E053"):
        Tagger.load(tmp_path / "p")


def test_it_is_named_a_substitute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    package = tmp_path / "site" / "toy_core_web"
    inside = pipeline(package / "toy_core_web-3.8.0")
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "spacy" else real(name))
    for given in ("spacy:toy_core_web", f"spacy:{inside}", str(inside)):
        found = resolve("tagger", given)
        assert (found.name, found.substitute, found.path) == ("spacy:en_core_web_sm-3.8.0", True, inside)
    digest = found.digest
    (inside / "README.md").write_text("words")
    assert resolve("tagger", str(inside)).digest == digest
    (inside / "config.cfg").write_text("[nlp]\nlang = en\n")
    assert resolve("tagger", str(inside)).digest != digest
    for wrong in ("spacy:no_such_pipeline_x", "spacy:json", f"spacy:{tmp_path}"):
        with pytest.raises(TicketsError, match="a spaCy pipeline"):
            resolve("tagger", wrong)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "spacy" else real(name))
    with pytest.raises(TicketsError, match="spacy is not installed") as caught:
        resolve("tagger", str(inside))
    assert caught.value.hint == spacy_tagger.GET


def test_without_spacy_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("spacy"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(TicketsError, match="needs the package spacy") as caught:
        Tagger.load(pipeline(tmp_path / "p"))
    assert caught.value.hint == spacy_tagger.GET


@pytest.mark.skipif(not HERE, reason="no spaCy")
def test_a_real_pipeline(tmp_path: Path) -> None:
    import spacy as real

    toy = real.blank("en")
    rules = toy.add_pipe("attribute_ruler")
    toy.add_pipe("ner").add_label("X")
    toy.initialize()
    for word, tag in SAID.items():
        rules.add([[{"ORTH": word}]], {"POS": tag})
    toy.to_disk(tmp_path / "toy")
    tagger = Tagger.load(resolve("tagger", f"spacy:{tmp_path / 'toy'}").path)
    assert tagger.tags(["Anna", "is", "well-made", "and", "odd", "!"]) == ["NOUN", "VERB", "ADJ", "CONJ", "X", "."]
    assert tagger.tags([]) == []
    bare = real.blank("en")
    bare.to_disk(tmp_path / "bare")
    with pytest.raises(TicketsError, match="gives no parts of speech"):
        Tagger.load(tmp_path / "bare")
