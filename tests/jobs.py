"""Jobs of `tickets reproduce` in this process: a process of its own loads torch anew, which takes longer than a tiny job."""

from __future__ import annotations

from typing import Any

import pytest

from robust_tickets.reproduce import outcome, runner
from robust_tickets.reproduce.runner import Ended
from robust_tickets.reproduce.worker import Request, run_job, write_failure


def here(request: Request, *_: Any) -> Ended:
    """What ``runner._run`` does, without a process."""
    try:
        run_job(request)
    except Exception as problem:
        return Ended(state="failed", words=write_failure(request, problem))
    there = outcome.read(outcome.place(request.results, request.unit))
    return Ended(state="done", words=runner.numbers(there), seconds=1.0)


@pytest.fixture(scope="module")
def jobs_here() -> Any:
    """Jobs run in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_run", here)
        yield
