"""What run and attack folders hold, as frozen values. Files only: nothing is loaded that could run.

A missing or damaged optional file costs its part of the page and a note on it, not the page. Paths in ``arms.json`` must stay inside the
run folder.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

from robust_tickets.attack.flags import FIRST
from robust_tickets.attack.result import FINAL, PART, RESULT, AttackResult, ExampleOutcome
from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import build
from robust_tickets.errors import TicketsError
from robust_tickets.files import listed, mapping, read_json, sha256_file, within
from robust_tickets.stages import RUN_FILES, STAGE_FILES, command_of, listing
from robust_tickets.stats.classification import FAILED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.ticket.ticket import Ticket

Interval = tuple[float, float]
Counts = Mapping[str, tuple[int, int]]  # by part: weights kept, and weights in all
Notes = list[str]


@dataclass(frozen=True, kw_only=True)
class Attack(AttackResult):
    """One attack on one arm."""

    key: str = ""  # of its settings within a run; the same for every arm
    texts: tuple[ExampleOutcome, ...] = ()

    @property
    def split(self) -> str:
        """The split that the examples were taken from."""
        return str(self.task.get("split") or "")

    @property
    def settings(self) -> dict[str, str]:
        """What was asked for, in words; the same for every victim."""
        budget, asked = self.query_budget, self.task.get("asked")
        return {
            "texts": f"{len(self.ids) if asked is None else asked} texts",
            "split": f"split {self.split}",
            "budget": f"at most {budget} queries" if budget else "no query budget",
            "subset": f"{self.subset} texts",
            "seed": f"seed {self.seed}",
            "compat": self.compat or "",
            "scoring": f"scored by {self.scoring}",
            "temperature": "calibrated" if self.calibration else f"temperature {self.temperature:g}",
            "precision": f"in {self.precision}" if self.precision else "",
        }

    @property
    def identity(self) -> str:
        """The settings with the data, texts that were named, the rules and their resources, for comparisons."""
        task, named = self.task.get("digest"), self.ids if self.subset == "ids" else ()
        used = {kind: about.get("digest") for kind, about in sorted(self.resources.items())}
        return json.dumps([self.attack, self.settings, task, named, self.constraints, used], default=str)

    @property
    def before(self) -> tuple[str, ...]:
        """The flags shown before the numbers."""
        pairs = list(zip(self.flags, self.flag_codes, strict=False))
        return tuple(flag for first in FIRST for flag, code in pairs if code == first)

    @property
    def attacked(self) -> int:
        """Examples that were right before."""
        return sum(self.outcomes.get(status, 0) for status in (SUCCESS, FAILED, UNKNOWN))


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
    attacks: tuple[Attack, ...]
    ticket: Ticket | None = None
    distances: Distances | None = None
    evaluation: Evaluation | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    tables: tuple[WordTable, ...] = ()
    story: str = ""  # where its ticket comes from, in words
    branch: Mapping[str, Any] = field(default_factory=dict)  # the same in values; empty for a plain search

    @property
    def near_random(self) -> bool:
        """Whether its search saw too little data to rank units."""
        return self.ticket is not None and self.ticket.provenance.get("near_random") is True

    @property
    def clean(self) -> float | None:
        """Accuracy on the whole split, wherever it was measured."""
        if self.evaluation is not None:
            return self.evaluation.accuracy
        return next((a.clean_full for a in self.attacks if a.clean_full is not None), None)

    def attack(self, key: str | None) -> Attack | None:
        return next((a for a in self.attacks if a.key == key), None)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run folder, or attack folders that are compared."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    baseline: str
    task: Mapping[str, Any]
    labels: tuple[str, ...]
    model: str = ""
    command: str
    config: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any]
    hashes: Mapping[str, str]  # of the files that the page is made from
    notes: tuple[str, ...]  # what could not be read
    attack_titles: Mapping[str, str]  # key of an attack → what to call it

    @property
    def base(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == self.baseline), None)

    def label(self, value: Any) -> str:
        """A label's name, where the task gives one."""
        known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.labels)
        return self.labels[value] if known else "?" if value is None else str(value)


# --- run folders


def read_run(folder: str | Path, *, hashes: bool = False) -> Run:
    """Read a run folder; with ``hashes`` also those of its files."""
    folder, notes = Path(folder), Notes()
    if not (folder / "arms.json").is_file():
        raise no_result(folder)
    about = mapping(read_json(folder / "arms.json"))
    if about.get("schema", 1) != 1:
        message = f"{folder / 'arms.json'} has schema {about.get('schema')!r}, this version reads 1"
        raise TicketsError(message, hint="update the package", code="run.schema")
    config, env = (optional(folder / name, notes) for name in ("config.json", "env.json"))
    task, recipe = mapping(about.get("task")), mapping(config.get("recipe"))
    entries = [mapping(entry) for entry in listed(about.get("arms"))]
    arms, titles = _keyed([_arm(folder, entry, notes) for entry in entries])
    files = [name for name in RUN_FILES if name != "report.html"]
    for entry in entries:
        for name in (*(entry.get(key) for key in ("search", "ticket", "train")), *listed(entry.get("attacks"))):
            files += [f"{name}/{file}" for file in (*STAGE_FILES, "stage.json") if inside(folder, name, [])]
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
        hashes={name: entry["sha256"] for name, entry in listing(folder, files).items()} if hashes else {},
        notes=tuple(notes),
        attack_titles=titles,
    )


def _arm(folder: Path, entry: Mapping[str, Any], notes: Notes) -> Arm:
    search, train = (inside(folder, entry.get(key), notes) for key in ("search", "train"))
    ticket = inside(folder, entry.get("ticket"), notes) or search  # drawn again, or taken from elsewhere
    attacks = [inside(folder, path, notes) for path in listed(entry.get("attacks"))]
    cost = {name: value for stage in (search, train) if stage for name, value in optional(stage / "cost.json").items()}
    name = str(entry.get("name") or "?")
    return Arm(
        name=name,
        title=str(entry.get("title") or name),
        attacks=tuple(found for path in attacks if path and (found := read_attack(path, notes)) is not None),
        ticket=_ticket(ticket, notes) if ticket else None,
        distances=_distances(search, notes) if search else None,
        evaluation=_evaluation(train / "evaluation.json", notes) if train else None,
        cost={name: float(value) for name, value in cost.items() if number(value) is not None},
        tables=_word_tables(search, train),
        story=str(entry.get("story") or ""),
        branch=mapping(entry.get("branch")),
    )


def _evaluation(path: Path, notes: Notes) -> Evaluation | None:
    try:
        found = mapping(read_json(path))
        known = {f.name: found[f.name] for f in fields(Evaluation) if f.name in found}
        evaluation: Evaluation = build(Evaluation, known, path.name)
        return evaluation
    except TicketsError as problem:
        notes.append(f"{path.parent.name}/{path.name}: {problem.message}")
        return None


def _ticket(folder: Path, notes: Notes) -> Ticket | None:
    try:
        ticket = Ticket.load(folder)
        layout_of(ticket.family)
        return ticket
    except TicketsError as problem:  # damaged, or of a backbone that is not known here
        notes.append(problem.message)
        return None


def by_layer(family: str, weights: Iterable[tuple[str, int, int]]) -> tuple[Counts, ...]:
    """Kept and all weights by layer and part, summed over matrices; without the pooler."""
    layout, found = layout_of(family), dict[int, dict[str, tuple[int, int]]]()
    for name, kept, of in weights:
        if (place := layout.place_of(name)) is not None:
            layer = found.setdefault(place[0], {})
            before = layer.get(place[1], (0, 0))
            layer[place[1]] = (before[0] + kept, before[1] + of)
    return tuple(found[layer] for layer in sorted(found))


def _distances(folder: Path, notes: Notes) -> Distances | None:
    try:
        return distances_of(optional(folder / "distances.json"))
    except (KeyError, TypeError, ValueError) as problem:
        if (folder / "distances.json").is_file():
            notes.append(f"{folder.name}/distances.json could not be read ({problem})")
        return None


def distances_of(found: Mapping[str, Any]) -> Distances:
    """The mask distances of a search; ValueError, KeyError or TypeError if malformed."""
    points = tuple(map(finite, found["points"]))
    names = [name for name in ("heads", "neurons") if name in found]
    groups = {name: tuple(tuple(map(finite, row)) for row in found[name]) for name in names}
    if any({len(rows), *map(len, rows)} != {len(points)} for rows in groups.values()):
        raise ValueError(f"they are not {len(points)} × {len(points)}")

    def nearest(epoch: float | None) -> int | None:
        return None if epoch is None or not points else min(range(len(points)), key=lambda i: abs(points[i] - epoch))

    stopped, drawn = (nearest(number(found.get(key))) for key in ("stopped_at", "drawn_at"))
    return Distances(
        points=points,
        groups=groups,
        stopped_at=stopped,
        drawn_at=stopped if drawn is None else drawn,
        converged=found.get("converged") is not False,
        rule=str(found.get("rule", "")),
    )


def _word_tables(search: Path | None, train: Path | None) -> tuple[WordTable, ...]:
    """The word tables of an arm's adversaries, from the files of its stages."""
    key = mapping(optional(search / "stage.json").get("key")) if search else {}
    found, resources = (mapping(mapping(key.get(part)).get("adversary")) for part in ("method", "resources"))
    trained = optional(train / "adversary.json") if train else {}
    stages = (("searched", found, resources), ("trained", trained, mapping(trained.get("resources"))))
    return tuple(
        WordTable(
            what=what,
            adversary=str(adversary.get("name", "an adversary")),
            name=str(resource.get("name", "?")),
            digest=str(resource.get("digest", "")),
            swappable=number(mapping(adversary.get("coverage")).get("swappable")),
        )
        for what, adversary, read in stages
        for resource in map(mapping, read.values())
        if resource
    )


# --- attack folders


def read_attack(folder: Path, notes: Notes) -> Attack | None:
    """The attack in a folder; None, and a note, where its result cannot be read."""
    try:
        found = Attack.load(folder)
    except TicketsError as problem:
        notes.append(f"{folder.name}/{RESULT}: {problem.message}")
        return None
    return replace(found, texts=_texts(found, notes))


def _texts(found: AttackResult, notes: Notes) -> tuple[ExampleOutcome, ...]:
    try:
        texts = tuple(found.examples())
        if all(map(_whole, texts)) and len(texts) == len(found.ids):
            return texts
        problem = "lines are missing or damaged"
    except (TicketsError, TypeError) as error:
        problem = str(error)
    notes.append(f"{found.folder and found.folder.name}/{FINAL}: {problem}; its texts are left out")
    return ()


def _whole(example: ExampleOutcome) -> bool:
    """Whether the values are of the types that the page works with."""
    words = (example.id, *example.original, *(example.perturbed or ()), example.error or "")
    counts = (example.queries, example.words, example.words_changed, example.fell_at or 0, example.similarity or 0)
    numeric = all(isinstance(value, int | float) for value in counts)
    return example.status in STATUSES and all(isinstance(word, str) for word in words) and numeric


def read_attacks(folders: Sequence[Path], *, hashes: bool = False) -> Run:
    """One run of all attack folders; the first folder's victim is the baseline."""
    notes, victims = Notes(), dict[tuple[str, str, int], dict[Path, Attack]]()
    for folder in folders:
        found = Attack.load(folder)
        attack = replace(found, texts=_texts(found, notes))
        who = str(attack.model.get("identity", "?")), str(attack.model.get("digest", ""))
        # the same attack twice: on two functions of one name
        same = (i for i in count() if all(attack.identity != a.identity for a in victims.get((*who, i), {}).values()))
        victims.setdefault((*who, next(same)), {})[folder] = attack
    names = [victim.removeprefix("callable:").rstrip("/").rpartition("/")[2] or victim for victim, *_ in victims]
    arms = list[Arm]()
    for name, attacks in zip(names, victims.values(), strict=True):
        title = f"{name} ({next(iter(attacks)).resolve().name})" if names.count(name) > 1 else name
        while title in [arm.name for arm in arms]:  # folders of one name, too
            title += "'"
        arms.append(Arm(name=title, title=title, attacks=tuple(attacks.values())))
    every = [attack for arm in arms for attack in arm.attacks]
    keyed, titles = _keyed(arms)
    first, data = every[0], [mapping(file).get("name") for one in every for file in listed(one.env.get("data"))]
    what = next(iter(titles.values())) if len(titles) == 1 else f"{len(titles)} attacks"
    files = [(f"{folder.resolve().name}/{name}", folder / name) for folder in folders for name in (RESULT, FINAL)]
    return Run(
        name=folders[0].resolve().name,
        title=f"{what} on {arms[0].title if len(arms) == 1 else f'{len(arms)} victims'}",
        arms=keyed,
        baseline=arms[0].name,
        task={
            "name": ", ".join(dict.fromkeys(map(str, filter(None, data)))),
            "attacked_split": first.split,
            "columns": ", ".join(map(str, listed(first.task.get("columns")))),
            "digest": first.task.get("digest"),
        },
        labels=tuple(map(str, listed(first.task.get("labels") or first.model.get("labels")))),
        command="\n".join(dict.fromkeys(str(one.env["command"]) for one in every if one.env.get("command"))),
        env=first.env,
        hashes={name: sha256_file(path) for name, path in files if hashes and path.is_file()},
        notes=tuple(notes),
        attack_titles=titles,
    )


# --- several attacks of one name

TITLES = {"pwws": "PWWS", "textfooler": "TextFooler", "textbugger": "TextBugger", "bertattack": "BERT-Attack"}


def _keyed(arms: Sequence[Arm]) -> tuple[tuple[Arm, ...], dict[str, str]]:
    """The arms with a key on each of their attacks, and a title for every key."""
    keys: dict[tuple[str, int], str] = {}  # what identifies an attack, and its number among those of an arm → its key
    first: dict[str, Attack] = {}
    found = []
    for arm in arms:
        seen: Counter[str] = Counter()
        attacks = []
        for attack in arm.attacks:
            seen[attack.identity] += 1
            if (same := (attack.identity, seen[attack.identity])) not in keys:
                names = (attack.attack if i == 1 else f"{attack.attack}-{i}" for i in count(1))
                keys[same] = next(name for name in names if name not in first)
                first[keys[same]] = attack
            attacks.append(replace(attack, key=keys[same]))
        found.append(replace(arm, attacks=tuple(attacks)))
    return tuple(found), {key: _title(key, first) for key in first}


def _title(key: str, first: Mapping[str, Attack]) -> str:
    """The attack's name, with the settings that distinguish it from others of this name."""
    name = first[key].attack
    others = {
        other: attack.settings | {kind: f"{kind} {about.get('name')}" for kind, about in attack.resources.items()}
        for other, attack in first.items()
        if attack.attack == name
    }
    mine = others[key]
    differ = [words for what, words in mine.items() if words and any(one.get(what) != words for one in others.values())]
    if list(others.values()).count(mine) > 1:
        differ.append(f"number {1 + list(others).index(key)}")
    return TITLES.get(name, name) + (f" ({', '.join(differ)})" if differ else "")


# --- files that may be missing or damaged


def no_result(folder: Path) -> TicketsError:
    """The error for a folder without arms.json and result.json."""
    if (folder / PART).is_file():
        with open(folder / PART, "rb") as lines:
            done = sum(line.endswith(b"\n") for line in lines) - 1  # the first line says which attack
        message = f"the attack in {folder} is not finished: {max(0, done)} examples are done so far"
        hint = f"run the `tickets attack … --out {folder}` that began it: it resumes there"
        return TicketsError(message, hint=hint, code="attack.unfinished")
    command = command_of(folder)
    if command or "recipe" in optional(folder / "config.json"):
        hint = f"resume it: {command}" if command else "the command that began it resumes it"
        message = f"the run in {folder} is not finished: arms.json is missing"
        return TicketsError(message, hint=hint, code="run.unfinished")
    message = f"{folder} is neither a finished run nor a finished attack: arms.json is missing, and so is {RESULT}"
    message = message if folder.exists() else f"no such folder: {folder}"
    return TicketsError(message, hint="`tickets ls runs` lists the runs here", code="run.folder")


def inside(folder: Path, path: Any, notes: Notes) -> Path | None:
    """A folder that ``arms.json`` names; None, and a note, where it is missing or outside the run folder."""
    if not path:
        return None
    try:
        if (inner := within(folder, str(path))).is_dir():
            return inner
        notes.append(f"{path} is missing")
    except TicketsError:
        notes.append(f"arms.json names {path}, which is outside the run folder: left out")
    return None


def optional(path: Path, notes: Notes | None = None) -> Mapping[str, Any]:
    """The object in a file; empty, and a note, if it is missing or damaged."""
    problem = "it holds no JSON object"
    try:
        if found := mapping(read_json(path)):
            return found
    except TicketsError as error:
        problem = error.message if path.exists() else "missing"
    if notes is not None:
        notes.append(f"{path.parent.name}/{path.name}: {problem}")
    return {}


# --- values from JSON


def number(value: Any) -> float | None:
    """A finite number; None for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return value if known else None


def finite(value: Any) -> float:
    if number(value) is None:
        raise ValueError(f"{value} is no finite number")
    return float(value)
