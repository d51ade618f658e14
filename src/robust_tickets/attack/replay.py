"""Replay: adversarial texts found on one model, or listed in a file, given to other models.

A replayed text was made against another model, so a model that resists it has resisted little, while one that falls has fallen for
certain: the accuracy here is an upper bound of the accuracy under an attack of its own. Whether a text is right is decided as in an
attack (a near tie is run alone), so the model that was attacked falls for every text that was found on it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.attack.attack import about_model
from robust_tickets.attack.example import IN_FLIGHT, ExampleState, Steps
from robust_tickets.attack.examples import classes_of
from robust_tickets.attack.flags import FAILED_EXAMPLES, Flag, below_chance, failed, in_short
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.result import RESULT, AttackResult
from robust_tickets.attack.scheduler import Failed, Failures, drive
from robust_tickets.attack.services import Victim
from robust_tickets.attack.text import Text
from robust_tickets.classifier import Classifier, ModelClassifier, as_classifier
from robust_tickets.classifier.base import reason_of
from robust_tickets.data.load import load_task
from robust_tickets.data.registered_tasks import TASKS, TaskSpec
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import listed, mapping, read_json, sha256_file, write_chunks, write_json
from robust_tickets.jsonl_log import to_line
from robust_tickets.progress import track
from robust_tickets.stages import made, same_work
from robust_tickets.stats.classification import ERROR, FEW, SUCCESS
from robust_tickets.stats.intervals import paired_interval, wilson

SCHEMA = 1
REPLAY, ROWS = "replay.json", "rows.jsonl"
DIGITS = 4  # decimals of percentages
ALIASES = {"mnli-mm": "mnli"}  # AdvGLUE's names of tasks that are registered under another
ORIGINAL = "original_"  # AdvGLUE puts it before the name of the column
Source = AttackResult | Split | str | Path
LabelMap = Mapping[str, int | str]


class Pair(NamedTuple):
    """One example: the clean text, if it is known, and the adversarial one, if there is one."""

    id: str
    label: int
    original: tuple[str, ...] | None
    adversarial: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """Texts, what their labels are called, and where they come from."""

    kind: str  # attack | static
    name: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    pairs: Sequence[Pair]
    about: Mapping[str, Any]
    files: tuple[tuple[str, str], ...] = ()  # name and sha256

    def to_json(self) -> dict[str, Any]:
        rows = len(self.pairs)
        return {"kind": self.kind, "name": self.name, "labels": list(self.labels), "rows": rows, **self.about}


def open_set(
    source: Source,
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
        return _attacked(source, str(source.folder or source.attack))
    if isinstance(source, Split):
        if labels is None:
            message = "a split in memory needs the names of its labels"
            raise TicketsError(message, hint='labels=["negative", "positive"]', code="replay.labels")
        return _static(source, None, tuple(labels), source.name, {"file": None})
    path = Path(source).expanduser() if isinstance(source, str | Path) else None
    if path is not None and (path / RESULT).is_file():
        return _attacked(AttackResult.load(path), str(source))
    if path is None or not path.is_file():
        raise TicketsError(
            f"expected an attack's result or folder, a file of texts or a split, got {source!s:.80}",
            hint="a finished attack's folder, a csv, tsv, jsonl, parquet or AdvGLUE json file, or a task's split: task.test",
            code="replay.source",
        )
    if path.suffix.lower() == ".json":
        return _advglue(path, task)
    names = tuple(labels) if labels else _spec(task).labels if task else None
    texts = load_task(path, text=text, label=label, labels=names, splits={"test": "all"})
    clean = None
    if original is not None:
        clean = load_task(path, text=original, label=label, labels=texts.labels, splits={"test": "all"}).test
    about = {"file": path.name, "task": task, "left_out": len(texts.skipped)}
    return _static(texts.test, clean, texts.labels, path.name, about)


def _attacked(result: AttackResult, name: str) -> TextSet:
    about = {
        "attack": result.attack,
        "digest": result.digest,
        "model": {key: result.model[key] for key in ("identity", "digest")},
        "split": result.task["split"],
        "flags": list(result.flags),
    }
    pairs = [
        Pair(each.id, each.label, each.original, each.perturbed if each.status == SUCCESS else None)
        for each in result.examples()
        if each.status != ERROR
    ]
    labels, columns = (tuple(result.task[key]) for key in ("labels", "columns"))
    return TextSet(kind="attack", name=name, labels=labels, columns=columns, pairs=pairs, about=about)


def _static(texts: Split, clean: Split | None, labels: tuple[str, ...], name: str, about: Mapping[str, Any]) -> TextSet:
    """``clean``: the originals, with the ids of their adversarial texts; a row may lack one of the two."""
    if not len(texts):
        raise TicketsError(f"{name} holds no labelled text", hint="check the file", code="replay.empty")
    if clean is not None and len(clean.columns) != len(texts.columns):
        message = f"{name}: {len(texts.columns)} column(s) of adversarial and {len(clean.columns)} of original text"
        raise TicketsError(message, hint="name as many of both", code="replay.columns")
    originals = {each.id: each.texts for each in clean or ()}
    return TextSet(
        kind="static",
        name=name,
        labels=labels,
        columns=texts.columns,
        pairs=[Pair(each.id, each.label, originals.get(each.id), each.texts) for each in texts],
        about={**about, "digest": texts.digest, "originals": clean is not None},
        files=texts.table.files,
    )


def _advglue(path: Path, task: str | None) -> TextSet:
    """AdvGLUE's ``dev.json``: tasks by name, each a list of rows with the columns and class numbers of GLUE."""
    tasks = mapping(read_json(path))
    chosen = next(iter(tasks)) if task is None and len(tasks) == 1 else task or ""
    if chosen not in tasks:
        message = f"{path} has no task {chosen!r}" if task else f"{path}: which of its tasks is to be replayed?"
        raise TicketsError(message, hint=did_you_mean(chosen, tasks), code="replay.task")
    spec = _spec(chosen)
    before = [ORIGINAL + name for name in spec.columns]
    try:
        rows = list(tasks[chosen])
        numbers = [range(len(spec.labels)).index(row[spec.label]) for row in rows]  # -1 is no label
        both = all(name in row for name in before for row in rows)
        split, clean = (
            Split.of([tuple(row[k] for k in names) for row in rows], numbers, name=chosen, columns=spec.columns)
            for names in (spec.columns, before if both else spec.columns)
        )
    except (KeyError, ValueError, TypeError, TicketsError) as problem:
        raise TicketsError(
            f'{path} is not in AdvGLUE\'s layout, {{"sst2": [{{"sentence": …, "label": …}}, …], …}}: {problem!r}',
            hint="mend the file, or write it as jsonl",
            code="data.advglue",
        ) from None
    about = {"file": path.name, "task": chosen, "left_out": 0}
    found = _static(split, clean if both else None, spec.labels, f"{path.name}:{chosen}", about)
    return replace(found, files=((path.name, sha256_file(path)),))


def _spec(task: str) -> TaskSpec:
    name = ALIASES.get(task, task)
    if name not in TASKS:
        raise TicketsError(f"there is no registered task {task!r}", hint=did_you_mean(name, TASKS), code="replay.task")
    return TASKS[name]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Every set on every model: ``cells`` in the order of the models, of the sets within. Percentages from 0 to 100."""

    sources: tuple[Mapping[str, Any], ...]
    models: tuple[Mapping[str, Any], ...]
    cells: tuple[Mapping[str, Any], ...]
    label_map: LabelMap | Sequence[LabelMap]  # of all models, or one of each
    seconds: float
    env: Mapping[str, Any]
    folder: Path | None = field(default=None, compare=False)

    def cell(self, source: int = 0, model: int = 0) -> Mapping[str, Any]:
        """The numbers of one set on one model."""
        for cell in self.cells:
            if (cell["source"], cell["model"]) == (source, model):
                return cell
        message = f"there is no cell of set {source} on model {model}"
        hint = f"{len(self.sources)} set(s), {len(self.models)} model(s), from 0"
        raise TicketsError(message, hint=hint, code="replay.cell")

    @property
    def failed(self) -> bool:
        """Whether too many examples of a cell failed."""
        return any(FAILED_EXAMPLES in cell["flag_codes"] for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **{name: value for name, value in vars(self).items() if name != "folder"}}


def replay(
    sources: Source | TextSet | Sequence[Source | TextSet],
    models: Classifier | Iterable[Classifier],
    *,
    labels: Sequence[str] | None = None,
    label_map: LabelMap | Sequence[LabelMap] | None = None,
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
    start, where = time.monotonic(), None if folder is None else Path(folder)
    given: Any = sources if isinstance(sources, list | tuple) else [sources]
    sets = [each if isinstance(each, TextSet) else open_set(each, labels=labels) for each in given]
    maps = [dict(label_map)] if isinstance(label_map, Mapping) else [dict(one) for one in label_map or ({},)]
    known = [name for one in sets for name in one.labels]
    unknown = [name for one in maps for name in one if name not in known]
    if unknown:
        hint = did_you_mean(unknown[0], known)
        raise TicketsError(f"the label map names {unknown[0]!r}", hint=hint, code="replay.label_map")
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "sources": [one.to_json() for one in sets],
        "models": [],
        "cells": [],
        "label_map": maps if len(maps) > 1 else maps[0],
    }
    held = _work(read_json(where / REPLAY)) if where is not None and (where / REPLAY).is_file() else None
    if held is not None:
        same_work(where, held[:3], _work(found))
    lines: list[bytes] = []
    for number, clf in enumerate(models if isinstance(models, Iterable) else [models]):
        found["models"].append(about_model(as_classifier(clf, "attacked")))
        if held is not None:  # another model is refused before anything is asked of it
            same_work(where, held[: 3 + len(found["models"])], _work(found))
        if 1 < len(maps) <= number:
            break
        victim, one_map = Victim(clf, token_budget), maps[number if len(maps) > 1 else 0]
        for which, texts in enumerate(sets):
            clf.check_columns(texts.columns, texts.name)
            mine = {name: to for name, to in one_map.items() if name in texts.labels}  # sets may name theirs otherwise
            classes = classes_of(texts.labels, clf.labels, mine)
            place, rows = {"source": which, "model": number}, _judged(texts, victim, classes)
            found["cells"].append({**place, **_numbers(rows, texts, clf, max_failed)})
            lines += [to_line({**place, **row}) for row in rows]
    if held is not None:
        same_work(where, held, _work(found))
    if 1 < len(maps) != len(found["models"]):
        hint = "give one label map, or one for each model"
        raise TicketsError(f"{len(maps)} label maps for another number of models", hint=hint, code="replay.label_map")
    if not found["cells"]:
        hint = "give an attack's folder or a file, and at least one classifier"
        raise TicketsError("nothing to replay: no set of texts, or no model", hint=hint, code="replay.empty")
    result = Replay(
        **{name: tuple(found[name]) for name in ("sources", "models", "cells")},
        label_map=found["label_map"],
        seconds=round(time.monotonic() - start, 3),
        env=made(file for one in sets for file in one.files),
        folder=where,
    )
    if where is not None:
        write_chunks(where / ROWS, lines)
        write_json(where / REPLAY, result.to_json())
    return result


def _work(plain: Any) -> list[Any]:
    """What makes a replay that one: schema, label maps and texts, then a digest for every model."""
    plain, names = mapping(plain), ("digest", "labels", "rows", "originals")
    sources = [[mapping(one).get(name) for name in names] for one in listed(plain.get("sources"))]
    digests = [mapping(one).get("digest") for one in listed(plain.get("models"))]
    return [plain.get("schema"), plain.get("label_map"), sources, *digests]


def _judged(texts: TextSet, victim: Victim, classes: tuple[int, ...]) -> list[dict[str, Any]]:
    """A row for every example."""
    rows: dict[int, dict[str, Any]] = {}
    jobs = ((number, _judge(pair, texts.columns, classes, victim)) for number, pair in enumerate(texts.pairs))
    failures = Failures(victim.clf, len(texts.columns), len(texts.pairs))
    with track(f"replay {texts.name} on {victim.clf.identity}", len(texts.pairs)) as bar:
        for number, found in drive(jobs, {"victim": victim}, victim.live):
            failures.check(found)
            if isinstance(found, Failed):
                found = {**(found.known or {}), "error": reason_of(found.problem)}
            rows[number] = {"id": texts.pairs[number].id, "label": texts.pairs[number].label, **found}
            bar.advance(1)
    return [rows[number] for number in sorted(rows)]


def _judge(pair: Pair, columns: tuple[str, ...], classes: tuple[int, ...], victim: Victim) -> Steps:
    """Whether the original and the adversarial text are right, and which label each is given; None where there is none."""
    given = {"original": pair.original, "adversarial": pair.adversarial}
    texts = {name: Text.of(text) for name, text in given.items() if text is not None}
    state = ExampleState(
        original=next(iter(texts.values())),
        goal=Untargeted(classes[pair.label]),
        column_names=columns,
        noise=victim.noise,
        in_flight=IN_FLIGHT // victim.live,
        still=False,
    )

    def answered(names: Sequence[str]) -> Steps:
        row: dict[str, Any] = {f"{name}_{what}": None for name in given for what in ("right", "predicted")}
        answers = yield from state.ask([texts[name] for name in names])
        for name, answer in zip(names, answers, strict=True):
            row[f"{name}_right"] = not (yield from state.reached(answer))
            predicted = answer.row.predicted
            row[f"{name}_predicted"] = classes.index(predicted) if predicted in classes else None
        return row

    try:
        return (yield from answered(list(texts)))
    except Exception as problem:
        if len(texts) == 1:
            raise
        return Failed(problem, (yield from answered(["original"])))


def _numbers(rows: Sequence[Mapping[str, Any]], texts: TextSet, clf: Classifier, max_failed: float) -> dict[str, Any]:
    """The numbers of one set on one model. An unanswered adversarial text counts as fallen in ``replayed``, and in no other number."""
    clean = [row for row in rows if row.get("original_right") is not None]
    errors = Counter(in_short(row["error"]) for row in rows if "error" in row)
    answers = [(row["original_right"], row["adversarial_right"]) for row in rows if "error" not in row]
    pairs = [(before, after) for before, after in answers if before is not None and after is not None]
    known = [after for _, after in answers if after is not None]
    originals, adversarials = [before for before, _ in pairs], [after for _, after in pairs]
    right = sum(row["original_right"] for row in clean)
    turned, mended = pairs.count((True, False)), pairs.count((False, True))
    instead = sum(before if after is None else after for before, after in answers if before is not None)
    shares = {
        "clean": (right, len(clean)),
        "originals": (sum(originals), len(pairs)),
        "adversarials": (sum(known), len(known)),
        "transfer": (turned, sum(originals)),
        "replayed": (instead, len(clean) if texts.kind == "attack" else 0),
    }
    values = {name: _percent(x / of) if of else None for name, (x, of) in shares.items()}
    intervals = {name: tuple(map(_percent, wilson(x, of))) for name, (x, of) in shares.items() if of}
    values["drop"] = _percent((turned - mended) / len(pairs)) if pairs else None
    if pairs:
        intervals["drop"] = tuple(map(_percent, paired_interval(originals, adversarials)))
    own = texts.kind == "attack" and isinstance(clf, ModelClassifier) and texts.about["model"]["digest"] == clf.digest
    one_class = len({row["label"] for row in rows if "error" not in row or row.get("original_right") is not None}) < 2
    table = (
        ("few-examples", len(known) < FEW, f"few examples: {len(known)} adversarial texts, fewer than {FEW}; look at the intervals"),
        ("one-class", one_class, "one class: all texts have the same label, so a model that always says it looks robust"),
        ("same-model", own, "same model: the texts were found on this very model"),
        ("no-originals", known and not pairs, "no originals: without the clean texts a mistake may be one that the attack did not cause"),
    )  # fmt: skip
    flags = [
        *below_chance(right, len(clean), len(clf.labels)),
        *failed(errors, len(rows), max_failed),
        *(Flag(code, text) for code, holds, text in table if holds),
    ]
    return {
        "n": len(clean) or len(known),
        "texts": len(known),
        "turned": turned,
        "mended": mended,
        "errors": errors.total(),
        **values,
        "intervals": intervals,
        "flags": [flag.text for flag in flags],
        "flag_codes": [flag.code for flag in flags],
    }


def _percent(share: float) -> float:
    return round(100 * share, DIGITS)
