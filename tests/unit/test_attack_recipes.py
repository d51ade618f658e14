"""Recipes: what each asks for, what is dropped and said, what is missing or refused, and the random edits of characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import Assembled, draw, example_of, victim_of
from refusing import refused
from robust_tickets import config
from robust_tickets.attack.attack import Attack
from robust_tickets.attack.components import Transformation
from robust_tickets.attack.constraints import NoRepeat, NoStopwords
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.greedy import DropScore, GreedySearch, ranked
from robust_tickets.attack.recipes.a2t import A2T
from robust_tickets.attack.recipes.bertattack import BertAttack
from robust_tickets.attack.recipes.bertattack_papers import BertAttackPapers
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.textbugger import TextBugger
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, PROFILES
from robust_tickets.attack.transforms import CharacterEdit
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.resources.masked_lm import MaskedModel
from robust_tickets.resources.vectors import Vectors
from tiny import tiny_classifier, tiny_model, tiny_tokenizer

BARE = TextBugger(vectors="none", encoder="none")
WORDS, MATRIX = ["good", "fine", "bad"], np.array([[1, 0.1], [1, 0.2], [-1, 0.3]], dtype=np.float32)


def run(inner: Any, clf: Classifier, rows: Any, columns: tuple[str, ...] = ("text",), **parts: Any) -> AttackResult:
    labels = [int(label) for label in clf.logits(rows).argmax(1)]
    return Assembled(inner=inner, parts=parts)(clf, Split.of(rows, labels, columns=columns), n=0)


def save_vectors(folder: Path) -> str:
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n")
    np.save(folder / "vectors.npy", MATRIX)
    return str(folder)


def language() -> MaskedModel:
    model = tiny_model("bert", "AutoModelForMaskedLM", seed=0)
    return MaskedModel(model, tiny_tokenizer(model.config))


# --- resources


@pytest.mark.parametrize(
    ("recipe", "given"),
    [
        (TextFooler, {"vectors": "nothing"}),
        (TextBugger, {"vectors": "nothing", "encoder": "none"}),
        (BertAttack, {"masked": "nothing", "encoder": "none"}),
        (A2T, {"mlm": True, "masked": "nothing"}),
    ],
)
def test_a_missing_resource_is_an_error(recipe: Any, given: dict[str, Any], tmp_path: Path) -> None:
    with refused("resource.missing"):
        recipe(
            **{key: str(tmp_path / "x") if value == "nothing" else value for key, value in given.items()}
        ).resources()


def test_what_is_dropped_and_what_is_a_substitute_is_said(tmp_path: Path) -> None:
    attack = TextFooler(vectors=save_vectors(tmp_path), tagger="none", encoder="none")
    result = attack(victim_of("good"), Split.of(["Good film", "GOOD"], [1, 1]), n=0)
    assert result.attack == "TextFooler without tagger and encoder"
    assert [e.perturbed for e in result.examples()] == [("Fine film",), ("FINE",)]  # "bad" is too far
    # clean, two deletions, one candidate that passes; the text of one word has one deletion
    assert [e.queries for e in result.examples()] == [4, 3]
    assert result.flag_codes.count("constraint-dropped") == 2
    assert "substitute" in result.flag_codes
    assert not any("part of speech" in said or "sentence" in said for said in result.constraints)
    result = BARE(victim_of("good"), Split.of(["Good film"], [1]), n=0)
    assert result.attack == "TextBugger without vectors and encoder"
    assert result.flag_codes.count("constraint-dropped") == 2
    assert not any("sentence encoder" in said or "nearest" in said for said in result.constraints)
    attack = TextBugger(vectors=str(tmp_path), encoder="none")
    (outcome,) = attack(victim_of("good"), Split.of(["GOOD film"], [1]), n=0).examples()
    # clean, two deletions, then of GOOD: space, deletion, swap (of two equal letters: none), no look-alike, both neighbours
    assert outcome.queries == 1 + 2 + 4


@pytest.mark.parametrize(
    ("recipe", "wrong"),
    [
        (BertAttack, {"masked": "none"}),
        (BertAttackPapers, {"vectors": "none"}),
        (A2T, {"vectors": "none"}),
        (A2T, {"mlm": True, "masked": "none"}),
        (TextFooler, {"vectors": "none"}),
        (DeepWordBug, {"edits": "most"}),
        (DeepWordBug, {"compat": "ta-9"}),
    ],
)
def test_wrong_settings_are_refused(recipe: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError):
        recipe(**wrong)


# --- one recipe each


def test_a_resumed_attack_finds_the_neighbours_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    attack = TextFooler(vectors=save_vectors(tmp_path), tagger="none", encoder="none")
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


def test_the_papers_attack_says_that_it_is_not_bert_attack() -> None:
    clf = Classifier.wrap(lambda rows: [[0.8, 0.2] if "bad" in row else [0.2, 0.8] for row in rows], labels=["n", "p"])
    parts = {"vectors": Vectors(WORDS, MATRIX), "tagger": None, "encoder": None}
    for columns, attacked in (
        (("premise", "hypothesis"), 0),
        (("sentence1", "sentence2"), 1),
        (("question", "sentence"), 0),
        (("sentence", "question"), 1),
    ):
        result = run(BertAttackPapers(), clf, [("good", "good")], columns, **parts)
        (outcome,) = result.examples()
        assert outcome.perturbed is not None
        assert outcome.perturbed[attacked] == "bad"  # it is far away, and no threshold keeps it out
    assert result.attack == "BERT-Attack of the papers (not BERT-Attack) without tagger and encoder"


def test_a2t_with_a_masked_model_keeps_the_premise() -> None:
    pair = ("premise", "hypothesis")
    row = ("a good film", "poor story great plot")
    parts = {"masked": language(), "tagger": None, "encoder": None}
    result = run(A2T(mlm=True), tiny_classifier(columns=pair), [row], pair, **parts)
    (outcome,) = result.examples()
    assert result.attack == "A2T-MLM without tagger and encoder"
    assert outcome.perturbed is not None
    assert outcome.perturbed[0] == row[0]
    assert outcome.perturbed != row


def test_deepwordbug_by_substitution_alone_and_within_its_limit() -> None:
    (outcome,) = DeepWordBug(edits="substitution")(victim_of("good"), Split.of(["a good one"], [1]), n=0).examples()
    assert outcome.status == "success"
    assert outcome.queries == 3 + 1  # clean, two words hidden, one candidate
    assert outcome.perturbed is not None
    assert len(outcome.perturbed[0]) == len("a good one")
    assert config.describe(DeepWordBug())["most_edits"] == 30
    text = " ".join(f"good{i}x" for i in range(40))
    (outcome,) = DeepWordBug(most_edits=5)(victim_of("good"), Split.of([text], [1]), n=0).examples()
    # no single edit changes the verdict, so nothing is accepted: the score must rise
    assert (outcome.status, outcome.perturbed) == ("failed", (text,))


@pytest.mark.parametrize("attack", [BARE, DeepWordBug()], ids=["textbugger", "deepwordbug"])
def test_odd_texts(attack: Attack) -> None:
    texts = [("",), ("g",), ("go",), ("goo",), ("Good!",), ("😀 🚀",), ("the of and",), ("-- good --",)]
    for text in [*texts, ("good", ""), ("", "good"), ("ab", "good ab")]:
        (outcome,) = attack(victim_of("goo"), Split.of([text], [1]), n=0).examples()
        assert outcome.status in ("success", "failed", "skipped")
        assert (outcome.status == "skipped") == ("goo" not in " ".join(text).lower())


# --- transformations


class Fixed(Transformation):
    def __init__(self, *made: str) -> None:
        self.made = made

    def replacements(self, example: ExampleState, text: Text, index: int) -> tuple[str, ...]:
        return self.made


def test_several_in_turn_and_none_twice() -> None:
    search = GreedySearch(title="", ranking=DropScore(), transformations=(Fixed("b", "a"), Fixed("c", "b")))
    for rules, wanted in ((OWN, ["a", "b", "c"]), (PROFILES["ta-0.3.4"], ["a", "b", "b", "c"])):
        with pytest.raises(StopIteration) as end:
            next(search.candidates(*example_of("word", rules=rules), 0))
        assert [candidate.new for candidate in end.value.value] == wanted


def test_before_0_3_11_the_words_to_rank_are_gathered_in_one_more_set() -> None:
    """Same words, but for some texts in another order, and that decides which of equal scores comes first."""
    rules = (NoRepeat(), NoStopwords())
    differ = 0
    for length in range(100, 260, 4):
        said = " ".join("film" if draw(length, i) % 3 == 0 else "the" for i in range(length))
        orders = {}
        for name in ("ta-0.3.11", "ta-0.3.10"):
            for edits in ((CharacterEdit("delete"), CharacterEdit("swap")), (CharacterEdit("delete"),)):
                search = GreedySearch(title="", ranking=DropScore(), transformations=edits, modifiable=rules)
                orders[name, len(edits)] = ranked(example_of(said, rules=PROFILES[name])[0], search)
        assert len({tuple(sorted(order)) for order in orders.values()}) == 1
        assert orders["ta-0.3.10", 1] == orders["ta-0.3.11", 1] == orders["ta-0.3.11", 2]
        differ += orders["ta-0.3.10", 2] != orders["ta-0.3.11", 2]
    assert differ
