"""Jobs of `tickets reproduce` in this process: a process of its own loads torch anew, which takes longer than a tiny job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from robust_tickets.experiment.jobs import Local
from robust_tickets.reproduce import runner, worker


class Here(Local):
    def __init__(self, processes: int, *, log: bool) -> None:
        super().__init__()
        self.log = log

    def work(self, request: Mapping[str, Any]) -> str:
        return worker.execute(request)


@pytest.fixture(scope="module")
def jobs_here() -> Any:
    """Jobs run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "Engine", Here)
        yield
