"""Adversarial texts to put to a model: those an attack found, or a file of them (a static set, AdvGLUE's layout among them).

A set is read as a stream. Its labels have names, so that a model with the same names in another order is asked fairly; class numbers
in a file get names from a registered task, or stay names themselves ("0", "1") for a label map to match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.attack.result import AttackResult
from robust_tickets.attack.store import RESULT
from robust_tickets.data.load import load_task
from robust_tickets.data.task import Split, Task
from robust_tickets.data.tasks import TASKS, TaskSpec
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json, sha256_file
from robust_tickets.stats.metrics import ERROR, SUCCESS

MOST_JSON = 2**28  # bytes of a JSON document, which is read whole; AdvGLUE's is 0.2 MB
ALIASES = {"mnli-mm": "mnli"}  # AdvGLUE's names of tasks that are registered under another
ORIGINAL = "original_"  # AdvGLUE puts it before the name of the column


class Pair(NamedTuple):
    """One example: the clean text, if it is known, and the adversarial one, if there is one."""

    id: str
    label: int
    original: tuple[str, ...] | None
    adversarial: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """Where texts come from, what their labels are called, and how to read them, any number of times."""

    kind: str  # attack | static
    name: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    size: int
    about: Mapping[str, Any]
    pairs: Callable[[], Iterator[Pair]]
    files: tuple[tuple[str, str], ...] = ()  # name and sha256


def open_set(
    source: AttackResult | Split | str | Path,
    *,
    task: str | None = None,
    labels: Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    original: str | Sequence[str] | None = None,
) -> TextSet:
    """A set of an attack's result or folder, a file, or a split in memory (with ``labels``).

    ``task``: the registered task a file belongs to, for the names of its labels; of AdvGLUE's JSON, which of its tasks to take.
    ``text``, ``label`` and ``original`` name a file's columns; ``original`` those of the clean texts, where it has them.
    """
    if isinstance(source, AttackResult):
        return _attacked(source, str(source.folder) if source.folder else source.attack)
    if isinstance(source, Split):
        if labels is None:
            raise TicketsError(
                "a split in memory needs the names of its labels", hint='labels=["negative", "positive"]'
            )
        return _static(source, None, tuple(labels), source.name, {"file": None})
    if not isinstance(source, str | Path):
        raise TicketsError(
            f"expected an attack's result or folder, a file of texts or a split, got a {type(source).__name__}",
            hint="texts in memory are a split: data.task.Split.of(texts, labels); of a task give task.test",
        )
    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / RESULT).is_file():
            raise TicketsError(
                f"{path} holds no {RESULT}", hint="give the folder of a finished attack, or a file of texts"
            )
        return _attacked(AttackResult.load(path), str(source))
    if not path.is_file():
        raise TicketsError(
            f"no such file or folder: {source}",
            hint="an attack's folder, or a csv, tsv, jsonl, parquet or AdvGLUE json file",
        )
    if path.suffix.lower() == ".json":
        return _advglue(path, task)
    names = tuple(labels) if labels else _spec(task).labels if task else None
    texts = _loaded(path, text, label, names)
    clean = None if original is None else _loaded(path, original, label, texts.labels).test
    return _static(
        texts.test, clean, texts.labels, path.name, {"file": path.name, "task": task, "left_out": len(texts.skipped)}
    )


def _attacked(result: AttackResult, name: str) -> TextSet:
    def pairs() -> Iterator[Pair]:
        for example in result.examples():
            if example.status != ERROR:
                yield Pair(
                    example.id,
                    example.label,
                    example.original,
                    example.perturbed if example.status == SUCCESS else None,
                )

    about = {
        "attack": result.attack,
        "digest": result.digest,
        "model": {key: result.model[key] for key in ("identity", "digest")},
        "split": result.task["split"],
        "flags": list(result.flags),
    }
    labels, columns = (tuple(result.task[key]) for key in ("labels", "columns"))
    return TextSet(kind="attack", name=name, labels=labels, columns=columns, size=result.n, about=about, pairs=pairs)


def _loaded(path: Path, text: str | Sequence[str] | None, label: str | None, labels: tuple[str, ...] | None) -> Task:
    return load_task(path, text=text, label=label, labels=labels, splits={"test": "all"})


def _static(texts: Split, clean: Split | None, labels: tuple[str, ...], name: str, about: Mapping[str, Any]) -> TextSet:
    if not len(texts):
        raise TicketsError(f"{name} holds no labelled text", hint="check the file")
    if clean is not None and len(clean.columns) != len(texts.columns):
        raise TicketsError(
            f"{name}: {len(texts.columns)} column(s) of adversarial and {len(clean.columns)} of original text",
            hint="name as many of both",
        )

    def pairs() -> Iterator[Pair]:
        originals = iter(()) if clean is None else iter(clean)
        beside = next(originals, None)
        for example in texts:  # both in the order of the file; a row that lacks one text is in one of them only
            while beside is not None and _record(beside.id) < _record(example.id):
                beside = next(originals, None)
            same = beside is not None and beside.id == example.id
            yield Pair(example.id, example.label, beside.texts if same and beside else None, example.texts)

    told = {**about, "digest": texts.digest, "originals": clean is not None}
    shown: dict[str, Any] = {"labels": labels, "columns": texts.columns, "size": len(texts), "about": told}
    return TextSet(kind="static", name=name, **shown, pairs=pairs, files=texts.table.files)


def _record(name: str) -> int:
    return int(name.rpartition(":")[2])


def _advglue(path: Path, task: str | None) -> TextSet:
    """AdvGLUE's ``dev.json``: tasks by name, each a list of rows with the columns and class numbers of GLUE."""
    if path.stat().st_size > MOST_JSON:
        raise TicketsError(
            f"{path} is too large to be read whole ({path.stat().st_size} bytes)",
            hint="write it as jsonl, a row a line",
        )
    plain = read_json(path)
    if not isinstance(plain, dict) or not plain or not all(isinstance(rows, list) for rows in plain.values()):
        raise TicketsError(
            f'{path} is not in AdvGLUE\'s layout: {{"sst2": [{{"sentence": …, "label": …}}, …], …}}',
            hint="write it as jsonl",
        )
    if task is None and len(plain) > 1:
        raise TicketsError(
            f"{path} holds several tasks: {', '.join(islice(plain, 12))}", hint="name one of them as the task"
        )
    chosen = next(iter(plain)) if task is None else task
    if chosen not in plain:
        raise TicketsError(f"{path} has no task {chosen!r}", hint=did_you_mean(chosen, plain))
    spec, rows = _spec(chosen), plain[chosen]
    before = [ORIGINAL + name for name in spec.columns]
    both = bool(rows) and all(isinstance(row, dict) and all(name in row for name in before) for row in rows)
    texts: list[Any] = []
    clean: list[Any] = []
    labels: list[Any] = []
    for number, row in enumerate(rows, start=1):
        values = (
            [row.get(name) for name in (*spec.columns, *(before if both else ()))] if isinstance(row, dict) else [None]
        )
        label = row.get(spec.label) if isinstance(row, dict) else None
        known = isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(spec.labels)
        if not known or not all(isinstance(value, str) for value in values):
            wanted = ", ".join((*spec.columns, spec.label))
            raise TicketsError(
                f"{path}: row {number} of {chosen} needs {wanted}, the label from 0 to {len(spec.labels) - 1}",
                hint="mend the file",
            )
        texts.append(values[: len(spec.columns)])
        clean.append(values[len(spec.columns) :])
        labels.append(label)
    split = Split.of(texts, labels, name=chosen, columns=spec.columns)
    other = Split.of(clean, labels, name=chosen, columns=spec.columns) if both else None
    found = _static(
        split, other, spec.labels, f"{path.name}:{chosen}", {"file": path.name, "task": chosen, "left_out": 0}
    )
    return replace(found, files=((path.name, sha256_file(path)),))


def _spec(task: str) -> TaskSpec:
    name = ALIASES.get(task, task)
    if name not in TASKS:
        raise TicketsError(f"there is no registered task {task!r}", hint=did_you_mean(name, TASKS))
    return TASKS[name]
