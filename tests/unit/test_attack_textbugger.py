"""TextBugger, DeepWordBug and their random edits of characters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import draw
from refusing import refused
from robust_tickets import config
from robust_tickets.attack.attack import Attack
from robust_tickets.attack.components import Transformation
from robust_tickets.attack.constraints import NoRepeat, NoStopwords
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import DropScore, GreedySearch, ranked
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.textbugger import TextBugger
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, PROFILES
from robust_tickets.attack.transforms import CharacterEdit, Homoglyphs
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.resources import words
from robust_tickets.resources.words import LOOKALIKE
from robust_tickets.seeds import Dice

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


def play(word: str, seed: int = 0) -> tuple[ExampleState, Text]:
    text = Text.of(word)
    return ExampleState(original=text, goal=Untargeted(0), column_names=("text",), noise=0.0, seed=seed), text


def all_of(part: Any, word: str) -> set[str]:
    """Everything many seeds make of a word."""
    found: set[str] = set()
    for seed in range(200):
        found |= set(part.replacements(*play(word, seed), 0))
    return found


@pytest.mark.parametrize(
    ("part", "made"),
    [
        (
            CharacterEdit("insert", inner=True, letters=" "),
            {"a": [], "ab": [], "abc": ["a bc"], "abcd": ["a bcd", "ab cd"]},
        ),
        (CharacterEdit("insert", letters="X"), {"a": [], "ab": ["Xab", "aXb"], "abc": ["Xabc", "aXbc", "abXc"]}),
        (CharacterEdit("delete", inner=True), {"a": [], "ab": [], "abc": ["ac"], "abcd": ["acd", "abd"]}),
        (CharacterEdit("delete"), {"a": [], "ab": ["a", "b"], "abc": ["ab", "bc", "ac"]}),
        (
            CharacterEdit("swap", inner=True),
            {"a": [], "ab": [], "abc": [], "abcd": ["acbd"], "abcde": ["acbde", "abdce"]},
        ),
        (CharacterEdit("swap"), {"a": [], "ab": ["ba"], "abc": ["bac", "acb"]}),
        (CharacterEdit("substitute", letters="X"), {"a": [], "ab": ["Xb", "aX"], "abc": ["Xbc", "aXc", "abX"]}),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else "",
)
def test_every_place_and_no_other(part: Any, made: dict[str, list[str]]) -> None:
    for word, wanted in made.items():
        assert all_of(part, word) == set(wanted), word


def test_the_same_draws_as_the_global_streams() -> None:
    for seed in (0, 7, 2**32 - 1, 2**40 + 7):
        dice = Dice(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed % 2**32)
        for end in (2, 3, 9, 9, 40):
            assert (dice.place(1, end), dice.letter("abcXYZ")) == (np.random.randint(1, end), random.choice("abcXYZ"))


def test_a_word_too_short_draws_nothing() -> None:
    game, text = play("a ab abc longer")
    for index in (0, 1, 2):
        assert not CharacterEdit("swap", inner=True).replacements(game, text, index)
    assert game.dice.place(0, 10**6) == Dice(0).place(0, 10**6)


def test_new_draws_at_every_visit_and_other_ones_for_another_example() -> None:
    game, text = play("wonderfulness")
    visits = [CharacterEdit("delete").replacements(game, text, 0)[0] for _ in range(12)]
    assert len(set(visits)) > 1
    game, text = play("wonderfulness", seed=1)
    assert [CharacterEdit("delete").replacements(game, text, 0)[0] for _ in range(12)] != visits


def test_homoglyphs() -> None:
    assert len(LOOKALIKE) == 38
    assert set(LOOKALIKE) == set("abcdefghijklmnopqrstuvwxyz0123456789-'")
    assert "".join(sorted(LOOKALIKE.values())) == "".join(sorted(words.HOMOGLYPHS))  # what a word may hold
    part = Homoglyphs()
    assert part.replacements(*play("oO-k"), 0) == ["оO-k", "oO˗k", "oO-𝒌"]
    assert part.replacements(*play("É"), 0) == []
    for word in ("well-made", "don't", "x1"):
        assert all(words.is_one_word(new) for new in part.replacements(*play(word), 0))


def test_several_in_turn_and_none_twice() -> None:
    class Fixed(Transformation):
        def __init__(self, *made: str) -> None:
            self.made = made

        def replacements(self, game: ExampleState, text: Text, index: int) -> tuple[str, ...]:
            return self.made

    search = GreedySearch(title="", ranking=DropScore(), transformations=(Fixed("b", "a"), Fixed("c", "b")))
    for rules, wanted in ((OWN, ["a", "b", "c"]), (PROFILES["ta-0.3.4"], ["a", "b", "b", "c"])):
        text = Text.of("word", rules)
        example = ExampleState(original=text, goal=Untargeted(0), column_names=("text",), noise=0.0)
        with pytest.raises(StopIteration) as end:
            next(search.candidates(example, text, 0))
        assert [candidate.new for candidate in end.value.value] == wanted


def test_before_0_3_11_the_words_to_rank_are_gathered_in_one_more_set() -> None:
    """Same words, but for some texts in another order, and that decides which of equal scores comes first."""
    rules = (NoRepeat(), NoStopwords())
    differ = 0
    for length in range(100, 260, 4):
        words = " ".join("film" if draw(length, i) % 3 == 0 else "the" for i in range(length))
        orders = {}
        for name in ("ta-0.3.11", "ta-0.3.10"):
            for edits in ((CharacterEdit("delete"), CharacterEdit("swap")), (CharacterEdit("delete"),)):
                text = Text.of(words, PROFILES[name])
                example = ExampleState(original=text, goal=Untargeted(0), column_names=("text",), noise=0.0)
                search = GreedySearch(title="", ranking=DropScore(), transformations=edits, modifiable=rules)
                orders[name, len(edits)] = ranked(example, search)
        assert len({tuple(sorted(order)) for order in orders.values()}) == 1
        assert orders["ta-0.3.10", 1] == orders["ta-0.3.11", 1] == orders["ta-0.3.11", 2]
        differ += orders["ta-0.3.10", 2] != orders["ta-0.3.11", 2]
    assert differ
