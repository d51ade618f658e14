"""BERT-Attack, the papers' attack of that name and A2T: what is asked for, what is dropped and said, what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.components import Candidate
from robust_tickets.attack.constraints import SamePartOfSpeech, ShareChanged, ShareModified
from robust_tickets.attack.example import ExampleState
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.recipes.a2t import A2T
from robust_tickets.attack.recipes.bertattack import BertAttack
from robust_tickets.attack.recipes.bertattack_papers import BertAttackPapers
from robust_tickets.attack.recipes.deepwordbug import DeepWordBug
from robust_tickets.attack.recipes.textbugger import TextBugger
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.resources.masked_lm import MaskedModel
from robust_tickets.resources.vectors import Vectors
from tiny import tiny_classifier, tiny_model, tiny_tokenizer

TEXTS = [
    "a good film is the plot",
    "a great movie zebra was very fine, not bad!",
    "poor story",
    "The story, GREAT film",
]


@dataclass(frozen=True, kw_only=True)
class Assembled(Attack):
    """A recipe on parts at hand."""

    inner: Any
    parts: Any

    @property
    def white_box(self) -> bool:  # type: ignore[override]
        return self.inner.white_box  # type: ignore[no-any-return]

    def resources(self) -> dict[str, Any]:
        return {}

    def prepare(self, device: str) -> GreedySearch:
        return self.inner.assemble(Loaded(**self.parts))  # type: ignore[no-any-return]


def run(
    inner: Any, clf: Classifier, rows: Any, columns: tuple[str, ...] = ("text",), labels: Any = None, **parts: Any
) -> AttackResult:
    labels = [int(label) for label in clf.logits(rows).argmax(1)] if labels is None else labels
    options = {key: parts.pop(key) for key in ("live", "token_budget") if key in parts}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("robust_tickets.attack.attack.describe", lambda recipe: {"name": "assembled"})
        return Assembled(inner=inner, parts=parts)(clf, Split.of(rows, labels, columns=columns), n=0, **options)


def language(seed: int = 0) -> MaskedModel:
    model = tiny_model("bert", "AutoModelForMaskedLM", seed=seed)
    return MaskedModel(model, tiny_tokenizer(model.config))


def encode(texts: list[str]) -> np.ndarray:
    return np.array([[3.0, text.count("o"), len(text) / 10] for text in texts], dtype=np.float32)


def outcomes(result: AttackResult) -> list[Any]:
    return [(e.status, e.perturbed, e.queries, e.error) for e in result.examples()]


def test_the_papers_attack_says_that_it_is_not_bert_attack() -> None:
    vectors = Vectors(["good", "fine", "bad"], np.array([[1, 0.1], [1, 0.2], [-1, 0.3]], dtype=np.float32))

    def judge(texts: list[Any]) -> np.ndarray:
        p = np.array([0.2 if "bad" in " ".join(text) else 0.8 for text in texts])
        return np.stack([1 - p, p], axis=1)

    clf = Classifier.wrap(judge, labels=["neg", "pos"])
    parts: dict[str, Any] = {"vectors": vectors, "tagger": None, "encoder": None, "labels": [1]}
    for columns, attacked in [
        (("premise", "hypothesis"), 0),
        (("sentence1", "sentence2"), 1),
        (("question", "sentence"), 0),
        (("sentence", "question"), 1),
    ]:
        result = run(BertAttackPapers(), clf, [("good", "good")], columns, **parts)
        (outcome,) = result.examples()
        assert outcome.status == "success"  # "bad" is far away, and no threshold keeps it out
        assert outcome.perturbed is not None
        assert outcome.perturbed[attacked] == "bad"
    assert result.attack == "BERT-Attack of the papers (not BERT-Attack) without tagger and encoder"


def test_a2t_keeps_the_premise_and_says_what_it_does() -> None:
    vectors = Vectors(["a"], np.ones((1, 2), dtype=np.float32))
    prepared = A2T().assemble(Loaded(vectors=vectors, tagger=lambda words: words, encoder=encode))
    assert prepared.title == "A2T"
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
    rows = [("a good film", "poor story great plot")]
    result = run(A2T(mlm=True), tiny_classifier(columns=("premise", "hypothesis")), rows, ("premise", "hypothesis"),
                 masked=language(), tagger=None, encoder=None)  # fmt: skip
    (outcome,) = result.examples()
    assert result.attack == "A2T-MLM without tagger and encoder"
    assert outcome.perturbed is not None
    assert outcome.perturbed[0] == rows[0][0]
    assert outcome.perturbed != rows[0]


def test_how_many_words_may_change() -> None:
    original = Text.of("one two three four five")
    game = ExampleState(original=original, goal=Untargeted(0), column_names=("text",), noise=0.0)
    current = original.replace(0, "x").replace(1, "y")
    check = ShareChanged(0.4)

    def kept(base: Text, index: int, *new: str) -> list[str]:
        return [candidate.new for candidate in check.keep(game, [Candidate(base, index, word) for word in new], base)]

    assert kept(original.replace(0, "x"), 1, "y") == ["y"]  # two of five
    assert kept(current, 2, "z") == []  # three
    assert kept(current, 1, "two", "z") == ["two", "z"]  # back to the original, or another in the same place
    assert kept(original, 3, "", "z w") == ["", "z w"]  # one differs of four, and two of five
    assert kept(original, 0, "") == []  # all words move: four of four differ
    rule = ShareModified(0.1, 4)
    long = Text.of("w " * 41)
    for index in range(4):
        assert len(rule.allowed(game, original)) == 5
        original, long = original.replace(index, "x"), long.replace(index, "x")
    assert rule.allowed(game, original) == set()
    assert len(rule.allowed(game, long)) == 41  # ceil(4.1) = 5
    assert rule.allowed(game, long.replace(5, "x")) == set()


def test_nouns_for_verbs_only_where_that_is_allowed() -> None:
    def tags(said: list[str]) -> list[str]:
        return ["VERB" if word == "run" else "NOUN" for word in said]

    def kept(check: SamePartOfSpeech, old: str, new: str) -> bool:
        text = Text.of(old)
        game = ExampleState(original=text, goal=Untargeted(0), column_names=("text",), noise=0.0)
        return bool(check.keep(game, [Candidate(text, 0, new)], text))

    assert kept(SamePartOfSpeech(tags), "run", "walk")
    assert not kept(SamePartOfSpeech(tags, swap=False), "run", "walk")
    assert kept(SamePartOfSpeech(tags, swap=False), "walk", "stroll")


@pytest.mark.parametrize(
    ("recipe", "wrong"),
    [
        (BertAttack, {"masked": "none"}),
        (BertAttack, {"words": 0}),
        (BertAttack, {"share": 0.0}),
        (BertAttack, {"similarity": 1.5}),
        (BertAttackPapers, {"vectors": "none"}),
        (BertAttackPapers, {"window": 0}),
        (BertAttackPapers, {"similarity": -2.0}),
        (A2T, {"vectors": "none"}),
        (A2T, {"mlm": True, "masked": "none"}),
        (A2T, {"least": 0}),
        (A2T, {"share": 1.1}),
        (A2T, {"word_similarity": 2.0}),
        (TextFooler, {"word_similarity": 1.5}),
        (TextFooler, {"word_similarity": -1.1}),
        (TextFooler, {"sentence_similarity": -0.1}),
        (TextFooler, {"sentence_similarity": 50}),
        (TextBugger, {"similarity": 1.2}),
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


def test_a_missing_resource_is_an_error(tmp_path: Path) -> None:
    for recipe in (
        BertAttack(masked=str(tmp_path / "nothing"), encoder="none"),
        A2T(mlm=True, masked=str(tmp_path / "nothing")),
    ):
        with refused("resource.missing"):
            recipe.resources()


def test_from_folders(tmp_path: Path) -> None:
    model = tiny_model("bert", "AutoModelForMaskedLM")
    model.save_pretrained(tmp_path)
    tiny_tokenizer(model.config).save_pretrained(tmp_path)
    clf = tiny_classifier()
    rows, labels = TEXTS[:1], [int(label) for label in clf.logits(TEXTS[:1]).argmax(1)]
    result = BertAttack(masked=str(tmp_path), encoder="none", words=5)(clf, Split.of(rows, labels), n=0)
    assert outcomes(result) == outcomes(run(BertAttack(words=5), clf, rows, masked=language(), encoder=None))
    assert result.resources["masked"]["substitute"] is True
    assert any(flag.startswith("substitute masked") for flag in result.flags)
