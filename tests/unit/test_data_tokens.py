"""Token tables on disk: made once, made anew when damaged, and done without where the disk cannot hold them."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robust_tickets.data import arrow_tables as tokens
from robust_tickets.data.arrow_tables import token_table
from robust_tickets.data.task import Split
from tiny import tiny_config, tiny_tokenizer

PAIRS = [(f"a good film {'very ' * (i % 9)}", "not bad" * (i % 4 + 1)) for i in range(50)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer(tiny_config())


@pytest.fixture(scope="module")
def split() -> Split:
    return Split.of(PAIRS, [0] * len(PAIRS), name="train")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry each time that a table is made."""
    calls: list[int] = []
    make = tokens._make

    def counted(*args: Any) -> Any:
        calls.append(1)
        return make(*args)

    monkeypatch.setattr(tokens, "_make", counted)
    return calls


def test_made_once_and_small(cache: Path, split: Split, tokenizer: Any, made: list[int]) -> None:
    first, second = (token_table(split, tokenizer, 32, True) for _ in range(2))
    assert first is not None
    assert second is not None
    assert len(made) == 1
    assert isinstance(second.tokens, np.memmap)
    assert second.lengths.dtype == np.int32
    assert len(second) == len(split)
    assert second.lengths.sum() == len(second.tokens)
    assert not list(cache.glob(".*"))
    with pytest.raises(ValueError, match="read-only"):
        second.tokens[0] = 1


def test_what_decides_the_tokens_is_in_the_key(cache: Path, split: Split, tokenizer: Any, made: list[int]) -> None:
    other = tiny_tokenizer(tiny_config())
    other.truncation_side = "left"
    more = tiny_tokenizer(tiny_config())
    more.add_tokens(["good"])
    calls = [
        (split, tokenizer, 32, True),
        (split.select(range(49)), tokenizer, 32, True),
        (split, tokenizer, 16, True),
        (split, tokenizer, 32, False),
        (split, other, 32, True),
        (split, more, 32, True),
    ]
    for number, call in enumerate(calls, 1):
        token_table(*call)
        assert len(made) == number


@pytest.mark.parametrize("harm", ["half", "bit", "gone", "report", "nonsense"])
def test_a_damaged_table_is_made_anew(cache: Path, split: Split, tokenizer: Any, made: list[int], harm: str) -> None:
    good = token_table(split, tokenizer, 32, True)
    assert good is not None
    ids, report = next(cache.glob("*.tokens")), next(cache.glob("*.json"))
    before = ids.read_bytes()
    del good
    if harm == "half":
        ids.write_bytes(before[: len(before) // 2])
    elif harm == "bit":
        ids.write_bytes(bytes([before[0] ^ 1]) + before[1:])
    elif harm == "gone":
        ids.unlink()
    else:
        report.write_text("{" if harm == "report" else "[1]")
    assert token_table(split, tokenizer, 32, True, make=False) is None
    again = token_table(split, tokenizer, 32, True)
    assert again is not None
    assert len(made) == 2
    assert again.tokens.tobytes() == before


def test_a_full_disk_stops_nothing(
    cache: Path, split: Split, tokenizer: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = tokens.write_chunks

    def full(path: Path, chunks: Iterable[bytes]) -> Path:
        def filling() -> Iterable[bytes]:
            yield from chunks
            raise OSError(errno.ENOSPC, "No space left on device")

        return write(path, filling() if path.suffix == ".starts" else chunks)

    monkeypatch.setattr(tokens, "write_chunks", full)
    assert token_table(split, tokenizer, 32) is None
    assert "No space left" in capsys.readouterr().err
    assert list(cache.iterdir()) == []  # what was written is not left lying on a full disk


def test_a_stop_leaves_nothing(cache: Path, split: Split, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> Any:
        yield 0, 5
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens, "_groups", stopped)
    with pytest.raises(KeyboardInterrupt):
        token_table(split, tokenizer, 32)
    assert list(cache.iterdir()) == []


def test_ids_that_need_more_than_two_bytes(cache: Path, split: Split) -> None:
    large = tiny_tokenizer(tiny_config())
    large.add_tokens([f"extra{i}" for i in range(2**16)])
    rare = Split.of(["good extra65535 film"], [0])
    table = token_table(rare, large, 32)
    assert table is not None
    assert table.batch(np.array([0]))["input_ids"].tolist() == [large("good extra65535 film")["input_ids"]]
    assert table.tokens.max() >= 2**16


def test_an_empty_split_and_a_tokenizer_without_padding(cache: Path, split: Split, tokenizer: Any) -> None:
    empty = token_table(Split.of([], []), tokenizer, 32, True)
    assert empty is not None
    assert len(empty) == 0
    unpadded = tiny_tokenizer(tiny_config())
    unpadded.pad_token = None
    assert token_table(split, unpadded, 32) is None
