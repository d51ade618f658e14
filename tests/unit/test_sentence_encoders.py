"""Sentence encoders: folders of transformers and sentence-transformers against slow references, the Universal Sentence Encoder's adapter.

Every part of a folder is applied or the folder is refused. TensorFlow has a stand-in everywhere, and toy modules where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from refusing import refused
from robust_tickets.resources import sentence_encoder as module
from robust_tickets.resources.sentence_encoder import (
    POOLINGS,
    SentenceEncoder,
    UniversalEncoder,
    encoder_files,
    load_encoder,
)
from robust_tickets.seeds import numpy_generator

TEXTS = ["a b c", "b", "c c c c c c", "A B"]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*names, *"abc"])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    place = tmp_path_factory.mktemp("plain")
    tokens = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), names, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=raw, **tokens).save_pretrained(place)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(BertConfig(vocab_size=7, max_position_embeddings=24, **sizes)).save_pretrained(place)
    return place


def folder(plain: Path, place: Path, *parts: str, pooling: Any = None, activation: str = "Tanh") -> Path:
    """``plain`` with these parts after it."""
    from safetensors.numpy import save_file

    shutil.copytree(plain, place)
    listed = [{"path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, part in enumerate(parts, start=1):
        inside = place / f"{number}_{part}"
        inside.mkdir()
        listed.append({"path": inside.name, "type": f"sentence_transformers.models.{part}"})
        if part == "Pooling":
            (inside / "config.json").write_text(json.dumps(pooling or {"pooling_mode_mean_tokens": True}))
        if part == "Dense":
            about = {"activation_function": f"torch.nn.modules.activation.{activation}", "out_features": 3}
            (inside / "config.json").write_text(json.dumps(about))
            layer = {"linear.weight": WEIGHT, "linear.bias": np.arange(3, dtype=np.float32)}
            save_file(layer, inside / "model.safetensors")
    (place / "modules.json").write_text(json.dumps(listed))
    return place


WEIGHT = numpy_generator(1, "dense").normal(size=(3, 8)).astype(np.float32)


def states(encoder: Any, text: str) -> np.ndarray:
    """One text, no padding."""
    with torch.inference_mode():
        ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
        return encoder.model(input_ids=ids).last_hidden_state[0].numpy().astype(np.float64)


def unit(rows: Any) -> np.ndarray:
    return np.asarray(rows) / np.linalg.norm(rows, axis=-1, keepdims=True)


@pytest.mark.parametrize("tokens", [1, 20, 4096])
def test_a_plain_folder_is_pooled_by_the_mean(plain: Path, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOKENS", {"cpu": tokens})
    encoder = SentenceEncoder.load(plain)
    found = encoder.encode(TEXTS)
    assert found.dtype == np.float32
    assert np.allclose(found, unit([states(encoder, text).mean(0) for text in TEXTS]), atol=1e-6)
    assert np.array_equal(found, encoder.encode(TEXTS))
    assert np.allclose(encoder.encode(TEXTS[::-1])[::-1], found, atol=1e-6)
    assert (encoder.pooling, encoder.max_length) == (("mean",), 24)
    assert np.isfinite(encoder.encode(["", "word " * 100, "half \ud800 a pair"])).all()


def test_an_encoder_without_its_weights_is_refused(plain: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    shutil.copytree(plain, tmp_path / "x")
    weights = load_file(plain / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1" not in name}
    save_file(kept, tmp_path / "x" / "model.safetensors", metadata={"format": "pt"})
    with refused("encoder.damaged"):
        SentenceEncoder.load(tmp_path / "x")
    with refused("encoder.missing"):
        SentenceEncoder.load(tmp_path / "absent")


POOLED = {
    "cls": lambda s: s[0],
    "max": lambda s: s.max(0),
    "mean": lambda s: s.mean(0),
    "mean_sqrt_len": lambda s: s.sum(0) / np.sqrt(len(s)),
    "weightedmean": lambda s: sum((k + 1) * row for k, row in enumerate(s)) / sum(range(1, len(s) + 1)),
    "lasttoken": lambda s: s[-1],
}


@pytest.mark.parametrize("mode", POOLINGS)
def test_every_pooling_alone_and_beside_another(plain: Path, tmp_path: Path, mode: str) -> None:
    old = {spelt: name for name, spelt in module.SPELLINGS.items()}.get(mode, mode)
    for number, (asked, modes) in enumerate(
        (
            ({f"pooling_mode_{old}": True, "pooling_mode_other": False, "word_embedding_dimension": 8}, [mode]),
            ({"pooling_mode": mode}, [mode]),
            ({f"pooling_mode_{old}": True, "pooling_mode_max_tokens": True}, sorted({mode, "max"}, key=POOLINGS.index)),
        )
    ):
        encoder = SentenceEncoder.load(folder(plain, tmp_path / str(number), "Pooling", pooling=asked))
        expected = [np.concatenate([POOLED[each](states(encoder, text)) for each in modes]) for text in TEXTS]
        assert np.allclose(encoder.encode(TEXTS), unit(expected), atol=1e-6)
    with refused("encoder.modules"):
        SentenceEncoder.load(folder(plain, tmp_path / "odd", "Pooling", pooling={"pooling_mode_odd_tokens": True}))


@pytest.mark.parametrize(
    ("parts", "activation"),
    [(("Dense",), "Tanh"), (("Normalize", "Dense"), "Identity"), (("Dense", "Normalize"), "ReLU")],
)
def test_a_dense_layer_is_applied_in_its_place(
    plain: Path, tmp_path: Path, parts: tuple[str, ...], activation: str
) -> None:
    state = torch.random.get_rng_state()
    encoder = SentenceEncoder.load(folder(plain, tmp_path / "x", "Pooling", *parts, activation=activation))
    assert torch.equal(torch.random.get_rng_state(), state)
    rows = np.array([states(encoder, text).mean(0) for text in TEXTS])
    apply = {"Tanh": np.tanh, "Identity": lambda x: x, "ReLU": lambda x: np.maximum(x, 0)}[activation]
    for part in parts:
        rows = unit(rows) if part == "Normalize" else apply(rows @ WEIGHT.T + np.arange(3))
    assert np.allclose(encoder.encode(TEXTS), unit(rows), atol=1e-5)


def test_what_cannot_be_applied_is_refused(plain: Path, tmp_path: Path) -> None:
    wrong = [("Pooling", "LSTM"), ("LayerNorm", "Pooling"), (), ("Pooling", "Pooling")]
    for number, parts in enumerate(wrong):
        with refused("encoder.modules"):
            SentenceEncoder.load(folder(plain, tmp_path / str(number), *parts))
    with refused("encoder.modules"):
        SentenceEncoder.load(folder(plain, tmp_path / "s", "Pooling", "Dense", activation="Softsign"))
    pickled = folder(plain, tmp_path / "p", "Pooling", "Dense")
    (pickled / "2_Dense" / "model.safetensors").rename(pickled / "2_Dense" / "pytorch_model.bin")
    with refused("model.weights"):
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


def test_an_older_folder_with_the_transformer_inside(plain: Path, tmp_path: Path) -> None:
    place = tmp_path / "old"
    shutil.copytree(plain, place / "0_Transformer")
    (place / "1_Pooling").mkdir()
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    kinds = [("0_Transformer", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (place / "modules.json").write_text(json.dumps(modules))
    encoder = SentenceEncoder.load(place)
    assert np.allclose(encoder.encode(TEXTS), unit([states(encoder, text)[0] for text in TEXTS]), atol=1e-6)
    deciding = {str(file.relative_to(place)) for file in encoder_files(place) or []}
    assert {"modules.json", "1_Pooling/config.json", "0_Transformer/model.safetensors"} <= deciding


# --- the Universal Sentence Encoder

SAID = ["a good film", "", "emoji 🎬 und Umlaute äöü", "a good film", "half \ud800 a pair"]


def saved_model(place: Path) -> Path:
    place.mkdir(parents=True)
    (place / "saved_model.pb").write_bytes(b"graph")
    return place


def rows(texts: list[str]) -> np.ndarray:
    """Any function of the text will do; not of unit length."""
    assert all(isinstance(text, str) for text in texts)
    return np.array([[len(text) + 1.0, text.count("a"), 2.0] for text in texts])


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in: ``made`` is what loading gives."""
    stand_in: Any = ModuleType("tensorflow")
    stand_in.made, stand_in.asked = rows, []

    def load(path: str, tags: list[str] | None = None) -> Any:
        stand_in.asked.append(tags)
        if stand_in.made is None and tags is None:
            raise ValueError("more than one MetaGraph")
        return stand_in.made or rows

    stand_in.saved_model = SimpleNamespace(load=load)
    stand_in.config = SimpleNamespace(set_visible_devices=lambda devices, kind: stand_in.asked.append((devices, kind)))
    stand_in.constant = lambda value: value
    monkeypatch.setitem(sys.modules, "tensorflow", stand_in)
    return stand_in


def check(encoder: Any) -> None:
    found = encoder.encode(SAID)
    assert found.dtype == np.float32
    assert np.allclose(found, unit(rows([module.whole(text) for text in SAID])), atol=1e-6)


class Signature:
    structured_input_signature = ((), {"inputs": None})

    def __call__(self, inputs: list[str]) -> dict[str, np.ndarray]:
        return {"outputs": rows(inputs)}


@pytest.mark.parametrize(
    "made",
    [
        rows,
        lambda texts: {"outputs": rows(texts), "other": None},
        lambda texts: {"default": rows(texts)},
        lambda texts: {"x": rows(texts)},
        None,  # with a graph for training too
        SimpleNamespace(signatures={"serving_default": Signature()}),
    ],
)
def test_modules_of_every_version(tmp_path: Path, tensorflow: Any, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXTS", 2)  # several calls
    tensorflow.made = made
    check(load_encoder(saved_model(tmp_path / "use")))
    assert ([], "GPU") in tensorflow.asked  # the accelerator is the victim's
    assert (tensorflow.asked[-1] == []) == (made is None)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (lambda texts: np.zeros((7, 3)), "encoder.answer"),
        (lambda texts: np.zeros(len(texts)), "encoder.answer"),
        (lambda texts: dict.fromkeys("ab", np.zeros((len(texts), 3))), "encoder.answer"),
        (lambda texts: 1 / 0, "encoder.answer"),
        (SimpleNamespace(signatures={"train": Signature()}), "encoder.damaged"),
    ],
)
def test_what_is_no_module_of_use_is_refused(tmp_path: Path, tensorflow: Any, made: Any, code: str) -> None:
    tensorflow.made = made
    with refused(code):
        UniversalEncoder.load(saved_model(tmp_path / "x"))


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="no TensorFlow")
def test_a_real_module_of_tensorflow_2(tmp_path: Path) -> None:
    import tensorflow as tf

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts: Any) -> Any:
            def count(text: Any) -> Any:
                return tf.size(tf.strings.split(text, "a")) - 1

            long = tf.cast(tf.strings.length(texts, unit="UTF8_CHAR"), tf.float32)
            a = tf.cast(tf.map_fn(count, texts, fn_output_signature=tf.int32), tf.float32)
            return tf.stack([long + 1, a, 2 * tf.ones_like(a)], axis=1)

    made = Module()
    for name, signatures in (("called", None), ("signed", {"serving_default": made.__call__})):
        tf.saved_model.save(made, str(tmp_path / name), signatures=signatures)
        check(UniversalEncoder.load(tmp_path / name))
