"""What a run folder says, as frozen values. Whatever a run did not measure is None or empty, and the page leaves it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from robust_tickets.attack.flags import FIRST

Interval = tuple[float, float]


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
    """One attack on one arm; percentages. ``key`` tells the plans of a run apart and is the same for every arm."""

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
        """The flags that stand before the numbers."""
        return tuple(
            flag for first in FIRST for flag, code in zip(self.flags, self.codes, strict=True) if code == first
        )


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Which heads each layer keeps, and how many neurons of how many; of an unstructured ticket how many weights of how many."""

    digest: str
    provenance: Mapping[str, Any]
    heads: tuple[tuple[bool, ...], ...] = ()
    neurons: tuple[tuple[int, int], ...] = ()
    weights: tuple[Mapping[str, tuple[int, int]], ...] = ()  # per layer: "attention", "feedforward" -> (kept, all)


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Mask distances between the points of a search, per group."""

    points: tuple[float, ...]  # epochs
    groups: Mapping[str, tuple[tuple[float, ...], ...]]
    stopped_at: int | None  # index into points
    drawn_at: int | None  # likewise; a rule may look back
    converged: bool
    rule: str
    settled_at: int | None = None  # likewise, of a search that went on: where the rule would have stopped it


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
class Table:
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
    tables: tuple[Table, ...] = ()
    story: str = ""  # where its ticket comes from, in words
    branch: Mapping[str, Any] = field(default_factory=dict)  # the same in values; empty for a plain search

    @property
    def near_random(self) -> bool:
        """Whether its search saw too little to tell units apart."""
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
    about: str
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
        said = [a.split for arm in self.arms for a in arm.attacks] or [str(self.task.get("attacked_split") or "")]
        return tuple(dict.fromkeys(filter(None, said)))

    @property
    def base(self) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == self.baseline), None)

    def label(self, value: Any) -> str:
        """A label's name, where the task gives one."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.labels):
            return self.labels[value]
        return "?" if value is None else str(value)
