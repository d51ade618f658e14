"""Outcome: what a unit gave, in one small file that is kept. Whole tables, the page and every claim are made from such files alone.

``FOLDER/units/<unit id>.json`` holds the resolved config and its hash, the hashes of the inputs, versions and device, the clean accuracy,
the ticket's shape, the cost, what was traced, and for each attack what became of every example: one letter and its number of queries. The
ids of the examples, equal for all models, lie once in ``FOLDER/examples/<hash>.json``. A ticket of heads and neurons lies beside its
outcome, with its scores, in ``<unit id>.ticket`` (``Ticket.load``); of one of single weights the outcome says how to search it again.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from robust_tickets.config import build, digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_text
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.published import toml
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.stats.compare_runs import TrainedRun

if TYPE_CHECKING:
    from robust_tickets.ticket.ticket import Ticket


NEAR = 1e-6  # texts: shares are kept with all their digits
FOOLED = "s"
HINT = "restore the file; results are not edited"


def check(outcome: Outcome) -> None:
    """Refuse an outcome that contradicts itself."""
    for found in (_seed(outcome), _clean(outcome), _attacks(outcome)):
        if found:
            raise TicketsError(f"{outcome.unit.id}: {found}", hint=HINT)


def check_apart(outcomes: Sequence[Outcome]) -> None:
    """Refuse two seeds of an arm with one model: a run copied to another seed would make intervals narrower. A repeat may give it again."""
    known: dict[Any, Outcome] = {}
    for one in sorted(outcomes, key=lambda one: one.unit):
        if trained := one.inputs.get("trained"):
            unit = one.unit
            before = known.setdefault((unit.task, unit.arm, unit.backbone, unit.flavour, trained), one).unit
            if before.seed != unit.seed:
                raise TicketsError(
                    f"{before.id} and {unit.id} hold one trained model",
                    hint="a seed is a run of its own: remove the copy",
                )


def check_texts(outcome: Outcome, ids: Mapping[str, Sequence[str]]) -> None:
    """Refuse statuses that the texts kept beside them contradict: those are texts that fooled the model. ``ids``: by their hash."""
    for one in outcome.attacks:
        letters = dict(zip(ids.get(one.examples, ()), one.statuses, strict=False))  # too few are told elsewhere
        for text in one.texts:
            if letters.get(str(text.get("id")), FOOLED) != FOOLED:
                told = f"{outcome.unit.id}, {one.name}: {text['id']} fooled the model by its text, and did not by its status"
                raise TicketsError(told, hint=HINT)


def _seed(outcome: Outcome) -> str | None:
    recipe = outcome.config.get("recipe")
    own = recipe.get("seed", outcome.unit.seed) if isinstance(recipe, dict) else outcome.unit.seed
    return None if own == outcome.unit.seed else f"its config has the seed {own}"


def _clean(outcome: Outcome) -> str | None:
    """Accuracy is a count of the evaluated texts, and that of its classes."""
    clean: dict[str, Any] = {name: outcome.clean.get(name) for name in ("accuracy", "n", "per_class")}
    value, n, classes = clean.values()
    if not _number(value):
        return None  # said where it is asked for
    if not 0 <= value <= 100:
        return f"a clean accuracy of {value} %"
    if not _number(n):
        return None
    right = value * n / 100
    if abs(right - round(right)) > NEAR * n:
        return f"a clean accuracy of {value} %, which is no count of {n} texts"
    try:
        told = math.fsum(one["recall"] * one["n"] / 100 for one in classes) if classes else right
    except (KeyError, TypeError):
        return "its classes cannot be read"
    return None if abs(told - right) <= NEAR * n else f"{right:.0f} of {n} texts are right, by its classes {told:.0f}"


def _attacks(outcome: Outcome) -> str | None:
    twice = [name for name, count in Counter(one.name for one in outcome.attacks).items() if count > 1]
    return f"{twice[0]} stands in it twice" if twice else None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


SCHEMA = 1
BESIDE = ".ticket"  # ends the name of the folder of an outcome's ticket
LETTERS = {FAILED: "f", SUCCESS: "s", SKIPPED: "k", UNKNOWN: "u", ERROR: "e"}  # a failed attack is a robust example
INSTEAD = {
    "vectors": "counter-fitted vectors", "encoder": "the Universal Sentence Encoder", "tagger": "the part-of-speech tagger",
    "masked": "the masked language model",
}  # fmt: skip
Metric = Literal["clean", "aua", "suc"]
assert set(LETTERS) == set(STATUSES)


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """One attack on one model, under its name in the protocol."""

    name: str
    recipe: str  # as the attack calls itself, dropped constraints included
    digest: str  # of everything that determines the result
    split: str
    examples: str  # hash of their ids, in order
    statuses: str  # a letter for each of them: see LETTERS
    queries: tuple[int, ...]
    resources: dict[str, Any]  # kind -> name, origin, digest, substitute
    substitutes: tuple[str, ...]  # in words: what stood in for a resource of the paper
    flags: tuple[str, ...]
    temperature: float = 1.0
    scoring: str = "probability"
    seconds: float | None = None
    texts: tuple[dict[str, Any], ...] = ()  # some attacked texts: id, label, original, perturbed, before, after

    def __post_init__(self) -> None:
        wrong = set(self.statuses) - set(LETTERS.values())
        if wrong or len(self.statuses) != len(self.queries):
            raise TicketsError(
                f"{self.name}: {len(self.statuses)} statuses and {len(self.queries)} numbers of queries"
                + (f", {wrong}" if wrong else ""),
                hint="one letter of f, s, k, u, e and one number for each example",
            )

    @property
    def n(self) -> int:
        """Examples that were counted: not those whose clean text was not answered."""
        return len(self.statuses) - self.statuses.count("e")

    @property
    def tried(self) -> int:
        """Examples that were attacked: not those that the model had wrong before."""
        return self.statuses.count("f") + self.statuses.count("s")

    def share(self, metric: Metric) -> float | None:
        """Percent; ``None`` where nothing was counted."""
        f, s, u = (self.statuses.count(letter) for letter in "fsu")
        over, of = {"aua": (f, self.n), "clean": (f + s + u, self.n), "suc": (s, f + s)}[metric]
        return 100 * over / of if of else None

    @property
    def mean_queries(self) -> float | None:
        """Over the examples that were attacked."""
        asked = [q for q, letter in zip(self.queries, self.statuses, strict=True) if letter in "fs"]
        return sum(asked) / len(asked) if asked else None

    def run(self, unit: Unit, ids: Sequence[str], metric: Metric = "aua", source: str = "") -> TrainedRun:
        """The training run with this measure as its value."""
        if len(ids) != len(self.statuses):
            told = f"{unit.id}, {self.name}: {len(self.statuses)} statuses of {len(ids)} examples"
            raise TicketsError(told, hint=HINT)
        names = {letter: status for status, letter in LETTERS.items()}
        statuses = {id: names[letter] for id, letter in zip(ids, self.statuses, strict=True)}
        return TrainedRun.of_statuses(statuses, seed=unit.seed, repeat=unit.repeat, measure=metric, source=source)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that is kept of a unit. Percentages from 0 to 100."""

    unit: Unit
    config: dict[str, Any]  # the resolved recipe
    inputs: dict[str, Any]  # hashes of the task's splits and of theta_0, the package's version
    env: dict[str, Any]
    clean: dict[str, Any]  # split, n, accuracy, interval, per_class
    cost: dict[
        str, Any
    ]  # seconds of search and training, parameters, FLOPs; "processes": how many shared the device meanwhile
    ticket: dict[str, Any] | None = (
        None  # digest, kind, removed, heads and neurons or weights that survive, epoch, converged
    )
    traces: dict[str, Any] = field(
        default_factory=dict
    )  # for figures: mask distances, gates over the epochs, accuracy along training
    attacks: tuple[Attacked, ...] = ()
    notes: tuple[str, ...] = ()  # deviations: a shortened search, a subset of the training rows

    @property
    def config_hash(self) -> str:
        return digest(self.config)

    def attacked(self, name: str) -> Attacked | None:
        return next((one for one in self.attacks if one.name == name), None)


def place(folder: Path, unit: Unit) -> Path:
    return folder / "units" / f"{unit.id}.json"


def ticket_of(folder: Path, outcome: Outcome) -> Ticket | None:
    """The ticket that lies beside an outcome; none lies beside those of single weights, nor beside the first outcomes."""
    from robust_tickets.ticket.ticket import Ticket

    path = place(folder, outcome.unit).with_suffix(BESIDE)
    if not path.is_dir():
        return None
    ticket = Ticket.load(path)
    if outcome.ticket is None or ticket.digest != outcome.ticket.get("digest"):
        raise TicketsError(f"{path} is not the ticket of the outcome beside it", hint=HINT)
    return ticket


def write(folder: Path, outcome: Outcome, examples: Mapping[str, Sequence[str]], ticket: Ticket | None = None) -> Path:
    """Keep an outcome; ``examples`` are the ids behind the hashes that its attacks name, ``ticket`` lies beside it."""
    if ticket is not None:
        ticket.save(place(folder, outcome.unit).with_suffix(BESIDE))
    for name, ids in examples.items():
        if digest(list(ids)) != name:
            raise TicketsError(f"the ids of {name[:12]} have another hash", hint="digest(list(ids)) names them")
        path = folder / "examples" / f"{name}.json"
        if not path.is_file():
            write_text(path, _text(list(ids)))
    told = {"schema": SCHEMA, **asdict(outcome), "config_hash": outcome.config_hash}
    return write_text(place(folder, outcome.unit), _text(told))


def read(path: Path) -> Outcome:
    """One outcome; a file that was changed by hand in its config, or that contradicts itself (``sound``), is refused."""
    told = read_json(path)
    if not isinstance(told, dict) or told.pop("schema", None) != SCHEMA:
        raise TicketsError(f"{path} is no outcome of schema {SCHEMA}", hint="remove it: its unit is then run again")
    hashed = told.pop("config_hash", None)
    try:
        outcome: Outcome = build(Outcome, told, "outcome")
    except TicketsError as problem:  # of hundreds of files, most are called seed-0.json
        raise TicketsError(f"{path}: {problem.message}", hint=HINT) from None
    if outcome.config_hash != hashed:
        raise TicketsError(f"{path}: the config does not have the hash beside it", hint=HINT)
    check(outcome)
    return replace(outcome, attacks=tuple(map(_called, outcome.attacks)))


def _called(attacked: Attacked) -> Attacked:
    """The attack with the protocol's names for what it used, wherever that lay."""
    known = toml("attacks.toml")["called"]
    found = {
        kind: known[about["digest"]]
        for kind, about in attacked.resources.items()
        if isinstance(about, dict) and about.get("digest") in known
    }
    resources = {
        kind: {**about, "name": found[kind]} if kind in found else about for kind, about in attacked.resources.items()
    }
    told = [*attacked.substitutes, *attacked.flags]
    for kind, name in found.items():
        before = attacked.resources[kind].get("name")
        for begin, end in ((f"{INSTEAD.get(kind, kind)}: ", " instead"), (f"substitute {kind}: ", ";")):
            told = [words.replace(f"{begin}{before}{end}", f"{begin}{name}{end}") for words in told]
    count = len(attacked.substitutes)
    return replace(attacked, resources=resources, substitutes=tuple(told[:count]), flags=tuple(told[count:]))


def read_all(folder: Path) -> tuple[Outcome, ...]:
    """All outcomes under a folder, in the order of their units; a folder that is not there has none."""
    found = []
    for path in sorted(path for path in (folder / "units").rglob("*.json") if path.parent.suffix != BESIDE):
        outcome = read(path)
        if place(folder, outcome.unit) != path:
            raise TicketsError(f"{path} holds the unit {outcome.unit.id}", hint="a unit's file lies under its id")
        found.append(outcome)
    check_apart(found)
    named = {attacked.examples for outcome in found for attacked in outcome.attacks if attacked.texts}
    ids = {name: ids_of(folder, name) for name in named if (folder / "examples" / f"{name}.json").is_file()}
    for outcome in found:
        check_texts(outcome, ids)
    return tuple(sorted(found, key=lambda outcome: outcome.unit))


def ids_of(folder: Path, examples: str) -> tuple[str, ...]:
    """The ids behind a hash."""
    path, hint = (
        folder / "examples" / f"{examples}.json",
        "restore the file, or remove the results that name it and run them again",
    )
    try:
        found = read_json(path)
    except TicketsError as problem:
        raise TicketsError(f"the ids of attacked examples cannot be had: {problem.message}", hint=hint) from None
    if digest(found) != examples:
        raise TicketsError(f"{path} has another hash than its name", hint=hint)
    return tuple(found)


def _text(value: Any) -> str:
    """The same bytes for the same outcome; a line a key, lists of plain values on one line, so that changes can be read."""
    return _lines(json.loads(json.dumps(value, allow_nan=False)), 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    inner = " " * (depth + 1)
    if isinstance(value, dict) and value:
        told = [f"{inner}{json.dumps(key)}: {_lines(value[key], depth + 1)}" for key in sorted(value)]
        return "{\n" + ",\n".join(told) + "\n" + " " * depth + "}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(inner + _lines(one, depth + 1) for one in value) + "\n" + " " * depth + "]"
    return json.dumps(value, ensure_ascii=False)
