"""Functions and pipelines as classifiers: batches, retries, a rate limit, a time limit, nothing asked twice, answers by name."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.callable import HOPELESS
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from victims import foreign_folder


class Far:
    """A judge that fails when told to, and notes every text it answered."""

    def __init__(self, fails: Any = lambda call, texts: False) -> None:
        self.fails, self.calls, self.answered = fails, 0, []
        self.sizes: list[int] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        if self.fails(self.calls, texts):
            raise ConnectionError("busy")
        self.sizes.append(len(texts))
        self.answered += texts
        return [[0.9, 0.1] if "good" in text else [0.3, 0.7] for text in texts]


def rows(*texts: str) -> Split:
    return Split.of(texts, [0] * len(texts))


def again(far: Far) -> dict[str, int]:
    """The texts that were answered more than once, and how often."""
    return {text: times for text, times in Counter(far.answered).items() if times > 1}


WORDS = ("good film", "a good story", "good plot, fine end", "what a good movie this is", "good")


def test_a_call_has_at_most_batch_size_texts_and_full_ones() -> None:
    far = Far()
    clf = Classifier.wrap(far, labels=["x", "y"], batch_size=4)
    texts = [f"good {'word ' * i}" for i in range(10)]
    np.testing.assert_allclose(clf.predict(texts)[1][:, 0], 0.9, atol=1e-6)
    assert far.sizes == [4, 4, 2]


def test_retries_change_no_result_and_no_count() -> None:
    calm = PWWS()(Classifier.wrap(Far(), labels=["x", "y"]), rows(*WORDS), n=0)
    far = Far(lambda call, texts: call % 3 == 0)
    shaky = PWWS()(Classifier.wrap(far, labels=["x", "y"], retries=2, backoff=0.001, batch_size=3), rows(*WORDS), n=0)
    told = [[(e.status, e.queries, e.perturbed) for e in result.examples()] for result in (calm, shaky)]
    assert told[0] == told[1]
    assert shaky.errors == 0
    assert again(far) == dict.fromkeys(
        WORDS, 2
    )  # none is paid for twice, but those that tell it from others and whether it is steady


def test_an_example_whose_text_fails_for_good_is_an_error_and_asks_nothing_twice() -> None:
    far = Far(lambda call, texts: any("poison" in text for text in texts))
    texts = ("good film", "good poison", "a good story", "what a good movie")
    result = PWWS()(Classifier.wrap(far, labels=["x", "y"], retries=1, backoff=0.001), rows(*texts), n=0)
    assert [e.status for e in result.examples()] == ["success", "error", "success", "success"]
    assert next(e.error for e in result.examples() if e.error) == "ConnectionError: busy"
    assert again(far) == {text: 2 for text in texts if "poison" not in text}


@pytest.mark.parametrize("calls", [{"batch_size": 4}, {"retries": 1}, {"rate_limit": 1e5}, {"timeout": 60.0}])
def test_a_victim_that_draws_at_random_is_told_though_its_answers_are_kept(calls: dict[str, Any]) -> None:
    """The attack was given the kept answers to the texts asked about before it, which never differ. The queries are those of the attack."""
    drawn = np.random.default_rng(0)

    def random(texts: list[str]) -> Any:
        p = drawn.uniform(0, 1, len(texts))
        return np.stack([p, 1 - p], axis=1)

    assert "unsteady" in PWWS()(Classifier.wrap(random, labels=["x", "y"], **calls), rows(*WORDS), n=0).flag_codes
    steady, plain = Classifier.wrap(Far(), labels=["x", "y"], **calls), Classifier.wrap(Far(), labels=["x", "y"])
    first, second, other = (PWWS()(clf, rows(*WORDS), n=0) for clf in (steady, steady, plain))
    assert not {"unsteady"} & {*first.flag_codes, *second.flag_codes}
    assert first.queries == second.queries == other.queries


def test_a_victim_that_changed_between_two_attacks_is_told() -> None:
    """The second attack has the first one's answers, and the texts asked about before it those of the moment."""
    told = [0.9]
    clf = Classifier.wrap(lambda texts: [[told[0], 1 - told[0]]] * len(texts), labels=["x", "y"], batch_size=4)
    assert "unsteady" not in PWWS()(clf, rows(*WORDS), n=0).flag_codes
    told[0] = 0.7
    assert "unsteady" in PWWS()(clf, rows(*WORDS), n=0).flag_codes


def test_whether_a_victim_still_answers_is_no_kept_answer() -> None:
    """It answered the ordinary text once; every later time the kept answer would say that it is still there."""
    ordinary = iter([False])
    far = Far(lambda call, texts: texts != ["a good film"] or next(ordinary, True))
    with pytest.raises(TicketsError, match=r"failed on 20 example\(s\) in a row"):
        PWWS()(Classifier.wrap(far, labels=["x", "y"], batch_size=4), rows(*(f"good {i}" for i in range(60))), n=0)


def test_a_function_that_is_gone_ends_the_run() -> None:
    far = Far(lambda call, texts: call > 12)
    clf = Classifier.wrap(far, labels=["x", "y"], retries=1, backoff=0.001, batch_size=1)
    with pytest.raises(TicketsError, match=f"failed {HOPELESS} calls in a row: ConnectionError: busy") as caught:
        PWWS()(clf, rows(*(f"good {i}" for i in range(40))), n=0)
    assert caught.value.exit_code == 3
    assert far.calls <= 12 + 2 * HOPELESS


def test_waiting_doubles_and_calls_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    clf = Classifier.wrap(Far(lambda call, texts: True), labels=["x", "y"], retries=3)
    with pytest.raises(ConnectionError):
        clf.logits(["good"])
    assert slept == [0.5, 1.0, 2.0]
    slept.clear()
    clock = iter(np.arange(0, 1, 0.001))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    Classifier.wrap(Far(), labels=["x", "y"], rate_limit=2, batch_size=1).logits(["a", "b", "c"])
    np.testing.assert_allclose(slept, [0.499, 0.998])


def test_an_answer_that_takes_too_long() -> None:
    def slow(texts: list[str]) -> Any:
        time.sleep(0.5 if "slow" in texts else 0)
        return [[0.5, 0.5]] * len(texts)

    clf = Classifier.wrap(slow, labels=["x", "y"], timeout=0.1)
    assert clf.logits(["quick"]).shape == (1, 2)
    with pytest.raises(TimeoutError, match=r"within 0\.1 s"):
        clf.logits(["slow"])


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"retries": -1}, {"rate_limit": 0}, {"timeout": -1.0}, {"batch_size": 1.5}]
)  # fmt: skip
def test_bad_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError, match=next(iter(wrong))):
        Classifier.wrap(Far(), labels=["x", "y"], **wrong)


def test_how_many_texts_a_service_takes_is_kept() -> None:
    """A call that is too large fails once, not in every batch; a text at fault changes nothing."""
    failed: list[int] = []

    def few(texts: list[str]) -> list[list[float]]:
        if len(texts) > 4 or "bad" in texts:
            failed.append(len(texts))
            raise ValueError("too many")
        return [[0.4, 0.6] for _ in texts]

    clf = Classifier.wrap(few, labels=["a", "b"])
    for batch in range(5):
        clf.predict([f"text {batch} {i}" for i in range(16)])
    assert failed == [16, 8]  # in the first batch, once for each size
    with pytest.raises(ValueError):
        clf.predict(["bad"])
    failed.clear()
    clf.predict([f"again {i}" for i in range(16)])
    assert failed == []
    with pytest.raises(ValueError):
        clf.predict([*(f"more {i}" for i in range(15)), "bad"])
    assert failed == [1]  # a text that failed alone is asked about first


# -- pipelines

TEXTS = ["a good film", "a bad plot", "the story was fine", "an awful movie", "not very good"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return foreign_folder(tmp_path_factory.mktemp("albert"), labels=("bad", "good"))


def pipe(folder: Path, **options: Any) -> Any:
    from transformers import pipeline

    return pipeline("text-classification", model=str(folder), device="cpu", **options)


@pytest.mark.parametrize("options", [{"top_k": 1}, {}, {"function_to_apply": "sigmoid"}])
@pytest.mark.parametrize("calls", [{}, {"batch_size": 2, "retries": 1}])
def test_a_pipeline_answers_like_its_model(folder: Path, options: dict[str, Any], calls: dict[str, Any]) -> None:
    model = Classifier.from_pretrained(folder)
    piped = Classifier.wrap(pipe(folder, **options), labels=["GOOD", "Bad"], **calls)
    wanted, found = model.predict(TEXTS), piped.predict(TEXTS)
    assert [label.lower() for label in found[0]] == wanted[0]
    np.testing.assert_allclose(found[1], wanted[1][:, ::-1], atol=1e-5)


def test_a_pipeline_takes_pairs(folder: Path) -> None:
    pairs = list(pairwise(TEXTS))
    wanted = Classifier.from_pretrained(folder).predict(pairs)[1]
    for calls in ({}, {"batch_size": 2}):
        piped = Classifier.wrap(
            pipe(folder, top_k=None), labels=["bad", "good"], columns=("premise", "hypothesis"), **calls
        )
        np.testing.assert_allclose(piped.predict(pairs)[1], wanted, atol=1e-5)


def named(**scores: Any) -> list[dict[str, Any]]:
    return [{"label": label, "score": score} for label, score in scores.items()]


@pytest.mark.parametrize(
    ("answer", "labels", "wanted"),
    [
        (named(c=0.5, b=0.3, a=0.2), "abc", [0.2, 0.3, 0.5]),
        (named(LABEL_2=0.5, LABEL_0=0.3, label_1=0.2), "abc", [0.3, 0.2, 0.5]),
        (named(LABEL_0=0.9, LABEL_1=0.1), ["LABEL_1", "LABEL_0"], [0.1, 0.9]),  # a name is a name
        (named(pos=0.9, Pos=0.1), ["Pos", "pos"], [0.1, 0.9]),
        (named(b=np.float32(0.75), a=0.25), "ab", [0.25, 0.75]),
    ],
)
def test_labels_are_matched_by_name(answer: Any, labels: Any, wanted: list[float]) -> None:
    clf = Classifier.wrap(lambda texts: [answer] * len(texts), labels=list(labels))
    np.testing.assert_allclose(clf.predict(["x", "y"])[1], [wanted] * 2, atol=1e-6)


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        (named(NEG=0.1, POS=0.9), "ab"),
        (named(a=0.1, LABEL_2=0.9), "ab"),
        (named(POS=0.1, neg=0.9), ["Pos", "pos", "neg"]),
        (named(c=0.9)[0], "abc"),
        (named(c=0.6, a=0.3), "abc"),
        (named(a=0.9)[0], "ab"),
        (named(a=0.4, A=0.6), "ab"),
        (named(a="much", b=0.6), "ab"),
        (named(a=0.9, b=0.8), "ab"),
        ([{"label": "a"}, {"label": "b"}], "ab"),
    ],
)
def test_answers_that_cannot_be_used_are_refused(answer: Any, labels: Any) -> None:
    with refused("callable.answer"):
        Classifier.wrap(lambda texts: [answer] * len(texts), labels=list(labels)).predict(["x", "y"])


@pytest.mark.parametrize(
    "extra",
    [{"problem_type": "regression"}, {"problem_type": "multi_label_classification"}, {"labels": ("LABEL_0",)}],
)
def test_a_pipeline_that_chooses_no_class_is_refused(tmp_path: Path, extra: dict[str, Any]) -> None:
    with refused("classifier.head"):
        Classifier.wrap(pipe(foreign_folder(tmp_path, **extra)), labels=["bad", "good"])


def test_one_unnamed_output_is_no_class(tmp_path: Path) -> None:
    with refused("classifier.head"):
        Classifier.wrap(pipe(foreign_folder(tmp_path, labels=("LABEL_0",))), labels=["LABEL_0", "LABEL_1"])


@pytest.mark.parametrize(
    ("extra", "chosen"),
    [
        ({"problem_type": "multi_label_classification"}, "softmax"),
        ({"labels": ("good",), "problem_type": "regression"}, "sigmoid"),
    ],
)
def test_a_pipeline_whose_user_chose_how_it_scores_is_taken(tmp_path: Path, extra: dict[str, Any], chosen: str) -> None:
    judge = pipe(foreign_folder(tmp_path, **{"labels": ("bad", "good"), **extra}), top_k=None, function_to_apply=chosen)
    wanted = [next(row["score"] for row in answer if row["label"] == "good") for answer in judge(TEXTS)]
    found = Classifier.wrap(judge, labels=["bad", "good"]).predict(TEXTS)[1]
    np.testing.assert_allclose(found[:, 1], wanted, atol=1e-6)


def test_an_array_of_any_library_is_an_answer() -> None:
    class Foreign:  # as TensorFlow's tensors are: no tolist, and rows of their own kind
        def __init__(self, rows: Any) -> None:
            self.rows = np.array(rows)

        def __len__(self) -> int:
            return len(self.rows)

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array(self.rows, dtype=dtype)

    clf = Classifier.wrap(lambda texts: Foreign([[0.25, 0.75]] * len(texts)), labels=["bad", "good"])
    np.testing.assert_allclose(clf.predict(["x", "y"])[1], [[0.25, 0.75]] * 2, atol=1e-6)


def test_labels_of_another_number_are_refused(tmp_path: Path) -> None:
    judge = pipe(foreign_folder(tmp_path, labels=("bad", "good", "flat")))
    with refused("callable.answer"):
        Classifier.wrap(judge, labels=["bad", "good"]).predict(TEXTS)


@pytest.mark.parametrize("options", [{"top_k": None}, {"top_k": 1}, {}])
@pytest.mark.parametrize("kind", [{}, {"problem_type": "multi_label_classification"}])
def test_a_model_of_one_named_sigmoid_has_two_classes(
    tmp_path: Path, options: dict[str, Any], kind: dict[str, Any]
) -> None:
    judge = pipe(foreign_folder(tmp_path, labels=("Good",), **kind), **options)
    scores = np.array([(row[0] if isinstance(row, list) else row)["score"] for row in judge(TEXTS)])
    assert scores.min() < 0.5 < scores.max()  # below a half it is the other class that is on top
    for labels in (["bad", "good"], ["good", "bad"]):
        found = Classifier.wrap(judge, labels=labels).predict(TEXTS)[1]
        np.testing.assert_allclose(found[:, labels.index("good")], scores, atol=1e-6)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_a_pipeline_with_scores_of_its_own_is_judged_by_its_answers(folder: Path) -> None:
    from transformers import TextClassificationPipeline

    class Sure(TextClassificationPipeline):
        def postprocess(self, *_: Any, **__: Any) -> Any:
            return named(bad=0.75, good=0.25)

    judge = pipe(folder, pipeline_class=Sure, function_to_apply="sigmoid")
    np.testing.assert_allclose(
        Classifier.wrap(judge, labels=["bad", "good"]).predict(["x"])[1], [[0.75, 0.25]], atol=1e-6
    )
