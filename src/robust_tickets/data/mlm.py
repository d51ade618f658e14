"""Masked language modelling: unlabelled text of a file, a folder, the Hub or a task, in masked batches of blocks.

A document is a line of a .txt file, a row of a table (the column ``text``, or the only one), a text or pair of a task. Documents are
tokenised without special tokens, each is followed by the separator, the stream is cut into pieces, and each piece becomes ``[CLS] piece
[SEP]``: a block of exactly ``block`` tokens. The last, shorter piece is dropped.

Of the tokens that are not special, each is chosen with ``probability``. Of the chosen, a share becomes the mask token, a share another
word at random, and the rest stays as it is (BERT: 15 %, of which 80 / 10 / 10); the label of a chosen token is what it was, of any other
-100. Order and masks are functions of the seed, the epoch and the batch's number alone, so that a resumed run sees the same ones.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.cache import cached, read_report, write_report
from robust_tickets.classifier.tokenizer import digest_of
from robust_tickets.config import digest
from robust_tickets.data.arrow_tables import text_problem
from robust_tickets.data.batching import Batch
from robust_tickets.data.readers import READERS, Rows, TextRows, open_rows
from robust_tickets.data.task import Task
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import write_chunks
from robust_tickets.progress import say, track, warn
from robust_tickets.seeds import numpy_generator

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KNOWN: dict[str, type[Rows]] = {".txt": TextRows, **READERS}
HOW = (
    "corpus=FILE (.txt, one document a line; .jsonl, .csv, .tsv, .parquet), a folder of them, "
    "a Hub dataset (owner/name:config) or 'task'"
)
HUB = re.compile(r"((?:[\w.-]+/)?[\w.-]+)(?::([\w.-]+))?")
Text = tuple[str, str]  # a text, or what is wrong with it


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """``digest`` depends on the texts only; ``size``: about how many characters; ``texts()`` reads them again."""

    name: str
    digest: str
    size: int
    texts: Callable[[], Iterator[Text]]


def find_corpus(name: str, *, column: str = "", task: Task | None = None) -> Corpus:
    """The corpus called ``name``: a path, a Hub dataset, or "task" for the training texts of ``task``."""
    if name == "task" and task is not None:
        split, size = task.train, int(task.train.lengths.sum())
        texts = lambda: ((" ".join(example.texts), "") for example in split)  # noqa: E731
        return Corpus(name=f"the texts of {task.name}", digest=split.digest, size=size, texts=texts)
    if name in ("", "task"):
        message = "a search on masked words needs a corpus, got none, or 'task' without a task"
        raise TicketsError(message, hint=f"none is shipped; give {HOW}", code="corpus.missing")
    path = Path(name).expanduser()
    if path.exists():
        files = _files(path) if path.is_dir() else [path]
        for file in files:
            if not os.access(file, os.R_OK):
                message = f"no permission to read {file}"
                raise TicketsError(message, hint="ask its owner", code="file.unreadable")
        rows = [open_rows(file, KNOWN) for file in files]
        content = [[file.suffix.lower(), one.key()] for file, one in zip(files, rows, strict=True)]
        return _corpus(path.resolve().name, [*content, column], rows, column)
    hub = HUB.fullmatch(name)
    if hub is None or not {"/", ":"} & set(name) or name.startswith(".") or path.suffix.lower() in KNOWN:
        raise TicketsError(f"no such corpus: {name}", hint=f"check the path; give {HOW}", code="corpus.not_found")
    return _of_hub(hub[1], hub[2] or "", column)


def _files(folder: Path) -> list[Path]:
    """The files of a folder; where some of them are called train, only those."""
    files = sorted(
        f for f in folder.rglob("*") if f.is_file() and f.suffix.lower() in KNOWN and not f.name.startswith(".")
    )
    if not files:
        raise TicketsError(f"{folder} holds no text", hint=f"files end in {', '.join(KNOWN)}", code="corpus.file")
    train = [f for f in files if f.name.startswith("train")]
    if train and len(train) < len(files):
        say(f"corpus: of the {len(files)} files in {folder.name}, those called train are read ({len(train)})")
    return train or files


@cache
def _of_hub(hub_id: str, config: str, column: str) -> Corpus:
    from robust_tickets.data.source import from_hub

    splits = from_hub(hub_id, config).splits
    rows = splits.get("train") or next(iter(splits.values()))
    return _corpus(":".join(filter(None, (hub_id, config))), [[one.key() for one in rows], column], rows, column)


def _corpus(name: str, content: Sequence[Any], rows: Sequence[Rows], column: str) -> Corpus:
    columns = [column or ("text" if len(one.columns) > 1 else one.columns[0]) for one in rows]
    for one, wanted in zip(rows, columns, strict=True):
        if wanted not in one.columns:
            message = f"{one.name}: which column holds the text? columns: {', '.join(one.columns)}"
            raise TicketsError(message, hint="name it: corpus_column=…", code="corpus.column")

    def texts() -> Iterator[Text]:
        for one, wanted in zip(rows, columns, strict=True):
            for _, values, problem in one.records((wanted,)):
                wrong = problem or text_problem(values[0])
                if wrong not in ("empty text", "missing text"):  # an empty text is no document
                    yield ("", wrong) if wrong else (values[0], "")

    return Corpus(name=name, digest=digest(content), size=sum(one.size for one in rows), texts=texts)


IGNORED = -100  # what losses pass over
FORMAT = 3  # part of the cache key: raise it when what is stored changes
AT_ONCE = 1_000_000  # characters tokenised together, which bounds memory


@dataclass(frozen=True, kw_only=True)
class MaskedBlocks:
    """``epoch(e)`` gives the batches of epoch ``e``; ``blocks``: (count, tokens) ids, special tokens included."""

    blocks: np.ndarray
    tokenizer: PreTrainedTokenizerBase
    batch_size: int
    seed: int = 0
    probability: float = 0.15
    masked: float = 0.8  # shares of the chosen tokens
    replaced: float = 0.1
    shuffle: bool = True
    token_types: bool = False  # does the model take token_type_ids

    def __len__(self) -> int:
        return -(-len(self.blocks) // self.batch_size)

    @cached_property
    def special(self) -> np.ndarray:
        """Ids that are never masked, nor put in a masked word's place."""
        return np.array(sorted(set(self.tokenizer.all_special_ids)))

    @cached_property
    def words(self) -> np.ndarray:
        return np.setdiff1d(np.array(sorted(self.tokenizer.get_vocab().values())), self.special)

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number ``start`` on; those before it are neither read nor masked."""
        count = len(self.blocks)
        order = numpy_generator(self.seed, "blocks", epoch).permutation(count) if self.shuffle else np.arange(count)
        for number in range(start, len(self)):
            rows = np.sort(order[number * self.batch_size : (number + 1) * self.batch_size])  # sorted: read forwards
            yield self._batch(rows, numpy_generator(self.seed, "masks", epoch, number))

    def _batch(self, rows: np.ndarray, dice: np.random.Generator) -> Batch:
        import torch

        ids = np.array(self.blocks[rows], dtype=np.int64)
        draw = np.where(np.isin(ids, self.special), 1.0, dice.random(ids.shape))
        chosen = draw < self.probability
        if not chosen.any():  # a loss over no token is not a number: the likeliest one is asked for
            chosen.flat[draw.argmin()] = True
        fate, others = dice.random(ids.shape), self.words[dice.integers(len(self.words), size=ids.shape)]
        by_mask = chosen & (fate < self.masked)
        by_word = chosen & (fate >= self.masked) & (fate < self.masked + self.replaced)
        seen = np.where(by_mask, self.tokenizer.mask_token_id, np.where(by_word, others, ids))
        inputs = {"input_ids": seen, "attention_mask": np.ones_like(ids)}
        if self.token_types:
            inputs["token_type_ids"] = np.zeros_like(ids)
        return Batch(
            inputs={name: torch.from_numpy(values) for name, values in inputs.items()},
            labels=torch.from_numpy(np.where(chosen, ids, IGNORED)),
            index=torch.from_numpy(rows),
        )


def blocks_of(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, block: int) -> np.ndarray:
    """(blocks, ``block``) token ids, memory-mapped and read-only. Made before: found in the cache."""
    largest = max(tokenizer.get_vocab().values())  # ids may have gaps: their number says nothing
    kind = np.dtype("<u2" if largest < 2**16 else "<i4")
    key = digest({"format": FORMAT, "corpus": corpus.digest, "tokenizer": digest_of(tokenizer), "block": block})[:40]
    report, kept = cached(read_report, "corpus", f"{key}.json")
    path = kept.with_suffix(".ids")
    if report is None:
        report = {"bad": Counter[str](), "unknown": 0}
        write_chunks(path, (blocks.astype(kind).tobytes() for blocks in _cut(corpus, tokenizer, block, report)))
        report = write_report(kept, report, path)
    left_out = ", ".join(f"{count} × {why}" for why, count in Counter(report["bad"]).most_common(3))
    if left_out:
        warn(f"{corpus.name}: {sum(report['bad'].values())} texts were left out ({left_out})")
    count = path.stat().st_size // (block * kind.itemsize)
    if count == 0:
        message = f"{corpus.name} holds less than one block of {block} tokens"
        raise TicketsError(message, hint="give more text, or a smaller block", code="corpus.short")
    if report["unknown"] > count * block // 2:
        message = f"the tokenizer does not know most words of {corpus.name}"
        raise TicketsError(message, hint="give text in the model's language", code="corpus.language")
    return np.memmap(path, dtype=kind, mode="r", shape=(count, block))


def _cut(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, block: int, report: dict[str, Any]
) -> Iterator[np.ndarray]:
    """The blocks, some at a time; the report counts unknown tokens and texts that were left out."""
    before, after = _around(tokenizer)
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    room, stream = block - len(before) - len(after), np.zeros(0, dtype=np.int64)
    with track(f"tokenising {corpus.name} (thousand characters)", corpus.size // 1000) as bar:
        for texts in _groups(corpus, report["bad"]):
            with tokenising():
                encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
            ids = np.array([number for one in encoded["input_ids"] for number in (*one, end)], dtype=np.int64)
            report["unknown"] += int(np.sum(ids == tokenizer.unk_token_id))
            stream = np.concatenate([stream, ids])
            whole = len(stream) // room
            pieces, stream = stream[: whole * room].reshape(whole, room), stream[whole * room :]
            yield np.hstack([np.tile(before, (whole, 1)), pieces, np.tile(after, (whole, 1))])
            bar.advance(sum(map(len, texts)) // 1000)


@tokenising()
def _around(tokenizer: PreTrainedTokenizerBase) -> tuple[np.ndarray, np.ndarray]:
    """The special tokens that a text gets before and after it."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids = np.array(encoded["input_ids"], dtype=np.int64)
    inside = np.flatnonzero(np.array(encoded["special_tokens_mask"]) == 0)
    return ids[: inside[0]], ids[inside[-1] + 1 :]


def _groups(corpus: Corpus, bad: Counter[str]) -> Iterator[list[str]]:
    """The good texts, as many as are tokenised together."""
    held, characters = list[str](), 0
    for text, problem in corpus.texts():
        if problem:
            bad[problem] += 1
            continue
        held.append(text)
        characters += len(text)
        if characters > AT_ONCE:
            yield held
            held, characters = [], 0
    if held:
        yield held
