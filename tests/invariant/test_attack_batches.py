"""Batch size, order and company change nothing but the time: the same files, byte for byte but for what may vary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacking import draw, stable_files
from robust_tickets.attack import game, victim
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.seeds import numpy_generator
from tiny import tiny_classifier

WORDS = (
    "good",
    "great",
    "fine",
    "bad",
    "awful",
    "poor",
    "film",
    "movie",
    "story",
    "plot",
    "very",
    "not",
    "the",
    "a",
    "happy",
    "old",
    "dark",
)


def sentences(clf: Classifier, count: int, pairs: bool = False) -> Split:
    generator = numpy_generator(3, "sentences")
    rows = [tuple(" ".join(generator.choice(WORDS, generator.integers(1, 9))) for _ in range(1 + pairs)) for _ in range(count)]
    labels = clf.logits(rows).argmax(axis=1)
    return Split.of(rows, [int(label) for label in labels], columns=("first", "second") if pairs else ("text",))


WAYS: tuple[dict[str, int], ...] = ({"token_budget": 1, "live": 1}, {"token_budget": 64, "live": 3}, {"token_budget": 100_000, "live": 50})


@pytest.mark.parametrize(("family", "pairs"), [("bert", False), ("bert", True), ("roberta", False)])
def test_batch_size_changes_nothing(tmp_path: Path, family: str, pairs: bool) -> None:
    clf = tiny_classifier(family, max_length=24)
    split = sentences(clf, 5, pairs=pairs)
    found = []
    for number, way in enumerate(WAYS):
        PWWS()(clf, split, n=0, folder=tmp_path / str(number), **way)
        found.append(stable_files(tmp_path / str(number)))
    assert found[0] == found[1] == found[2]
    assert {line["status"] for line in found[0][1]} - {"skipped"}


class Noisy(Classifier):
    """Logits that many texts share up to 1e-6, and that a batch moves by up to 4e-6, as rounding does, only worse."""

    def logits_of_encoded(self, rows: Any) -> torch.Tensor:
        exact = np.array([[draw(row.ids, c) % 3 + (draw(row.ids, c, "fine") % 5) * 1e-6 for c in range(len(self.labels))] for row in rows])
        if len(rows) > 1:
            exact = exact + numpy_generator(draw(tuple(row.ids for row in rows)), "noise").uniform(-4e-6, 4e-6, exact.shape)
        return torch.tensor(exact, dtype=torch.float32)


def noisy(classes: int = 3) -> Noisy:
    tiny = tiny_classifier("bert", labels=[f"c{i}" for i in range(classes)], max_length=24)
    return Noisy(model=tiny.model, tokenizer=tiny.tokenizer, labels=tiny.labels, max_length=24)


def noisy_results(tmp_path: Path) -> list[Any]:
    clf = noisy()
    split = sentences(clf, 24)
    found = []
    for number, way in enumerate(WAYS):
        PWWS()(clf, split, n=0, folder=tmp_path / str(number), **way)
        found.append(stable_files(tmp_path / str(number)))
    return found


def test_noise_of_batches_changes_nothing(tmp_path: Path) -> None:
    found = noisy_results(tmp_path)
    assert found[0] == found[1] == found[2]


def test_the_noise_would_change_results_if_it_were_not_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(victim.NOISE, "float32", 0.0)
    found = noisy_results(tmp_path)
    assert not found[0] == found[1] == found[2]


def test_company_and_order_change_nothing(tmp_path: Path) -> None:
    clf = noisy()
    split = sentences(clf, 12)
    together = {e.id: e for e in PWWS()(clf, split, n=0, token_budget=256).examples()}
    backwards = {e.id: e for e in PWWS()(clf, split, ids=list(range(11, -1, -1)), live=4).examples()}
    alone = {e.id: e for i in range(12) for e in PWWS()(clf, split, ids=[i]).examples()}
    for name, one in together.items():
        for other in (backwards[name], alone[name]):
            assert (one.status, one.perturbed, one.queries, one.changed, one.predicted_after) == (
                other.status,
                other.perturbed,
                other.queries,
                other.changed,
                other.predicted_after,
            )


def test_equal_token_ids_share_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """An uncased tokenizer reads "Good" and "good" alike: one row, so a change of case is no gain."""
    clf = tiny_classifier("bert", max_length=24)
    rows: list[Any] = []
    plain = clf.logits_of_encoded
    monkeypatch.setattr(clf, "logits_of_encoded", lambda given: (rows.extend(row.ids for row in given), plain(given))[1])
    service = victim.Victim(clf)
    questions = [victim.Ask([("Good film",), ("good film",)], {}), victim.Ask([("GOOD FILM",)], {})]
    answers = service.answer(questions)
    assert len(rows) == 1
    assert answers[0][0] is answers[0][1]
    assert [question.passes for question in questions] == [1, 0]


def test_a_settled_row_is_exact_for_every_text_that_shares_it() -> None:
    clf = noisy()
    service = victim.Victim(clf)
    texts = [("good film",), ("Good film",), ("bad plot",)]
    state = game.Game(original=game.Text.of("good film"), label=0, column_names=("text",), noise=service.noise)

    def play(steps: Any) -> Any:
        answer = None
        while True:
            try:
                question = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = service.answer([question])[0]

    first, second, third = play(state.ask([game.Text.of(text) for text in texts]))
    assert not first.row.exact
    assert state.queries == 3
    play(state.settle([first]))
    assert second.row.exact
    assert not third.row.exact
    assert state.queries == 3
    alone = torch.softmax(clf.logits_of_encoded(clf.encode([texts[0]])), -1).numpy()[0]
    assert (second.row.probabilities == alone).all()
