"""Folders of sentence-transformers: every part is applied, against a slow reference, or the folder is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.errors import TicketsError
from robust_tickets.resources.sentence_encoder import POOLINGS, SentenceEncoder, encoder_files
from robust_tickets.seeds import numpy_generator

TEXTS = ["a b c", "b", "c c c c c c", "A B"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of one layer with random weights, and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "c": 4}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    place = tmp_path_factory.mktemp("plain")
    PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(place)
    config = BertConfig(
        vocab_size=5,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(place)
    return place


def folder(
    plain: Path, place: Path, *parts: str, pooling: dict[str, Any] | None = None, layer: dict[str, Any] | None = None
) -> Path:
    """``plain`` with these parts after it."""
    from safetensors.numpy import save_file

    shutil.copytree(plain, place)
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, part in enumerate(parts, start=1):
        inside = place / f"{number}_{part}"
        inside.mkdir()
        listed.append(
            {"idx": number, "name": str(number), "path": inside.name, "type": f"sentence_transformers.models.{part}"}
        )
        if part == "Pooling":
            (inside / "config.json").write_text(json.dumps(pooling or {"pooling_mode_mean_tokens": True}))
        if part == "Dense":
            told = {
                "activation_function": "torch.nn.modules.activation.Tanh",
                "in_features": 8,
                "out_features": 3,
                "bias": True,
            }
            (inside / "config.json").write_text(json.dumps({**told, **(layer or {})}))
            weight = numpy_generator(1, "dense").normal(size=(3, 8)).astype(np.float32)
            save_file(
                {"linear.weight": weight, "linear.bias": np.arange(3, dtype=np.float32)}, inside / "model.safetensors"
            )
    (place / "modules.json").write_text(json.dumps(listed))
    return place


def states(encoder: Any, text: str) -> np.ndarray:
    import torch

    with torch.inference_mode():
        ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
        return encoder.model(input_ids=ids).last_hidden_state[0].numpy().astype(np.float64)


POOLED = {
    "cls": lambda s: s[0],
    "max": lambda s: s.max(0),
    "mean": lambda s: s.mean(0),
    "mean_sqrt_len": lambda s: s.sum(0) / np.sqrt(len(s)),
    "weightedmean": lambda s: sum((k + 1) * row for k, row in enumerate(s)) / sum(range(1, len(s) + 1)),
    "lasttoken": lambda s: s[-1],
}


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("mode", POOLINGS)
def test_every_pooling(plain: Path, tmp_path: Path, mode: str) -> None:
    old = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len": "mean_sqrt_len_tokens"}.get(
        mode, mode
    )
    for number, told in enumerate(
        ({f"pooling_mode_{old}": True, "word_embedding_dimension": 8}, {"pooling_mode": mode})
    ):
        encoder = SentenceEncoder.load(folder(plain, tmp_path / str(number), "Pooling", pooling=told))
        assert np.allclose(
            encoder.encode(TEXTS), unit(np.array([POOLED[mode](states(encoder, text)) for text in TEXTS])), atol=1e-6
        )


def test_poolings_side_by_side(plain: Path, tmp_path: Path) -> None:
    told = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True, "pooling_mode_max_tokens": False}
    encoder = SentenceEncoder.load(folder(plain, tmp_path / "x", "Pooling", pooling=told))
    expected = [np.concatenate([s[0], s.mean(0)]) for s in (states(encoder, text) for text in TEXTS)]
    assert np.allclose(encoder.encode(TEXTS), unit(np.array(expected)), atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("parts", "activation"),
    [(("Dense",), "Tanh"), (("Normalize", "Dense"), "Identity"), (("Dense", "Normalize"), "ReLU")],
)
def test_a_dense_layer_is_applied_in_its_place(
    plain: Path, tmp_path: Path, parts: tuple[str, ...], activation: str
) -> None:
    layer = {"activation_function": f"torch.nn.modules.activation.{activation}"}
    encoder = SentenceEncoder.load(folder(plain, tmp_path / "x", "Pooling", *parts, layer=layer))
    rows = np.array([states(encoder, text).mean(0) for text in TEXTS])
    weight = numpy_generator(1, "dense").normal(size=(3, 8)).astype(np.float32)
    for part in parts:
        if part == "Normalize":
            rows = unit(rows)
        else:
            rows = rows @ weight.T + np.arange(3)
            rows = {"Tanh": np.tanh, "Identity": lambda x: x, "ReLU": lambda x: np.maximum(x, 0)}[activation](rows)
    found = encoder.encode(TEXTS)
    assert found.shape == (4, 3)
    assert np.allclose(found, unit(rows), atol=1e-5)
    assert encoder.encode([]).shape == (0, 3)


def test_what_cannot_be_applied_is_refused(plain: Path, tmp_path: Path) -> None:
    for number, (parts, words) in enumerate(
        [
            (("Pooling", "LSTM"), "LSTM"),
            (("LayerNorm", "Pooling"), "LayerNorm"),
            ((), "asks for Transformer"),
            (("Pooling", "Pooling"), "asks for"),
        ]
    ):
        with pytest.raises(TicketsError, match=words):
            SentenceEncoder.load(folder(plain, tmp_path / str(number), *parts))
    with refused("encoder.modules"):
        SentenceEncoder.load(
            folder(plain, tmp_path / "s", "Pooling", "Dense", layer={"activation_function": "torch.nn.Softsign"})
        )
    pickled = folder(plain, tmp_path / "p", "Pooling", "Dense")
    (pickled / "2_Dense" / "model.safetensors").rename(pickled / "2_Dense" / "pytorch_model.bin")
    with refused("encoder.damaged"):
        SentenceEncoder.load(pickled)
    (pickled / "modules.json").write_text('{"a": 1}')
    with refused("encoder.damaged"):
        SentenceEncoder.load(pickled)


def test_lower_case_and_length_of_its_settings(plain: Path, tmp_path: Path) -> None:
    place = folder(plain, tmp_path / "x", "Pooling")
    as_it_is = SentenceEncoder.load(place).encode(["A B"])
    (place / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 3, "do_lower_case": True}))
    encoder = SentenceEncoder.load(place)
    assert encoder.max_length == 3
    assert np.array_equal(encoder.encode(["A B"]), encoder.encode(["a b"]))
    assert not np.allclose(encoder.encode(["A B"]), as_it_is)


def test_all_parts_are_in_the_files_that_decide(plain: Path, tmp_path: Path) -> None:
    place = folder(plain, tmp_path / "x", "Pooling", "Dense")
    names = {str(file.relative_to(place)) for file in encoder_files(place) or []}
    assert {
        "modules.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "model.safetensors",
    } <= names


def test_an_older_folder_with_the_transformer_inside(plain: Path, tmp_path: Path) -> None:
    place = tmp_path / "old"
    shutil.copytree(plain, place / "0_Transformer")
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    kinds = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    (place / "modules.json").write_text(
        json.dumps([{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds])
    )
    encoder = SentenceEncoder.load(place)
    assert np.allclose(encoder.encode(TEXTS), unit(np.array([states(encoder, text)[0] for text in TEXTS])), atol=1e-6)
    assert place / "0_Transformer" / "model.safetensors" in (encoder_files(place) or [])
