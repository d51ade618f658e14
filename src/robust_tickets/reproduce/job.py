"""One training run with all that leads to it and follows it, by its names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from robust_tickets.config import Settings, setting
from robust_tickets.errors import TicketsError

Flavour = Literal["corrected", "as-published", "as-released"]
BERT, ROBERTA = "bert-base-uncased", "roberta-base"
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


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
        for name in ("backbone", "task", "arm"):
            if not _NAME.fullmatch(getattr(self, name)):  # it becomes a folder's name
                raise TicketsError(
                    f"a job's {name} is a name, got {getattr(self, name)!r}",
                    hint="write it in small letters, digits, _, . and -",
                    code="job.name",
                )

    @property
    def id(self) -> str:
        """Also the path of its result: ``bert-base-uncased/sst2/earlyrobust/corrected/seed-0``, or ``…/seed-0-repeat-1``."""
        last = f"seed-{self.seed}" + (f"-repeat-{self.repeat}" if self.repeat else "")
        return "/".join((self.backbone, self.task, self.arm, self.flavour, last))

    @classmethod
    def of_id(cls, id: str) -> Job:
        """The job with this id."""
        parts = id.split("/")
        last = re.fullmatch(r"seed-(\d+)(?:-repeat-([1-9]\d*))?", parts[-1])
        if len(parts) != 5 or last is None:
            hint = "backbone/task/arm/flavour/seed-N, or …/seed-N-repeat-M"
            raise TicketsError(f"{id!r} is no job", hint=hint, code="job.id")
        flavour: Any = parts[3]
        names = {"backbone": parts[0], "task": parts[1], "arm": parts[2]}
        return cls(**names, flavour=flavour, seed=int(last[1]), repeat=int(last[2] or 0))
