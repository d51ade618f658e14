"""Classifiers of any family and make: what they are fed, where they are cut, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robust_tickets as rt
from refusing import refused
from victims import FOREIGN, foreign_folder, foreign_tokenizer

TEXTS: list[Any] = [
    "good film",
    "a very long story was not bad at all",
    "zebra 42 !",
    "good " * 300,
    "the plot is fine",
]
SIDES = {"xlnet": "left", "fnet": "equal"}


@pytest.mark.parametrize("family", FOREIGN)
def test_a_batch_answers_like_transformers_alone(family: str, tmp_path: Path) -> None:
    """XLNet reads the last token, so it is padded on the left; FNet mixes padding in, so only equal lengths share a batch."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = foreign_folder(tmp_path, family)
    clf = rt.Classifier.from_pretrained(folder, device="cpu")
    assert (clf.labels, clf.max_length, clf.inputs.side) == (("bad", "good"), 64, SIDES.get(family, "right"))
    model, tokenizer = (
        AutoModelForSequenceClassification.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        alone = [
            model(**tokenizer(text, truncation=True, max_length=64, return_tensors="pt")).logits.numpy()
            for text in TEXTS
        ]
    assert np.ptp(np.concatenate(alone)[:, 0]) > 0.05
    np.testing.assert_allclose(clf.logits(TEXTS), np.concatenate(alone), atol=2e-5)
    assert clf.copy().digest == clf.digest == rt.Classifier.from_pretrained(folder, device="cpu").digest


def test_without_a_padding_token_texts_go_alone(tmp_path: Path) -> None:
    folder = foreign_folder(tmp_path / "a", "gpt2", tokenizer=foreign_tokenizer(pad=False, typed=False))
    clf = rt.Classifier.from_pretrained(folder, device="cpu")
    assert clf.inputs.side == "alone"  # GPT-2 refuses batches then
    np.testing.assert_array_equal(clf.logits(TEXTS), np.concatenate([clf.logits([text]) for text in TEXTS]))
    padded = rt.Classifier.from_pretrained(foreign_folder(tmp_path / "b", "gpt2"), device="cpu")
    np.testing.assert_allclose(padded.logits(TEXTS), clf.logits(TEXTS), atol=1e-5)


def test_texts_are_cut_where_the_tokenizer_says_at_most_512(tmp_path: Path) -> None:
    def cut(said: int | None, **extra: Any) -> int | None:
        tokenizer = foreign_tokenizer()
        tokenizer.model_max_length = said or int(1e30)
        place = tmp_path / f"{said}{sorted(extra)}"
        return rt.Classifier.from_pretrained(foreign_folder(place, tokenizer=tokenizer, **extra), device="cpu").cut_at

    assert cut(20) == 20
    assert cut(None) == 64  # its positions
    assert cut(None, max_position_embeddings=2048) == 512
    folder = foreign_folder(tmp_path / "long", "longformer")
    assert (
        rt.Classifier.from_pretrained(folder, max_length=65, device="cpu").max_length == 65
    )  # 66 rows, the first is of padding
    with refused("classifier.max_length"):
        rt.Classifier.from_pretrained(folder, max_length=66, device="cpu")
    assert (
        rt.load_classifier(folder, labels=["bad", "good"], device="cpu").max_length == 65
    )  # for training: 128, where there is room


def test_half_precision_and_shards_load_as_float32(tmp_path: Path) -> None:
    folder = foreign_folder(tmp_path, "distilbert", dtype=torch.bfloat16)
    assert len(list(folder.glob("*.safetensors"))) > 1
    clf = rt.Classifier.from_pretrained(folder, device="cpu")
    assert {p.dtype for p in clf.model.parameters()} == {torch.float32}
    assert np.isfinite(clf.logits(TEXTS)).all()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"num_labels": 1, "id2label": {"0": "score"}}, "classifier.head"),
        ({"problem_type": "regression"}, "classifier.head"),
        ({"problem_type": "multi_label_classification"}, "classifier.head"),
        (
            {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}},
            "model.config",
        ),
        ({"model_type": "vit"}, "model.family"),
    ],
)
def test_what_is_no_classifier_is_refused(settings: dict[str, Any], code: str, tmp_path: Path) -> None:
    folder = foreign_folder(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    with refused(code):
        rt.Classifier.from_pretrained(folder)


def test_pickled_weights_are_refused_with_the_way_to_convert_them(tmp_path: Path) -> None:
    folder = foreign_folder(tmp_path)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with refused("model.weights"):
        rt.Classifier.from_pretrained(folder)


def test_training_and_pruning_still_ask_for_a_layout(tmp_path: Path) -> None:
    folder = foreign_folder(tmp_path)
    with refused("backbone.refused"):
        rt.load_classifier(folder, labels=["x", "y"])  # a new head
    clf = rt.load_classifier(folder, labels=["good", "bad"], device="cpu")  # its own head, turned
    np.testing.assert_allclose(
        clf.logits(TEXTS)[:, ::-1], rt.Classifier.from_pretrained(folder, device="cpu").logits(TEXTS), atol=1e-6
    )
    with refused("backbone.refused"):
        rt.Ticket.from_kept(clf, heads=[[0]], neurons=[[0]])


def test_tokenizers_without_a_vocabulary_file_and_slow_ones(tmp_path: Path) -> None:
    from transformers import CanineConfig, CanineForSequenceClassification, CanineTokenizer, CTRLTokenizer

    config = CanineConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=24, max_position_embeddings=64,
                          local_transformer_stride=8)  # fmt: skip
    CanineForSequenceClassification(config).save_pretrained(tmp_path / "c")
    CanineTokenizer(model_max_length=64).save_pretrained(tmp_path / "c")
    clf = rt.Classifier.from_pretrained(tmp_path / "c", device="cpu")
    assert clf.logits(TEXTS).shape == (5, 2)
    (tmp_path / "vocab.json").write_text(json.dumps({"<unk>": 0, "go": 1, "od</w>": 2, "g": 3, "o": 4, "d</w>": 5}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\ng o\n")
    slow = CTRLTokenizer(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"), unk_token="<unk>", model_max_length=32
    )
    clf = rt.Classifier.from_pretrained(foreign_folder(tmp_path / "s", "gpt2", tokenizer=slow), device="cpu")
    assert clf.max_length == 32
    assert clf.logits(["good", "good good"]).shape == (2, 2)
    with refused("text.no_token"):
        clf.logits([""])
