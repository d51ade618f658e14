"""Batches: tokenised pairs, truncation, order, and memory that does not grow with the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from robust_tickets.data.batching import Batches
from robust_tickets.data.task import Split

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [f"w{i}" for i in range(50)]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({w: i for i, w in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def texts(n: int, seed: int = 0) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, generator.integers(1, 12))) for _ in range(n)]


def test_a_batch_is_what_the_tokenizer_says(tokenizer: PreTrainedTokenizerFast) -> None:
    split = Split.of(texts(37), [i % 3 for i in range(37)])
    batches = Batches(split=split, tokenizer=tokenizer, batch_size=8, max_length=6, seed=3)
    assert len(batches) == 5
    for rows, batch in zip(batches.rows(2), batches.epoch(2), strict=True):
        assert set(batch.inputs) == {"input_ids", "attention_mask"}
        assert batch.index.tolist() == rows.tolist()
        assert batch.labels.tolist() == split.labels[rows].tolist()
        assert batch.labels.dtype == torch.long
        for row, ids, mask in zip(rows, batch.inputs["input_ids"], batch.inputs["attention_mask"], strict=True):
            expected = tokenizer(split[int(row)].texts[0], truncation=True, max_length=6)["input_ids"]
            assert ids[mask.bool()].tolist() == expected
            assert (ids[~mask.bool()] == tokenizer.pad_token_id).all()
        assert batch.inputs["attention_mask"].sum(1).max() == batch.inputs["input_ids"].shape[1]


def test_pairs_have_token_types_only_if_the_model_takes_them(tokenizer: PreTrainedTokenizerFast) -> None:
    pairs = list(zip(texts(20), texts(20, 1), strict=True))
    split = Split.of(pairs, [0] * 20)
    (batch,) = Batches(
        split=split, tokenizer=tokenizer, batch_size=20, max_length=32, token_types=True, order="longest"
    ).epoch()
    for row, ids, kinds in zip(
        batch.index.tolist(), batch.inputs["input_ids"], batch.inputs["token_type_ids"], strict=True
    ):
        first, second = (len(t.split()) for t in pairs[row])
        assert kinds.sum() == second + 1
        assert ids.ne(0).sum() == first + second + 3
    (batch,) = Batches(split=split, tokenizer=tokenizer, batch_size=20, max_length=32).epoch()
    assert "token_type_ids" not in batch.inputs


def test_without_shuffle_longest_first_and_order_can_be_restored(tokenizer: PreTrainedTokenizerFast) -> None:
    split = Split.of(texts(50), list(range(50)))
    batches = list(Batches(split=split, tokenizer=tokenizer, batch_size=7, max_length=32, order="longest").epoch())
    index = torch.cat([b.index for b in batches])
    assert torch.cat([b.labels for b in batches]).tolist() == index.tolist()
    assert sorted(index.tolist()) == list(range(50))
    assert (np.diff(split.lengths[index.numpy()]) <= 0).all()


def test_buckets_save_padding(tokenizer: PreTrainedTokenizerFast) -> None:
    split = Split.of(texts(2000), [0] * 2000)
    batches = list(Batches(split=split, tokenizer=tokenizer, batch_size=16, max_length=32).epoch(0))
    filled = sum(int(b.inputs["attention_mask"].sum()) for b in batches) / sum(
        b.inputs["attention_mask"].numel() for b in batches
    )
    assert filled > 0.95  # one random order fills about 0.65


def test_a_large_file_does_not_load_into_memory(tmp_path: Path) -> None:
    """150,000 rows of 200 characters (30 MB): neither reading nor batching may hold the texts."""
    path = tmp_path / "large.csv"
    filler = "lorem ipsum dolor sit amet " * 7
    with open(path, "w") as out:
        out.write("text,label\n")
        for i in range(150_000):
            out.write(f"{i} {filler},{i % 3}\n")
    small = tmp_path / "small.csv"
    small.write_text("text,label\n" + "".join(f"{i},{i % 3}\n" for i in range(100)))
    code = f"""
import threading, time, numpy
from robust_tickets.data.load import load_task
load_task({str(small)!r})  # imports what it needs

def anonymous():  # kB of memory that is not a mapped file
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])

before, peak, running = anonymous(), 0, True
def watch():
    global peak
    while running:
        peak = max(peak, anonymous())
        time.sleep(0.02)
watcher = threading.Thread(target=watch)
watcher.start()
task = load_task({str(path)!r})
order = numpy.random.default_rng(0).permutation(len(task.train))[:10000]
for start in range(0, len(order), 32):
    task.train.take(order[start:start + 32])
running = False
watcher.join()
print((peak - before) / 1000)
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("reads /proc")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 25, f"{done.stdout} MB"
