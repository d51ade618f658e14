"""Tiny BERTs for the comparison, made from a seed: a masked language model for BERT-Attack and victims with gradients for A2T.

Weights come from numpy and go into whatever transformers is at hand, so that both sides have the same model under different versions.
Words are one or two pieces of WordPiece; what is no plain word falls apart into letters, and what is not ASCII is unknown.
"""

from __future__ import annotations

import hashlib
import string
from typing import Any

import numpy as np
from made import generator, number, vocabulary
from made_texts import SMALL

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = ["##s", "##ed", "##ing", "##ly", "##or", "##an", "##et", "##er"]
LONGEST = 512  # tokens
SIZE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": LONGEST,
}


def tokens() -> list[str]:
    """Two words in three are whole; of the others the first half is a token, so that they are two pieces."""
    whole, halves = [], []
    for word in [*vocabulary(), *SMALL]:
        if len(word) < 4 or number("whole", word) % 3:
            whole.append(word)
        else:
            halves += [word[: len(word) // 2], "##" + word[len(word) // 2 :]]
    letters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    return list(
        dict.fromkeys([*SPECIAL, *letters, *(f"##{letter}" for letter in letters[:36]), *PIECES, *whole, *halves])
    )


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    table = {token: i for i, token in enumerate(tokens())}
    inner = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", table["[CLS]"]), ("[SEP]", table["[SEP]"])],
    )
    named = {f"{token[1:-1].lower()}_token": token for token in SPECIAL}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=LONGEST, model_input_names=inputs, **named)


def masked_model() -> Any:
    from transformers import BertForMaskedLM

    return _filled(BertForMaskedLM(_config()), "masked")


def victim(classes: int) -> Any:
    """A classifier whose answers vary: its weights are large, so that words matter."""
    from transformers import BertForSequenceClassification

    return _filled(BertForSequenceClassification(_config(num_labels=classes)), f"victim{classes}")


def _config(**more: Any) -> Any:
    from transformers import BertConfig

    settings: dict[str, Any] = {
        "vocab_size": len(tokens()),
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        **SIZE,
        **more,
    }
    return BertConfig(pad_token_id=0, **settings)


def _filled(model: Any, name: str) -> Any:
    """Every parameter from a generator of its own name; scales and shifts of layer norms stay as they are."""
    import torch

    with torch.no_grad():
        for key, value in sorted(model.named_parameters()):
            if "LayerNorm" in key:
                continue
            wide = 1.0 if "word_embeddings" in key or "classifier" in key else 0.25
            drawn = generator(name, key).normal(size=tuple(value.shape)) * wide
            value.copy_(torch.from_numpy(drawn.astype(np.float32)))
    model.tie_weights()
    return model.eval()


def digest() -> str:
    """SHA-256 over the tokens and a sample of every model's weights."""
    total = hashlib.sha256(repr(tokens()).encode())
    for model in (masked_model(), victim(2), victim(3)):
        for key, value in sorted(model.named_parameters()):
            total.update(repr((key, value.detach().numpy().ravel()[:50].astype(np.float64).round(4).tolist())).encode())
    return total.hexdigest()
