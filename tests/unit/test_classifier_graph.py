"""ONNX files of others: inputs by name and type, fixed shapes, probabilities, and what is missing said before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.attack.services import Victim
from robust_tickets.classifier.onnx import open_onnx
from victims import foreign_tokenizer, onnx_file

pytest.importorskip("onnxruntime")
TEXTS: list[Any] = [
    "good film",
    "a very long story was not bad at all",
    "",
    "fine " * 30,
    ("the plot", "an awful movie"),
]


@pytest.fixture
def words(tmp_path: Path) -> Path:
    foreign_tokenizer().save_pretrained(tmp_path / "words")
    return tmp_path / "words"


def opened(path: Path, words: Path, **options: Any) -> Any:
    return open_onnx(path, tokenizer=words, labels=("bad", "good"), **options)


def probabilities(clf: Any) -> np.ndarray:
    return clf.predict(TEXTS)[1]


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"int32": True},
        {"batch": 3},
        {"length": 24},
        {"batch": 2, "length": 24},
        {"softmax": True, "output": "probabilities"},
        {"softmax": True, "output": "y"},
        {"softmax": True, "output": "logits"},
    ],
)
def test_every_shape_of_graph_gives_the_same_answers(
    shape: dict[str, Any], tmp_path: Path, words: Path, capsys: Any
) -> None:
    plain = opened(onnx_file(tmp_path / "plain.onnx"), words, max_length=24)
    clf = opened(onnx_file(tmp_path / "m.onnx", **shape), words, max_length=24)
    assert clf.cut_at == 24
    np.testing.assert_allclose(probabilities(clf), probabilities(plain), atol=1e-6)
    assert ("taken as probabilities" in capsys.readouterr().err) == bool(shape.get("softmax"))
    assert np.ptp(probabilities(clf)[:, 0]) > 0.2


@pytest.mark.parametrize("shape", [{}, {"batch": 3}, {"names": ("input_ids",)}])
def test_a_graph_that_scales_its_batch_as_a_whole_is_asked_one_text_at_a_time(
    shape: dict[str, Any], tmp_path: Path, words: Path, capsys: Any
) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(onnx_file(tmp_path / "plain.onnx", **shape), tmp_path / "small.onnx")
    clf = opened(tmp_path / "small.onnx", words, max_length=24)
    assert "one at a time" in capsys.readouterr().err
    together = clf.logits(TEXTS)
    assert np.array_equal(together, np.concatenate([clf.logits([text]) for text in TEXTS]))
    assert np.ptp(together[:, 0]) > 0.2
    assert Victim(clf).noise == 0  # a batch moves nothing
    assert Victim(opened(tmp_path / "plain.onnx", words)).noise > 0


@pytest.mark.parametrize(
    "names", [("input_ids",), ("input_ids", "token_type_ids"), ("input_ids", "attention_mask", "token_type_ids")]
)
def test_any_subset_of_inputs(names: tuple[str, ...], tmp_path: Path, words: Path) -> None:
    """Without a mask padding would be read: only texts of one length share a batch."""
    clf = opened(onnx_file(tmp_path / "m.onnx", names=names), words)
    assert clf.inputs.names == names
    np.testing.assert_allclose(clf.logits(TEXTS), np.concatenate([clf.logits([text]) for text in TEXTS]), atol=1e-5)
    swapped = clf.logits([("good film", "bad")]) - clf.logits([("bad", "good film")])
    assert (np.abs(swapped).max() > 1e-3) == ("token_type_ids" in names)


def test_what_lies_beside_the_file_is_taken(tmp_path: Path) -> None:
    onnx_file(tmp_path / "model.onnx")
    with refused("onnx.tokenizer"):
        open_onnx(tmp_path)
    foreign_tokenizer().save_pretrained(tmp_path)
    with refused("onnx.labels"):
        open_onnx(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"id2label": {"0": "no", "1": "yes"}, "max_position_embeddings": 40})
    )
    clf = open_onnx(tmp_path)
    assert (clf.labels, clf.max_length, clf.identity) == (("no", "yes"), 40, f"onnx:{tmp_path / 'model.onnx'}")
    assert clf.digest != open_onnx(tmp_path, max_length=20).digest
    assert open_onnx(tmp_path, labels=("no", "yes")).digest == clf.digest
    with refused("classifier.labels"):  # turned round it would be attacked on the wrong labels
        open_onnx(tmp_path, labels=("yes", "no"))
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}))
    assert open_onnx(tmp_path, labels=("yes", "no")).labels == ("yes", "no")


def test_what_does_not_fit_is_refused_when_it_is_opened(tmp_path: Path, words: Path) -> None:
    path = onnx_file(tmp_path / "m.onnx")
    with refused("classifier.labels"):
        open_onnx(path, tokenizer=words, labels=("a", "b", "c"))
    with refused("onnx.inputs"):
        opened(_renamed(tmp_path / "n.onnx"), words)
    with refused("onnx.failed"):
        opened(onnx_file(tmp_path / "short.onnx", positions=30), words)
    assert opened(tmp_path / "short.onnx", words, max_length=30).max_length == 30
    with refused("classifier.max_length"):
        opened(path, words, max_length=2)
    with refused("classifier.no_model"):
        opened(path, words).save_pretrained(tmp_path / "x")


def _renamed(path: Path) -> Path:
    import onnx

    model = onnx.load(onnx_file(path))
    del model.graph.input[1]
    for node in model.graph.node:
        node.input[:] = ["tokens" if name in ("input_ids", "attention_mask") else name for name in node.input]
    model.graph.input[0].name = "tokens"
    onnx.save_model(model, path)
    return path
