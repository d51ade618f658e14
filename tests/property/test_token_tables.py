"""A token table changes no batch: every tensor is what the tokenizer gives on the way; and the best widths are the best of all."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from robust_tickets.data.arrow_tables import _groups, token_table
from robust_tickets.data.batching import GRID, Batches, best, ladder, steps, widths_of
from robust_tickets.data.task import Split
from tiny import tiny_config, tiny_tokenizer

TEXTS = st.text(st.sampled_from("ab ogdfilm.é "), min_size=1, max_size=40)
TOKENIZERS: dict[str, Any] = {}


def tokenizer_of(kind: str, padding: str, truncation: str) -> Any:
    """``odd``: ends in a class token of type 2, and pads with type 3, as XLNet does."""
    if kind not in TOKENIZERS:
        made = TOKENIZERS[kind] = tiny_tokenizer(tiny_config("roberta" if kind == "roberta" else "bert"))
        if kind == "odd":
            made._pad_token_type_id = 3
            made._tokenizer.post_processor = TemplateProcessing(
                single="$A:0 [SEP]:0 [CLS]:2",
                pair="$A:0 [SEP]:0 $B:1 [SEP]:1 [CLS]:2",
                special_tokens=[(name, made.convert_tokens_to_ids(name)) for name in ("[SEP]", "[CLS]")],
            )
    made = TOKENIZERS[kind]
    made.padding_side, made.truncation_side = padding, truncation
    return made


@settings(max_examples=60)
@given(
    rows=st.integers(1, 2).flatmap(lambda n: st.lists(st.tuples(*[TEXTS] * n), min_size=1, max_size=25)),
    kind=st.sampled_from(["bert", "roberta", "odd"]),
    sides=st.tuples(*[st.sampled_from(["left", "right"])] * 2),
    max_length=st.integers(5, 30),
    token_types=st.booleans(),
    order=st.sampled_from(["shuffled", "longest", "file"]),
    batch_size=st.integers(1, 7),
    widths=st.sets(st.integers(1, 40), max_size=4),
    epoch=st.integers(0, 2),
    start=st.integers(0, 2),
)
def test_a_table_changes_nothing(
    rows: list[tuple[str, ...]],
    kind: str,
    sides: tuple[str, str],
    max_length: int,
    token_types: bool,
    order: str,
    batch_size: int,
    widths: set[int],
    epoch: int,
    start: int,
) -> None:
    tokenizer, split = tokenizer_of(kind, *sides), Split.of(rows, [i % 3 for i in range(len(rows))])
    batches = Batches(
        split=split,
        tokenizer=tokenizer,
        batch_size=batch_size,
        max_length=max_length,
        order=order,
        token_types=token_types,
        widths=tuple(sorted(widths)),
    )
    table = token_table(split, tokenizer, max_length, token_types)
    assert table is not None
    read, kept = list(batches.epoch(epoch, start)), list(replace(batches, tokens=table).epoch(epoch, start))
    longest = [max((table.lengths[r]).tolist()) for r in batches.rows(epoch)][start:]
    assert len(read) == len(kept)
    rows_of = iter(list(batches.rows(epoch))[start:])
    for read_batch, kept_batch, most in zip(read, kept, longest, strict=True):
        one, other = read_batch.tensors(), kept_batch.tensors()
        assert list(one) == list(other)
        assert all(one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)
        _is_the_tokenizers_own(one, tokenizer, split, next(rows_of), max_length, most)
        edges = [w for w in widths if w >= most] or [max_length]
        assert one["input_ids"].shape[1] == (min(*edges, max_length) if widths else most)
        assert one["attention_mask"].sum(1).max() == most


def _is_the_tokenizers_own(
    batch: dict[str, torch.Tensor], tokenizer: Any, split: Split, rows: np.ndarray, max_length: int, most: int
) -> None:
    """As transformers pads it, and beyond the longest row as it pads the shorter ones."""
    columns = [[split[int(row)].texts[i] for row in rows] for i in range(len(split.columns))]
    padded = tokenizer(
        *columns, truncation="longest_first", max_length=max_length, padding=True, return_tensors="pt",
        return_attention_mask=True, return_token_type_ids=True,
    )  # fmt: skip
    filling = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    for name in batch.keys() & padded.keys():
        inner, outer = slice(0, most), slice(most, None)
        if tokenizer.padding_side == "left":
            inner, outer = slice(-most, None), slice(0, -most)
        assert torch.equal(batch[name][:, inner], padded[name])
        assert (batch[name][:, outer] == filling.get(name, 0)).all()


@given(lengths=st.lists(st.integers(0, 3_000_000), max_size=40))
def test_groups_are_all_rows_in_order_and_bounded(lengths: list[int]) -> None:
    found = list(_groups(np.array(lengths, dtype=np.int32)))
    assert [i for start, end in found for i in range(start, end)] == list(range(len(lengths)))
    assert all(end - start == 1 or sum(lengths[start:end]) <= 1_000_000 for start, end in found)


BATCHES = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 32)), min_size=1, max_size=30)


def cost(widths: tuple[int, ...], batches: list[tuple[int, int]], price: float) -> float:
    least = sum(rows * min(w for w in ladder(GRID, 90) if w >= most) for most, rows in batches)
    return sum(rows * min(w for w in widths if w >= most) for most, rows in batches) + price * least * len(widths)


@given(batches=BATCHES, most=st.integers(1, 4), price=st.sampled_from([0.0, 0.005, 0.1]))
def test_best_is_the_best_of_all(batches: list[tuple[int, int]], most: int, price: float) -> None:
    longest, grid = max(m for m, _ in batches), ladder(GRID, 90)
    found = best([m for m, _ in batches], [rows for _, rows in batches], 90, most, price)
    assert 1 <= len(found) <= most
    assert list(found) == sorted(set(found))
    assert set(found) <= set(grid)
    subsets = (chosen for n in range(1, most + 1) for chosen in combinations(grid, n) if chosen[-1] >= longest)
    assert cost(found, batches, price) == pytest.approx(min(cost(chosen, batches, price) for chosen in subsets))


@given(longest=st.integers(1, 600))
def test_ladders_end_at_the_longest_and_have_the_steps_said(longest: int) -> None:
    for made, (low, middle) in [(steps(longest), (64, 128)), (ladder(GRID, longest), (128, 256))]:
        assert made[-1] == longest
        assert list(made) == sorted(set(made))
        for below, width in zip((0, *made), made[:-1], strict=False):
            assert width - below == (8 if width <= low else 16 if width <= middle else 32)
        assert longest - (0, *made)[-2] <= (8 if longest <= low else 16 if longest <= middle else 32)


@given(lengths=st.lists(st.integers(3, 200), min_size=1, max_size=200), size=st.integers(1, 9))
def test_every_batch_of_the_order_fits(lengths: list[int], size: int) -> None:
    rows = np.argsort(lengths, kind="stable")
    order = [rows[i : i + size] for i in range(0, len(rows), size)]
    found = widths_of(np.array(lengths, dtype=np.int32), iter(order), 200)
    assert found[-1] >= max(lengths)
    assert found == best([max(lengths[i] for i in batch) for batch in order], [len(batch) for batch in order], 200)


def test_edges() -> None:
    assert best([], [], 64) == widths_of(np.zeros(0), [], 64) == (64,)
    assert best([5, 60], [32, 32], 61) == (8, 61)
    assert best([5, 60], [32, 32], 61, price=0.8) == (61,)
    assert steps(7) == (7,)
