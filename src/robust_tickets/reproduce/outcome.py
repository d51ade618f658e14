"""The outcome of a job, one small file. Tables, the page and claims are made from such files alone.

``FOLDER/units/<job id>.json`` holds the resolved config and its hash, the hashes of the inputs, versions and device, the clean accuracy,
the ticket's shape, the cost, traces, and for each attack the status of every example: one letter and its number of queries. The
ids of the examples, equal for all models, are once in ``FOLDER/examples/<hash>.json``. A ticket of heads and neurons is beside its
outcome, with its scores, in ``<job id>.ticket`` (``Ticket.load``); for one of single weights the outcome has the command that searches it
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from robust_tickets.config import build, digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json, write_text
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.paths import Paths, rows_of, weights_of
from robust_tickets.reproduce.protocol import part_of, rules
from robust_tickets.reproduce.published import toml
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.stats.compare_runs import TrainedRun

if TYPE_CHECKING:
    from robust_tickets.ticket.ticket import Ticket

SCHEMA = 1
BESIDE = ".ticket"  # ends the name of the folder of an outcome's ticket
BULK = 1.25  # most parameters, as a multiple of the matrices': biases and norms are a tenth of the smallest models
LETTERS = {FAILED: "f", SUCCESS: "s", SKIPPED: "k", UNKNOWN: "u", ERROR: "e"}  # a failed attack is a robust example
INSTEAD = {
    "vectors": "counter-fitted vectors", "encoder": "the Universal Sentence Encoder", "tagger": "the part-of-speech tagger",
    "masked": "the masked language model",
}  # fmt: skip
Metric = Literal["clean", "aua", "suc"]
assert set(LETTERS) == set(STATUSES)


def _damaged(message: str) -> TicketsError:
    return TicketsError(message, hint="restore the file, or remove it; results are not edited", code="outcome.damaged")


@dataclass(frozen=True, kw_only=True)
class Attacked:
    """One attack on one model, under its name in the protocol."""

    name: str
    recipe: str  # the attack's own name, dropped constraints included
    digest: str  # of everything that determines the result
    split: str
    examples: str  # hash of their ids, in order
    statuses: str  # a letter for each of them: see LETTERS
    queries: tuple[int, ...]
    resources: dict[str, Any]  # kind -> name, origin, digest, substitute
    substitutes: tuple[str, ...]  # in words: substitutes of the paper's resources
    flags: tuple[str, ...]
    temperature: float = 1.0
    scoring: str = "probability"
    seconds: float | None = None
    texts: tuple[dict[str, Any], ...] = ()  # some attacked texts: id, label, original, perturbed, before, after

    def __post_init__(self) -> None:
        if not {*self.statuses} <= {*LETTERS.values()} or len(self.statuses) != len(self.queries):
            raise _damaged(f"{self.name}: {len(self.statuses)} statuses and {len(self.queries)} numbers of queries")

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
        """Mean over the examples that were attacked."""
        asked = [q for q, letter in zip(self.queries, self.statuses, strict=True) if letter in "fs"]
        return sum(asked) / len(asked) if asked else None

    def run(self, unit: Job, ids: Sequence[str], metric: Metric = "aua", source: str = "") -> TrainedRun:
        """The training run with this measure as its value."""
        if len(ids) != len(self.statuses):
            raise _damaged(f"{unit.id}, {self.name}: {len(self.statuses)} statuses of {len(ids)} examples")
        names = {letter: status for status, letter in LETTERS.items()}
        statuses = {id: names[letter] for id, letter in zip(ids, self.statuses, strict=True)}
        return TrainedRun.of_statuses(statuses, seed=unit.seed, repeat=unit.repeat, measure=metric, source=source)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a job; percentages from 0 to 100."""

    unit: Job
    config: dict[str, Any]  # the resolved recipe
    inputs: dict[str, Any]  # hashes of the task's splits and of theta_0, the package's version
    env: dict[str, Any]
    clean: dict[str, Any]  # split, n, accuracy, interval, per_class
    cost: dict[str, Any]  # seconds, parameters, FLOPs; "processes": how many shared the device meanwhile
    ticket: dict[str, Any] | None = None  # digest, kind, removed, what survives, epoch, converged
    traces: dict[str, Any] = field(default_factory=dict)  # mask distances, gates, accuracy along training: for figures
    attacks: tuple[Attacked, ...] = ()
    notes: tuple[str, ...] = ()  # deviations: a shortened search, a subset of the training rows

    @property
    def config_hash(self) -> str:
        return digest(self.config)

    def attacked(self, name: str) -> Attacked | None:
        return next((one for one in self.attacks if one.name == name), None)


def foreign(known: Outcome, paths: Paths) -> str:
    """Why a result cannot be of these data and weights, by their sizes; empty if it can."""
    unit, part = known.unit, part_of(known.notes)
    if part is not None and not paths.subset:
        return f"there is a result of a part of the data: {part}"
    rows = rows_of(paths, unit.task).get("train")
    if part is None and rows is not None and rows not in rules(unit.task).train:
        return f"there is a result of all rows of {unit.task}; {rows:,} are in {paths.data}"
    here, then = weights_of(paths, unit.backbone), known.cost.get("dense_encoder_parameters")
    if here and isinstance(then, int | float) and not 1 <= then / here <= BULK:
        there = f"there is a result of a model with {then / 1e6:.3g} million parameters"
        return f"{there}; the one in {paths.models} has {here / 1e6:.3g}"
    return ""


def place(folder: Path, unit: Job) -> Path:
    return folder / "units" / f"{unit.id}.json"


def ticket_of(folder: Path, outcome: Outcome) -> Ticket | None:
    """The ticket beside an outcome; outcomes of single weights and the first ones have none."""
    from robust_tickets.ticket.ticket import Ticket

    path = place(folder, outcome.unit).with_suffix(BESIDE)
    if not path.is_dir():
        return None
    ticket = Ticket.load(path)
    if outcome.ticket is None or ticket.digest != outcome.ticket.get("digest"):
        raise _damaged(f"{path} is not the ticket of the outcome beside it")
    return ticket


def write(folder: Path, outcome: Outcome, examples: Mapping[str, Sequence[str]], ticket: Ticket | None = None) -> Path:
    """Write an outcome, the ids of its attacks' ``examples`` by their hash, and its ``ticket``."""
    if ticket is not None:
        ticket.save(place(folder, outcome.unit).with_suffix(BESIDE))
    for name, ids in examples.items():
        path = folder / "examples" / f"{name}.json"
        if not path.is_file():
            write_text(path, _text(list(ids)))
    values = {"schema": SCHEMA, **asdict(outcome), "config_hash": outcome.config_hash}
    return write_text(place(folder, outcome.unit), _text(values))


def read(path: Path) -> Outcome:
    """One outcome; refuse a file that cannot be read or whose config was edited."""
    try:
        values = dict(read_json(path))
        schema, hashed = values.pop("schema", None), values.pop("config_hash", None)
        outcome: Outcome = build(Outcome, values, "outcome")
    except (TypeError, ValueError, TicketsError) as problem:  # of hundreds of files, most are called seed-0.json
        raise _damaged(f"{path}: {getattr(problem, 'message', problem)}") from None
    if schema != SCHEMA or outcome.config_hash != hashed:
        raise _damaged(f"{path}: the config does not have the hash beside it, or schema {SCHEMA}")
    return replace(outcome, attacks=tuple(map(_renamed, outcome.attacks)))


def _renamed(attacked: Attacked) -> Attacked:
    """The attack with the protocol's names of its resources."""
    known: Mapping[str, str] = toml("attacks.toml")["called"]
    resources, words = dict(attacked.resources), [attacked.substitutes, attacked.flags]
    for kind, about in attacked.resources.items():
        if name := known.get(about.get("digest", "")):
            resources[kind] = {**about, "name": name}
            for begin, end in ((f"{INSTEAD.get(kind, kind)}: ", " instead"), (f"substitute {kind}: ", ";")):
                old, new = f"{begin}{about.get('name')}{end}", f"{begin}{name}{end}"
                words = [tuple(one.replace(old, new) for one in some) for some in words]
    return replace(attacked, resources=resources, substitutes=words[0], flags=words[1])


def read_all(folder: Path) -> tuple[Outcome, ...]:
    """All outcomes under a folder, in the order of their jobs; a folder that is not there has none.

    Two seeds of an arm with one model are refused: copied runs would narrow intervals. A repeat may have the same model.
    """
    found = []
    for path in sorted(path for path in (folder / "units").rglob("*.json") if path.parent.suffix != BESIDE):
        found.append(read(path))
        if place(folder, found[-1].unit) != path:
            raise _damaged(f"{path} holds the job {found[-1].unit.id}")
    found.sort(key=lambda one: one.unit)
    models: dict[Any, Job] = {}
    for one in found:
        if trained := one.inputs.get("trained"):
            before = models.setdefault((replace(one.unit, seed=0, repeat=0), trained), one.unit)
            if before.seed != one.unit.seed:
                raise _damaged(f"{before.id} and {one.unit.id} hold one trained model")
    return tuple(found)


def ids_of(folder: Path, examples: str) -> tuple[str, ...]:
    """The ids behind a hash."""
    path = folder / "examples" / f"{examples}.json"
    try:
        found = read_json(path)
    except TicketsError as problem:
        raise _damaged(f"the ids of attacked examples cannot be read: {problem.message}") from None
    if digest(found) != examples:
        raise _damaged(f"{path} has another hash than its name")
    return tuple(found)


def _text(value: Any) -> str:
    """Deterministic JSON; a line a key, lists of plain values on one line, for readable diffs."""
    return _lines(json.loads(json.dumps(value, allow_nan=False)), 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    inner = " " * (depth + 1)
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {_lines(value[key], depth + 1)}" for key in sorted(value)]
        return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(inner + _lines(one, depth + 1) for one in value) + "\n" + " " * depth + "]"
    return json.dumps(value, ensure_ascii=False)
