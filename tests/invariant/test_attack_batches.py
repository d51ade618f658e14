"""Batch size, order and company change nothing but the time: the same files, byte for byte but for what may vary."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacking import draw, stable_files
from robust_tickets.attack import engine, example, services
from robust_tickets.attack.attack import Attack, Loaded
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textfooler import TextFooler
from robust_tickets.classifier import Classifier, ModelClassifier, base
from robust_tickets.classifier.base import TokenClassifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator
from tiny import tiny_classifier

WORDS = (
    "good", "great", "fine", "bad", "awful", "poor", "film", "movie", "story", "plot", "very", "not", "the", "a", "happy", "old", "dark",
)  # fmt: skip


def sentences(clf: Classifier, count: int, pairs: bool = False) -> Split:
    generator = numpy_generator(3, "sentences")
    rows = [
        tuple(" ".join(generator.choice(WORDS, generator.integers(1, 9))) for _ in range(1 + pairs))
        for _ in range(count)
    ]
    labels = clf.logits(rows).argmax(axis=1)
    return Split.of(rows, [int(label) for label in labels], columns=("first", "second") if pairs else ("text",))


WAYS: tuple[dict[str, int], ...] = (
    {"token_budget": 1, "live": 1},
    {"token_budget": 64, "live": 3},
    {"token_budget": 100_000, "live": 50},
)


@pytest.mark.parametrize(("family", "pairs"), [("bert", False), ("bert", True), ("roberta", False)])
def test_batch_size_changes_nothing(tmp_path: Path, family: str, pairs: bool) -> None:
    clf = tiny_classifier(family, max_length=24, columns=("first", "second") if pairs else ("text",))
    split = sentences(clf, 5, pairs=pairs)
    found = []
    for number, way in enumerate(WAYS):
        PWWS()(clf, split, n=0, folder=tmp_path / str(number), **way)
        found.append(stable_files(tmp_path / str(number)))
    assert found[0] == found[1] == found[2]
    assert {line["status"] for line in found[0][1]} - {"skipped"}


class Noisy(ModelClassifier):
    """Logits that many texts share up to 1e-6, and that a batch moves by up to 4e-6, as rounding does, only worse."""

    def forward(self, rows: Any) -> torch.Tensor:
        exact = np.array(
            [
                [draw(row.ids, c) % 3 + (draw(row.ids, c, "fine") % 5) * 1e-6 for c in range(len(self.labels))]
                for row in rows
            ]
        )
        if len(rows) > 1:
            exact = exact + numpy_generator(draw(tuple(row.ids for row in rows)), "noise").uniform(
                -4e-6, 4e-6, exact.shape
            )
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
    monkeypatch.setitem(base.NOISE, "float32", 0.0)
    found = noisy_results(tmp_path)
    assert not found[0] == found[1] == found[2]


def test_an_exported_graph_is_noisy_too(tmp_path: Path) -> None:
    inner = noisy()

    class Graph(TokenClassifier):
        kind = "a graph"
        inputs, forward, _run = inner.inputs, inner.forward, inner._run

        def _hash_outputs(self, total: Any) -> None:
            pass

    clf = Graph(tokenizer=inner.tokenizer, labels=inner.labels, max_length=inner.max_length, identity="")
    split = sentences(inner, 24)
    for number, way in enumerate(WAYS):
        PWWS()(clf, split, n=0, folder=tmp_path / str(number), **way)
    first, second, third = (stable_files(tmp_path / str(number)) for number in range(3))
    assert first == second == third


class NoisyFooler(Attack):
    """TextFooler with an encoder whose cosines a batch moves by up to ``encoder.NOISE``, on words that differ by about as little."""

    def resources(self) -> dict[str, Any]:
        return {}

    def prepare(self, device: str) -> Any:
        from robust_tickets.attack.example import ENCODER_NOISE
        from robust_tickets.resources.vectors import Vectors

        generator = numpy_generator(1, "vectors")
        vectors = Vectors(WORDS, (1 + 0.05 * generator.normal(size=(len(WORDS), 6))).astype(np.float32))

        def encode(texts: list[str]) -> np.ndarray:
            turns = np.array([draw(text) % 3 * 0.02 + draw(text, "fine") % 5 * 0.2 * ENCODER_NOISE for text in texts])
            if len(texts) > 1:
                turns = turns + numpy_generator(draw(tuple(texts)), "noise").uniform(-5, 5, len(texts)) * ENCODER_NOISE
            return np.stack([np.cos(turns), np.sin(turns)], axis=1)

        # angle of 0.04 at most: a cosine moves by at most 0.04 * 10 * NOISE; the threshold lies on the angle 0.02
        attack = TextFooler(sentence_similarity=1 - 0.02 / np.pi, window=3, neighbours=8)
        return attack.assemble(Loaded(vectors=vectors, encoder=encode))


def fooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr("robust_tickets.attack.attack.describe", lambda recipe: {"name": "noisy fooler"})
    clf = noisy(2)
    split = sentences(clf, 40)
    found = []
    for number, way in enumerate(WAYS):
        NoisyFooler()(clf, split, n=0, folder=tmp_path / str(number), **way)
        found.append(stable_files(tmp_path / str(number)))
    return found


def test_noise_of_the_encoder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fooled(tmp_path, monkeypatch)
    assert found[0] == found[1] == found[2]
    assert {"success", "failed"} <= {line["status"] for line in found[0][1]}


def test_the_encoders_noise_would_change_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ExampleState", partial(example.ExampleState, vector_noise=0.0))
    found = fooled(tmp_path, monkeypatch)
    assert not found[0] == found[1] == found[2]


def test_the_most_similar_is_found_though_both_cosines_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two successes 0.6 noises apart, each moved by 0.9 noises towards and beyond the other."""
    from robust_tickets.attack.example import ENCODER_NOISE
    from robust_tickets.resources.vectors import Vectors

    def encode(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            cosine = 0.95 if "fine" in text else 0.95 + 0.6 * ENCODER_NOISE if "great" in text else 1.0
            cosine += (len(texts) > 1 and cosine < 1) * (0.9 if "fine" in text else -0.9) * ENCODER_NOISE
            rows.append([cosine, (1 - cosine**2) ** 0.5])
        return np.array(rows)

    class Recipe(Attack):
        def resources(self) -> dict[str, Any]:
            return {}

        def prepare(self, device: str) -> Any:
            vectors = Vectors(["good", "fine", "great"], np.array([[1, 0.1], [1, 0.2], [1, 0.05]], dtype=np.float32))
            return TextFooler().assemble(Loaded(vectors=vectors, encoder=encode))

    monkeypatch.setattr("robust_tickets.attack.attack.describe", lambda recipe: {"name": "two"})
    clf = Classifier.wrap(
        lambda texts: np.array([[0.2, 0.8] if "good" in t else [0.8, 0.2] for t in texts]), labels=["n", "p"]
    )
    (outcome,) = Recipe()(clf, Split.of([" ".join(["good"] + ["zebra"] * 16)], [1]), n=0).examples()
    assert outcome.perturbed is not None
    assert outcome.perturbed[0].startswith("great")


SHORT = (MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory"))


def test_too_little_memory_for_a_batch_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf = tiny_classifier("bert", max_length=24)
    split = sentences(clf, 5)
    PWWS()(clf, split, n=0, folder=tmp_path / "enough")
    plain, sizes = clf.forward, []

    def small(rows: Any) -> torch.Tensor:
        if len(rows) > most:
            raise SHORT[len(rows) % 3]
        sizes.append(len(rows))
        return plain(rows)

    monkeypatch.setattr(clf, "forward", small)
    for most in (3, 1):
        PWWS()(clf, split, n=0, folder=tmp_path / str(most), token_budget=100_000)
        assert stable_files(tmp_path / str(most)) == stable_files(tmp_path / "enough")
    assert max(sizes) == 3
    most = 0
    with pytest.raises(TicketsError, match="not enough memory for one text") as caught:
        PWWS()(clf, split, n=0, folder=tmp_path / "none")
    assert caught.value.exit_code == 3
    assert "token_budget" in caught.value.hint


def test_texts_are_tokenised_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    clf = tiny_classifier("bert", max_length=24)
    texts = [(" ".join(["good"] * count),) for count in range(1, 40)]
    whole = services.Victim(clf).answer([services.Ask(texts, {})])[0]
    plain, held = clf.encode, []
    monkeypatch.setattr(clf, "encode", lambda given: (held.append(sum(len(t[0]) for t in given)), plain(given))[1])
    monkeypatch.setattr(services, "CHARACTERS", 300)
    ask = services.Ask(texts, {})
    rows = services.Victim(clf).answer([ask])[0]
    assert max(held) <= 300 < sum(held)
    assert np.allclose([row.probabilities for row in rows], [row.probabilities for row in whole], atol=1e-5)
    assert len({id(row) for row in rows}) == ask.passes == 22  # from 22 words on, all are cut to the same token ids


def test_company_and_order_change_nothing(tmp_path: Path) -> None:
    clf = noisy()
    split = sentences(clf, 12)
    together = {e.id: e for e in PWWS()(clf, split, n=0, token_budget=256).examples()}
    backwards = {e.id: e for e in PWWS()(clf, split, ids=list(range(11, -1, -1)), live=4).examples()}
    alone = {e.id: e for i in range(12) for e in PWWS()(clf, split, ids=[i]).examples()}
    for name, one in together.items():
        for other in (backwards[name], alone[name]):
            for field in ("status", "perturbed", "queries", "changed", "predicted_after"):
                assert getattr(one, field) == getattr(other, field)


def test_equal_token_ids_share_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """An uncased tokenizer reads "Good" and "good" alike: one row, so a change of case is no gain."""
    clf = tiny_classifier("bert", max_length=24)
    rows: list[Any] = []
    plain = clf.forward
    monkeypatch.setattr(clf, "forward", lambda given: (rows.extend(row.ids for row in given), plain(given))[1])
    service = services.Victim(clf)
    questions = [services.Ask([("Good film",), ("good film",)], {}), services.Ask([("GOOD FILM",)], {})]
    answers = service.answer(questions)
    assert len(rows) == 1
    assert answers[0][0] is answers[0][1]
    assert [question.passes for question in questions] == [1, 0]


def test_a_settled_row_is_exact_for_every_text_that_shares_it() -> None:
    clf = noisy()
    service = services.Victim(clf)
    texts = [("good film",), ("Good film",), ("bad plot",)]
    state = example.ExampleState(
        original=example.Text.of("good film"), goal=Untargeted(0), column_names=("text",), noise=service.noise
    )

    def play(steps: Any) -> Any:
        answer = None
        while True:
            try:
                question = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = service.answer([question])[0]

    first, second, third = play(state.ask([example.Text.of(text) for text in texts]))
    assert not first.row.exact
    assert state.queries == 3
    play(state.score_alone([first]))
    assert second.row.exact
    assert not third.row.exact
    assert state.queries == 3
    alone = torch.softmax(clf.forward(clf.encode([texts[0]])), -1).numpy()[0]
    assert (second.row.probabilities == alone).all()
