"""A run that dies in its midst, as suddenly as a kill for the process's own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from robust_tickets.train.loop import TrainingRun


class Killed(BaseException):
    """No ``except Exception`` sees it."""


@contextmanager
def killed(step: int, title: str = "") -> Iterator[None]:
    """Inside, the first training (of that title) dies before the update that follows ``step`` others."""
    original = TrainingRun._update

    def update(self: TrainingRun, group: Any) -> Any:
        if self.done == step and title in ("", self.title):
            raise Killed
        return original(self, group)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):  # noqa: PT012  # the block is the caller's
        patch.setattr(TrainingRun, "_update", update)
        yield
