"""Attack once, replay on all: adversarial texts found on one model, or written down in a file, put to others.

A replayed text was made against another model, so a model that resists it has resisted little, while one that falls has fallen for
certain: the accuracy here is an upper bound of the accuracy under an attack of its own. Whether a text is right is settled as in an
attack (a near tie is run alone), so the model that was attacked falls for every text that was found on it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.choose import classes_of
from robust_tickets.attack.conclude import about_model
from robust_tickets.attack.earlier import REPLAY, ROWS, SCHEMA, Earlier
from robust_tickets.attack.failures import MAX_FAILED, answers, fatal, hopeless, said
from robust_tickets.attack.flags import FAILED_EXAMPLES
from robust_tickets.attack.game import IN_FLIGHT, Game
from robust_tickets.attack.limits import check_failed
from robust_tickets.attack.replayed import Count
from robust_tickets.attack.scheduler import Failed, drive
from robust_tickets.attack.sets import Pair, TextSet, open_set
from robust_tickets.attack.text import Text
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.given import a_classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import write_chunks, write_json
from robust_tickets.jsonl_log import to_line
from robust_tickets.progress import track
from robust_tickets.run import made

HOPELESS = 20  # texts that failed in a row: the cause is not in the texts


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
        )

    @property
    def failed(self) -> bool:
        """Whether too many examples of a cell failed."""
        return any(FAILED_EXAMPLES in cell["flag_codes"] for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        names = ("sources", "models", "cells", "label_map", "seconds", "env")
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in names}}


def replay(
    sources: Any,
    models: Classifier | Iterable[Classifier],
    *,
    labels: Sequence[str] | None = None,
    label_map: Mapping[str, int | str] | Sequence[Mapping[str, int | str]] | None = None,
    folder: str | Path | None = None,
    token_budget: int | None = None,
    max_failed: float = MAX_FAILED,
) -> Replay:
    """Put texts to models. ``sources``: an attack's result or folder, a file, a split, what ``open_set`` opened, or a list of these.

    Labels are matched to each model's by name, or by ``label_map``, one for all models or a list with one of each; ``labels`` names those
    of a split or a file. ``models`` may load one after another (a generator): one at a time is kept. With a folder, ``rows.jsonl`` gets a
    line for every set, model and example, and ``replay.json`` the numbers; a folder with another replay is refused. ``max_failed`` as
    ``attack.engine.run_attack`` has it.
    """
    check_failed(max_failed)
    several = isinstance(sources, Iterable) and not isinstance(sources, Split | str | bytes)
    given = list(sources) if several else [sources]
    sets = [one if isinstance(one, TextSet) else open_set(one, labels=labels) for one in given]
    if not sets:
        raise TicketsError("nothing to replay: no set of texts", hint="give an attack's folder or a file")
    known = [name for one in sets for name in one.labels]
    maps: list[Mapping[str, int | str]] = (
        [label_map] if isinstance(label_map, Mapping) else list(label_map or ()) or [{}]
    )
    each = len(maps) > 1
    for name in (name for one in maps for name in one):
        if name not in known:
            raise TicketsError(
                f"the label map names {name!r}; the texts have {', '.join(dict.fromkeys(known))}",
                hint=did_you_mean(name, known),
            )
    start, place = time.monotonic(), None if folder is None else Path(folder)
    about = [{"kind": s.kind, "name": s.name, "labels": list(s.labels), "rows": s.size, **s.about} for s in sets]
    shown = [dict(one) for one in maps] if each else dict(maps[0])
    earlier = Earlier.of(place, about, shown)
    told: list[dict[str, Any]] = []
    cells: list[dict[str, Any]] = []

    def lines() -> Iterator[bytes]:
        for number, clf in enumerate(
            models if isinstance(models, Iterable) and not isinstance(models, str) else [models]
        ):
            a_classifier(clf, "to attack")
            told.append(about_model(clf))
            earlier.check(told)
            if each and number >= len(maps):
                raise TicketsError(
                    f"{len(maps)} label maps, and more models", hint="give one label map, or one for each model"
                )
            victim = Victim(clf, token_budget)
            for which, texts in enumerate(sets):
                count, classes = Count(), _classes(texts, clf, maps[number if each else 0])
                for row in _judged(texts, clf, victim, classes):
                    count.add(row)
                    yield to_line({"source": which, "model": number, **row})
                cells.append({"source": which, "model": number, **count.numbers(texts, clf, classes, max_failed)})
        earlier.check(told, all_of_them=True)
        if each and len(told) < len(maps):
            raise TicketsError(
                f"{len(maps)} label maps, {len(told)} model(s)", hint="give one label map, or one for each model"
            )

    if place is None:
        for _ in lines():
            pass
    else:
        write_chunks(place / ROWS, lines())
    if not told:
        raise TicketsError("nothing to replay on: no model", hint="give at least one classifier")
    result = Replay(
        sources=tuple(about),
        models=tuple(told),
        cells=tuple(cells),
        label_map=shown,
        seconds=round(time.monotonic() - start, 3),
        env=made(file for one in sets for file in one.files),
        folder=place,
    )
    if place is not None:
        write_json(place / REPLAY, result.to_json())
    return result


def _classes(texts: TextSet, clf: Classifier, label_map: Mapping[str, int | str]) -> tuple[int, ...]:
    clf.check_columns(texts.columns, texts.name)
    mine = {
        name: to for name, to in label_map.items() if name in texts.labels
    }  # sets may name their labels differently
    return classes_of(texts.labels, clf.labels, mine) or ()


@dataclass(frozen=True, slots=True)
class _Plain:
    columns: tuple[str, ...]


def _judge(pair: Pair, target: int, names: tuple[str, ...], noise: float, in_flight: int) -> Steps:
    """(right, predicted class) of the original and of the adversarial text; None where there is none."""
    texts = [columns for columns in (pair.original, pair.adversarial) if columns is not None]
    game = Game(
        original=Text.of(texts[0]), label=target, column_names=names, noise=noise, in_flight=in_flight, still=False
    )
    asked = [_Plain(columns) for columns in texts]
    try:
        return (yield from _rights(game, asked, pair))
    except Exception as problem:
        if len(asked) == 1:
            raise
        original = yield from _rights(game, asked[:1], pair)
        return Failed(problem, original)


def _rights(game: Game, asked: Sequence[_Plain], pair: Pair) -> Steps:
    answers = yield from game.ask(asked)
    found: list[tuple[bool, int] | None] = []
    for answer in answers:
        won = yield from game.won(answer)
        found.append((not won, answer.row.predicted))
    if pair.original is None:
        found.insert(0, None)
    return found if len(found) == 2 else [*found, None]


def _judged(texts: TextSet, clf: Classifier, victim: Victim, classes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """A row for every example, in the set's order; what waits for its turn is at most about as much as is under way."""
    asked: dict[int, Pair] = {}
    ready: dict[int, dict[str, Any]] = {}

    def jobs() -> Iterator[tuple[int, Steps]]:
        for number, pair in enumerate(texts.pairs()):
            asked[number] = pair
            yield number, _judge(pair, classes[pair.label], texts.columns, victim.noise, IN_FLIGHT // victim.live)

    turn = wrong = known = 0
    with track(f"replay {texts.name} on {clf.identity}", texts.size) as bar:
        for number, found in drive(jobs(), {"victim": victim}, victim.live):
            pair = asked.pop(number)
            wrong = wrong + 1 if isinstance(found, Failed) else 0
            if isinstance(found, Failed):
                if end := fatal(found.problem):
                    raise end
                known += found.known is not None
                if (wrong % HOPELESS == 0 and not answers(clf, len(texts.columns))) or (
                    wrong == texts.size and not known
                ):
                    raise hopeless(found.problem, wrong)
                row = {} if found.known is None else _row(found.known, classes)
                ready[number] = {"id": pair.id, "label": pair.label, **row, "error": said(found.problem)}
            else:
                ready[number] = {"id": pair.id, "label": pair.label, **_row(found, classes)}
            bar.advance(1)
            while turn in ready:
                yield ready.pop(turn)
                turn += 1


def _row(found: Sequence[tuple[bool, int] | None], classes: tuple[int, ...]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, answer in zip(("original", "adversarial"), found, strict=True):
        row[f"{name}_right"] = None if answer is None else answer[0]
        row[f"{name}_predicted"] = classes.index(answer[1]) if answer is not None and answer[1] in classes else None
    return row
