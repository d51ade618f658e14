"""Token ids put together from pieces are those of the text read whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from transformers import PreTrainedTokenizerFast

from robust_tickets.classifier.encode import encoded
from robust_tickets.classifier.tokenizer import Splicer

SPOKEN = [
    "the film is good , it's well-made !",
    "ÉCOLE naïve 中文 words",
    "don't stop: 3.5 @home #tag",
    "U.S. (really)",
] * 8


def bert(lower: bool) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    made.normalizer = normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(
        SPOKEN, WordPieceTrainer(vocab_size=150, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    )
    marks = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", mask_token="[MASK]", cls_token="[CLS]"
    )


def byte_level(prefix: bool = False) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        SPOKEN, BpeTrainer(vocab_size=400, initial_alphabet=letters, special_tokens=["<s>", "</s>", "<pad>"])
    )
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    made.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=prefix)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", cls_token="<s>", sep_token="</s>", mask_token="<mask>"
    )


TOKENIZERS = {"lower": bert(True), "cased": bert(False), "bytes": byte_level()}
SPLICERS = {name: Splicer.of(made) for name, made in TOKENIZERS.items()}
pieces = st.sampled_from(
    [
        "good",
        "film",
        "Ünïcode",
        "it's",
        "[MASK]",
        "[MASK].",
        "<mask>",
        "x<mask>",
        "\t",
        "\u00a0",
        "中文",
        "e\u0301",
        "\u0301a",
    ]
)
pieces |= st.sampled_from(
    ["", "!", "...", "\x00", "\u200d", "😀😀", "a\nb", "\n", "[CLS]", "</s>", "123", "x" * 30, "y" * 150]
)
texts = st.lists(pieces | st.text(max_size=8), max_size=14).map(" ".join) | st.text(max_size=60)


def whole(tokenizer: Any, rows: list[tuple[str, ...]], longest: int, types: bool) -> Any:
    return encoded(tokenizer, None, rows, longest, types)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(
    singles=st.lists(texts, max_size=3),
    pairs=st.lists(st.tuples(texts, texts), max_size=3),
    longest=st.integers(5, 40),
    types=st.booleans(),
)
def test_pieces_give_the_ids_of_the_whole(
    name: str, singles: list[str], pairs: list[tuple[str, str]], longest: int, types: bool
) -> None:
    rows: list[tuple[str, ...]] = [(text,) for text in singles] + list(pairs)
    assert SPLICERS[name] is not None
    found = encoded(TOKENIZERS[name], SPLICERS[name], rows, longest, types)
    assert found == whole(TOKENIZERS[name], rows, longest, types)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ordinary_text_is_indeed_put_together(name: str) -> None:
    splicer = SPLICERS[name]
    assert splicer is not None
    assert all(ids is not None for ids in splicer.ids(SPOKEN))
    assert (splicer.ids(["a  b"])[0] is None) == (name == "bytes")  # two spaces belong together there


def test_tokenizers_that_look_across_spaces_are_left_alone() -> None:
    assert Splicer.of(byte_level(prefix=True)) is None  # a first word takes a space it does not have
    sentence_piece = bert(True)
    sentence_piece.backend_tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    assert Splicer.of(sentence_piece) is None
    spaced = bert(True)
    spaced.add_tokens(["good film"])  # a token with a space inside
    assert Splicer.of(spaced) is None
    left = bert(True)
    left.truncation_side = "left"
    assert Splicer.of(left) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from robust_tickets.classifier import tokenizer as splice

    monkeypatch.setattr(splice, "KEPT", 50)
    splicer = Splicer.of(TOKENIZERS["lower"])
    assert splicer is not None
    for start in range(0, 400, 20):
        splicer.ids([" ".join(f"w{i}" for i in range(start, start + 20))])
        assert len(splicer._first) <= 50 + 20
