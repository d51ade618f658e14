"""Runs of one seed: how many models they are, by the hash of their weights. On a GPU a seed need not fix them, and it may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_tickets.reproduce.job import BERT
from robust_tickets.reproduce.names import arm_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.wording import count


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """One seed of an arm that was run more than once."""

    arm: str
    seed: int
    runs: int
    models: int
    tickets: int | None  # None: of the whole model
    codes: int = 1  # versions of the code that made them

    @property
    def told(self) -> str:
        drawn = "" if self.tickets is None else f" of {count(self.tickets, 'ticket')}"
        versions = f", made by {count(self.codes, 'version')} of the code" if self.codes > 1 else ""
        return f"{arm_title(self.arm)}, seed {self.seed}: {count(self.models, 'model')}{drawn} in {count(self.runs, 'run')}{versions}"


def repeated(outcomes: Sequence[Outcome], *, task: str, backbone: str = BERT) -> tuple[Repeated, ...]:
    """Of every arm and seed that was run again, in the order of their names."""
    runs: dict[tuple[str, int], list[Outcome]] = {}
    for one in outcomes:
        here = (one.unit.task, one.unit.backbone, one.unit.flavour) == (task, backbone, "corrected")
        if here and "trained" in one.inputs:  # of some, the ticket alone was asked for
            runs.setdefault((one.unit.arm, one.unit.seed), []).append(one)
    found = []
    for (arm, seed), some in sorted(runs.items()):
        if len(some) > 1:
            tickets = {one.ticket["digest"] for one in some if one.ticket}
            models = {one.inputs["trained"] for one in some}
            codes = {one.inputs.get("code") for one in some}
            counted = {"runs": len(some), "models": len(models), "codes": len(codes)}
            found.append(Repeated(arm=arm, seed=seed, tickets=len(tickets) or None, **counted))
    return tuple(found)


def models_told(found: Sequence[Repeated]) -> str:
    """One sentence or two; nothing where nothing was run again."""
    if not found:
        return ""
    alone = any(one.models < one.runs for one in found)
    said = f"By the hashes of their weights: {'; '.join(one.told for one in found)}."
    return said + " Runs of one model differ by their attack alone." * alone
