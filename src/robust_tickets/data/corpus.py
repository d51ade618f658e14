"""Unlabelled text, for masked-language modelling: from a file, a folder, the Hub, or the texts of a task.

A document is a line of a .txt file, a row of a table (the column ``text``, or the only one), a text or pair of a task. A corpus is read
anew whenever it is asked for its texts, one at a time; its digest depends on what it holds, not on where that lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from robust_tickets.classifier.tokenizer import readable
from robust_tickets.config import digest
from robust_tickets.data.rows import READERS, Rows, from_to, open_rows
from robust_tickets.data.table import text_problem
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.progress import say

KNOWN = (".txt", *READERS)  # endings
LONGEST = 2**20  # characters of a line; a longer one is read in pieces
HOW = "corpus=FILE (.txt, one document a line; .jsonl, .csv, .tsv, .parquet), a folder of them, a Hub dataset (owner/name:config) or 'task'"
HUB = re.compile(r"((?:[\w.-]+/)?[\w.-]+)(?::([\w.-]+))?")
Text = tuple[str, str]  # a text, or what is wrong with it


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """``digest`` depends on the texts only; ``size``: about how many characters; ``texts()`` reads them anew, bad ones with a reason."""

    name: str
    digest: str
    size: int
    texts: Callable[[], Iterator[Text]]


def find_corpus(name: str, *, column: str = "", task: Any = None) -> Corpus:
    """The corpus called ``name``: a path, a Hub dataset, or "task" for the training texts of ``task``."""
    if not name:
        raise TicketsError("a search on masked words needs a corpus, got none", hint=f"none is shipped; give {HOW}")
    if name == "task":
        if task is None:
            raise TicketsError(
                "corpus='task' takes the training texts of a task, got no task", hint="give the task, or another corpus"
            )
        return _of_task(task)
    path = Path(name).expanduser()
    if path.exists():
        return _of_files(_files(path), column)
    hub = HUB.fullmatch(name)
    if hub is None or not {"/", ":"} & set(name) or name.startswith(".") or path.suffix.lower() in KNOWN:
        raise TicketsError(f"no such corpus: {name}", hint=f"check the path; give {HOW}")
    return _of_hub(hub[1], hub[2] or "", column)


def _of_task(task: Any) -> Corpus:
    split = task.train

    def texts() -> Iterator[Text]:
        return ((" ".join(example.texts), "") for example in split)

    return Corpus(name=f"the texts of {task.name}", digest=split.digest, size=int(split.lengths.sum()), texts=texts)


def _files(path: Path) -> list[Path]:
    """The file, or the files of a folder; where some of them are called train, only those."""
    if not path.is_dir():
        if path.suffix.lower() not in KNOWN:
            raise TicketsError(
                f"{path}: a corpus ends in {', '.join(KNOWN)}",
                hint="plain text, one document a line: rename it to .txt",
            )
        return [path]
    files = sorted(
        f for f in path.rglob("*") if f.is_file() and f.suffix.lower() in KNOWN and not f.name.startswith(".")
    )
    if not files:
        raise TicketsError(f"{path} holds no text", hint=f"files end in {', '.join(KNOWN)}")
    train = [f for f in files if f.name.startswith("train")]
    if train and len(train) < len(files):
        say(f"corpus: of the {len(files)} files in {path.name}, those called train are read ({len(train)})")
    return train or files


def _of_files(files: Sequence[Path], column: str) -> Corpus:
    for file in files:
        readable(file)
    readers = [_lines(f) if f.suffix.lower() == ".txt" else _rows(open_rows(f), column) for f in files]
    content = digest([[f.suffix.lower(), sha256_file(f)] for f in files] + [column])

    def texts() -> Iterator[Text]:
        for read in readers:
            yield from read()

    return Corpus(
        name=files[0].name if len(files) == 1 else files[0].parent.name,
        digest=content,
        size=sum(map(_size, files)),
        texts=texts,
    )


def _size(file: Path) -> int:
    """Bytes, unpacked."""
    if file.suffix.lower() != ".parquet":
        return file.stat().st_size
    import pyarrow.parquet as pq

    told = pq.read_metadata(file)
    return sum(told.row_group(i).total_byte_size for i in range(told.num_row_groups))


def _lines(path: Path) -> Callable[[], Iterator[Text]]:
    with open(path, "rb") as raw:
        if raw.read(2) in (b"\xff\xfe", b"\xfe\xff"):
            raise TicketsError(
                f"{path} is UTF-16, expected UTF-8", hint=f"iconv -f UTF-16 -t UTF-8 {from_to(path, 'utf8')}"
            )

    def texts() -> Iterator[Text]:
        with open(path, encoding="utf-8-sig", errors="surrogateescape") as stream:
            while line := stream.readline(LONGEST):
                yield from _judged(line.strip())

    return texts


def _rows(rows: Rows, column: str) -> Callable[[], Iterator[Text]]:
    wanted = column or ("text" if "text" in rows.columns else rows.columns[0] if len(rows.columns) == 1 else "")
    if wanted not in rows.columns:
        raise TicketsError(
            f"{rows.name}: which column holds the text? columns: {', '.join(rows.columns)}",
            hint="name it: corpus_column=…",
        )

    def texts() -> Iterator[Text]:
        for _, values, problem in rows.records((wanted,)):
            if problem:
                yield "", problem
            else:
                yield from _judged(values[0])

    return texts


def _judged(value: Any) -> Iterator[Text]:
    """The text, or what is wrong with it; an empty one is no document."""
    problem = text_problem(value)
    if problem not in ("empty text", "missing text"):
        yield ("", problem) if problem else (value, "")


@cache
def _of_hub(hub_id: str, config: str, column: str) -> Corpus:
    from robust_tickets.data.hub import from_hub

    found = from_hub(hub_id, config, use="/".join(filter(None, ("corpus=FOLDER", config))))
    rows = found.splits.get("train") or next(iter(found.splits.values()))
    readers = [_rows(one, column) for one in rows]

    def texts() -> Iterator[Text]:
        for read in readers:
            yield from read()

    return Corpus(
        name=":".join(filter(None, (hub_id, config))),
        digest=digest([[one.key() for one in rows], column]),
        size=sum(one.size for one in rows),
        texts=texts,
    )
