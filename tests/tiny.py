"""Tiny random models of every registered family, with a tokenizer that reads any text: fast enough for property tests."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from robust_tickets.classifier import Classifier
from robust_tickets.seeds import derive

WORDS = ("a", "an", "the", "is", "was", "good", "great", "fine", "bad", "awful", "poor", "film", "movie", "story", "plot", "very", "not")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_config(family: str = "bert", *, layers: int = 3, heads: int = 4, hidden: int = 32, neurons: int = 24, **extra: Any) -> Any:
    """A config of ``family``, found through transformers, so that a new backbone needs nothing here."""
    from transformers import AutoConfig

    pad = AutoConfig.for_model(family).pad_token_id or 0
    settings = {
        "vocab_size": len(_vocabulary(pad)),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": neurons,
        "max_position_embeddings": 66,
        "pad_token_id": pad,
        "initializer_range": 0.2,  # wide, so that every head and neuron matters and no test passes by being near zero
    }
    return AutoConfig.for_model(family, **{**settings, **extra})


def tiny_model(family: str = "bert", auto: str = "AutoModelForSequenceClassification", *, seed: int = 0, **settings: Any) -> Any:
    """A random model in eval mode; every parameter is drawn, biases and norms too. The global random state stays as it was."""
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "tiny", family, auto))
        model = getattr(transformers, auto).from_config(tiny_config(family, **settings))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape))
    return model.eval()


def tiny_tokenizer(config: Any) -> Any:
    """WordPiece over a few words and all ASCII characters, with the padding id that the family expects."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: i for i, word in enumerate(_vocabulary(config.pad_token_id))}
    backend = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    typed = getattr(config, "type_vocab_size", 0) > 1
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
        model_input_names=["input_ids", *(["token_type_ids"] if typed else []), "attention_mask"],
    )


def tiny_classifier(
    family: str = "bert",
    labels: Sequence[str] = ("a", "b"),
    seed: int = 0,
    *,
    layers: int = 3,
    heads: int = 4,
    hidden: int = 32,
    neurons: int = 24,
    max_length: int = 32,
    columns: Sequence[str] = ("text",),
    **extra: Any,
) -> Classifier:
    """A random classifier, the same for the same arguments."""
    model = tiny_model(family, seed=seed, layers=layers, heads=heads, hidden=hidden, neurons=neurons, num_labels=len(labels), **extra)
    tokenizer = tiny_tokenizer(model.config)
    return Classifier(model=model, tokenizer=tokenizer, labels=labels, max_length=max_length, identity=f"tiny-{family}", columns=columns)


def _vocabulary(pad: int) -> list[str]:
    characters = [c for c in string.ascii_lowercase + string.digits + string.punctuation if c not in WORDS]
    words = [*SPECIAL[1:], *WORDS, *characters, *(f"##{c}" for c in string.ascii_lowercase + string.digits)]
    return [*words[:pad], SPECIAL[0], *words[pad:]]


def save_encoder(folder: Path, family: str = "bert", *, drop: tuple[str, ...] = (), dtype: torch.dtype = torch.float32) -> Path:
    """A checkpoint of the bare encoder, without a head; ``drop`` leaves weights out."""
    model = tiny_model(family, "AutoModel").to(dtype)
    model.save_pretrained(folder, state_dict={k: v for k, v in model.state_dict().items() if not k.startswith(drop or ("\0",))})
    tiny_tokenizer(model.config).save_pretrained(folder)
    return folder
