"""Plausible slips in Python: each ends in words that say what to give instead, before anything is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import robust_tickets as rt
from robust_tickets.classifier.device import device_of
from robust_tickets.data.task import Split
from robust_tickets.seeds import derive
from robust_tickets.ship.predict import predict_file
from tiny import tiny_classifier
from toy import toy_task


@pytest.fixture(scope="module")
def clf() -> Any:
    return tiny_classifier()


def test_one_string_is_no_list_of_texts(clf: Any) -> None:
    """Its letters were taken for texts, and as many labels came back."""
    for ask in (
        clf.predict,
        clf.logits,
        clf.encode,
        rt.Classifier.wrap(lambda texts: [[1.0, 0.0]] * len(texts), labels=["a", "b"]).predict,
    ):
        with pytest.raises(rt.TicketsError, match=r"list of texts.*\n.*\[text\]"):
            ask("a fine film")
    assert len(clf.predict(["a fine film"])[0]) == 1


def test_what_a_search_returns_is_no_ticket_but_holds_one(clf: Any) -> None:
    found = rt.RandomTicket()(clf)
    for use in (rt.compact, rt.apply):
        with pytest.raises(rt.TicketsError, match=r"expected a ticket, got a Found\n.*found\.ticket"):
            use(clf, found)  # type: ignore[arg-type]
        with pytest.raises(rt.TicketsError, match=r"got a str\n.*Ticket\.load"):
            use(clf, "folder")  # type: ignore[arg-type]


def test_classifier_and_task_the_other_way_round(clf: Any) -> None:
    task = toy_task()
    searches = (rt.EarlyRobust(), rt.EarlyBERT(), rt.OMP(), rt.IMP(), rt.RobustT(), rt.Prasanna(), rt.ORTicket(corpus="task"))
    for use in (*searches, rt.RandomTicket(), rt.FineTune(epochs=1)):
        with pytest.raises(rt.TicketsError, match=r"classifier.*got a .*Task.*\n.*in this order"):
            use(task, clf)


def test_the_name_of_a_model_is_no_classifier(clf: Any) -> None:
    for use in (rt.RandomTicket(), rt.OMP(), rt.IMP(), rt.EarlyRobust()):
        with pytest.raises(rt.TicketsError, match=r"begins with a classifier, got a str\n.*load_classifier"):
            use("minilm", toy_task())
    with pytest.raises(rt.TicketsError, match="a wrapped callable has no heads to draw"):
        rt.RandomTicket()(rt.Classifier.wrap(len, labels=["a", "b"]))
    assert rt.RandomTicket()(clf.model).ticket == rt.RandomTicket()(clf).ticket  # a bare model will do


def test_a_word_is_no_number() -> None:
    for make, name in ((rt.EarlyRobust, "heads"), (rt.OMP, "sparsity"), (rt.IMP, "step"), (rt.FineTune, "lr"), (rt.FreeLB, "step_size")):
        with pytest.raises(rt.TicketsError, match=rf"{make.__name__}\.{name} must be a number, got 'half'"):
            make(**{name: "half"})
    with pytest.raises(rt.TicketsError, match="heads must be a number, got None"):
        rt.RandomTicket(heads=None)  # type: ignore[arg-type]
    assert rt.RandomTicket(sparsity=None).sparsity is None


def test_an_attack_takes_a_split(clf: Any) -> None:
    task = toy_task()
    with pytest.raises(rt.TicketsError, match=r"got a .*Task.*\n.*task\.test"):
        rt.PWWS()(clf, task, n=2)
    with pytest.raises(rt.TicketsError, match=r"got a list\n.*Split\.of"):
        rt.PWWS()(clf, ["a fine film"], n=2)
    assert rt.PWWS()(clf, Split.of(["a fine film"], [0]), n=1).n == 1


def test_a_victim_that_answers_for_one_text_of_several_is_refused() -> None:
    """It passed every first question, failed on each example that it had right, and came out with 0 % under attack."""
    split = Split.of(["a fine film", "a dull film", "a good plot", "a bad plot"], [0, 1, 0, 1])
    with pytest.raises(rt.TicketsError, match=r"returned shape \(1, 2\), expected \(\d, 2\)"):
        rt.PWWS()(rt.Classifier.wrap(lambda texts: [[0.6, 0.4]], labels=["a", "b"]), split, n=4)
    assert rt.PWWS()(rt.Classifier.wrap(lambda texts: [[0.6, 0.4]] * len(texts), labels=["a", "b"]), split, n=4).errors == 0


@pytest.mark.parametrize("left_out", [lambda rows: None, lambda rows: [row for row in rows if row]])
def test_a_text_that_a_victim_leaves_out_costs_its_example(left_out: Any, tmp_path: Path) -> None:
    """It answers for each of two ordinary texts, so that the others need not end with it."""

    def judge(texts: Any) -> Any:
        rows = [None if "odd" in text else [0.6, 0.4] for text in texts]
        return rows if None not in rows else left_out(rows)

    clf = rt.Classifier.wrap(judge, labels=["a", "b"])
    split = Split.of(["a fine film", "an odd film", "a good plot", "a bad plot"], [0, 0, 0, 1])
    found = rt.PWWS()(clf, split, n=0)
    assert (found.n, found.errors) == (3, 1)
    (tmp_path / "in.csv").write_text("text\na fine film\nan odd film\na good plot\n")
    assert predict_file(clf, tmp_path / "in.csv", tmp_path / "out.csv")["rows"] == 3
    assert (tmp_path / "out.csv").read_text().count("0.6") == 2


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
        with pytest.raises(rt.TicketsError, match=r"cuda was asked for.*sees no CUDA devices here\n.*'cpu'"):
            ask("cuda")
    with pytest.raises(rt.TicketsError, match="'gpu' is no device"):
        device_of("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert device_of("cuda:0") == torch.device("cuda:0")
    with pytest.raises(rt.TicketsError, match="sees 1 CUDA device here"):
        device_of("cuda:1")
