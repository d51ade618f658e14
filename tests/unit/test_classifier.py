"""The Classifier: order, batches, pairs, odd characters, wrapped callables, heads and labels, and every way loading can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import robust_tickets as rt
from refusing import refused
from robust_tickets.classifier import batches_by_size
from robust_tickets.classifier.encode import clean
from tiny import tiny_classifier

TEXTS = [
    "good film",
    "a very long story was not bad at all",
    ("the plot", "an awful movie"),
    "",
    ("one",),
    "zebra 42 !",
]
CLF = tiny_classifier()


@pytest.mark.parametrize("budget", [None, 1, 40, 10_000])
def test_logits_keep_order_and_do_not_depend_on_batches(budget: int | None) -> None:
    alone = np.concatenate([CLF.logits([text]) for text in TEXTS])
    together = CLF.logits(TEXTS, token_budget=budget)
    assert together.dtype == np.float32
    assert together.shape == (6, 2)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert CLF.logits([]).shape == (0, 2)
    assert CLF.predict([]) == ([], pytest.approx(np.zeros((0, 2))))


def test_pairs_have_token_types_and_texts_are_truncated() -> None:
    pair, single, long = CLF.encode([("good film", "bad plot"), "good film bad plot", "good " * 100])
    assert set(single.types) == {0}
    assert set(pair.types) == {0, 1}
    assert len(long.ids) == long.size == CLF.max_length
    assert hash(pair) != hash(single)
    assert tiny_classifier("roberta", type_vocab_size=1).encode([("good", "bad")])[0].types == ()  # as in roberta-base
    swapped = CLF.logits([("good film", "bad plot"), ("bad plot", "good film")])
    assert not np.allclose(swapped[0], swapped[1])


def test_training_mode_is_put_back_and_dropout_is_off() -> None:
    clf = tiny_classifier()
    clf.model.train()
    np.testing.assert_array_equal(clf.logits(TEXTS), clf.logits(TEXTS))
    assert clf.model.training
    clf.forward(clf.encode(TEXTS)).add_(1)  # no inference tensor reaches the caller
    clf.model(**clf.batch(clf.encode(TEXTS)), labels=torch.zeros(6, dtype=torch.long)).loss.backward()


@settings(max_examples=60, deadline=None)
@example("a\ud800b")
@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_string_can_be_asked(text: str) -> None:
    assert np.isfinite(CLF.logits([text, (text, text)])).all()
    assert clean(clean(text)) == clean(text)
    clean(text).encode()


def test_surrogates() -> None:
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("\ud83d\ude00") == "\U0001f600"
    assert clean("\x00é\U0001f600") == "\x00é\U0001f600"


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 200))
def test_batches_cover_all_and_stay_within_the_budget(sizes: list[int], budget: int) -> None:
    batches = list(batches_by_size(sizes, budget))
    assert sorted(i for batch in batches for i in batch) == list(range(len(sizes)))
    assert all(len(batch) == 1 or len(batch) * max(sizes[i] for i in batch) <= budget for batch in batches)


def test_weights_that_give_nan_are_an_error() -> None:
    clf = tiny_classifier()
    with torch.no_grad():
        clf.model.classifier.bias.fill_(float("nan"))
    with refused("classifier.not_finite") as problem:
        clf.logits(["x"])
    assert problem.value.exit_code == 3


# -- wrapped callables


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_any_callable_can_be_wrapped(kind: Any) -> None:
    table = {"x": [0.25, 0.75], ("x", "y"): [1.0, 0.0]}
    asked = []

    def model(texts: list[Any]) -> Any:
        asked.extend(texts)
        return kind([table[text] for text in texts])

    clf = rt.Classifier.wrap(model, labels=["no", "yes"])
    labels, p = clf.predict(["x", ("x", "y"), ("x",)])
    assert labels == ["yes", "no", "yes"]
    np.testing.assert_allclose(p, [[0.25, 0.75], [1, 0], [0.25, 0.75]], atol=1e-6)
    assert sorted(map(str, asked)) == ["('x', 'y')", "x"]  # equal texts of one call are asked once
    assert clf.encode([("x", "y")])[0] == clf.encode([("x", "y")])[0] != clf.encode(["x"])[0]
    assert clf.device.type == "cpu"
    assert clf.to("cpu").copy().digest == clf.digest
    with refused("classifier.no_model"):
        clf.save_pretrained("anywhere")


@pytest.mark.parametrize(
    "answer",
    [
        [[0.5, 0.5], [1.0, 0.0]],
        [0.5, 0.5],
        [[0.2, 0.3, 0.5]],
        [[float("nan"), 1.0]],
        [[3.0, -2.0]],
        [[0.5, 0.6]],
        "words",
        None,
    ],
)
def test_callables_are_checked(answer: Any) -> None:
    with refused("callable.answer"):
        rt.Classifier.wrap(lambda texts: answer, labels=["no", "yes"]).logits(["x"])


def test_wrap_refuses_what_cannot_be_called_and_bad_labels() -> None:
    with refused("callable.type"):
        rt.Classifier.wrap(3, labels=["a", "b"])  # type: ignore[arg-type]
    for labels in (["a"], ["a", "a"], []):
        with refused("classifier.labels"):
            rt.Classifier.wrap(print, labels=labels)


# -- saving, copying, digests


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    clf = tiny_classifier(labels=("bad", "so so", "good"), max_length=17)
    clf.columns = ("premise", "hypothesis")
    again = rt.Classifier.from_pretrained(clf.save_pretrained(tmp_path / "out"))
    assert (again.labels, again.max_length, again.columns) == (clf.labels, 17, ("premise", "hypothesis"))
    assert again.digest == clf.digest
    np.testing.assert_array_equal(again.logits(TEXTS), clf.logits(TEXTS))
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {
        "0": "bad",
        "1": "so so",
        "2": "good",
    }
    (tmp_path / "file").touch()
    with refused("file.not_a_folder"):
        clf.save_pretrained(tmp_path / "file")


def test_copies_are_apart_and_digests_see_everything() -> None:
    clf = tiny_classifier()
    twin = clf.copy()
    assert twin.digest == clf.digest
    twin.logits(TEXTS)  # tokenizing leaves no mark
    assert twin.digest == clf.digest
    with torch.no_grad():
        twin.model.classifier.bias[0] += 1e-3
    assert twin.digest != clf.digest
    for change in ({"labels": ("b", "a")}, {"max_length": 31}, {"columns": ("a", "b")}):
        other = clf.copy()
        vars(other).update(change)
        assert other.digest != clf.digest, change


def test_max_length_must_fit_the_positions() -> None:
    with refused("classifier.max_length"):
        tiny_classifier(max_length=67)
    with refused("classifier.max_length"):
        tiny_classifier("roberta", max_length=65)
    long = tiny_classifier("roberta", max_length=64)
    assert np.isfinite(long.logits(["good " * 100])).all()


# -- loading
