"""The result of an attack: numbers, intervals and every example."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from robust_tickets.attack.cuda import unconfirmed
from robust_tickets.attack.example import STILL
from robust_tickets.attack.flags import FAILED_EXAMPLES, flags_of, in_short, too_many
from robust_tickets.attack.tables import write_table
from robust_tickets.classifier.callable import UNSTEADY
from robust_tickets.config import build
from robust_tickets.errors import FAILED as EXIT_FAILED
from robust_tickets.errors import DamagedError, TicketsError, did_you_mean
from robust_tickets.files import mapping, read_json, write_chunks, write_json
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.stages import made, same_work
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, STATUSES, SUCCESS, UNKNOWN, attack_metrics
from robust_tickets.stats.intervals import wilson

if TYPE_CHECKING:
    from robust_tickets.attack.attack import AttackRun

PART, FINAL, RESULT = "examples.jsonl.part", "examples.jsonl", "result.json"
SCHEMA, LOG_SCHEMA = 2, 1
DIGITS = 4  # decimals of percentages and means in result.json
SATURATED = 0.9999  # a probability above which a move of the logits by 0.01 is within the rounding of 1 - p
Z = 1.959964  # of a 95 % interval
TEXTS = ("original", "perturbed", "changed")  # of a line, what no number comes from
SPREAD = {"min": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "max": 1.0}
AGAIN = "the file is damaged: run the attack again"


@dataclass(frozen=True, kw_only=True)
class ExampleOutcome:
    """What became of one example. Labels are class numbers of the task; ``changed`` marks words in the perturbed text."""

    id: str
    label: int
    status: str  # success | failed | skipped | unknown (right before, and its attack failed) | error
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None = None  # where the search ended; of a failed attack, its best try
    queries: int = 0
    fell_at: int | None = None  # of a success: the smallest budget from which on every budget breaks the example
    words: int = 0
    words_changed: int = 0  # positions at which the words differ
    changed: tuple[Mapping[str, Any], ...] = ()
    predicted_before: int | None = None
    predicted_after: int | None = None
    score_before: float | None = None  # 1 - p(label)
    score_after: float | None = None
    similarity: float | None = None  # cosine with the reference of the constraint that measured it last
    confidence: float | None = None  # highest probability of the clean text
    forward_passes: int = 0
    candidates: int = 0  # texts the search tried, those of the ranking left out
    blind: bool | None = None  # the ranking saw no score move, so that it ordered nothing; None: nothing was ranked
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "error" or value is not None}


class Tally:
    """What the examples say (``lines``, as examples.jsonl has them), from which all numbers and flags of a result come.

    ``unsteady``: texts to which a callable gave another answer than when it was probed. ``unconfirmed``: outcomes of a copy in half
    precision that the victim does not confirm.
    """

    def __init__(self, lines: Iterable[Mapping[str, Any]], unsteady: int = 0, unconfirmed: int | None = None) -> None:
        self.unsteady: int = unsteady
        self.unconfirmed: int | None = unconfirmed
        known = [{name: value for name, value in line.items() if name not in TEXTS} for line in lines]
        answered = [line for line in known if line["status"] != ERROR]
        ended = [line for line in known if line["status"] in (SUCCESS, FAILED)]
        turned = [line for line in ended if line["status"] == SUCCESS]
        self.statuses = Counter(line["status"] for line in known)
        self.n: int = len(answered)  # examples whose clean text was answered
        self.ended: int = len(ended)
        self.attacked: int = self.ended + self.statuses[UNKNOWN]  # right before
        failed = [line for line in known if line["status"] in (UNKNOWN, ERROR)]
        self.reasons: Counter[str] = Counter(in_short(line.get("error") or "") for line in failed)
        self.passes = sum(line["forward_passes"] for line in known)
        self.queries, self.words, confidence = ([x[k] for x in ended] for k in ("queries", "words", "confidence"))
        self.mean_confidence: float = sum(confidence) / len(confidence) if confidence else 0.0
        at = [line.get("fell_at") for line in turned]  # the budget from which on every budget breaks it
        self.fell = [line["queries"] if fell is None else fell for line, fell in zip(turned, at, strict=True)]
        self.changed = [100 * line["words_changed"] / line["words"] for line in turned if line["words"]]  # percent
        self.similarity = [x["similarity"] for x in turned if x.get("similarity") is not None]
        # the ranking saw no score move: the victim is as good as certain, or else no text at all moved its score
        sure, unsure = (
            [x for x in ended if x.get("blind") and (x["confidence"] > SATURATED) == y] for y in (True, False)
        )
        self.blind: int = len(sure)
        moves = [abs(x["score_after"] - x["score_before"]) for x in unsure if x["status"] == FAILED]
        self.unmoved: int = sum(move <= STILL for move in moves)
        self.stuck: int = sum(line.get("candidates") == 0 for line in ended)  # there was nothing to try
        self.classes: set[int] = {line["label"] for line in answered}
        # the one class that every text got and none was turned from: a victim that some change turned does read its texts
        given = {line.get("predicted_before") for line in answered}
        self.only_answer: int | None = next(iter(given)) if len(given) == 1 and not turned else None

    def metrics(self, query_budget: int | None = None) -> dict[str, Any]:
        """The numbers of result.json, counted as TextAttack counts; None where nothing was counted."""
        success, failed, skipped, unknown = (self.statuses[name] for name in (SUCCESS, FAILED, SKIPPED, UNKNOWN))
        values, ends = attack_metrics(successes=success, failures=failed, skipped=skipped, unknown=unknown)
        for name in ("queries", "changed", "similarity", "words"):
            value, interval = _mean(getattr(self, name))
            known = "perturbed" if name == "changed" else name
            values[known] = value
            if interval is not None and name != "words":
                ends[known] = interval
        return {
            **{name: None if value is None else _round(value) for name, value in values.items()},
            "intervals": {name: (_round(low), _round(high)) for name, (low, high) in ends.items()},
            "outcomes": {status: self.statuses[status] for status in STATUSES},
            "spread": self.spread(),
            "curve": tuple(self.curve(query_budget)),
            "n": self.n,
            "errors": self.reasons.total(),
            "forward_passes": self.passes,
        }

    def spread(self) -> dict[str, int] | None:
        """Quantiles of the queries an attacked example took: the smallest number that such a share of them did not exceed."""
        spent = sorted(self.queries)
        return {name: spent[max(1, math.ceil(q * len(spent))) - 1] for name, q in SPREAD.items()} if spent else None

    def curve(self, query_budget: int | None = None) -> Iterator[dict[str, Any]]:
        """Accuracy at budgets 1, 2, 5, 10, …, up to where nothing changes any more or the run's own budget ends."""
        last = max(self.queries, default=1)
        for budget in (
            budgets(last if query_budget is None else min(last, query_budget), query_budget) if self.n else ()
        ):
            broken = sum(at <= budget for at in self.fell)
            right = self.ended - broken  # what is unknown has fallen, at any budget
            ends = [_round(100 * end) for end in wilson(right, self.n)]
            yield {"budget": budget, "broken": broken, "accuracy": _round(100 * right / self.n), "interval": ends}


def _mean(values: Sequence[float]) -> tuple[float | None, tuple[float, float] | None]:
    """The mean and the normal interval around it."""
    n = len(values)
    if n < 2:
        return (values[0] if values else None), None
    mean = sum(values) / n
    variance = max(0.0, (sum(value * value for value in values) - n * mean * mean) / (n - 1))
    half = Z * math.sqrt(variance / n)
    return mean, (mean - half, mean + half)


def budgets(last: int, most: int | None = None) -> Iterator[int]:
    """1, 2, 5, 10, 20, … up to the first that is not below ``last``, none above ``most``, which is then the end."""
    for budget in (step * 10**power for power in count() for step in (1, 2, 5)):
        if most is not None and budget >= most:
            yield most
            return
        yield budget
        if budget >= last:
            return


def _round(value: float) -> float:
    return round(value, DIGITS)


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """An attack in numbers. Percentages from 0 to 100; ``None`` where nothing was counted.

    ``clean`` is on the attacked examples, ``clean_full`` on the whole split; ``queries`` counts as TextAttack does,
    ``forward_passes`` is what was run.
    """

    attack: str
    digest: str  # of everything that determines the result
    semantics: str  # whose rules the recipe was written from
    compat: str | None  # the version of TextAttack whose rules held, example by example; none for own rules
    constraints: tuple[str, ...]  # where candidates come from, and which rules they pass
    resources: Mapping[str, Mapping[str, Any]]
    model: Mapping[str, Any]
    task: Mapping[str, Any]
    ids: tuple[str, ...]
    subset: str  # how they were chosen: balanced | random | first | first-of-each | ids, where they were named
    n: int
    seed: int
    scoring: str  # what candidates were judged by: probability | log-odds
    query_budget: int | None
    clean: float | None
    aua: float | None  # one answered right whose attack failed counts as fallen
    aua_upper: float | None  # and here as held
    suc: float | None
    queries: float | None
    forward_passes: int
    temperature: float  # logits were divided by it
    calibration: Mapping[str, Any] | None  # what it was fitted on and how well it fits; none where it was given
    seen: Mapping[str, Any] | None  # how many attacked texts the victim was trained on; none where that is not known
    precision: str | None  # of the copy that was attacked; none where it was the victim itself
    unconfirmed: int | None  # outcomes of the copy that the victim does not confirm, see attack.cuda
    intervals: Mapping[str, tuple[float, float]]
    flags: tuple[str, ...]
    flag_codes: tuple[str, ...]  # of each flag, a word for programs
    errors: int
    clean_full: float | None
    perturbed: float | None  # mean percent of the words, over the successes
    similarity: float | None  # mean over the successes whose similarity a constraint measured
    words: float | None  # mean over the attacked examples
    outcomes: Mapping[str, int]  # examples by status
    spread: Mapping[str, int] | None  # quantiles of the queries of an attacked example
    curve: tuple[Mapping[str, Any], ...]  # accuracy at some query budgets
    seconds: float
    env: Mapping[str, Any]
    folder: Path | None = field(default=None, compare=False)
    lines: tuple[bytes, ...] = field(default=(), compare=False)  # of an attack without a folder

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in ("clean", "aua", "suc", "queries")}
        numbers = ", ".join(f"{name}={value:.1f}" for name, value in values.items() if value is not None)
        return (
            f"AttackResult({self.attack} on {self.model.get('identity')!r}, n={self.n}, {numbers}, {self.flag_codes})"
        )

    def interval(self, name: str) -> tuple[float, float]:
        """The 95 % interval of ``clean``, ``aua``, ``suc`` (Wilson), ``queries``, ``perturbed`` or ``similarity`` (normal)."""
        if name not in self.intervals:
            message = f"there is no interval of {name!r} here"
            raise TicketsError(message, hint=did_you_mean(name, self.intervals), code="attack.interval")
        low, high = self.intervals[name]
        return low, high

    def failed(self, most: float) -> bool:
        """Whether too many examples failed: more than ``most`` percent of them, and more than two."""
        return too_many(self.errors, len(self.ids), most)

    def to_repeat(self, most: float) -> bool:
        """Whether too many examples failed, now or when it was made."""
        return self.failed(most) or FAILED_EXAMPLES in self.flag_codes

    def examples(self) -> Iterator[ExampleOutcome]:
        """Every example in the order of the attack set."""
        known = {f.name for f in fields(ExampleOutcome)}
        for line in self._outcomes():
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in line.items() if k in known}
            yield ExampleOutcome(**values)

    def table(self, path: str | Path) -> Path:
        """Write the examples as a table, streamed: .csv, .tsv or .parquet."""
        return write_table(self._outcomes(), tuple(map(str, self.task["columns"])), path)

    def _lines(self) -> Iterator[bytes]:
        return iter(self.lines) if self.folder is None else read_lines(self.folder / FINAL)

    def _outcomes(self) -> Iterator[dict[str, Any]]:
        return map(_outcome, self._lines())

    def to_json(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("folder", "lines")}
        return {"schema": SCHEMA, **json.loads(json.dumps(plain, default=dict))}

    def save(self, folder: str | Path) -> Path:
        """Write ``examples.jsonl`` and, last, ``result.json``."""
        folder = Path(folder)
        if self.folder is None or folder.resolve() != self.folder.resolve():
            write_chunks(folder / FINAL, self._lines())
        write_json(folder / RESULT, self.to_json())
        return folder

    @classmethod
    def of(cls, run: AttackRun, log: ExampleLog) -> AttackResult:
        """The result of a run all of whose examples are done."""
        moved = _unsteady(run, log.lines()) if run.temperature == 1 else 0
        lowered = run.options.precision is not None
        differ = unconfirmed(run.victim, log.lines(), run.class_of) if lowered else None
        tally = Tally(map(_outcome, log.lines()), moved, differ)
        flags = flags_of(run, tally)
        return cls(
            **run.header(),
            unconfirmed=differ,
            flags=tuple(flag.text for flag in flags),
            flag_codes=tuple(flag.code for flag in flags),
            seconds=round(log.spent, 3),
            env=made(run.split.table.files),
            folder=log.folder,
            lines=tuple(log.lines()) if log.folder is None else (),
            **tally.metrics(run.options.query_budget),
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        path = Path(folder) / RESULT
        values = dict(mapping(read_json(path)))
        schema = values.pop("schema", None)
        if isinstance(schema, int) and schema != SCHEMA:
            raise TicketsError(
                f"{path} is an attack result of schema {schema}, this version reads {SCHEMA}",
                hint="another version made it: remove it, and run the attack again",
                code="attack.schema",
            )
        try:
            found: Self = build(cls, values, str(path))
        except TicketsError as problem:
            raise DamagedError(problem.message, hint=AGAIN, code="attack.damaged") from None
        return replace(found, folder=path.parent)


def _unsteady(run: AttackRun, lines: Iterable[bytes]) -> int:
    """To how many of the texts that it was probed with a callable gave another answer in the attack; costs no query."""
    moved = 0
    for probe, line in zip(run.probes, map(_outcome, lines), strict=False):
        if probe is not None and line["status"] != ERROR:
            before = max(probe), 1 - probe[run.class_of(line["label"])]
            now = line["confidence"], line["score_before"]
            moved += any(abs(a - b) > UNSTEADY for a, b in zip(before, now, strict=True))
    return moved


class ExampleLog(Lines):
    """The finished examples of an attack, a line each, written as soon as it is known, so that a killed attack resumes.

    ``examples.jsonl.part`` begins with a header that says which attack it is; then comes a line for every finished example, in the
    order they finish: its number in the attack set, the seconds spent so far, and its JSON. A torn last line is dropped on resuming,
    and an example that failed is tried again. At the end the lines are sorted into ``examples.jsonl``. Without a folder they are kept
    in memory.
    """

    def __init__(self, folder: Path | None, count: int, digest: str) -> None:
        self.offsets = array("q", [-1]) * count  # where the line of an example begins
        self.spent = 0.0  # seconds, by earlier calls too
        super().__init__(None if folder is None else folder / PART, {"schema": LOG_SCHEMA, "attack": digest})

    def busy(self) -> TicketsError:
        return TicketsError(
            f"another process is attacking into this folder: {self.folder}",
            hint="wait for it, or give another folder",
            exit_code=EXIT_FAILED,
            code="attack.busy",
        )

    def other(self, found: Any, header: dict[str, Any]) -> None:
        same_work(self.part, found, header)

    def take(self, line: bytes, place: int) -> bool:
        try:
            number, spent, body = line.split(b"\t", 2)
            i, self.spent, status = int(number), float(spent), mapping(loaded(body)).get("status")
        except ValueError:
            return False
        if status not in STATUSES or not 0 <= i < len(self.offsets):
            return False
        self.offsets[i] = -1 if status in (UNKNOWN, ERROR) else place
        return True

    def take_over(self, result: AttackResult) -> None:
        """Add the examples of a finished attack that did not fail, but for those that are here already."""
        for number, line in enumerate(result._outcomes()):
            if self.offsets[number] < 0 and line["status"] not in (UNKNOWN, ERROR):
                self.add(number, line, result.seconds)
        self.spent = max(self.spent, result.seconds)

    def missing(self) -> list[int]:
        """The examples that are not done yet."""
        return [number for number, place in enumerate(self.offsets) if place < 0]

    def add(self, number: int, outcome: Mapping[str, Any], seconds: float) -> None:
        self.offsets[number] = self.append(b"%d\t%.3f\t" % (number, seconds) + to_line(outcome))
        self.spent = seconds

    def lines(self) -> Iterator[bytes]:
        """The JSON lines in the order of the attack set."""
        with self.reader() as lines:
            for place in self.offsets:
                if place >= 0:
                    lines.seek(place)
                    yield lines.readline().split(b"\t", 2)[2]


def read_lines(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as stream:
            yield from stream
    except OSError as problem:
        message = f"could not read {path}: {problem.strerror}"
        raise TicketsError(message, hint="run the attack again", code="attack.examples") from None


def _outcome(line: bytes) -> dict[str, Any]:
    found = loaded(line)
    if not isinstance(found, dict):
        raise DamagedError(
            f"{FINAL} has a line that is no JSON object: {line!r:.60}", hint=AGAIN, code="attack.damaged"
        )
    return found
