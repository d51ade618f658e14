"""What run and attack folders hold, as frozen values. Files only: nothing is loaded that could run.

A missing or damaged optional file costs its part of the page and a note on it, not the page; a run folder without ``arms.json`` is refused.
Paths in ``arms.json`` must stay inside the run folder. Whatever a run did not measure is None or empty.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from robust_tickets.attack.flags import FIRST
from robust_tickets.attack.result import PART, RESULT
from robust_tickets.backbone.layout import layout_of
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json, within
from robust_tickets.stages import RUN_FILES, STAGE_FILES, command_of, listing
from robust_tickets.stats.classification import FAILED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.stats.intervals import wilson

Interval = tuple[float, float]
Counts = Mapping[str, tuple[int, int]]  # by part: weights kept, and weights in all


@dataclass(frozen=True, kw_only=True)
class Example:
    """One attacked example; ``status`` is success, failed, skipped, unknown or error, from the attacker's side."""

    id: str
    label: Any
    status: str
    original: tuple[str, ...]
    perturbed: tuple[str, ...] | None
    queries: int | None
    predicted: Any  # label after the attack
    error: str
    fell_at: int | None = None  # the query budget from which on it is broken
    similarity: float | None = None
    words: int | None = None
    words_changed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One attack on one arm; percentages. ``key`` identifies the plan within a run and is the same for every arm."""

    key: str
    name: str
    plan: Mapping[str, Any]  # what was asked for, as the stage's key says; empty where the folder does not say
    split: str  # that the examples were taken from
    n: int
    clean: float | None  # on the attacked examples
    aua: float | None
    suc: float | None
    queries: float | None
    perturbed: float | None
    similarity: float | None  # mean over the successes
    clean_full: float | None  # on the whole split
    forward_passes: int | None
    seconds: float | None
    seed: int | None
    errors: int
    attacked: int | None = None  # right before; none where the file does not say
    intervals: Mapping[str, Interval]
    flags: tuple[str, ...]
    codes: tuple[str, ...]  # a word for each flag; empty words where the file gives none
    ids: tuple[str, ...]
    examples: tuple[Example, ...]
    about: Mapping[str, Any]  # the rest of result.json: constraints, resources, hashes, how it was scored

    @property
    def before(self) -> tuple[str, ...]:
        """The flags shown before the numbers."""
        return tuple(
            flag for first in FIRST for flag, code in zip(self.flags, self.codes, strict=True) if code == first
        )


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Which heads each layer keeps, and how many neurons or, of an unstructured ticket, weights of how many."""

    digest: str
    provenance: Mapping[str, Any]
    heads: tuple[tuple[bool, ...], ...] = ()
    neurons: tuple[tuple[int, int], ...] = ()
    weights: tuple[Counts, ...] = ()  # per layer: "attention", "feedforward" -> (kept, all)


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Mask distances between the points of a search, per group."""

    points: tuple[float, ...]  # epochs
    groups: Mapping[str, tuple[tuple[float, ...], ...]]
    stopped_at: int | None  # index into points
    drawn_at: int | None  # likewise; a rule may look back
    converged: bool
    rule: str
    rule_at: int | None = None  # likewise, of a search that its rule did not stop: where it would have


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Accuracy on a whole split."""

    split: str
    n: int | None
    accuracy: float
    macro_f1: float | None
    interval: Interval | None
    per_class: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class WordTable:
    """A table of words that an arm was ``searched`` or ``trained`` on (``what``)."""

    what: str
    adversary: str
    name: str
    digest: str
    swappable: float | None  # share of the training texts' words


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One model of the comparison."""

    name: str
    title: str
    shape: Shape | None
    distances: Distances | None
    evaluation: Evaluation | None
    cost: Mapping[str, float]
    attacks: tuple[Attack, ...]
    tables: tuple[WordTable, ...] = ()
    story: str = ""  # where its ticket comes from, in words
    branch: Mapping[str, Any] = field(default_factory=dict)  # the same in values; empty for a plain search

    @property
    def near_random(self) -> bool:
        """Whether its search saw too little data to rank units."""
        return self.shape is not None and self.shape.provenance.get("near_random") is True

    def attack(self, key: str | None) -> Attack | None:
        return next((a for a in self.attacks if a.key == key), None)

    @property
    def clean(self) -> float | None:
        """Accuracy on the whole split, wherever it was measured."""
        if self.evaluation is not None:
            return self.evaluation.accuracy
        return next((a.clean_full for a in self.attacks if a.clean_full is not None), None)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run folder."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    baseline: str
    task: Mapping[str, Any]
    labels: tuple[str, ...]
    model: str
    command: str
    config: Mapping[str, Any]
    env: Mapping[str, Any]
    hashes: Mapping[str, str]
    notes: tuple[str, ...]  # what could not be read
    attack_titles: Mapping[str, str]  # key of an attack → what to call it

    @property
    def attack_keys(self) -> tuple[str, ...]:
        return tuple(self.attack_titles)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that were attacked."""
        found = [a.split for arm in self.arms for a in arm.attacks] or [str(self.task.get("attacked_split") or "")]
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def base(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == self.baseline), None)

    def label(self, value: Any) -> str:
        """A label's name, where the task gives one."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.labels):
            return self.labels[value]
        return "?" if value is None else str(value)


def read_run(folder: str | Path, *, hashes: bool = False) -> Run:
    """Read a run folder; with ``hashes`` also those of its files."""
    folder = Path(folder)
    if not (folder / "arms.json").is_file():
        raise no_result(folder)
    notes: list[str] = []
    about = mapping(read_json(folder / "arms.json"))
    if about.get("schema", 1) != 1:
        raise TicketsError(
            f"{folder / 'arms.json'} has schema {about.get('schema')!r}, this version reads 1",
            hint="update the package",
            code="run.schema",
        )
    config, env = (optional(folder / name, notes) for name in ("config.json", "env.json"))
    task = mapping(about.get("task"))
    recipe = mapping(config.get("recipe")) or config
    named = listed(about.get("arms"))
    entries = [entry for entry in named if isinstance(entry, Mapping)]
    if len(entries) < len(named):
        notes.append("arms.json names arms that are no JSON objects: left out")
    arms, titles = keyed([_arm(folder, entry, notes) for entry in entries])
    return Run(
        name=folder.resolve().name,
        title=str(about.get("title") or recipe.get("title") or folder.resolve().name),
        arms=arms,
        baseline=str(about.get("baseline") or (arms[0].name if arms else "")),
        task=task,
        labels=tuple(map(str, listed(task.get("labels")))),
        model=str(about.get("model") or recipe.get("model") or ""),
        command=str(env.get("command") or about.get("command") or ""),
        config=config,
        env=env,
        hashes=_hashes(folder, entries) if hashes else {},
        notes=tuple(notes),
        attack_titles=titles,
    )


def _hashes(folder: Path, entries: list[Mapping[str, Any]]) -> dict[str, str]:
    """sha256 of the files that the page is made from."""
    found = {
        name: entry["sha256"] for name, entry in listing(folder, [n for n in RUN_FILES if n != "report.html"]).items()
    }
    stages = [
        [entry.get(key) for key in ("search", "ticket", "train")] + listed(entry.get("attacks")) for entry in entries
    ]
    named = {str(name) for names in stages for name in names if name}
    for name in sorted(named):
        stage = inside(folder, name, [])
        files = listing(stage, (*STAGE_FILES, "stage.json")) if stage else {}
        found |= {f"{name}/{inner}": entry["sha256"] for inner, entry in files.items()}
    return found


def _arm(folder: Path, entry: Mapping[str, Any], notes: list[str]) -> Arm:
    name = str(entry.get("name", "?"))
    search, train = (inside(folder, entry.get(key), notes) for key in ("search", "train"))
    ticket = inside(folder, entry.get("ticket"), notes) or search  # drawn again, or taken from elsewhere
    attacks = [inside(folder, path, notes) for path in listed(entry.get("attacks"))]
    cost = {**optional(train / "cost.json", [])} if train else {}
    if search:
        cost = {"search_seconds": _search_seconds(search), **cost}
    return Arm(
        name=name,
        title=str(entry.get("title") or name),
        shape=_shape(ticket, notes) if ticket else None,
        distances=_distances(search, notes) if search else None,
        evaluation=_evaluation(train, notes) if train else None,
        cost={k: float(v) for k, v in cost.items() if isinstance(v, int | float) and not isinstance(v, bool)},
        attacks=tuple(a for a in (read_attack(path, notes) for path in attacks if path) if a is not None),
        tables=tables_of(search, train, notes),
        story=str(entry.get("story") or ""),
        branch=mapping(entry.get("branch")),
    )


def _search_seconds(folder: Path) -> float | None:
    """How long a search took: from cost.json, or else the last line of its metrics with a time."""
    known = number(optional(folder / "cost.json", []).get("search_seconds"))
    if known is not None or not (folder / "metrics.jsonl").is_file():
        return known
    for line in (folder / "metrics.jsonl").read_text("utf-8", errors="replace").splitlines():
        try:
            known = number(mapping(json.loads(line)).get("seconds")) or known
        except ValueError:
            continue
    return known


def _evaluation(folder: Path, notes: list[str]) -> Evaluation | None:
    found = optional(folder / "evaluation.json", notes)
    accuracy, n = number(found.get("accuracy")), number(found.get("n"))
    if accuracy is None:
        return None
    given = interval(found.get("interval"))
    return Evaluation(
        split=str(found.get("split", "")),
        n=whole(n),
        accuracy=accuracy,
        macro_f1=number(found.get("macro_f1")),
        interval=given or percent_interval(accuracy, n),
        per_class=tuple(mapping(row) for row in found.get("per_class") or ()),
    )


def _shape(folder: Path, notes: list[str]) -> Shape | None:
    from robust_tickets.ticket.ticket import Ticket

    try:
        ticket = Ticket.load(folder)
        matrices = ticket.masks["weights"] if ticket.kind == "unstructured" else ()
        counts = [(name, int(np.count_nonzero(m)), m.size) for name, m in zip(ticket.names, matrices, strict=False)]
        weights = by_layer(ticket.family, counts)
    except TicketsError as problem:  # damaged, or of a backbone that is not known here
        notes.append(problem.message)
        return None
    if ticket.kind == "unstructured":
        return Shape(weights=weights, digest=ticket.digest, provenance=dict(ticket.provenance))
    return Shape(
        heads=tuple(tuple(bool(kept) for kept in mask) for mask in ticket.masks["heads"]),
        neurons=tuple((int(mask.sum()), int(mask.size)) for mask in ticket.masks["neurons"]),
        digest=ticket.digest,
        provenance=dict(ticket.provenance),
    )


def _distances(folder: Path, notes: list[str]) -> Distances | None:
    if not (folder / "distances.json").is_file():
        return None
    try:
        return distances_of(optional(folder / "distances.json", notes))
    except (KeyError, TypeError, ValueError) as problem:
        notes.append(f"{folder.name}/distances.json could not be read ({problem})")
        return None


def distances_of(found: Mapping[str, Any]) -> Distances:
    """The mask distances of a search; ValueError, KeyError or TypeError if malformed."""
    points = tuple(finite(p.get("epoch", i) if isinstance(p, Mapping) else p) for i, p in enumerate(found["points"]))
    names = [name for name in ("heads", "neurons") if name in found]
    groups = {name: tuple(tuple(map(finite, row)) for row in found[name]) for name in names}
    if any({len(rows), *map(len, rows)} != {len(points)} for rows in groups.values()):
        raise ValueError(f"they are not {len(points)} × {len(points)}")
    stopped, drawn = (_where(found.get(key), points) for key in ("stopped_at", "drawn_at"))
    return Distances(
        points=points,
        groups=groups,
        stopped_at=stopped,
        drawn_at=stopped if drawn is None else drawn,
        converged=found.get("converged") is not False,
        rule=str(found.get("rule", "")),
    )


def finite(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{value} is no finite number")
    return float(value)


def _where(value: Any, points: tuple[float, ...]) -> int | None:
    """The point at which a search stopped: an index, or the epoch of a point."""
    epoch = number(value)
    if epoch is None or not points:
        return None
    if isinstance(value, int) and 0 <= value < len(points):
        return value
    return min(range(len(points)), key=lambda i: abs(points[i] - epoch))


SCHEMAS = (1, 2)
Victim = tuple[str, str, int]  # identity, digest, and a count of those that share both
ATTACK_FILES = ("result.json", "examples.jsonl")


def read_attacks(folders: Sequence[Path], *, hashes: bool = False) -> Run:
    """One run of all attack folders; the first folder's victim is the baseline."""
    notes: list[str] = []
    found = [(folder, _read_lone(folder, notes)) for folder in folders]
    by_victim: dict[Victim, list[tuple[Path, Attack]]] = {}
    for folder, attack in found:
        model = mapping(attack.about.get("model"))
        victim = (str(model.get("identity", "?")), str(model.get("digest", "")), 0)
        # the same attack twice, as on two functions of one name
        while any(other.plan == attack.plan for _, other in by_victim.get(victim, ())):
            victim = (*victim[:2], victim[2] + 1)
        by_victim.setdefault(victim, []).append((folder, attack))
    titles = _victim_titles(by_victim)
    arms, attack_titles = keyed(
        [_victim(titles[victim], [attack for _, attack in rows]) for victim, rows in by_victim.items()]
    )
    first, envs = found[0][1], [mapping(attack.about.get("env")) for _, attack in found]
    task = mapping(first.about.get("task"))
    names = [str(mapping(file).get("name") or "") for env in envs for file in listed(env.get("data"))]
    named = list(attack_titles.values())
    victims = arms[0].title if len(arms) == 1 else f"{len(arms)} victims"
    return Run(
        name=folders[0].resolve().name,
        title=f"{named[0] if len(named) == 1 else f'{len(named)} attacks'} on {victims}",
        arms=arms,
        baseline=arms[0].name,
        task={
            "name": ", ".join(dict.fromkeys(names)),
            "attacked_split": first.split,
            "columns": ", ".join(map(str, task.get("columns") or ())),
            "digest": task.get("digest"),
        },
        labels=tuple(map(str, task.get("labels") or mapping(first.about.get("model")).get("labels") or ())),
        model="",
        command="\n".join(dict.fromkeys(str(env["command"]) for env in envs if env.get("command"))),
        config={},
        env=envs[0],
        hashes=_attack_hashes(folders) if hashes else {},
        notes=tuple(notes),
        attack_titles=attack_titles,
    )


def _read_lone(folder: Path, notes: list[str]) -> Attack:
    schema = mapping(read_json(folder / "result.json")).get("schema")
    if schema not in SCHEMAS:
        raise TicketsError(
            f"{folder / 'result.json'} has schema {schema!r}, this version reads {' and '.join(map(str, SCHEMAS))}",
            hint="update the package, or run the attack again",
            code="attack.schema",
        )
    attack = read_attack(folder, notes)
    if attack is None:
        raise TicketsError(f"{folder / 'result.json'} is empty", hint="run the attack again", code="attack.empty")
    return replace(attack, plan=_plan(attack))


def _plan(attack: Attack) -> Mapping[str, Any]:
    """The identity of an attack's settings; the same for every victim."""
    about, task = attack.about, mapping(attack.about.get("task"))
    asked = {key: about.get(key) for key in ("compat", "scoring", "temperature", "precision")}
    if mapping(about.get("calibration")):
        asked["temperature"] = "calibrated"
    settings = {key: value for key, value in asked.items() if value not in (None, "probability", 1, 1.0)}
    rules = list(about.get("constraints") or ())
    return {
        "attack": {"name": attack.name, **settings}, "query_budget": about.get("query_budget"), "data": task.get("digest"),
        "ids": list(attack.ids), "rules": rules,
    }  # fmt: skip


def _victim(title: str, attacks: Sequence[Attack]) -> Arm:
    return Arm(name=title, title=title, shape=None, distances=None, evaluation=None, cost={}, attacks=tuple(attacks))


def _victim_titles(victims: Mapping[Victim, Sequence[tuple[Path, Attack]]]) -> dict[Victim, str]:
    """Titles of victims by name, with the attack's folder where two share a name."""
    plain = {victim: victim[0].removeprefix("callable:").rstrip("/") for victim in victims}
    short = {victim: name.rpartition("/")[2] or victim[0] for victim, name in plain.items()}
    titles: dict[Victim, str] = {}
    for victim, name in short.items():
        same = [other for other in short.values() if other == name]
        title = name if len(same) == 1 else f"{name} ({victims[victim][0][0].resolve().name})"
        while title in titles.values():
            title += "'"
        titles[victim] = title
    return titles


def _attack_hashes(folders: Sequence[Path]) -> dict[str, str]:
    return {
        f"{folder.resolve().name}/{name}": entry["sha256"]
        for folder in folders
        for name, entry in listing(folder, ATTACK_FILES).items()
    }


TITLES = {"pwws": "PWWS", "textfooler": "TextFooler", "textbugger": "TextBugger", "bertattack": "BERT-Attack"}


def keyed(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """The arms with a key on each of their attacks, and a title for every key."""
    keys: dict[str, str] = {}  # what identifies a plan → its key
    first: dict[str, Attack] = {}
    given = []
    for arm in arms:
        seen: Counter[str] = Counter()
        attacks = []
        for attack in arm.attacks:
            name = attack.name.lower()
            # without a plan, the attack's number among those of its name: every arm has them in one order
            same = f"{name}\0{json.dumps(attack.plan, sort_keys=True) if attack.plan else ''}"
            seen[same] += 1
            same += f"\0{seen[same]}"
            if same not in keys:
                count = sum(other.startswith(f"{name}\0") for other in keys)
                keys[same] = _free(attack.name if not count else f"{attack.name}-{count + 1}", first)
                first[keys[same]] = attack
            attacks.append(replace(attack, key=keys[same]))
        given.append(replace(arm, attacks=tuple(attacks)))
    return tuple(given), {key: _plan_title(attack, list(first.values())) for key, attack in first.items()}


def _free(key: str, taken: Mapping[str, object]) -> str:
    while key in taken:
        key += "'"
    return key


def _plan_title(attack: Attack, every: list[Attack]) -> str:
    others = [other for other in every if other.name.lower() == attack.name.lower()]
    mine, known = _facts(attack), [_facts(other) for other in others]
    differ = [value for what, value in mine.items() if any(facts.get(what) != value for facts in known)]
    title = TITLES.get(attack.name.lower(), attack.name)
    if len(others) > 1 and sum(facts == mine for facts in known) > 1:  # no known fact distinguishes it from another
        differ.append(f"plan {1 + next(i for i, other in enumerate(others) if other is attack)}")
    return f"{title} ({', '.join(differ)})" if differ else title


def _facts(attack: Attack) -> dict[str, str]:
    plan = attack.plan
    budget = plan.get("query_budget")
    settings: Any = plan.get("attack")
    asked = {k: v for k, v in settings.items() if k != "name"} if isinstance(settings, Mapping) else {}
    return {
        "n": f"{len(attack.ids) or attack.n} texts",
        "split": f"split {attack.split or '?'}",
        "budget": f"at most {budget} queries" if budget is not None else "no query budget",
        "seed": f"seed {attack.seed}",
        "subset": f"{plan.get('subset', 'balanced')} texts",
        "temperature": f"temperature {plan.get('temperature', 1.0)}",
        **{str(k): f"{k} {v}" for k, v in asked.items()},
    }


ABOUT = (
    "semantics", "compat", "scoring", "temperature", "calibration", "subset", "query_budget", "precision", "unconfirmed", "seen",
    "constraints", "resources", "model", "task", "words", "outcomes", "spread", "digest", "env",
)  # fmt: skip


def read_attack(folder: Path, notes: list[str]) -> Attack | None:
    found = optional(folder / "result.json", notes)
    if not found:
        return None
    n = int(number(found.get("n")) or 0)
    measured = ("clean", "aua", "suc", "queries", "perturbed", "similarity", "clean_full", "seconds")
    value = {key: number(found.get(key)) for key in measured}
    given = mapping(found.get("intervals"))
    intervals = {key: interval(given.get(key)) or percent_interval(value[key], n) for key in ("clean", "aua")}
    intervals |= {key: interval(given.get(key)) for key in ("suc", "queries", "perturbed", "similarity")}
    name, errors, ids = found.get("attack"), found.get("errors"), found.get("ids") or ()
    flags, codes = (listed(found.get(key) or []) for key in ("flags", "flag_codes"))
    key, task = mapping(optional(folder / "stage.json", []).get("key")), mapping(found.get("task"))
    return Attack(
        key="",  # given once all arms are read
        plan={**mapping(key.get("plan")), "data": key.get("split")} if key.get("plan") else {},
        split=str(task.get("split") or (str(ids[0]).rpartition(":")[0] if ids else "")),
        name=str(name.get("name", "attack")) if isinstance(name, Mapping) else str(name or "attack"),
        n=n,
        **value,  # type: ignore[arg-type]
        forward_passes=whole(found.get("forward_passes")),
        seed=whole(found.get("seed")),
        errors=len(errors) if isinstance(errors, list | dict) else int(number(errors) or 0),
        attacked=_attacked(mapping(found.get("outcomes"))),
        intervals={key: ends for key, ends in intervals.items() if ends is not None},
        flags=tuple(_flag(flag) for flag in flags),
        codes=tuple(map(str, codes)) if len(codes) == len(flags) else ("",) * len(flags),
        ids=tuple(map(str, ids)),
        examples=tuple(_examples(folder / "examples.jsonl", len(ids), notes)),
        about={k: found[k] for k in ABOUT if k in found},
    )


def _attacked(outcomes: Mapping[str, Any]) -> int | None:
    success, failed, unknown = (number(outcomes.get(status)) for status in (SUCCESS, FAILED, UNKNOWN))
    return None if success is None or failed is None else int(success + failed + (unknown or 0))


def _examples(path: Path, expected: int, notes: list[str]) -> list[Example]:
    if not path.is_file():
        return []
    found, bad = [], 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                row = json.loads(line)
                texts = [
                    None if row.get(k) is None else tuple(map(str, listed(row[k]))) for k in ("original", "perturbed")
                ]
                status = str(row["status"])
                if status not in STATUSES:
                    raise ValueError(status)
                found.append(
                    Example(
                        id=str(row["id"]),
                        label=row.get("label"),
                        status=status,
                        original=texts[0] or (),
                        perturbed=texts[1],
                        predicted=row.get("predicted_after"),
                        error=str(row.get("error") or ""),
                        similarity=number(row.get("similarity")),
                        **{key: whole(row.get(key)) for key in ("queries", "fell_at", "words", "words_changed")},
                    )
                )
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                bad += 1
    if bad:
        notes.append(f"{path.parent.name}/{path.name}: {bad} lines could not be read and are left out")
    if (lost := expected - len(found) - bad) > 0:
        notes.append(
            f"{path.parent.name}/{path.name}: {lost} of {expected} lines are missing; models are compared without these texts"
        )
    return found


def _flag(flag: Any) -> str:
    if isinstance(flag, Mapping):
        return ": ".join(str(flag[key]) for key in ("name", "flag", "message", "why", "detail") if flag.get(key))
    return str(flag)


def tables_of(search: Path | None, train: Path | None, notes: list[str]) -> tuple[WordTable, ...]:
    """The word tables of an arm's adversaries, from the files of its stages."""
    found: list[tuple[str, Mapping[str, Any], Any, Mapping[str, Any]]] = []
    if search is not None:
        key = mapping(optional(search / "stage.json", []).get("key"))
        adversary, read = (mapping(mapping(key.get(part)).get("adversary")) for part in ("method", "resources"))
        found.append(("searched", adversary, read, {}))
    if train is not None and (train / "adversary.json").is_file():
        about = optional(train / "adversary.json", notes)
        found.append(("trained", about, about.get("resources"), mapping(about.get("coverage"))))
    return tuple(
        WordTable(
            what=what,
            adversary=str(adversary.get("name", "an adversary")),
            name=str(resource.get("name", "?")),
            digest=str(resource.get("digest", "")),
            swappable=number(coverage.get("swappable")),
        )
        for what, adversary, resources, coverage in found
        for resource in map(mapping, mapping(resources).values())
        if resource
    )


def by_layer(family: str, weights: Iterable[tuple[str, int, int]]) -> tuple[Counts, ...]:
    """Kept and all weights by layer and part, summed over matrices; without the pooler."""
    layout, found = layout_of(SimpleNamespace(model_type=family)), dict[int, dict[str, tuple[int, int]]]()
    for name, kept, of in weights:
        if (place := layout.place_of(name)) is not None:
            layer = found.setdefault(place[0], {})
            before = layer.get(place[1], (0, 0))
            layer[place[1]] = (before[0] + kept, before[1] + of)
    return tuple(found[layer] for layer in sorted(found))


def no_result(folder: Path) -> TicketsError:
    """The error for a folder without arms.json and result.json."""
    if (folder / PART).is_file():
        with open(folder / PART, "rb") as lines:
            done = sum(line.endswith(b"\n") for line in lines)
        return TicketsError(
            f"the attack in {folder} is not finished: {max(0, done - 1)} examples are done so far",  # the first line says which attack
            hint=f"run the `tickets attack … --out {folder}` that began it: it resumes there",
            code="attack.unfinished",
        )
    command = command_of(folder)
    if command or _of_a_run(folder / "config.json"):
        hint = f"resume it: {command}" if command else "the command that began it resumes it"
        message = f"the run in {folder} is not finished: arms.json is missing"
        return TicketsError(message, hint=hint, code="run.unfinished")
    if not folder.exists():
        return TicketsError(
            f"no such folder: {folder}", hint="`tickets ls runs` lists the runs here", code="run.folder"
        )
    return TicketsError(
        f"{folder} is neither a finished run nor a finished attack: arms.json is missing, and so is {RESULT}",
        hint="give a folder that `tickets run` or `tickets attack` wrote",
        code="run.folder",
    )


def _of_a_run(config: Path) -> bool:
    """Whether it is a run's config.json, not a model's."""
    try:
        return "recipe" in read_json(config)
    except (TicketsError, TypeError):
        return False


def inside(folder: Path, path: Any, notes: list[str]) -> Path | None:
    if not path:
        return None
    try:
        inner = within(folder, str(path))
    except TicketsError:
        notes.append(f"arms.json names {path}, which is outside the run folder: left out")
        return None
    if not inner.is_dir():
        notes.append(f"{path} is missing")
        return None
    return inner


def optional(path: Path, notes: list[str]) -> Mapping[str, Any]:
    """The object in a file; a note if it is missing or damaged."""
    try:
        found = read_json(path)
    except TicketsError as problem:
        notes.append(f"{path.parent.name}/{path.name}: {'missing' if not path.exists() else problem.message}")
        return {}
    if not isinstance(found, Mapping) or not found:
        notes.append(
            f"{path.parent.name}/{path.name}: expected a JSON object, got {type(found).__name__ if found else 'an empty one'}"
        )
    return mapping(found)


def number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) else None


def whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def interval(value: Any) -> Interval | None:
    numbers = [number(v) for v in value] if isinstance(value, list | tuple) else []
    return (numbers[0], numbers[1]) if len(numbers) == 2 and None not in numbers else None  # type: ignore[return-value]


def percent_interval(value: float | None, n: float | None) -> Interval | None:
    """The Wilson interval of a percentage of ``n``."""
    if value is None or not n:
        return None
    low, high = wilson(min(int(n), max(0, round(value * n / 100))), int(n))
    return 100 * low, 100 * high
