"""Tokenizers: loading, digests, and token ids assembled from pieces between spaces.

transformers makes a tokenizer of a folder without any, with an empty vocabulary: every word becomes unknown and the model still answers.
So the files must be there, and the vocabulary is checked.

An attack asks about thousands of texts that differ in one word. Two kinds of tokenizers never look across a space: BERT's, which drops it,
and the byte-level ones (RoBERTa, GPT-2, ModernBERT), which give it to the word that follows. For these, pieces are tokenised once, kept, and
joined; all other tokenizers, and texts of theirs with unusual white space, are read whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.classifier.pretrained import load_tokenizer
from robust_tickets.config import canonical
from robust_tickets.errors import DamagedError, TicketsError, tokenising
from robust_tickets.files import mapping, read_json

# these read characters or bytes, without a vocabulary file
BYTES = ("CanineTokenizer", "ByT5Tokenizer", "PerceiverTokenizer")
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.codes")  # any of these holds one
SCHEMA = 1  # of what lies beside a model and transformers does not save
LONGEST_TEXT = 512  # tokens of a text where nothing else is given


def has_tokenizer(folder: Path) -> bool:
    if any(path.is_file() for pattern in VOCABULARIES for path in folder.glob(pattern)):
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and mapping(read_json(settings)).get("tokenizer_class") in BYTES


def read_tokenizer(folder: Path, vocabulary: int | None = None) -> Any:
    """The tokenizer in ``folder``; ``vocabulary``: the rows of the model's table, which no id may exceed."""
    problem, tokenizer = f"has no tokenizer: none of {', '.join(VOCABULARIES)}", None
    if has_tokenizer(folder):
        tokenizer = load_tokenizer(folder)
        if type(tokenizer).__name__ in BYTES:
            return tokenizer
        words = tokenizer.get_vocab()
        problem = ""
        if not set(words) - set(tokenizer.all_special_tokens):
            problem = "has a tokenizer that knows no word, only special tokens"
        elif vocabulary is not None and (largest := max(words.values())) >= vocabulary:
            problem = f"has a tokenizer that gives ids up to {largest}, the model has {vocabulary}"
    if problem:
        hint = "save or copy the model's own tokenizer there too"
        raise TicketsError(f"{folder} {problem}", hint=hint, code="model.tokenizer")
    return tokenizer


def own_length(tokenizer: Any, positions: int | None) -> int:
    """Tokens at which a model that was not made here is cut: what its tokenizer says, at most 512 and what it has positions for."""
    own = getattr(tokenizer, "model_max_length", LONGEST_TEXT)  # transformers writes 1e30 where it is unknown
    return int(min(own or LONGEST_TEXT, positions or LONGEST_TEXT, LONGEST_TEXT))


def read_about(path: Path) -> dict[str, Any]:
    """What ``tickets.json`` beside a model or ``labels.json`` beside a graph says; nothing where it is not there."""
    about = mapping(read_json(path)) if path.is_file() else {}
    if path.is_file() and about.get("schema") != SCHEMA:
        message = f"{path} has schema {about.get('schema')!r}, this version reads {SCHEMA}"
        raise TicketsError(message, hint="update the package, or save the model again", code="file.schema")
    try:
        read = {"max_length": int(about["max_length"]), "columns": tuple(map(str, about["columns"]))} if about else {}
    except (KeyError, TypeError, ValueError):
        raise DamagedError(f"{path} is damaged", hint="save the model again", code="file.damaged") from None
    return {**about, **read}


@tokenising()
def tokenised(
    tokenizer: Any, columns: Sequence[Sequence[str]], max_length: int, token_types: bool = False
) -> tuple[list[list[int]], list[list[int]] | None]:
    """Ids and, where they are asked for, types of the tokens of texts (of pairs in two ``columns``), special ones included."""
    found = tokenizer(
        *columns,
        truncation="longest_first",
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=token_types,
    )
    return found["input_ids"], found["token_type_ids"] if token_types else None


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
        content = {k: v for k, v in rules.items() if k not in ("truncation", "padding")}  # these follow the last call
    else:
        kept = {k: v for k, v in tokenizer.init_kwargs.items() if not k.endswith("_file") and k != "name_or_path"}
        settings = {k: str(v) for k, v in kept.items()}  # no paths
        words = [] if type(tokenizer).__name__ in BYTES else sorted(tokenizer.get_vocab().items())
        content = {"class": type(tokenizer).__name__, "words": words, "settings": settings}
    return hashlib.sha256(canonical(content).encode("utf-8", "surrogatepass")).hexdigest()


KEPT = 100_000  # pieces remembered, about 20 MB
LONGEST = 100  # characters; a longer piece is not worth remembering
SAFE_NORMALIZERS = {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents"}


class Frame(NamedTuple):
    """The special tokens around one text, or around and between two, and the token types of all parts."""

    tokens: tuple[bytes, ...]  # before, (between,) after
    types: tuple[tuple[int, ...], ...]  # of the same
    inner: tuple[int, ...]  # token type of each text


class Splicer:
    """``ids(texts)`` gives the ids of each text as int32 bytes, without special tokens; None where it must be read whole."""

    def __init__(self, backend: Any, spaced: bool) -> None:
        self.backend, self.spaced = backend, spaced
        self._first: dict[str, bytes | None] = {}
        self._rest: dict[str, bytes | None] = {} if spaced else self._first
        self.frames = tuple(_frame(backend, texts) for texts in (("a",), ("a", "b")))

    @classmethod
    def of(cls, tokenizer: Any) -> Splicer | None:
        """A splicer for a tokenizer of one of the two kinds; none for any other."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        left = getattr(tokenizer, "truncation_side", "right") != "right"
        if backend is None or left or getattr(tokenizer, "split_special_tokens", False):
            return None
        spaced = _kind(json.loads(backend.to_str()))
        if spaced is None:
            return None
        own = type(backend).from_str(backend.to_str())  # truncation and padding of the given one follow its last call
        own.no_truncation()
        own.no_padding()
        found = cls(own, spaced)
        return found if all(frame is not None for frame in found.frames) else None

    def ids(self, texts: Sequence[str]) -> list[bytes | None]:
        cut = [text.split(" ") for text in texts]
        if len(self._first) + len(self._rest) > KEPT:
            self._first.clear()
            self._rest.clear()
        self._learn(self._first, {pieces[0] for pieces in cut}, "")
        self._learn(self._rest, set().union(*(pieces[1:] for pieces in cut)), " " if self.spaced else "")
        return [self._joined(pieces) for pieces in cut]

    def _joined(self, pieces: list[str]) -> bytes | None:
        try:
            if not self.spaced:
                return b"".join(map(self._first.__getitem__, pieces))  # type: ignore[arg-type]
            return b"".join([self._first[pieces[0]], *map(self._rest.__getitem__, pieces[1:])])  # type: ignore[list-item]
        # a piece too long to be remembered, or one that must be read with its surroundings
        except (KeyError, TypeError):
            return None

    def _learn(self, known: dict[str, bytes | None], pieces: set[str], before: str) -> None:
        read = []
        for piece in pieces - known.keys():
            if self.spaced and (not piece or any(map(str.isspace, piece))):
                known[piece] = None
            elif len(piece) <= LONGEST:
                read.append(piece)
        texts = [before + piece for piece in read]
        encodings = self.backend.encode_batch(texts, add_special_tokens=False) if read else []
        known.update((piece, packed(encoding.ids)) for piece, encoding in zip(read, encodings, strict=True))


def packed(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype="<i4").tobytes()


def _kind(rules: dict[str, Any]) -> bool | None:
    """Whether a piece takes the space before it along (byte-level), or spaces are dropped (BERT); None for other tokenizers."""
    cutter, model = rules.get("pre_tokenizer") or {}, rules.get("model") or {}
    normalizer = rules.get("normalizer")
    steps = normalizer.get("normalizers", [normalizer]) if normalizer else []
    if any(step.get("type") not in SAFE_NORMALIZERS for step in steps) or model.get("dropout"):
        return None
    added = rules.get("added_tokens", [])
    if any(any(map(str.isspace, token["content"])) for token in added):
        return None
    if cutter.get("type") == "BertPreTokenizer":
        return False
    plain = cutter.get("type") == "ByteLevel" and not cutter.get("add_prefix_space") and cutter.get("use_regex", True)
    takes_space = any(token.get("rstrip") for token in added)  # of the next piece
    return True if plain and not takes_space else None


def _frame(backend: Any, texts: tuple[str, ...]) -> Frame | None:
    """What the tokenizer puts around ``texts``, seen on one-letter texts; none where it does anything else."""
    bare = [backend.encode(text, add_special_tokens=False).ids for text in texts]
    whole = backend.encode(*texts)
    marks, types, inner, at = [], [], [], 0
    for ids in bare:
        starts = [i for i in range(at, len(whole.ids)) if whole.ids[i : i + len(ids)] == ids]
        if not ids or not starts:
            return None
        marks.append(packed(whole.ids[at : starts[0]]))
        types.append(tuple(whole.type_ids[at : starts[0]]))
        inner.append(whole.type_ids[starts[0]])
        at = starts[0] + len(ids)
    return Frame((*marks, packed(whole.ids[at:])), (*types, tuple(whole.type_ids[at:])), tuple(inner))
