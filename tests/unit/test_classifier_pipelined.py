"""Pipelines of transformers as victims: answers in labels and scores, matched by name, and nothing guessed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from victims import foreign_folder

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


def test_an_attack_on_a_pipeline_is_that_on_its_model_and_resumes(folder: Path, tmp_path: Path) -> None:
    split = Split.of(TEXTS, [1, 0, 1, 0, 0])
    own = PWWS()(Classifier.from_pretrained(folder), split, n=0)

    def told(result: Any) -> Any:
        return [(e.status, e.queries, e.perturbed) for e in result.examples()]

    for place in ("a", "a"):  # the second finds it done
        piped = PWWS()(
            Classifier.wrap(pipe(folder, top_k=None), labels=["bad", "good"]), split, n=0, folder=tmp_path / place
        )
        assert told(piped) == told(own)


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
    [{"problem_type": "regression"}, {"problem_type": "multi_label_classification"}, {"labels": ("good",)}],
)
def test_a_pipeline_that_chooses_no_class_is_refused(tmp_path: Path, extra: dict[str, Any]) -> None:
    with refused("classifier.head"):
        Classifier.wrap(pipe(foreign_folder(tmp_path, **extra)), labels=["bad", "good"])


def test_labels_of_another_number_are_refused(tmp_path: Path) -> None:
    judge = pipe(foreign_folder(tmp_path, labels=("bad", "good", "flat")))
    with refused("callable.answer"):
        Classifier.wrap(judge, labels=["bad", "good"]).predict(TEXTS)


def test_a_pipeline_with_scores_of_its_own_is_judged_by_its_answers(folder: Path) -> None:
    from transformers import TextClassificationPipeline

    class Sure(TextClassificationPipeline):
        def postprocess(self, *_: Any, **__: Any) -> Any:
            return named(bad=0.75, good=0.25)

    judge = pipe(folder, pipeline_class=Sure, function_to_apply="sigmoid")
    np.testing.assert_allclose(
        Classifier.wrap(judge, labels=["bad", "good"]).predict(["x"])[1], [[0.75, 0.25]], atol=1e-6
    )
