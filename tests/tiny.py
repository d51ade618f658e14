"""Tiny random models of every registered family, with a tokenizer that reads any text: fast enough for property tests."""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from robust_tickets.classifier import ModelClassifier
from robust_tickets.registry import BACKBONES
from robust_tickets.seeds import derive

WORDS = (
    "a",
    "an",
    "the",
    "is",
    "was",
    "good",
    "great",
    "fine",
    "bad",
    "awful",
    "poor",
    "film",
    "movie",
    "story",
    "plot",
    "very",
    "not",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


# What makes a family tiny beyond the settings that all of them share, so that everything special in it is exercised.
RELATIVE = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "max_relative_positions": -1,
    "position_buckets": 8,  # fewer than the positions: the logarithmic buckets are reached
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}
SPECIAL_SETTINGS: dict[str, dict[str, Any]] = {
    "electra": {"embedding_size": 20},  # narrower than the layers, as in ELECTRA-small
    "deberta_v2": {**RELATIVE, "share_att_key": True},  # v3
    "modernbert": {  # its own ids lie beyond a tiny vocabulary; windows of 4 on either side, in every second layer
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "cls_token_id": 2,
        "sep_token_id": 3,
        "local_attention": 8,
        "global_attn_every_n_layers": 2,
    },
}
# Other settings of a family that change its modules; "family:variant" is understood wherever a family is.
VARIANTS: dict[str, dict[str, Any]] = {
    "deberta_v2:separate": {"share_att_key": False, "conv_kernel_size": 3, "conv_act": "gelu", "type_vocab_size": 2},
    "deberta_v2:absolute": {"relative_attention": False, "position_biased_input": True, "pos_att_type": None},
    "modernbert:biases": {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_pooling": "mean"},
}


def tiny_config(
    family: str = "bert", *, layers: int = 3, heads: int = 4, hidden: int = 32, neurons: int = 24, **extra: Any
) -> Any:
    """A config of ``family`` (a backbone's name, perhaps with a variant), found through transformers and its layout."""
    from transformers import AutoConfig

    name = family.partition(":")[0]
    layout = BACKBONES.get(name.replace("-", "_"))
    special = {**SPECIAL_SETTINGS.get(name, {}), **VARIANTS.get(family, {})}
    pad = special.get("pad_token_id", AutoConfig.for_model(layout.family).pad_token_id or 0)
    settings = {
        "vocab_size": len(_vocabulary(pad)),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        layout.neurons_setting: neurons,
        "max_position_embeddings": 66,
        "pad_token_id": pad,
        "initializer_range": 0.2,  # wide, so that every head and neuron matters and no test passes by being near zero
    }
    return AutoConfig.for_model(layout.family, **{**settings, **special, **extra})


def tiny_model(
    family: str = "bert", auto: str = "AutoModelForSequenceClassification", *, seed: int = 0, **settings: Any
) -> Any:
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
) -> ModelClassifier:
    """A random classifier, the same for the same arguments."""
    model = tiny_model(
        family, seed=seed, layers=layers, heads=heads, hidden=hidden, neurons=neurons, num_labels=len(labels), **extra
    )
    tokenizer = tiny_tokenizer(model.config)
    return ModelClassifier(
        model=model,
        tokenizer=tokenizer,
        labels=labels,
        max_length=max_length,
        identity=f"tiny-{family}",
        columns=columns,
    )


def _vocabulary(pad: int) -> list[str]:
    characters = [c for c in string.ascii_lowercase + string.digits + string.punctuation if c not in WORDS]
    words = [*SPECIAL[1:], *WORDS, *characters, *(f"##{c}" for c in string.ascii_lowercase + string.digits)]
    return [*words[:pad], SPECIAL[0], *words[pad:]]


def save_encoder(
    folder: Path, family: str = "bert", *, drop: tuple[str, ...] = (), dtype: torch.dtype = torch.float32
) -> Path:
    """A checkpoint of the bare encoder, without a head; ``drop`` leaves weights out."""
    model = tiny_model(family, "AutoModel").to(dtype)
    model.save_pretrained(
        folder, state_dict={k: v for k, v in model.state_dict().items() if not k.startswith(drop or ("\0",))}
    )
    tiny_tokenizer(model.config).save_pretrained(folder)
    return folder
