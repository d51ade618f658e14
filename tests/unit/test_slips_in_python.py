"""Plausible slips in Python: each ends in words that say what to give instead, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import robust_tickets as rt
from robust_tickets.data.task import Split
from robust_tickets.environment import device_of
from robust_tickets.seeds import derive
from tiny import tiny_classifier
from toy import toy_task


def refused(code: str, use: Any, *given: Any) -> None:
    with pytest.raises(rt.TicketsError) as caught:
        use(*given)
    assert caught.value.code == code


@pytest.fixture(scope="module")
def clf() -> Any:
    return tiny_classifier()


@pytest.mark.parametrize("wrong", ["a fine film", b"a film", {"a film": 1}, 5, None])
def test_what_is_no_list_of_texts(clf: Any, wrong: Any) -> None:
    """The letters of a string and a mapping's keys would be taken for texts."""
    wrapped = rt.Classifier.wrap(lambda texts: [[1.0, 0.0]] * len(texts), labels=["a", "b"])
    for ask in (clf.predict, clf.logits, wrapped.predict, lambda texts: Split.of(texts, [0])):
        refused("text.not_a_list", ask, wrong)


@pytest.mark.parametrize("wrong", [None, float("nan"), ("a", "b", "c"), ("a", None), {"text": "a film"}])
def test_what_is_no_text_is_named_with_its_place(clf: Any, wrong: Any) -> None:
    for ask in (clf.predict, lambda texts: Split.of(texts, [0, 1, 0])):
        with pytest.raises(rt.TicketsError, match="at place 2, counted from 0") as caught:
            ask(["a fine film", "a dull film", wrong])
        assert caught.value.code == "text.columns"


@pytest.mark.parametrize("labels", [[0], None, 5, ["good", "bad"], [0.5, 1], [[0], [0, 1]], [0, 2**40]])
def test_texts_in_memory_have_a_class_number_each(labels: Any) -> None:
    with pytest.raises(rt.TicketsError, match=r"expected 2 label\(s\), the class number of each text, got .*\n"):
        Split.of(["a fine film", "a dull film"], labels)
    assert Split.of([], []).labels.tolist() == []


SEARCHES = (
    rt.EarlyRobust(),
    rt.EarlyBERT(),
    rt.OMP(),
    rt.IMP(),
    rt.RobustT(),
    rt.Prasanna(),
    rt.ORTicket(corpus="task"),
)


def test_what_is_no_classifier_is_not_searched_nor_trained(clf: Any) -> None:
    task, function = toy_task(), rt.Classifier.wrap(len, labels=["0", "1"])
    for use in (*SEARCHES, rt.RandomTicket(), rt.FineTune(epochs=1)):
        refused("classifier.type", use, task, clf)
        refused("classifier.type", use, "minilm", task)
        if not isinstance(use, rt.EarlyBERT):
            refused("classifier.no_model", use, function, task)
    assert rt.RandomTicket()(clf.model).ticket == rt.RandomTicket()(clf).ticket  # a bare model will do


def test_an_attack_takes_a_split(clf: Any) -> None:
    task = toy_task()
    with pytest.raises(rt.TicketsError, match=r"got a .*Task.*\n.*task\.test"):
        rt.PWWS()(clf, task, n=2)
    with pytest.raises(rt.TicketsError, match=r"got a list\n.*Split\.of"):
        rt.PWWS()(clf, ["a fine film"], n=2)
    for name in ("seen", "calibration"):
        with pytest.raises(rt.TicketsError, match=rf"{name} is a split of a task, got a list\n.*Split\.of"):
            rt.PWWS()(clf, task.test, n=2, **{name: ["a fine film"]})
    assert rt.PWWS()(clf, Split.of(["a fine film"], [0]), n=1).n == 1


def test_a_victim_that_answers_for_one_text_of_several_is_refused() -> None:
    """It passed every first question, failed on each example that it had right, and came out with 0 % under attack."""
    split = Split.of(["a fine film", "a dull film", "a good plot", "a bad plot"], [0, 1, 0, 1])
    refused(
        "callable.answer", lambda: rt.PWWS()(rt.Classifier.wrap(lambda texts: [[0.6, 0.4]], labels=["a", "b"]), split)
    )
    whole = rt.Classifier.wrap(lambda texts: [[0.6, 0.4]] * len(texts), labels=["a", "b"])
    assert rt.PWWS()(whole, split, n=4).errors == 0


def test_a_seed_is_one_number(clf: Any) -> None:
    for seed in ([0, 1], "zero", None):
        with pytest.raises(rt.TicketsError, match=r"a seed is one whole number.*\n.*each seed"):
            derive(seed, "search")  # type: ignore[arg-type]
    with pytest.raises(rt.TicketsError, match="a seed is one whole number"):
        rt.PWWS()(clf, Split.of(["a fine film"] * 3, [0, 1, 0]), n=2, seed=[0, 1])  # type: ignore[arg-type]


def test_a_device_that_is_not_there(clf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of(None) == torch.device("cpu")
    for ask in (clf.to, device_of, lambda device: rt.load_classifier("minilm", labels=["a", "b"], device=device)):
        refused("device.absent", ask, "cuda")
    refused("device.unknown", device_of, "gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert device_of("cuda:0") == torch.device("cuda:0")
    refused("device.absent", device_of, "cuda:1")


def test_a_model_of_pairs_answers_no_lone_text() -> None:
    """It was answered, and attacked, as if the second text were empty; the commands refused it."""
    one, two = (tiny_classifier(columns=columns) for columns in (("text",), ("premise", "hypothesis")))
    pair = ("a film", "a plot")
    for clf, wrong, right in ((one, pair, "a film"), (two, "a film", pair)):
        refused("text.columns", clf.predict, [right, wrong])
        assert len(clf.predict([right])[0]) == 1
        refused("classifier.columns", rt.PWWS(), clf, Split.of([wrong], [0]))
        assert rt.PWWS()(clf, Split.of([right], [0]), n=1).n == 1
    foreign = rt.Classifier.wrap(
        lambda texts: [[0.6, 0.4]] * len(texts), labels=["a", "b"]
    )  # nobody said what it reads
    assert len(foreign.predict(["a film", ("a film", "a plot")])[0]) == 2


def test_an_attack_is_made_on_a_classifier(clf: Any, tmp_path: Path) -> None:
    split = Split.of(["a fine film"], [0])
    found = rt.PWWS()(clf, split, n=1, folder=tmp_path)
    for victim in (5, None, len, "my-model", clf.model):
        refused("classifier.type", rt.PWWS(), victim, split)
        refused("classifier.type", rt.replay, found, victim)
    for n in ("2", 1.5):
        with pytest.raises(rt.TicketsError, match=rf"n must be a .*number, got {n!r}"):
            rt.PWWS()(clf, split, n=n)


def test_a_task_is_loaded_by_name_and_given_loaded(clf: Any) -> None:
    for rows in (None, [("a fine film", 0)], {"text": ["a fine film"]}):
        with pytest.raises(
            rt.TicketsError, match=rf"by its name or its file, got a {type(rows).__name__}\n.*to_parquet"
        ):
            rt.load_task(rows)  # type: ignore[arg-type]
    for use in (rt.FineTune(epochs=1), rt.EarlyRobust(), rt.IMP()):
        with pytest.raises(rt.TicketsError, match=r"expected a loaded task, got 'reviews.csv'\n.*load_task"):
            use(clf, "reviews.csv")
