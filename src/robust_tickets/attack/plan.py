"""What one attack is, and the attack on one of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from robust_tickets.attack.asking import Steps
from robust_tickets.attack.encoder import NOISE, Encoder
from robust_tickets.attack.failures import said
from robust_tickets.attack.game import Game
from robust_tickets.attack.greedy import Greedy
from robust_tickets.attack.result import ExampleOutcome
from robust_tickets.attack.rules import Rules
from robust_tickets.attack.scheduler import Failed, Service
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.victim import Victim
from robust_tickets.classifier import Classifier
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import derive
from robust_tickets.stats.metrics import ERROR, UNKNOWN

if TYPE_CHECKING:
    from robust_tickets.data.task import Example, Split

DROPPED = {
    "vectors": "near words",
    "tagger": "part of speech",
    "encoder": "sentence similarity",
}  # what goes with a resource


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A recipe with its resources loaded; ``attack.base.Attack`` is the recipe."""

    title: str
    kit: Greedy
    constraints: tuple[str, ...]
    services: Mapping[str, Service] = field(default_factory=dict)  # what its steps may ask besides the victim, by name
    vector_noise: float = 0.0
    dropped: tuple[str, ...] = ()
    warm: Callable[[Iterable[str]], object] | None = (
        None  # told all words of the attacked texts beforehand, to look them up at once
    )

    @classmethod
    def of(
        cls,
        title: str,
        kit: Greedy,
        *,
        encode: Any = None,
        services: Mapping[str, Service] | None = None,
        missing: Mapping[str, Any] | None = None,
        warm: Callable[[Iterable[str]], object] | None = None,
    ) -> Prepared:
        """A kit with its encoder and other services; the kinds in ``missing`` that are None are named in the title, and what they did."""
        gone = [kind for kind, part in (missing or {}).items() if part is None]
        offered = getattr(kit.transform, "parts", (kit.transform,))
        return cls(
            title=title + (f" without {' and '.join(gone)}" if gone else ""),
            kit=kit,
            constraints=tuple(part.describe() for part in (*offered, *kit.frozen, *kit.constraints)),
            services={**(services or {}), **({} if encode is None else {"encoder": Encoder(encode)})},
            vector_noise=0.0 if encode is None else NOISE,
            dropped=tuple(DROPPED[kind] for kind in gone),
            warm=warm,
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one attack is: everything that decides its result."""

    clf: Classifier
    split: Split
    rows: np.ndarray
    labels: tuple[str, ...]  # the task's label names
    called: Mapping[str, int]  # what the data calls each of them, for a label map to paste
    classes: tuple[int, ...] | None  # the classifier's class for each of the task's, where they are matched by name
    resources: Mapping[str, Mapping[str, Any]]
    prepared: Prepared
    rules: Rules
    scoring: str
    white_box: bool
    seed: int
    query_budget: int | None
    temperature: float  # logits are divided by it
    calibration: Mapping[str, Any] | None  # how the temperature was fitted, if it was
    subset: str
    asked: int | None  # examples asked for, 0 for all; none where they were named
    seen: Mapping[str, Any] | None  # how many of the texts the victim was trained on, if that is known
    cut: int  # texts that the victim does not read to their end
    precision: str | None  # of the copy that is attacked; none for the victim itself
    digest: str

    def target(self, label: int) -> int:
        """The classifier's class for a label of the split."""
        count = len(self.classes) if self.classes is not None else len(self.clf.labels)
        if not 0 <= label < count:
            raise TicketsError(f"label {label} is none of the {count} classes", hint="check the labels of the data")
        return self.classes[label] if self.classes is not None else label

    def shown(self, predicted: int) -> int | None:
        """The task's label for a class of the classifier; none where the task has no such label."""
        if self.classes is None:
            return predicted
        return self.classes.index(predicted) if predicted in self.classes else None


def play(plan: Plan, row: int, victim: Victim, in_flight: int) -> Steps:
    """The attack on one row; reads it only when its turn has come."""
    example: Example = plan.split[row]
    game = Game(
        original=Text.of(example.texts, plan.rules),
        label=plan.target(example.label),
        column_names=tuple(plan.split.columns),
        noise=victim.noise,
        slope_noise=victim.rounding,
        rules=plan.rules,
        odds=plan.scoring == "log-odds",
        in_flight=in_flight,
        vector_noise=plan.prepared.vector_noise,
        budget=float("inf") if plan.query_budget is None else plan.query_budget,
        seed=derive(plan.seed, "attack", example.id),
    )
    try:
        status, final, first, last = yield from plan.prepared.kit.attack(game)
    except Exception as problem:
        right = game.first is not None and game.first.row.predicted == game.label
        return Failed(problem, _unknown(plan, example, game, problem) if right else None)
    before, after = first.row.probabilities, last.row.probabilities
    skipped = status == "skipped"
    return ExampleOutcome(
        id=example.id,
        label=example.label,
        status=status,
        original=example.texts,
        perturbed=None if skipped else final.columns,
        queries=game.queries,
        fell_at=game.fell_at,
        words=len(game.original),
        words_changed=words_changed(game.original, final),
        changed=tuple(marks(game.original, final)),
        predicted_before=plan.shown(first.row.predicted),
        predicted_after=plan.shown(last.row.predicted),
        score_before=1 - float(before[game.label]),
        score_after=1 - float(after[game.label]),
        similarity=last.similarity,
        confidence=float(before.max()),
        forward_passes=game.passes,
        candidates=game.tried,
        blind=game.blind,
    )


def _unknown(plan: Plan, example: Example, game: Game, problem: Exception) -> ExampleOutcome:
    """What is kept of an example that was answered right, and whose attack raised."""
    assert game.first is not None
    p = game.first.row.probabilities
    return ExampleOutcome(
        id=example.id,
        label=example.label,
        status=UNKNOWN,
        original=example.texts,
        queries=game.queries,
        words=len(game.original),
        predicted_before=plan.shown(game.first.row.predicted),
        score_before=1 - float(p[game.label]),
        confidence=float(p.max()),
        forward_passes=game.passes,
        error=said(problem),
    )


def failed(plan: Plan, row: int, problem: Exception) -> ExampleOutcome:
    """What is kept of an example whose clean text was not answered."""
    example = plan.split[row]
    return ExampleOutcome(id=example.id, label=example.label, status=ERROR, original=example.texts, error=said(problem))
