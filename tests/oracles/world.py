"""A tiny model, data and word lists made without the package, so that they stay as they are when it moves.

Weights come from numpy and are named after their parameter: neither torch's initialisation nor the order of modules counts.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import runpy
import string
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [
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
]
OPINIONS = {"negative": ["bad", "awful", "poor"], "positive": ["good", "great", "fine"]}
FILLER = ["the", "a", "film", "movie", "story", "plot", "very", "is", "was"]
SENTENCES = (
    "the film is a warm , funny and quietly moving portrait of two sisters",
    "a dull script and wooden acting sink what could have been a decent thriller",
    "It never quite finds its rhythm, but the performances are lovely.",
    "there is nothing here you have not seen done better , and shorter",
    "An inventive, generous comedy with real affection for its characters!",
    "the ending feels rushed and the jokes are stale long before it comes",
    "beautifully shot and played with great restraint by its young lead",
    "the dialogue is clever , the story is not , and the music is awful",
    "awful",
    "A great movie? No: a good one, which is more than most sequels manage.",
    "I can't say that 90 minutes have ever felt so long or so poor in ideas",
    "fine actors walk through a bad film as if they had somewhere better to be",
)


def numbers(*name: object) -> np.random.Generator:
    """A generator that belongs to ``name``."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(name).encode()).digest()[:8], "big"))


def tokenizer() -> Any:
    """WordPiece over a few words and all ASCII characters."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(WordPiece(vocabulary(), unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **special)


def vocabulary() -> dict[str, int]:
    characters = [c for c in string.ascii_lowercase + string.digits + string.punctuation if c not in WORDS]
    pieces = [f"##{c}" for c in string.ascii_lowercase + string.digits]
    return {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *characters, *pieces])}


def model_folder(folder: Path, kind: str = "BertForSequenceClassification", *, explodes: bool = False) -> Path:
    """A BERT of two layers, four heads and 24 neurons, saved with its tokenizer; labels negative and positive.

    The 4 is a choice: with it the sentences get both labels, none by a wide margin. One that ``explodes`` gives finite logits,
    but its first gradient is not.
    """
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=130,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    model = getattr(transformers, kind)(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            width = 0.4 if "word_embeddings" in name else 0.2
            drawn = width * numbers(name, 4).standard_normal(tuple(parameter.shape))
            last = name in ("classifier.weight", "cls.predictions.transform.LayerNorm.weight")
            drawn = (drawn + ("LayerNorm.weight" in name)) * (1e30 if explodes and last else 1.0)
            parameter.copy_(torch.from_numpy(drawn))
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def data_folder(folder: Path, rows: int = 160) -> Path:
    """train.csv, validation.csv and test.csv of short sentences, one word of which decides the label."""
    for split, count in (("train", rows), ("validation", 12), ("test", 12)):
        draw, lines = numbers(split), []
        for i in range(count):
            label = ("negative", "positive")[i % 2]
            words = [*draw.choice(FILLER, draw.integers(1, 7)), draw.choice(OPINIONS[label]), split[0], str(i)]
            lines.append((" ".join(words), label))
        table(folder / f"{split}.csv", lines)
    return folder


def table(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("text", "label"), *rows])
    return path


def texts(path: Path) -> list[str]:
    with open(path, newline="", encoding="utf-8") as stream:
        return [row["text"] for row in csv.DictReader(stream)]


def judge(texts: Sequence[Any]) -> np.ndarray:
    """A victim without floating point that differs between machines: every word votes with a weight from a coarse grid."""
    rows = []
    for text in texts:
        words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
        votes = sum(hashlib.sha256(word.encode()).digest()[0] % 9 - 4 for word in words) / 8
        rows.append([1 / (1 + math.exp(votes)), 1 / (1 + math.exp(-votes))])
    return np.array(rows)


def tickets(*arguments: str) -> tuple[int, str]:
    """The exit code and the standard output of ``tickets ARGUMENTS``, run in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["tickets", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            runpy.run_module("robust_tickets", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = before
    return code, out.getvalue()


@contextmanager
def one_thread() -> Iterator[None]:
    """How a sum is shared by threads changes its last bits; recorded values are those of one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
