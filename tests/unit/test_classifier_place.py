"""Models named in Python as the commands name them: runs and arms, ONNX files and folders; ``rt.predict`` and ``rt.export``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import robust_tickets as rt
from refusing import refused
from robust_tickets.classifier import ModelClassifier, OnnxClassifier
from robust_tickets.cli.options import Opening
from tiny import tiny_classifier

TEXTS = ["a good film", "an awful movie", "the plot was fine"]


def a_run(folder: Path, *arms: str) -> Path:
    rows = [{"name": arm, "train": f"train-{arm}"} for arm in arms]
    for seed, row in enumerate(rows):
        tiny_classifier(seed=seed).save_pretrained(folder / row["train"] / "model")
    (folder / "arms.json").write_text(json.dumps({"arms": rows}))
    return folder


@pytest.mark.parametrize("opened", [rt.load_classifier, rt.Classifier.from_pretrained])
def test_a_run_stands_for_its_model(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(tmp_path / "r", "plain", "robust")
    wanted = [rt.load_classifier(run / f"train-{arm}" / "model").digest for arm in ("plain", "robust")]
    assert [opened(f"{run}:{arm}").digest for arm in ("plain", "robust")] == wanted
    assert opened(a_run(tmp_path / "one", "plain")).digest == wanted[0]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert opened("~/r:robust").digest == wanted[1]
    with refused("model.arm"):
        opened(run)
    with refused("model.arm"):
        opened(f"{run}:other")
    with refused("model.run"):
        opened(f"{tmp_path}/nowhere:arm")
    with refused("model.name"):
        opened("https://example.org/owner/model")
    monkeypatch.chdir(tmp_path)
    assert opened("r/train-plain/model").identity == "r/train-plain/model"  # what it is called in results


def test_what_is_exported_is_opened_again(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    clf = tiny_classifier(labels=("bad", "good"))
    served = rt.export(clf, tmp_path / "served", format="onnx")
    for name in (served, str(served), served / "model.onnx"):
        graph = rt.load_classifier(name)
        assert (graph.labels, graph.max_length, type(graph)) == (clf.labels, clf.max_length, OnnxClassifier)
        np.testing.assert_allclose(graph.logits(TEXTS), clf.logits(TEXTS), atol=1e-4)
    assert rt.Classifier.from_pretrained(served, max_length=8).max_length == 8
    with refused("onnx.fixed"):
        rt.load_classifier(served, SimpleNamespace(labels=("bad", "good"), columns=("text",)))
    for options in ({"dtype": "bfloat16"}, {"device": "meta"}):
        with refused("onnx.fixed"):
            rt.load_classifier(served, **options)  # type: ignore[arg-type]
    with refused("classifier.no_model"):
        rt.export(rt.load_classifier(served), tmp_path / "again")


def test_predict_labels_a_file(tmp_path: Path) -> None:
    clf = tiny_classifier(labels=("bad", "good"))
    (tmp_path / "in.csv").write_text("text\n" + "\n".join(TEXTS) + "\n")
    told = rt.predict(clf, str(tmp_path / "in.csv"), str(tmp_path / "out.csv"))
    assert told["rows"] == 3
    with (tmp_path / "out.csv").open() as file:
        assert [row["predicted"] for row in csv.DictReader(file)] == clf.predict(TEXTS)[0]


def test_weights_beside_a_graph_are_the_model_everywhere(tmp_path: Path) -> None:
    """The commands opened the graph, Python the weights: one name, two victims."""
    pytest.importorskip("onnxruntime")
    other = tiny_classifier(seed=1, labels=("bad", "good"))
    folder = rt.export(tiny_classifier(labels=("bad", "good")), tmp_path / "both", format="onnx")
    other.save_pretrained(folder)
    for opened in (rt.load_classifier, rt.Classifier.from_pretrained, Opening().open):
        clf = opened(str(folder))
        assert (type(clf), clf.digest) == (ModelClassifier, other.digest)
        assert isinstance(opened(str(folder / "model.onnx")), OnnxClassifier)
    with refused("usage.flag"):
        Opening(tokenizer=str(folder)).open(str(folder))
    (folder / "model.safetensors").unlink()
    for opened in (rt.load_classifier, Opening().open):
        assert isinstance(opened(str(folder)), OnnxClassifier)
