"""Tokenizers: read one that is really there.

transformers makes a tokenizer of a folder without any, with an empty vocabulary: every word becomes unknown and the model still answers.
So files are asked for first, and what comes out is looked at.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from robust_tickets.config import canonical
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.lexicon.pretrained import load_tokenizer, readable

BYTES = (
    "CanineTokenizer",
    "ByT5Tokenizer",
    "PerceiverTokenizer",
)  # these read characters or bytes and have no vocabulary file
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.codes")  # any of these holds one


def has_tokenizer(folder: Path) -> bool:
    if any(path.is_file() for pattern in VOCABULARIES for path in folder.glob(pattern)):
        return True
    settings = folder / "tokenizer_config.json"
    told = read_json(settings) if settings.is_file() else None
    return isinstance(told, dict) and told.get("tokenizer_class") in BYTES


def read_tokenizer(folder: Path, vocabulary: int | None = None) -> Any:
    """The tokenizer in ``folder``; ``vocabulary``: the rows of the model's table, which no id may exceed."""
    hint = "save or copy the tokenizer there too"
    if not has_tokenizer(folder):
        raise TicketsError(f"{folder} has no tokenizer: none of {', '.join(VOCABULARIES)}", hint=hint)
    for pattern in VOCABULARIES:
        for path in folder.glob(pattern):
            readable(path)
    tokenizer = load_tokenizer(folder)
    words = tokenizer.get_vocab() if type(tokenizer).__name__ not in BYTES else None
    if words is None:
        return tokenizer
    if not set(words) - set(tokenizer.all_special_tokens):
        raise TicketsError(f"the tokenizer in {folder} knows no word, only special tokens", hint=hint)
    if vocabulary is not None and max(words.values()) >= vocabulary:
        raise TicketsError(
            f"the tokenizer in {folder} gives ids up to {max(words.values())}, the model has {vocabulary}",
            hint="use the model's own",
        )
    return tokenizer


def settings_of(tokenizer: Any) -> tuple[Any, Any]:
    """How a fast tokenizer cuts and pads; every call of transformers sets it to its own."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return (None, None) if backend is None else (backend.truncation, backend.padding)


def save_tokenizer(tokenizer: Any, folder: Path, max_length: int, settings: tuple[Any, Any]) -> None:
    """Save it with the ``settings`` that it came with, whatever the last call left, and the length at which ``truncation=True`` cuts."""
    backend, (truncation, padding) = getattr(tokenizer, "backend_tokenizer", None), settings
    if backend is not None:
        backend.enable_truncation(**truncation) if truncation else backend.no_truncation()
        backend.enable_padding(**padding) if padding else backend.no_padding()
    tokenizer.model_max_length = max_length
    tokenizer.save_pretrained(folder)


def digest_of(tokenizer: Any) -> str:
    """sha256 of a tokenizer's rules: its fast form's own JSON, else vocabulary, settings and class."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        rules = json.loads(backend.to_str())
        told = {k: v for k, v in rules.items() if k not in ("truncation", "padding")}  # these follow the last call
    else:
        settings = {
            k: str(v) for k, v in tokenizer.init_kwargs.items() if not k.endswith("_file") and k != "name_or_path"
        }  # no paths
        words = [] if type(tokenizer).__name__ in BYTES else sorted(tokenizer.get_vocab().items())
        told = {"class": type(tokenizer).__name__, "words": words, "settings": settings}
    return hashlib.sha256(canonical(told).encode("utf-8", "surrogatepass")).hexdigest()
