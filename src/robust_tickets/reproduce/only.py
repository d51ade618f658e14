"""Only: which part of a plan is wanted, as ``KEY=VALUE``. One key twice asks for either, two keys for both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from robust_tickets.data.tasks import plain
from robust_tickets.errors import TicketsError, did_you_mean

if TYPE_CHECKING:
    from robust_tickets.reproduce.claims import Claim

KEYS = ("task", "method", "attack", "backbone", "metric", "seed")


def read_only(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``task=sst2``, ``method=finetune,earlyrobust``: pairs of a key and one value."""
    pairs = []
    for one in given:
        key, equals, values = (part.strip() for part in one.partition("="))
        if not equals or not values:
            raise TicketsError(
                f"--only {one}: expected KEY=VALUE", hint=f"for example --only task=sst2; keys: {', '.join(KEYS)}"
            )
        if key not in KEYS:
            raise TicketsError(f"--only {one}: {key!r} is none of its keys", hint=did_you_mean(key, KEYS))
        parts = [value.strip() for value in values.split(",") if value.strip()]
        if any(_has_key(part) for part in parts):
            hint = f"two keys are two flags: {_flags(key, parts)}"
            raise TicketsError(f"--only {one}: a second key behind a comma, which parts the values of one", hint=hint)
        pairs += [(key, value) for value in parts]
    return tuple(pairs)


def _has_key(part: str) -> bool:
    return "=" in part and part.partition("=")[0].strip() in KEYS


def _flags(key: str, parts: Sequence[str]) -> str:
    """What was meant by ``parts`` of one flag: a value belongs to the key before it."""
    flags = [f"{key}="]
    for part in parts:
        if _has_key(part):
            flags.append(part)
        else:
            flags[-1] += part if flags[-1].endswith("=") else f",{part}"
    return " ".join(f"--only {flag}" for flag in flags if not flag.endswith("="))


def _plain(key: str, name: str) -> str:
    return plain(name) if key == "task" else name.lower()


class Only:
    """Asked while a plan is made; ``check`` afterwards refuses a value that nothing had."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = tuple(pairs)
        for key, value in self.pairs:
            if key not in KEYS:
                raise TicketsError(f"only {key}={value}: {key!r} is none of its keys", hint=did_you_mean(key, KEYS))
        self._met: dict[str, dict[str, None]] = {}
        self._hit: set[tuple[str, str]] = set()

    def __str__(self) -> str:
        return " ".join(f"--only {key}={value}" for key, value in self.pairs)

    def takes(self, key: str, *names: str) -> bool:
        """Whether something that has these names is wanted. Case does not matter: a row may be called RobustT 30 %, a task SST-2."""
        self._met.setdefault(key, {}).update(dict.fromkeys(names))
        values = [value for known, value in self.pairs if known == key]
        hit = [value for value in values if _plain(key, value) in [_plain(key, name) for name in names]]
        self._hit.update((key, value) for value in hit)
        return not values or bool(hit)

    def takes_attack(self, asked: str | None, ours: Sequence[str]) -> bool:
        """A column by its published name or by one of our attacks that stand for it; a column without an attack stays."""
        names = (*ours, *([asked] if asked else []), *(name.partition("-")[0] for name in ours))
        return not names or self.takes("attack", *names)

    def takes_claim(self, claim: Claim, without: Collection[tuple[str, str, str]]) -> bool:
        """Whether a claim's measure and attack are wanted, and no side of it is ``without``: task, backbone and arm that are left out.

        One side alone leaves nothing to compare. A seed does not matter: a claim is about all runs, as a cell is.
        """
        sides = {(claim.task, claim.backbone, arm) for arm in (claim.arm, claim.other)}
        return (
            sides.isdisjoint(without)
            and self.takes("metric", claim.metric)
            and self.takes_attack(None, (claim.attack,))
        )

    def check(self) -> None:
        for key, value in self.pairs:
            if (key, value) not in self._hit:
                known = [name for name in self._met.get(key, {}) if "," not in name]  # a comma would part it
                raise TicketsError(
                    f"--only {key}={value}: nothing here has this {key}", hint=did_you_mean(value, known)
                )
