"""A configured attack, and one run of it with everything that decides its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from robust_tickets.attack.calibration import calibrate, held_out
from robust_tickets.attack.components import Constraint, WordConstraint
from robust_tickets.attack.cuda import HEAD, lowered
from robust_tickets.attack.examples import by_class, classes_of, rows_of
from robust_tickets.attack.greedy import GreedySearch
from robust_tickets.attack.options import CALIBRATED, AttackOptions, Speed
from robust_tickets.attack.scheduler import answers, fatal, hopeless
from robust_tickets.attack.textattack_compat import Rules, rules_of
from robust_tickets.classifier import Classifier, ModelClassifier, as_classifier
from robust_tickets.classifier.callable import PROBES
from robust_tickets.config import Settings, components, describe, digest, resource, resources_in
from robust_tickets.environment import ORDER
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ATTACKS, code_of, name_of
from robust_tickets.resources.kinds import Resource

if TYPE_CHECKING:
    from robust_tickets.attack.result import AttackResult
    from robust_tickets.data.task import Split
    from robust_tickets.resources.masked_lm import MaskedModel
    from robust_tickets.resources.vectors import Vectors, WordLists

SEMANTICS = "textattack-0.3.11"  # what the recipes were written from


@dataclass(frozen=True, kw_only=True)
class Attack(Settings):
    """``compat`` is a version of TextAttack to agree with, example by example; left out, the package's own rules hold.

    ``scoring`` is what a candidate is judged by: TextAttack's probability 1 - p(label) in float32, or the log-odds against the label in
    float64, which still tell candidates apart where an over-confident victim's probabilities are all 1.
    ``constraints`` hold in addition to the attack's own.
    """

    white_box: ClassVar[bool] = False  # whether it asks for the victim's gradients, which only a loaded model can give

    compat: str | None = None
    scoring: Literal["probability", "log-odds"] = "probability"
    constraints: tuple[Constraint | WordConstraint, ...] = components("constraints")

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in self.constraints:
            if not isinstance(part, Constraint | WordConstraint):
                message = f"constraints are components of attack.constraints, got {part!r:.60}"
                raise TicketsError(message, hint="see docs/guides/extending.md", code="attack.constraint")
        self.rules()

    def rules(self) -> Rules:
        module = type(self).__module__
        package, _, file = module.rpartition(".")
        # a plug-in is its own, whatever its file is called: no profile was checked for it
        return rules_of(self.compat, file if package == ATTACKS.package else f"{module}.{type(self).__name__}")

    def needs(self) -> tuple[str, ...]:
        """The resources it needs with these settings, by kind (``resources.kinds``)."""
        return resources_in(self)

    def found(self) -> dict[str, Resource]:
        """What it and its additional constraints need, found but not loaded; without what is set to "none"."""
        from robust_tickets.resources.kinds import NONE, resolve_all

        asked: dict[str, str | None] = {kind: getattr(self, kind) for kind in self.needs()}
        for part in self.constraints:
            for kind in resources_in(part):
                named = getattr(part, kind)
                if asked.setdefault(kind, named) == NONE or named not in (None, asked[kind]):
                    raise TicketsError(
                        f"{name_of(self)} has {kind}={asked[kind]}, its constraint {name_of(part)} {kind}={named}: an attack has one",
                        hint=f"leave {kind} out of the constraint, and give the attack {kind}=PATH or leave it out there too",
                        code="attack.resource",
                    )
        return resolve_all(asked)

    def resources(self) -> dict[str, dict[str, Any]]:
        """What the result says of each resource; its digest is part of the attack's."""
        return {kind: resource.record() for kind, resource in self.found().items()}

    def prepare(self, device: str) -> GreedySearch:
        """The search with its resources loaded, models among them on ``device``."""
        return self.assemble(Loaded(**{kind: load(kind, each, device) for kind, each in self.found().items()}))

    def assemble(self, use: Loaded) -> GreedySearch:
        """The search with what is loaded: a constraint whose resource was dropped is left out, and the title says so."""
        search = self.build(use)
        kept = [each for each in search.constraints if None not in (getattr(each, k) for k in resources_in(each))]
        added = [
            replace(part, **{kind: getattr(use, kind) for kind in resources_in(part)})  # type: ignore[type-var]
            for part in self.constraints
        ]
        gone = [kind for kind in self.needs() if getattr(use, kind) is None]
        return replace(
            search,
            title=search.title + (f" without {' and '.join(gone)}" if gone else ""),
            modifiable=(*search.modifiable, *(part for part in added if isinstance(part, WordConstraint))),
            constraints=(*kept, *(part for part in added if isinstance(part, Constraint))),
            dropped=tuple(DROPPED[kind] for kind in gone),
        )

    def build(self, use: Loaded) -> GreedySearch:
        """The search, as the paper's method section has it; a part of ``use`` is None where it was dropped."""
        raise NotImplementedError

    def __call__(
        self,
        clf: Classifier,
        split: Split,
        *,
        n: int = 200,
        seed: int = 0,
        folder: str | Path | None = None,
        ids: Sequence[str | int] | None = None,
        subset: Literal["balanced", "random", "first", "first-of-each"] = "balanced",
        labels: Sequence[str] | None = None,
        label_map: Mapping[str, int | str] | None = None,
        temperature: float | Literal["calibrated"] = 1.0,
        calibration: Split | None = None,
        seen: Split | None = None,
        clean_full: float | None = None,
        query_budget: int | None = None,
        precision: Literal["bfloat16", "float16"] | None = None,
        max_failed: float = 1.0,
        token_budget: int | None = None,
        live: int | None = None,
        workers: int | None = None,
    ) -> AttackResult:
        """Attack ``n`` examples of ``split``, or those with the given ids (or row numbers); ``n=0`` takes all rows.

        ``subset`` says which: "balanced" (seeded, as even over the classes as the rows allow), "random" (seeded), the "first" rows as
        the papers' code takes them, or the "first-of-each" class.
        ``labels`` are the task's label names; they are matched to the classifier's by name, or by ``label_map`` (a name of the task to
        a class number or name of the classifier). Without them the split's labels must be the classifier's class numbers.
        ``temperature`` divides the logits; "calibrated" fits it on ``calibration``, or on the rows of ``split`` that are not attacked.
        ``precision`` ("bfloat16", "float16") attacks a copy in fewer bits, which is faster on a GPU; how many outcomes the victim
        itself does not confirm goes into the result.
        ``seen`` is what the victim was trained on: how many of the attacked texts are in it goes into the result.
        ``clean_full`` is passed on into the result: the accuracy on the whole split, if it is known.
        Where more than two examples and more than ``max_failed`` percent of them failed, the result has the flag ``failed-examples``;
        the same call attacks those again.
        ``token_budget``, ``live`` and ``workers`` (processes that look words up for a victim on a GPU) change speed and memory only.
        With a ``folder``, the same call after a kill resumes and ends with the same outcomes.
        """
        from robust_tickets.attack.engine import run

        options = AttackOptions(
            n=n,
            seed=seed,
            subset=subset,
            temperature=temperature,
            precision=precision,
            query_budget=query_budget,
            max_failed=max_failed,
        )
        data = AttackData(
            ids=ids, labels=labels, label_map=label_map, calibration=calibration, seen=seen, clean_full=clean_full
        )
        job = AttackRun(recipe=self, victim=clf, split=split, options=options, data=data)
        speed = Speed(token_budget=token_budget, live=live, workers=workers)
        return run(job, None if folder is None else Path(folder), speed)


# what goes with a resource
DROPPED = {"vectors": "near words", "tagger": "part of speech", "encoder": "sentence similarity"}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The resources of an attack; None for what it does not need or does without."""

    vectors: Vectors | WordLists = resource()
    tagger: Callable[[list[str]], Sequence[str]] = resource()
    encoder: Callable[[list[str]], Any] = resource()
    masked: MaskedModel = resource()


def load(kind: str, found: Resource, device: str) -> Any:
    """What a resource names, a model on ``device``."""
    if kind == "vectors":
        from robust_tickets.resources.vectors import load_words

        return load_words(found.path, found.digest)
    if kind == "tagger":
        from robust_tickets.resources.tagger import FunctionTagger, Tagger

        if found.function is not None:
            return FunctionTagger(found.function, name=found.name)
        return Tagger.load(found.path)
    if kind == "encoder":
        from robust_tickets.resources.sentence_encoder import UniversalEncoder, load_encoder

        if found.function is not None:
            return UniversalEncoder(found.function, name=found.name).encode
        return load_encoder(found.path, device=device).encode
    from robust_tickets.resources.masked_lm import MaskedModel

    return MaskedModel.load(found.path, device=device)


@dataclass(frozen=True, kw_only=True)
class AttackData:
    """What the data of an attack say."""

    ids: Sequence[str | int] | None = None  # the examples, by id or row number; none: a sample
    labels: Sequence[str] | None = None  # the task's label names; none: a label is a class number of the victim
    label_map: Mapping[str, int | str] | None = None  # which class of the victim a label is, where the names differ
    calibration: Split | None = None  # rows to fit the temperature on; none: those of the split that are not attacked
    seen: Split | None = None  # what the victim was trained on
    clean_full: float | None = None  # the victim's accuracy on the whole split


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackRun:
    """One attack: recipe, victim, split, options and data decide its result; what follows from them is worked out once."""

    recipe: Attack
    victim: Classifier
    split: Split
    options: AttackOptions = AttackOptions()  # noqa: RUF009 - frozen
    data: AttackData = AttackData()

    def __post_init__(self) -> None:
        as_classifier(self.victim, "attacked")
        given = {"what is attacked": self.split, "seen": self.data.seen, "calibration": self.data.calibration}
        for what, split in given.items():
            if split is not None and (not hasattr(split, "digest") or hasattr(split, "splits")):  # a task has splits
                raise TicketsError(
                    f"{what} is a split of a task, got a {type(split).__name__}",
                    hint="task.test of a loaded task, or data.task.Split.of(texts, labels)",
                    code="attack.split",
                )
        self.victim.check_columns(self.split.columns, "the split to attack")
        if self.recipe.white_box:
            self.victim.needs_model("attacked by its gradients")

    # --- the examples and their labels

    @cached_property
    def rows(self) -> np.ndarray:
        """Row numbers of the attacked examples."""
        return rows_of(self.split, self.options, len(self.labels), self.data.ids)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(self.split[int(row)].id for row in self.rows)

    @property
    def subset(self) -> str:
        return self.options.subset if self.data.ids is None else "ids"

    @property
    def labels(self) -> tuple[str, ...]:
        """The task's label names."""
        return tuple(self.data.labels or self.victim.labels)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        """The victim's class for each of the task's labels."""
        return classes_of(self.data.labels, self.victim.labels, self.data.label_map)

    def class_of(self, label: int) -> int:
        """The victim's class for a label of the split."""
        if not 0 <= label < len(self.classes):
            message = f"label {label} is none of the {len(self.classes)} classes"
            raise TicketsError(message, hint="check the labels of the data", code="attack.label")
        return self.classes[label]

    def label_of(self, predicted: int) -> int | None:
        """The task's label for a class of the victim; none where the task has no such label."""
        return self.classes.index(predicted) if predicted in self.classes else None

    # --- the victim

    @cached_property
    def model(self) -> Mapping[str, Any]:
        """What the result says of the victim; its digest reads every weight."""
        return about_model(self.victim)

    @cached_property
    def attacked(self) -> Classifier:
        """The victim, or a copy of it in fewer bits."""
        return lowered(self.victim, self.options.precision)

    @cached_property
    def probes(self) -> list[list[float] | None]:
        """What tells a callable from others of its name. They are not counted as queries."""
        found, problem = self.victim.probe(self.split[int(row)].texts for row in self.rows[:PROBES])
        if problem is not None and not any(found) and not answers(self.victim, len(self.split.columns)):
            raise fatal(problem) or hopeless(problem, len(found))
        return found

    @cached_property
    def held_out(self) -> Split | None:
        """The rows to fit the temperature on; none where it is given."""
        return held_out(self.options.temperature, self.split, self.rows, self.data.calibration)

    @cached_property
    def _calibrated(self) -> tuple[float, Mapping[str, Any] | None]:
        if self.held_out is None:
            return float(self.options.temperature), None
        return calibrate(self.victim, self.held_out, self.classes)

    @property
    def temperature(self) -> float:
        """What the logits are divided by."""
        return self._calibrated[0]

    @property
    def calibration(self) -> Mapping[str, Any] | None:
        """How the temperature was fitted, if it was."""
        return self._calibrated[1]

    @cached_property
    def cut(self) -> int:
        """How many of the texts have more tokens than the victim reads; not known of a callable."""
        found = 0
        for row in self.rows if self.victim.cut_at is not None else ():
            with suppress(Exception):  # a text that the tokenizer cannot read is its example's own error
                found += self.victim.cuts(self.split[int(row)].texts)
        return found

    @cached_property
    def seen(self) -> Mapping[str, Any] | None:
        """How many of the texts the victim was trained on, if that is known."""
        trained = self.data.seen
        if trained is None:
            return None
        count = int(np.isin(self.split.keys[self.rows], trained.keys).sum())
        return {"split": trained.name, "rows": len(trained), "digest": trained.digest, "count": count}

    # --- the recipe

    @cached_property
    def rules(self) -> Rules:
        return self.recipe.rules()

    @cached_property
    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        return self.recipe.resources()

    @cached_property
    def search(self) -> GreedySearch:
        """The recipe's search with its resources loaded."""
        return self.recipe.prepare(str(self.victim.device))

    # --- identity

    @cached_property
    def digest(self) -> str:
        return digest(self.key())

    def key(self) -> dict[str, Any]:
        """Everything that determines the result."""
        options, seen = self.options, self.data.seen
        # refused before a resource is looked for
        classes, ids, held = (None if self.data.labels is None else self.classes), self.ids, self.held_out
        key = {
            "recipe": describe(self.recipe),
            # where a resource came from does not matter
            "resources": {kind: {k: v for k, v in r.items() if k != "origin"} for kind, r in self.resources.items()},
            "victim": [self.model["digest"], self.probes],
            "split": self.split.digest,
            "columns": self.split.columns,
            "ids": ids,
            "classes": classes,
            "seed": options.seed,
            "query_budget": options.query_budget,
            "temperature": float(options.temperature) if held is None else [CALIBRATED, held.name, held.digest],
            "subset": self.subset,
            "precision": options.precision and [options.precision, HEAD, ORDER],
            "seen": None if seen is None else [seen.name, seen.digest],
            "clean_full": self.data.clean_full,
        }
        if code := code_of(self.recipe):
            key["code"] = code
        return key

    def header(self) -> dict[str, Any]:
        """What result.json says of the attack itself."""
        options, split = self.options, self.split
        return {
            "attack": self.search.title,
            "digest": self.digest,
            "semantics": SEMANTICS,
            "compat": self.rules.name,
            "constraints": self.search.describe(),
            "resources": self.resources,
            "model": self.model,
            "task": {
                "split": split.name,
                "digest": split.digest,
                "columns": list(split.columns),
                "labels": list(self.labels),
                "rows": len(split),
                "asked": options.n if self.data.ids is None else None,
                "by_class": by_class(split.labels[self.rows], len(self.labels)),
            },
            "ids": self.ids,
            "subset": self.subset,
            "seed": options.seed,
            "scoring": self.recipe.scoring,
            "query_budget": options.query_budget,
            "temperature": self.temperature,
            "calibration": self.calibration,
            "seen": self.seen,
            "precision": options.precision,
            "clean_full": self.data.clean_full,
        }


def about_model(clf: Classifier) -> dict[str, Any]:
    """What a result says of the model behind its numbers."""
    return {
        "identity": clf.identity,
        "digest": clf.digest,
        "labels": list(clf.labels),
        "dtype": str(clf.model.dtype).removeprefix("torch.") if isinstance(clf, ModelClassifier) else None,
        "max_length": clf.cut_at,
    }
