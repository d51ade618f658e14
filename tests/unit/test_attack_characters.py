"""Random edits of characters: which places and letters are drawn, in which order, and from words of any length."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from attacking import draw
from robust_tickets.attack.components import Transformation
from robust_tickets.attack.constraints.no_repeat import NoRepeat
from robust_tickets.attack.constraints.no_stopwords import NoStopwords
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import DropScore, GreedySearch, ranked
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, PROFILES
from robust_tickets.attack.transforms.characters import CharacterEdit
from robust_tickets.attack.transforms.homoglyphs import Homoglyphs
from robust_tickets.resources import words
from robust_tickets.resources.words import LOOKALIKE
from robust_tickets.seeds import Dice


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
