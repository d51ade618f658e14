"""Masked language modelling: unlabelled text of a file, a folder, the Hub or a task, in masked batches of blocks.

A document is a line of a .txt file, a row of a table (the column ``text``, or the only one), a text or pair of a task.
A corpus is read again whenever it is asked for its texts, one at a time; its digest depends on what it holds, not on
where that lies.

Blocks of token ids from a corpus, and the same blocks with some words masked: what a masked-language model is trained
on.

Documents are tokenised without special tokens, each is followed by the separator, the stream is cut into pieces, and
each piece becomes ``[CLS] piece [SEP]``: a block of exactly ``block`` tokens, special ones included. The last, shorter
piece is dropped. Blocks are made once, streaming, and kept in the user's cache under the hash of the texts, the
tokenizer and the length; then they are memory-mapped.

Of the tokens that are not special, each is chosen with ``probability``. Of the chosen, a share becomes the mask token,
a share another word at random, and the rest stays as it is (BERT: 15 %, of which 80 / 10 / 10); the label of a chosen
token is what it was, of any other -100. Order and masks are functions of the seed, the epoch and the batch's number
alone, so that a resumed run sees the same ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.cache import cached, read_report, write_report
from robust_tickets.classifier.tokenizer import digest_of, readable
from robust_tickets.config import digest
from robust_tickets.data.arrow_tables import text_problem
from robust_tickets.data.batching import Batch
from robust_tickets.data.readers import READERS, Rows, from_to, open_rows
from robust_tickets.data.task import Task
from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import sha256_file, write_chunks
from robust_tickets.progress import say, track, warn
from robust_tickets.seeds import numpy_generator

KNOWN = (".txt", *READERS)  # endings
LONGEST = 2**20  # characters of a line; a longer one is read in pieces
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
    if not name:
        hint = f"none is shipped; give {HOW}"
        raise TicketsError("a search on masked words needs a corpus, got none", hint=hint, code="corpus.missing")
    if name == "task":
        if task is None:
            message = "corpus='task' takes the training texts of a task, got no task"
            raise TicketsError(message, hint="give the task, or another corpus", code="corpus.missing")
        return _of_task(task)
    path = Path(name).expanduser()
    if path.exists():
        return _of_files(_files(path), column)
    hub = HUB.fullmatch(name)
    if hub is None or not {"/", ":"} & set(name) or name.startswith(".") or path.suffix.lower() in KNOWN:
        raise TicketsError(f"no such corpus: {name}", hint=f"check the path; give {HOW}", code="corpus.not_found")
    return _of_hub(hub[1], hub[2] or "", column)


def _of_task(task: Task) -> Corpus:
    split = task.train

    def texts() -> Iterator[Text]:
        return ((" ".join(example.texts), "") for example in split)

    return Corpus(name=f"the texts of {task.name}", digest=split.digest, size=int(split.lengths.sum()), texts=texts)


def _files(path: Path) -> list[Path]:
    """The file, or the files of a folder; where some of them are called train, only those."""
    if not path.is_dir():
        if path.suffix.lower() not in KNOWN:
            message = f"{path}: a corpus ends in {', '.join(KNOWN)}"
            raise TicketsError(message, hint="plain text, one document a line: rename it to .txt", code="corpus.file")
        return [path]
    files = sorted(
        f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in KNOWN and not f.name.startswith(".")
    )
    if not files:
        raise TicketsError(f"{path} holds no text", hint=f"files end in {', '.join(KNOWN)}", code="corpus.file")
    train = [f for f in files if f.name.startswith("train")]
    if train and len(train) < len(files):
        say(f"corpus: of the {len(files)} files in {path.name}, those called train are read ({len(train)})")
    return train or files


def _of_files(files: Sequence[Path], column: str) -> Corpus:
    for file in files:
        readable(file)
    readers = [_lines(f) if f.suffix.lower() == ".txt" else _rows(open_rows(f), column) for f in files]
    content = digest([[f.suffix.lower(), sha256_file(f)] for f in files] + [column])

    name = files[0].name if len(files) == 1 else files[0].parent.name
    return Corpus(name=name, digest=content, size=sum(map(_size, files)), texts=lambda: _all(readers))


def _all(readers: Sequence[Callable[[], Iterator[Text]]]) -> Iterator[Text]:
    for read in readers:
        yield from read()


def _size(file: Path) -> int:
    """Bytes, unpacked."""
    if file.suffix.lower() != ".parquet":
        return file.stat().st_size
    import pyarrow.parquet as pq

    about = pq.read_metadata(file)
    return sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))


def _lines(path: Path) -> Callable[[], Iterator[Text]]:
    with open(path, "rb") as raw:
        if raw.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            hint = f"iconv -f UTF-16 -t UTF-8 {from_to(path, 'utf8')}"
            raise TicketsError(f"{path} is UTF-16, expected UTF-8", hint=hint, code="corpus.encoding")

    def texts() -> Iterator[Text]:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as stream:
            while line := stream.readline(LONGEST):
                yield from _checked(line.strip())

    return texts


def _rows(rows: Rows, column: str) -> Callable[[], Iterator[Text]]:
    wanted = column or ("text" if "text" in rows.columns else rows.columns[0] if len(rows.columns) == 1 else "")
    if wanted not in rows.columns:
        message = f"{rows.name}: which column holds the text? columns: {', '.join(rows.columns)}"
        raise TicketsError(message, hint="name it: corpus_column=…", code="corpus.column")

    def texts() -> Iterator[Text]:
        for _, values, problem in rows.records((wanted,)):
            yield from (("", problem),) if problem else _checked(values[0])

    return texts


def _checked(value: Any) -> Iterator[Text]:
    """The text, or what is wrong with it; an empty one is no document."""
    problem = text_problem(value)
    if problem not in ("empty text", "missing text"):
        yield ("", problem) if problem else (value, "")


@cache
def _of_hub(hub_id: str, config: str, column: str) -> Corpus:
    from robust_tickets.data.source import from_hub

    found = from_hub(hub_id, config, use="/".join(filter(None, ("corpus=FOLDER", config))))
    rows = found.splits.get("train") or next(iter(found.splits.values()))
    readers = [_rows(one, column) for one in rows]
    return Corpus(
        name=":".join(filter(None, (hub_id, config))),
        digest=digest([[one.key() for one in rows], column]),
        size=sum(one.size for one in rows),
        texts=lambda: _all(readers),
    )


IGNORED = -100  # what losses pass over
FORMAT = 3  # part of the cache key: raise it when what is stored changes
AT_ONCE = 1_000_000  # characters tokenised together, which bounds memory
REASONS, MOST_REASONS = 3, 100  # why texts are left out: named, and counted apart


@dataclass(frozen=True, kw_only=True)
class MaskedBlocks:
    """``epoch(e)`` gives the batches of epoch ``e``; ``blocks``: (count, tokens) ids, special tokens included."""

    blocks: np.ndarray
    tokenizer: Any
    batch_size: int
    seed: int = 0
    probability: float = 0.15
    masked: float = 0.8  # shares of the chosen tokens
    replaced: float = 0.1
    shuffle: bool = True
    token_types: bool = False  # does the model take token_type_ids

    def __post_init__(self) -> None:
        if self.tokenizer.mask_token_id is None:
            hint = "use a model that was pretrained on masked words"
            raise TicketsError("the tokenizer has no mask token", hint=hint, code="mlm.mask_token")
        shares = min(self.masked, self.replaced) >= 0 and self.masked + self.replaced <= 1 + 1e-9
        if not 0 < self.probability < 1 or not shares:
            found = f"{self.probability}, {self.masked} and {self.replaced}"
            message = f"probability, masked and replaced are shares that add up, got {found}"
            raise TicketsError(message, hint="BERT's are 0.15, 0.8 and 0.1", code="mlm.shares")

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


def blocks_of(corpus: Corpus, tokenizer: Any, block: int) -> np.ndarray:
    """(blocks, ``block``) token ids, memory-mapped and read-only. Made before: found in the cache."""
    largest = max(tokenizer.get_vocab().values())  # ids may have gaps: their number says nothing
    kind = np.dtype("<u2" if largest < 2**16 else "<i4")
    key = digest({"format": FORMAT, "corpus": corpus.digest, "tokenizer": digest_of(tokenizer), "block": block})[:40]
    report, kept = cached(read_report, "corpus", f"{key}.json")
    path = kept.with_suffix(".ids")
    if report is None:
        report = {"bad": {}, "unknown": 0}
        write_chunks(path, _cut(corpus, tokenizer, block, kind, report))
        report = write_report(kept, report, path)  # in the order of later readings
    bad = _left_out(report["bad"])
    if bad:
        warn(f"{corpus.name}: {bad}")
    count = path.stat().st_size // (block * kind.itemsize)
    if count == 0:
        short = f"{corpus.name} holds less than one block of {block} tokens" + (f"; {bad}" if bad else "")
        raise TicketsError(short, hint="give more text, or a smaller block", code="corpus.short")
    if report["unknown"] > count * block // 2:
        message = f"the tokenizer does not know most words of {corpus.name}"
        raise TicketsError(message, hint="give text in the model's language", code="corpus.language")
    return np.memmap(path, dtype=kind, mode="r", shape=(count, block))


def _cut(corpus: Corpus, tokenizer: Any, block: int, kind: np.dtype, report: dict[str, Any]) -> Iterator[bytes]:
    """The blocks, some at a time."""
    before, after = _around(tokenizer)
    room, stream = block - len(before) - len(after), np.zeros(0, dtype=np.int64)
    for ids in _tokenised(corpus, tokenizer, report):
        if tokenizer.unk_token_id is not None:
            report["unknown"] += int((ids == tokenizer.unk_token_id).sum())
        stream = np.concatenate([stream, ids])
        whole = len(stream) // room
        pieces, stream = stream[: whole * room].reshape(whole, room), stream[whole * room :]
        yield np.hstack([np.tile(before, (whole, 1)), pieces, np.tile(after, (whole, 1))]).astype(kind).tobytes()


@tokenising()
def _around(tokenizer: Any) -> tuple[np.ndarray, np.ndarray]:
    """The special tokens that a text gets before and after it."""
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids = np.array(encoded["input_ids"], dtype=np.int64)
    inside = np.flatnonzero(np.array(encoded["special_tokens_mask"]) == 0)
    return ids[: inside[0]], ids[inside[-1] + 1 :]


def _tokenised(corpus: Corpus, tokenizer: Any, report: dict[str, Any]) -> Iterator[np.ndarray]:
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    read = 0
    with track(f"tokenising {corpus.name} (million characters)", max(1, corpus.size // 10**6)) as bar:
        for texts in _groups(corpus, report):
            with tokenising():
                encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
            ids = encoded["input_ids"]
            yield np.array([number for one in ids for number in (*one, end)], dtype=np.int64)
            before, read = read // 10**6, read + sum(map(len, texts))
            bar.advance(read // 10**6 - before)


def _left_out(bad: Mapping[str, int]) -> str:
    """How many texts were left out, and why: the commonest reasons."""
    if not bad:
        return ""
    first = Counter(bad).most_common(REASONS)
    more = f", {len(bad) - REASONS} other reasons" if len(bad) > REASONS else ""
    return f"{sum(bad.values())} texts were left out ({', '.join(f'{count} × {why}' for why, count in first)}{more})"


def _groups(corpus: Corpus, report: dict[str, Any]) -> Iterator[list[str]]:
    held: list[str] = []
    bad: dict[str, int] = report["bad"]
    characters = 0
    for text, problem in corpus.texts():
        if problem:
            why = problem if problem in bad or len(bad) < MOST_REASONS else "other reasons"
            bad[why] = bad.get(why, 0) + 1
            continue
        held.append(text)
        characters += len(text)
        if characters > AT_ONCE:
            yield held
            held, characters = [], 0
    if held:
        yield held
