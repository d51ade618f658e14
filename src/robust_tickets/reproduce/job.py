"""One training run with all that leads to it and follows it, by its names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from robust_tickets.config import Settings, setting
from robust_tickets.errors import TicketsError

Flavour = Literal["corrected", "as-published", "as-released"]
BERT, ROBERTA = "bert-base-uncased", "roberta-base"
_NAME = r"([a-z0-9][a-z0-9_.-]*)"
_ID = re.compile(rf"{_NAME}/{_NAME}/{_NAME}/({'|'.join(get_args(Flavour))})/seed-(\d+)(?:-repeat-([1-9]\d*))?")


@dataclass(frozen=True, kw_only=True, order=True)
class Job(Settings):
    """``repeat`` numbers runs of one seed: on a GPU the seed does not fix the result."""

    backbone: str = BERT
    task: str
    arm: str  # of arms.toml
    flavour: Flavour = "corrected"
    seed: int = setting(0, at_least=0)
    repeat: int = setting(0, at_least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _ID.fullmatch(self.id):
            raise _no_job(self.id)

    @property
    def id(self) -> str:
        """Also the path of its result: ``bert-base-uncased/sst2/earlyrobust/corrected/seed-0``, or ``…/seed-0-repeat-1``."""
        last = f"seed-{self.seed}" + (f"-repeat-{self.repeat}" if self.repeat else "")
        return "/".join((self.backbone, self.task, self.arm, self.flavour, last))

    @classmethod
    def of_id(cls, id: str) -> Job:
        """The job with this id."""
        found = _ID.fullmatch(id)
        if found is None:
            raise _no_job(id)
        backbone, task, arm, flavour, seed, repeat = found.groups()
        names = {"backbone": backbone, "task": task, "arm": arm, "flavour": flavour}
        return cls(**names, seed=int(seed), repeat=int(repeat or 0))  # type: ignore[arg-type]


def _no_job(id: str) -> TicketsError:
    hint = "backbone/task/arm/flavour/seed-N, or …/seed-N-repeat-M, in small letters, digits, _, . and -"
    return TicketsError(f"{id!r} is no job", hint=hint, code="job.id")
