"""Replay: adversarial texts found on one model, or listed in a file, given to other models.

A replayed text was made against another model, so a model that resists it has resisted little, while one that falls has fallen for
certain: the accuracy here is an upper bound of the accuracy under an attack of its own. Whether a text is right is decided as in an
attack (a near tie is run alone), so the model that was attacked falls for every text that was found on it.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.attack.attack import about_model
from robust_tickets.attack.example import IN_FLIGHT, ExampleState, Steps
from robust_tickets.attack.examples import classes_of
from robust_tickets.attack.flags import FAILED_EXAMPLES, Answers, Flag, failed
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.result import RESULT, AttackResult
from robust_tickets.attack.scheduler import Failed, Failures, Reasons, drive
from robust_tickets.attack.services import Victim
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier, ModelClassifier, as_classifier
from robust_tickets.classifier.base import reason_of
from robust_tickets.data.load import load_task
from robust_tickets.data.registered_tasks import TASKS, TaskSpec
from robust_tickets.data.task import Split, Task
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json, sha256_file, write_chunks, write_json
from robust_tickets.jsonl_log import to_line
from robust_tickets.progress import track
from robust_tickets.stages import made, same_work
from robust_tickets.stats.classification import ERROR, FEW, SUCCESS
from robust_tickets.stats.intervals import paired_interval, wilson

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
                "a split in memory needs the names of its labels",
                hint='labels=["negative", "positive"]',
                code="replay.labels",
            )
        return _static(source, None, tuple(labels), source.name, {"file": None})
    if not isinstance(source, str | Path):
        raise TicketsError(
            f"expected an attack's result or folder, a file of texts or a split, got a {type(source).__name__}",
            hint="texts in memory are a split: data.task.Split.of(texts, labels); of a task give task.test",
            code="replay.source",
        )
    path = Path(source).expanduser()
    if path.is_dir():
        if not (path / RESULT).is_file():
            raise TicketsError(
                f"{path} holds no {RESULT}",
                hint="give the folder of a finished attack, or a file of texts",
                code="replay.source",
            )
        return _attacked(AttackResult.load(path), str(source))
    if not path.is_file():
        raise TicketsError(
            f"no such file or folder: {source}",
            hint="an attack's folder, or a csv, tsv, jsonl, parquet or AdvGLUE json file",
            code="file.not_found",
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
        raise TicketsError(f"{name} holds no labelled text", hint="check the file", code="replay.empty")
    if clean is not None and len(clean.columns) != len(texts.columns):
        raise TicketsError(
            f"{name}: {len(texts.columns)} column(s) of adversarial and {len(clean.columns)} of original text",
            hint="name as many of both",
            code="replay.columns",
        )

    def pairs() -> Iterator[Pair]:
        originals = iter(()) if clean is None else iter(clean)
        beside = next(originals, None)
        for example in texts:  # both in the order of the file; a row that lacks one text is in one of them only
            while beside is not None and _record(beside.id) < _record(example.id):
                beside = next(originals, None)
            same = beside is not None and beside.id == example.id
            yield Pair(example.id, example.label, beside.texts if same and beside else None, example.texts)

    return TextSet(
        kind="static",
        name=name,
        labels=labels,
        columns=texts.columns,
        size=len(texts),
        about={**about, "digest": texts.digest, "originals": clean is not None},
        pairs=pairs,
        files=texts.table.files,
    )


def _record(name: str) -> int:
    return int(name.rpartition(":")[2])


def _advglue(path: Path, task: str | None) -> TextSet:
    """AdvGLUE's ``dev.json``: tasks by name, each a list of rows with the columns and class numbers of GLUE."""
    if path.stat().st_size > MOST_JSON:
        raise TicketsError(
            f"{path} is too large to be read whole ({path.stat().st_size} bytes)",
            hint="write it as jsonl, a row a line",
            code="data.advglue",
        )
    plain = read_json(path)
    if not isinstance(plain, dict) or not plain or not all(isinstance(rows, list) for rows in plain.values()):
        raise TicketsError(
            f'{path} is not in AdvGLUE\'s layout: {{"sst2": [{{"sentence": …, "label": …}}, …], …}}',
            hint="write it as jsonl",
            code="data.advglue",
        )
    if task is None and len(plain) > 1:
        raise TicketsError(
            f"{path} holds several tasks: {', '.join(islice(plain, 12))}",
            hint="name one of them as the task",
            code="replay.task",
        )
    chosen = next(iter(plain)) if task is None else task
    if chosen not in plain:
        raise TicketsError(f"{path} has no task {chosen!r}", hint=did_you_mean(chosen, plain), code="replay.task")
    spec, rows = _spec(chosen), plain[chosen]
    width, before = len(spec.columns), [ORIGINAL + name for name in spec.columns]
    both = bool(rows) and all(isinstance(row, dict) and all(name in row for name in before) for row in rows)
    wanted = [*spec.columns, *(before if both else ()), spec.label]
    table = []
    for number, row in enumerate(rows, start=1):
        *values, label = [row.get(name) for name in wanted] if isinstance(row, dict) else [None]
        known = isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(spec.labels)
        if not known or not all(isinstance(value, str) for value in values):
            raise TicketsError(
                f"{path}: row {number} of {chosen} needs {', '.join((*spec.columns, spec.label))}, "
                f"the label from 0 to {len(spec.labels) - 1}",
                hint="mend the file",
                code="data.advglue",
            )
        table.append((values[:width], values[width:], label))
    texts, clean, labels = (list(column) for column in zip(*table, strict=True)) if table else ([], [], [])
    split = Split.of(texts, labels, name=chosen, columns=spec.columns)
    other = Split.of(clean, labels, name=chosen, columns=spec.columns) if both else None
    about = {"file": path.name, "task": chosen, "left_out": 0}
    found = _static(split, other, spec.labels, f"{path.name}:{chosen}", about)
    return replace(found, files=((path.name, sha256_file(path)),))


def _spec(task: str) -> TaskSpec:
    name = ALIASES.get(task, task)
    if name not in TASKS:
        raise TicketsError(f"there is no registered task {task!r}", hint=did_you_mean(name, TASKS), code="replay.task")
    return TASKS[name]


DIGITS = 4  # decimals of percentages
LOST = "lost"  # of an adversarial text that was not answered, though its original was: fallen in ``replayed``, in no other number of it


@dataclass
class Count:
    """How often (original right, adversarial right); None where there is no such text, and LOST where it was not answered."""

    seen: Counter[tuple[bool | None, bool | str | None]] = field(default_factory=Counter)
    given: Counter[tuple[int, int | None]] = field(default_factory=Counter)  # label, and that given to the original
    labels: set[int] = field(default_factory=set)
    errors: int = 0
    reasons: Reasons = field(default_factory=Reasons)

    def add(self, row: Mapping[str, Any]) -> None:
        if "error" in row:
            self.errors += 1
            self.reasons.add(str(row["error"]))
            if row.get("original_right") is None:
                return
        self.labels.add(row["label"])
        if row["original_right"] is not None:
            self.given[row["label"], row["original_predicted"]] += 1
        self.seen[row["original_right"], LOST if "error" in row else row["adversarial_right"]] += 1

    def numbers(self, texts: TextSet, clf: Classifier, classes: Sequence[int], max_failed: float) -> dict[str, Any]:
        both = {(b, a): self.seen[b, a] for b in (True, False) for a in (True, False)}
        pairs, before = sum(both.values()), both[True, True] + both[True, False]
        known, after = (
            {b: sum(c for key, c in self.seen.items() if key[side] is b) for b in (True, False)} for side in (0, 1)
        )
        n, count = sum(known.values()), sum(after.values())
        # every text that was turned in the place of its original
        instead = both[True, True] + both[False, True] + self.seen[True, None]
        shares = {
            "clean": (known[True], n),
            "originals": (before, pairs),
            "adversarials": (after[True], count),
            "transfer": (both[True, False], before),
            "replayed": (instead, n if texts.kind == "attack" else 0),
        }
        values: dict[str, Any] = {name: round(100 * x / of, DIGITS) if of else None for name, (x, of) in shares.items()}
        intervals = {
            name: [round(100 * end, DIGITS) for end in wilson(x, of)] for name, (x, of) in shares.items() if of
        }
        values["drop"] = round(100 * (both[True, False] - both[False, True]) / pairs, DIGITS) if pairs else None
        if pairs:
            times = list(both.values())
            first, second = (np.repeat([key[side] for key in both], times) for side in (0, 1))
            intervals["drop"] = [round(100 * end, DIGITS) for end in paired_interval(first, second)]
        counts = {
            "n": n or count,
            "texts": count,
            "turned": both[True, False],
            "mended": both[False, True],
            "errors": self.errors,
        }
        called = {name: label for label, name in enumerate(texts.labels)}
        below = Answers(self.given, known[True], clf.labels, classes, called).below_chance()
        tried = self.errors + sum(times for (_, after), times in self.seen.items() if after != LOST)
        errors = failed(self.errors, tried, max_failed, self.reasons.often)
        flags = [*filter(None, [below]), *errors, *self._flags(texts, clf, count, pairs)]
        return {
            **counts,
            **values,
            "intervals": intervals,
            "flags": [flag.text for flag in flags],
            "flag_codes": [flag.code for flag in flags],
        }

    def _flags(self, texts: TextSet, clf: Classifier, count: int, pairs: int) -> list[Flag]:
        same = (
            texts.kind == "attack" and isinstance(clf, ModelClassifier) and texts.about["model"]["digest"] == clf.digest
        )
        found = (
            (
                count < FEW,
                "few-examples",
                f"few examples: {count} adversarial texts, fewer than {FEW}; look at the intervals",
            ),
            (
                len(self.labels) < 2,
                "one-class",
                "one class: all texts have the same label, so a model that always says it looks robust",
            ),
            (same, "same-model", "same model: the texts were found on this very model"),
            (
                bool(count) and not pairs,
                "no-originals",
                "no originals: without the clean texts a mistake may be one that the attack did not cause",
            ),
        )
        return [Flag(code, text) for holds, code, text in found if holds]


SCHEMA = 1
REPLAY, ROWS = "replay.json", "rows.jsonl"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Every set on every model: ``cells`` in the order of the models, of the sets within. Percentages from 0 to 100."""

    sources: tuple[Mapping[str, Any], ...]
    models: tuple[Mapping[str, Any], ...]
    cells: tuple[Mapping[str, Any], ...]
    label_map: Mapping[str, int | str] | Sequence[Mapping[str, int | str]]  # of all models, or one of each
    seconds: float
    env: Mapping[str, Any]
    folder: Path | None = field(default=None, compare=False)

    def cell(self, source: int = 0, model: int = 0) -> Mapping[str, Any]:
        """The numbers of one set on one model."""
        for cell in self.cells:
            if (cell["source"], cell["model"]) == (source, model):
                return cell
        raise TicketsError(
            f"there is no cell of set {source} on model {model}",
            hint=f"{len(self.sources)} set(s), {len(self.models)} model(s), from 0",
            code="replay.cell",
        )

    @property
    def failed(self) -> bool:
        """Whether too many examples of a cell failed."""
        return any(FAILED_EXAMPLES in cell["flag_codes"] for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        names = ("sources", "models", "cells", "label_map", "seconds", "env")
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in names}}


def replay(
    sources: AttackResult | Split | TextSet | str | Path | Iterable[AttackResult | Split | TextSet | str | Path],
    models: Classifier | Iterable[Classifier],
    *,
    labels: Sequence[str] | None = None,
    label_map: Mapping[str, int | str] | Sequence[Mapping[str, int | str]] | None = None,
    folder: str | Path | None = None,
    token_budget: int | None = None,
    max_failed: float = 1.0,
) -> Replay:
    """Put texts to models. ``sources``: an attack's result or folder, a file, a split, what ``open_set`` opened, or a list of these.

    Labels are matched to each model's by name, or by ``label_map``, one for all models or a list with one of each; ``labels`` names those
    of a split or a file. ``models`` may load one after another (a generator): one at a time is kept. With a folder, ``rows.jsonl`` gets a
    line for every set, model and example, and ``replay.json`` the numbers; a folder with another replay is refused. ``max_failed`` as
    in an attack.
    """
    AttackOptions(max_failed=max_failed)  # refuses what is no percentage
    one = isinstance(sources, AttackResult | Split | TextSet | str | Path) or not isinstance(sources, Iterable)
    given: list[Any] = [sources] if one else list(sources)  # type: ignore[arg-type]
    running = _Running(
        sets=[each if isinstance(each, TextSet) else open_set(each, labels=labels) for each in given],
        maps=[label_map] if isinstance(label_map, Mapping) else list(label_map or ()) or [{}],
        folder=None if folder is None else Path(folder),
        token_budget=token_budget,
        max_failed=max_failed,
    )
    running.check()
    start = time.monotonic()
    lines = running.lines(models if isinstance(models, Iterable) and not isinstance(models, str) else [models])
    if running.folder is None:
        deque(lines, maxlen=0)
    else:
        write_chunks(running.folder / ROWS, lines)
    if not running.models:
        raise TicketsError("nothing to replay on: no model", hint="give at least one classifier", code="replay.empty")
    result = Replay(
        sources=tuple(running.sources),
        models=tuple(running.models),
        cells=tuple(running.cells),
        label_map=running.label_map,
        seconds=round(time.monotonic() - start, 3),
        env=made(file for one in running.sets for file in one.files),
        folder=running.folder,
    )
    if running.folder is not None:
        write_json(running.folder / REPLAY, result.to_json())
    return result


@dataclass(kw_only=True)
class _Running:
    """A replay while its models are opened one after another."""

    sets: Sequence[TextSet]
    maps: Sequence[Mapping[str, int | str]]  # one for all models, or one of each
    folder: Path | None
    token_budget: int | None
    max_failed: float
    models: list[dict[str, Any]] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)

    @property
    def sources(self) -> list[dict[str, Any]]:
        return [
            {"kind": one.kind, "name": one.name, "labels": list(one.labels), "rows": one.size, **one.about}
            for one in self.sets
        ]

    @property
    def label_map(self) -> dict[str, int | str] | list[dict[str, int | str]]:
        maps = [dict(one) for one in self.maps]
        return maps if len(maps) > 1 else maps[0]

    def check(self) -> None:
        """Refuse what cannot be replayed, before a model is opened."""
        if not self.sets:
            raise TicketsError(
                "nothing to replay: no set of texts", hint="give an attack's folder or a file", code="replay.empty"
            )
        known = [name for one in self.sets for name in one.labels]
        for name in (name for one in self.maps for name in one):
            if name not in known:
                raise TicketsError(
                    f"the label map names {name!r}; the texts have {', '.join(dict.fromkeys(known))}",
                    hint=did_you_mean(name, known),
                    code="replay.label_map",
                )
        self.check_same()

    def check_same(self, *, whole: bool = False) -> None:
        """Refuse a folder with a replay of other texts, label maps or models; those opened so far, or the ``whole`` list."""
        if self.folder is None or not (self.folder / REPLAY).is_file():
            return
        held = read_json(self.folder / REPLAY)
        try:
            found = held["schema"], held["label_map"], [_content(one) for one in held["sources"]]
            models = [one["digest"] for one in held["models"]]
        except (KeyError, TypeError):
            found, models = None, []
        now = [one["digest"] for one in self.models]
        wanted = SCHEMA, self.label_map, [_content(one) for one in self.sources]
        same_work(self.folder, (found, models if whole else models[: len(now)]), (wanted, now))

    def lines(self, models: Iterable[Classifier]) -> Iterator[bytes]:
        """A line for every model, set and example."""
        for number, clf in enumerate(models):
            as_classifier(clf, "attacked")
            self.models.append(about_model(clf))
            self.check_same()
            if 1 < len(self.maps) <= number:
                raise TicketsError(
                    f"{len(self.maps)} label maps, and more models",
                    hint="give one label map, or one for each model",
                    code="replay.label_map",
                )
            victim = Victim(clf, self.token_budget)
            for which, texts in enumerate(self.sets):
                count, classes = Count(), _classes(texts, clf, self.maps[number if len(self.maps) > 1 else 0])
                for row in _judged(texts, clf, victim, classes):
                    count.add(row)
                    yield to_line({"source": which, "model": number, **row})
                numbers = count.numbers(texts, clf, classes, self.max_failed)
                self.cells.append({"source": which, "model": number, **numbers})
        self.check_same(whole=True)
        if 1 < len(self.maps) > len(self.models):
            raise TicketsError(
                f"{len(self.maps)} label maps, {len(self.models)} model(s)",
                hint="give one label map, or one for each model",
                code="replay.label_map",
            )


def _content(source: Mapping[str, Any]) -> tuple[Any, ...]:
    return source["digest"], tuple(source["labels"]), source["rows"], source.get("originals")


def _classes(texts: TextSet, clf: Classifier, label_map: Mapping[str, int | str]) -> tuple[int, ...]:
    clf.check_columns(texts.columns, texts.name)
    mine = {name: to for name, to in label_map.items() if name in texts.labels}  # sets may name theirs differently
    return classes_of(texts.labels, clf.labels, mine) or ()


def _judge(pair: Pair, texts: TextSet, classes: tuple[int, ...], victim: Victim) -> Steps:
    """Whether the original and the adversarial text are right, and which label each is given; None where there is none."""
    asked = {
        name: Text.of(columns)
        for name, columns in (("original", pair.original), ("adversarial", pair.adversarial))
        if columns is not None
    }
    state = ExampleState(
        original=next(iter(asked.values())),
        goal=Untargeted(classes[pair.label]),
        column_names=texts.columns,
        noise=victim.noise,
        in_flight=IN_FLIGHT // victim.live,
        still=False,
    )
    try:
        return (yield from _row(state, asked, classes))
    except Exception as problem:
        if len(asked) == 1:
            raise
        return Failed(problem, (yield from _row(state, {"original": asked["original"]}, classes)))


def _row(state: ExampleState, asked: Mapping[str, Text], classes: tuple[int, ...]) -> Steps:
    row: dict[str, Any] = {
        f"{name}_{what}": None for name in ("original", "adversarial") for what in ("right", "predicted")
    }
    answers = yield from state.ask(list(asked.values()))
    for name, answer in zip(asked, answers, strict=True):
        row[f"{name}_right"] = not (yield from state.reached(answer))
        predicted = answer.row.predicted
        row[f"{name}_predicted"] = classes.index(predicted) if predicted in classes else None
    return row


def _judged(texts: TextSet, clf: Classifier, victim: Victim, classes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """A row for every example, in the set's order; what waits for its turn is at most about as much as is under way."""
    asked: dict[int, Pair] = {}
    ready: dict[int, dict[str, Any]] = {}

    def jobs() -> Iterator[tuple[int, Steps]]:
        for number, pair in enumerate(texts.pairs()):
            asked[number] = pair
            yield number, _judge(pair, texts, classes, victim)

    turn, failures = 0, Failures(clf, len(texts.columns), texts.size)
    with track(f"replay {texts.name} on {clf.identity}", texts.size) as bar:
        for number, found in drive(jobs(), {"victim": victim}, victim.live):
            pair = asked.pop(number)
            failures.check(found)
            if isinstance(found, Failed):
                found = {**(found.known or {}), "error": reason_of(found.problem)}
            ready[number] = {"id": pair.id, "label": pair.label, **found}
            bar.advance(1)
            while turn in ready:
                yield ready.pop(turn)
                turn += 1
