"""What all recipes share: whose rules they follow, how a text is scored, and how they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from robust_tickets.attack.example import Game, Steps
from robust_tickets.attack.greedy import Greedy
from robust_tickets.attack.result import ExampleOutcome
from robust_tickets.attack.scheduler import Failed, Service
from robust_tickets.attack.services import ENCODER_NOISE, Encoder, Victim
from robust_tickets.attack.text import Text, marks, words_changed
from robust_tickets.attack.textattack_compat import Rules, rules_of
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import said
from robust_tickets.config import Settings, at_least
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ATTACKS
from robust_tickets.resources.kinds import Resource
from robust_tickets.seeds import derive
from robust_tickets.stats.classification import ERROR, UNKNOWN

if TYPE_CHECKING:
    from robust_tickets.attack.result import AttackResult
    from robust_tickets.data.task import Example, Split
    from robust_tickets.resources.kinds import Resource


@dataclass(frozen=True, kw_only=True)
class Attack(Settings):
    """``compat`` is a version of TextAttack to agree with, example by example; left out, the package's own rules hold.

    ``scoring`` is what a candidate is judged by: TextAttack's probability 1 - p(label) in float32, or the log-odds against the label in
    float64, which still tell candidates apart where an over-confident victim's probabilities are all 1.
    """

    NEEDS: ClassVar[
        tuple[str, ...]
    ] = ()  # kinds of resources (resources.kinds); a field of each kind's name says which one

    compat: str | None = None
    scoring: Literal["probability", "log-odds"] = "probability"
    white_box: ClassVar[bool] = False  # whether it asks for the victim's gradients, which only a model at hand can give

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rules()

    def rules(self) -> Rules:
        package, _, file = type(self).__module__.rpartition(".")
        # a plug-in is its own, whatever its file is called: no profile was checked for it
        return rules_of(
            self.compat, file if package == ATTACKS.package else f"{type(self).__module__}.{type(self).__name__}"
        )

    def needs(self) -> tuple[str, ...]:
        """The kinds of resources it needs with these settings; ``tickets doctor`` reads ``NEEDS``, those of the plain attack."""
        return self.NEEDS

    def found(self) -> dict[str, Resource]:
        """What it needs, found but not loaded; without what is set to "none". All that is missing is said at once."""
        from robust_tickets.resources.kinds import resolve_all

        return resolve_all({kind: getattr(self, kind) for kind in self.needs()})

    def resources(self) -> dict[str, dict[str, Any]]:
        """What is said of each resource in the result; its digest is part of the attack's."""
        return {kind: resource.record() for kind, resource in self.found().items()}

    def prepare(self, device: str) -> Prepared:
        """The attack with its resources loaded, models among them on ``device``."""

        return self.assemble(**loaded(self.needs(), self.found(), device))

    def assemble(self, *args: Any, **parts: Any) -> Prepared:
        """The attack from its parts (``attack.loading.PARTS``); one that is None is dropped, and the result says so."""
        raise TypeError(f"{type(self).__name__} has no assemble")  # a recipe without it is a mistake of its author

    def __call__(
        self, clf: Any, split: Any, *, n: int = 200, seed: int = 0, folder: str | Path | None = None, **options: Any
    ) -> AttackResult:
        """Attack ``n`` examples of ``split``; see ``attack.engine.run_attack`` for the options."""
        from robust_tickets.attack.engine import run_attack

        return run_attack(self, clf, split, n=n, seed=seed, folder=folder, **options)


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
            vector_noise=0.0 if encode is None else ENCODER_NOISE,
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


PARTS = {"vectors": "vectors", "tagger": "tags", "encoder": "encode", "masked": "language"}  # kind -> name of the part


def loaded(kinds: Sequence[str], found: Mapping[str, Resource], device: str) -> dict[str, Any]:
    """A part for every kind, models on ``device``; None for a kind that was dropped."""
    return {PARTS[kind]: _load(kind, found[kind], device) if kind in found else None for kind in kinds}


def _load(kind: str, resource: Resource, device: str) -> Any:
    if kind == "vectors":
        from robust_tickets.resources.vectors import load_words

        return load_words(resource.path, resource.digest)
    if kind == "tagger":
        from robust_tickets.resources.tagger import FunctionTagger, Tagger

        if resource.function is not None:
            return FunctionTagger(resource.function, name=resource.name)
        return Tagger.load(resource.path)
    if kind == "encoder":
        from robust_tickets.resources.sentence_encoder import SentenceEncoder
        from robust_tickets.resources.universal_sentence_encoder import UniversalEncoder

        if resource.function is not None:
            return UniversalEncoder(resource.function, name=resource.name).encode
        return SentenceEncoder.load(resource.path, device=device).encode
    from robust_tickets.resources.masked_lm import MaskedModel

    return MaskedModel.load(resource.path, device=device)


LEAST = {"n": (0, "0 attacks all rows"), "workers": (0, "0 attacks in one process; leave it out for the default")}
OTHERS = (1, "leave it out for the default")


def check_numbers(given: Mapping[str, int | None], called: Callable[[str], str] = str) -> None:
    """Refuse a number that no attack takes, by the name that its user ``called`` it."""
    for name, value in given.items():
        at_least(called(name), value, *LEAST.get(name, OTHERS))


def check_failed(percent: float, called: str = "max_failed") -> None:
    if not 0 <= percent <= 100:
        raise TicketsError(f"{called} is a percentage from 0 to 100, got {percent!r}", hint="leave it out for 1")


def a_split(value: Any, what: str) -> None:
    """Refuse anything else, a whole task and a list of texts among it; ``what`` it is to be."""
    if hasattr(value, "splits"):
        raise TicketsError(
            f"{what} is a split of a task, got a {type(value).__name__}", hint="give one of its splits: task.test"
        )
    if not hasattr(value, "digest"):
        hint = "task.test of a loaded task, or data.task.Split.of(texts, labels)"
        raise TicketsError(f"{what} is a split of a task, got a {type(value).__name__}", hint=hint)
