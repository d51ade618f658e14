"""The tagger and the sentence encoder: against NLTK itself, and against pooling done slowly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from refusing import refused
from robust_tickets.resources import sentence_encoder as module
from robust_tickets.resources.sentence_encoder import SentenceEncoder
from robust_tickets.resources.tagger import MODEL, Tagger

SENTENCES = [
    "A gripping , beautifully made film",
    "the actors run quickly",
    "Stocks fell 3 % on Monday",
    "what's not to like",
    "un1x !",
]


def tiny_tagger(root: Path) -> Path:
    """Two tags, decided by the last letters of a word; "the" has a fixed one."""
    folder = root / "taggers" / MODEL
    folder.mkdir(parents=True)
    weights = {"i suffix ing": {"VBG": 2.0}, "bias": {"NN": 1.0}, "i word odd": {"??": 5.0}}
    for part, value in (("weights", weights), ("tagdict", {"the": "DT"}), ("classes", ["??", "DT", "NN", "VBG"])):
        (folder / f"{MODEL}.{part}.json").write_text(json.dumps(value))
    (root / "taggers" / "universal_tagset").mkdir()
    (root / "taggers" / "universal_tagset" / "en-ptb.map").write_text("DT\tDET\nNN\tNOUN\nVBG\tVERB\n")
    return root


def test_tags_of_a_tiny_tagger(tmp_path: Path) -> None:
    tagger = Tagger.load(tiny_tagger(tmp_path))
    assert tagger.tags(["the", "odd", "walking", "film"]) == ["DET", "X", "VERB", "NOUN"]
    assert tagger.tags([]) == []


def test_damaged_taggers_say_so(tmp_path: Path) -> None:
    with refused("tagger.missing"):
        Tagger.load(tmp_path)
    root = tiny_tagger(tmp_path / "a")
    (root / "taggers" / "universal_tagset" / "en-ptb.map").write_text("DT\n")
    with refused("tagger.damaged"):
        Tagger.load(root)
    root = tiny_tagger(tmp_path / "b")
    (root / "taggers" / MODEL / f"{MODEL}.weights.json").write_text("[]")
    with refused("tagger.damaged"):
        Tagger.load(root)


@pytest.mark.shared
def test_equals_nltk_on_the_real_tagger(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shared / "resources" / "nltk_data"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    nltk = pytest.importorskip("nltk")
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    tagger = Tagger.load(folder)
    for sentence in SENTENCES:
        words = sentence.split()
        assert tagger.tags(words) == [tag for _, tag in nltk.pos_tag(words, tagset="universal")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and a tokenizer of whole words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    place = tmp_path_factory.mktemp("encoder")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    tokenizer.save_pretrained(place)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(place)
    return place


def slow(encoder: SentenceEncoder, text: str) -> np.ndarray:
    """One text, no padding, the mean by hand."""
    import torch

    with torch.inference_mode():
        ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
        states = encoder.model(input_ids=ids).last_hidden_state[0].numpy().astype(np.float64)
    pooled = states[0] if encoder.pooling == ("cls",) else sum(states) / len(states)
    return pooled / np.sqrt((pooled**2).sum())


@pytest.mark.parametrize("tokens", [1, 20, 4096])
def test_encoder_equals_the_slow_reference(folder: Path, tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOKENS", {"cpu": tokens})
    encoder = SentenceEncoder.load(folder, name="tiny")
    found = encoder.encode(SENTENCES)
    assert found.dtype == np.float32
    assert np.allclose(found, [slow(encoder, text) for text in SENTENCES], atol=1e-6)
    assert np.array_equal(found, encoder.encode(SENTENCES))
    assert np.allclose(encoder.encode(SENTENCES[::-1])[::-1], found, atol=1e-6)
    assert encoder.encode([]).shape == (0, 16)
    assert (encoder.name, encoder.pooling, encoder.max_length) == ("tiny", ("mean",), 24)
    assert np.isfinite(encoder.encode(["", "word " * 100])).all()


def test_pooling_file_is_obeyed(folder: Path) -> None:
    place = folder / "1_Pooling"
    place.mkdir()
    try:
        (place / "config.json").write_text(
            json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
        )
        encoder = SentenceEncoder.load(folder)
        assert encoder.pooling == ("cls",)
        assert np.allclose(encoder.encode(SENTENCES[:2]), [slow(encoder, text) for text in SENTENCES[:2]], atol=1e-6)
        (place / "config.json").write_text(json.dumps({"pooling_mode_odd_tokens": True}))
        with refused("encoder.modules"):
            SentenceEncoder.load(folder)
    finally:
        (place / "config.json").unlink()
        place.rmdir()


def test_an_encoder_without_its_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    for file in folder.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "layer.1" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with refused("encoder.damaged"):
        SentenceEncoder.load(tmp_path)
    with refused("encoder.missing"):
        SentenceEncoder.load(tmp_path / "absent")
