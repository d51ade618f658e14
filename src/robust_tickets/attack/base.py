"""What all recipes share: whose rules they follow, how a text is scored, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from robust_tickets.attack.rules import Rules, rules_of
from robust_tickets.config import Settings
from robust_tickets.registry import ATTACKS

if TYPE_CHECKING:
    from robust_tickets.attack.plan import Prepared
    from robust_tickets.attack.result import AttackResult
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
        from robust_tickets.attack.loading import loaded

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
