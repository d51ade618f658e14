"""TextBugger and DeepWordBug: what is dropped is said, nonsense is refused, and odd texts are attacked like others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets import config
from robust_tickets.attack.attack import Attack
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.textbugger import TextBugger
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split

BARE = TextBugger(vectors="none", encoder="none")


def victim(word: str = "good") -> Classifier:
    """Sure of itself while it sees the word."""

    def judge(texts: list[Any]) -> np.ndarray:
        p = np.array([0.8 if word in " ".join(t if isinstance(t, tuple) else (t,)).lower() else 0.2 for t in texts])
        return np.stack([1 - p, p], axis=1)

    return Classifier.wrap(judge, labels=["neg", "pos"])


def test_a_missing_resource_is_an_error_and_a_dropped_one_is_said(tmp_path: Path) -> None:
    with refused("resource.missing"):
        TextBugger(vectors=str(tmp_path / "nothing"), encoder="none").resources()
    result = BARE(victim(), Split.of(["Good film"], [1]), n=0)
    assert result.attack == "TextBugger without vectors and encoder"
    assert {"constraint dropped: sentence similarity"} <= set(result.flags)
    assert any("near words" in flag for flag in result.flags)
    assert not any("sentence encoder" in said or "nearest" in said for said in result.constraints)
    (tmp_path / "words.txt").write_text("good\nfine\nbad\n")
    np.save(tmp_path / "vectors.npy", np.array([[1, 0.1], [1, 0.2], [-1, 0.3]], dtype=np.float32))
    result = TextBugger(vectors=str(tmp_path), encoder="none")(victim(), Split.of(["GOOD film"], [1]), n=0)
    assert result.attack == "TextBugger without encoder"
    assert any(flag.startswith("substitute vectors") for flag in result.flags)
    # clean, two deletions, then of GOOD: space, deletion, swap (of two equal letters: none), no look-alike, both neighbours
    assert [e.queries for e in result.examples()] == [1 + 2 + 4]


def test_deepwordbug_by_substitution_alone() -> None:
    (outcome,) = DeepWordBug(edits="substitution")(victim(), Split.of(["a good one"], [1]), n=0).examples()
    assert outcome.status == "success"
    assert outcome.queries == 3 + 1  # clean, two words hidden, one candidate
    assert outcome.perturbed is not None
    assert len(outcome.perturbed[0]) == len("a good one")
    assert config.describe(DeepWordBug())["most_edits"] == 30


def test_the_limit_on_edits_holds_over_all_words() -> None:
    text = " ".join(f"good{i}x" for i in range(40))
    (outcome,) = DeepWordBug(most_edits=5)(victim(), Split.of([text], [1]), n=0).examples()
    assert outcome.status == "failed"
    # no single edit changes the verdict, so nothing is accepted: the score must rise
    assert outcome.perturbed == (text,)


SHORT: list[tuple[str, ...]] = [("",), ("g",), ("go",), ("goo",), ("Good!",)]
ODD: list[tuple[str, ...]] = [
    ("😀 🚀",),
    ("the of and",),
    ("-- good --",),
    ("good", ""),
    ("", "good"),
    ("ab", "good ab"),
]


@pytest.mark.parametrize("attack", [BARE, DeepWordBug()], ids=["textbugger", "deepwordbug"])
@pytest.mark.parametrize("texts", SHORT + ODD)
def test_odd_texts(attack: Attack, texts: tuple[str, ...]) -> None:
    (outcome,) = attack(victim("goo"), Split.of([texts], [1]), n=0).examples()
    assert outcome.status in ("success", "failed", "skipped")
    assert (outcome.status == "skipped") == ("goo" not in " ".join(texts).lower())


def test_an_inserted_space_makes_two_marked_words() -> None:
    """Only the space helps here, and both halves count as changed."""

    def judge(texts: list[str]) -> np.ndarray:
        p = np.array([0.6 if " o" in text or "w " in text else 0.9 for text in texts])
        return np.stack([1 - p, p], axis=1)

    clf = Classifier.wrap(judge, labels=["neg", "pos"])
    for seed in range(20):
        (outcome,) = BARE(clf, Split.of(["wow"], [1]), n=0, seed=seed).examples()
        assert outcome.perturbed == ("w ow",)
        assert outcome.words_changed == 1
        assert [(mark["old"], mark["new"]) for mark in outcome.changed] == [("wow", "w ow")]


@pytest.mark.parametrize(
    ("attack", "asked"), [(BARE, ["film", "good "]), (DeepWordBug(), ["[UNK] film", "good [UNK]"])]
)
def test_what_words_are_ranked_by(attack: Attack, asked: list[str]) -> None:
    seen: list[str] = []

    def judge(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.tile([[0.2, 0.8]], (len(texts), 1))

    attack(Classifier.wrap(judge, labels=["neg", "pos"]), Split.of(["good film"], [1]), n=0)
    assert set(seen) & {"film", "good ", "[UNK] film", "good [UNK]"} == set(asked)
