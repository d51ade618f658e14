"""Hostile texts get a right answer or one error of their own; they never stop the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacking import toy_victim
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.services import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from tiny import tiny_classifier

HOSTILE = [
    "",
    " ",
    "the of and is",
    "?!... --- '' @@@ ***",
    "😀😀 👩‍👩‍👧 good 🎬",
    "\u202eright to left\u202c good film",
    "שלום עולם good",
    "فيلم جيد",
    "good\x00film\x01\x7f",
    "lone \ud800 surrogate \udfff good",
    "<script>alert('good')</script> \\n \t good",
    "x" * 20_000,
    "[UNK] [MASK] [SEP] good",
    "中文电影很好",
    "<SPLIT> good\n\nfilm",
]


class Rows:
    """A split as a list: a table of texts on disk would refuse some of these before the attack sees them."""

    name, columns, digest = "test", ("text",), "rows"
    table = SimpleNamespace(files=())

    def __init__(self, texts: list[str], labels: list[int]) -> None:
        from robust_tickets.data.task import Example

        self.rows = [
            Example(f"test:{i}", (text,), label) for i, (text, label) in enumerate(zip(texts, labels, strict=True))
        ]
        self.labels = np.array(labels)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]


@pytest.mark.parametrize("make", [toy_victim, lambda: tiny_classifier("bert", max_length=16)])
def test_hostile_texts(tmp_path: Path, make: Any) -> None:
    clf = make()
    split: Any = Rows(HOSTILE, [int(clf.logits([text]).argmax()) for text in HOSTILE])
    result = PWWS()(clf, split, n=0, folder=tmp_path)
    found = list(result.examples())
    assert [e.original[0] for e in found] == HOSTILE
    for outcome in found:
        if outcome.status == "success":
            assert clf.logits([outcome.perturbed]).argmax() != outcome.label
    assert found[0].status == found[2].status == "failed"
    assert (found[0].queries, found[2].queries) == (1, 1)  # nothing to change: only the clean query
    assert (result.n, result.errors) == (len(HOSTILE), 0)  # the classifier cleans lone surrogates
    assert AttackResult.load(tmp_path).to_json() == result.to_json()


def test_a_long_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 words have 40,000 candidates of 15 kB each: they are asked about in portions, never held together."""
    most = 0

    def judge(texts: list[str]) -> np.ndarray:
        p = np.array([0.99 - 1e-4 * (750 - text.count("good")) for text in texts])
        return np.stack([p, 1 - p], axis=1)

    def answer(self: Victim, questions: Any) -> Any:
        nonlocal most
        most = max(most, sum(len(column) for question in questions for text in question.texts for column in text))
        return plain(self, questions)

    plain = Victim.answer
    monkeypatch.setattr(Victim, "answer", answer)
    clf = Classifier.wrap(judge, labels=["x", "y"])
    result = PWWS()(clf, Rows([" ".join(["good film bad plot"] * 750)], [0]), n=0, query_budget=6000)  # type: ignore[arg-type]
    (outcome,) = result.examples()
    assert (outcome.status, outcome.words, outcome.queries) == ("failed", 3000, 6000)
    assert 1_000_000 < most <= 4_000_000


def test_one_bad_example_does_not_spoil_its_company() -> None:
    good = toy_victim(0).function
    assert good is not None

    def picky(texts: list[str]) -> Any:
        if any("poison" in text for text in texts):
            raise RuntimeError("cannot read this")
        return good(texts)

    clf = Classifier.wrap(picky, labels=["x", "y"])
    texts = ["good film", "poison pill", "bad plot", "fine story", "more poison"]
    labels = [0 if "poison" in t else int(clf.logits([t]).argmax()) for t in texts]
    result = PWWS()(clf, Rows(texts, labels), n=0)  # type: ignore[arg-type]
    assert [e.status == "error" for e in result.examples()] == [False, True, False, False, True]
    assert (result.n, result.errors, result.clean) == (3, 2, 100.0)
    assert "errors" in result.flag_codes
    assert next(e.error for e in result.examples() if e.error) == "RuntimeError: cannot read this"


def test_a_broken_victim_is_an_error() -> None:
    def broken(texts: list[str]) -> Any:
        return np.ones((len(texts), 3))

    with pytest.raises(TicketsError, match="in a row"):
        PWWS()(Classifier.wrap(broken, labels=["x", "y"]), Rows(["good"] * 50, [0] * 50), n=0)  # type: ignore[arg-type]


def test_many_bad_texts_in_a_row_do_not_stop_a_run_whose_victim_still_answers() -> None:
    def judge(texts: list[str]) -> np.ndarray:
        if any("bad" in text for text in texts):
            raise ValueError("not this one")
        return np.array([[0.2, 0.8]] * len(texts))

    clf = Classifier.wrap(judge, labels=["n", "p"])
    texts = ["bad"] * 45 + ["a good film"] * 2
    found = list(PWWS()(clf, Split.of(texts, [1] * 47), n=0, live=1).examples())
    assert [example.status for example in found] == ["error"] * 45 + ["failed"] * 2
