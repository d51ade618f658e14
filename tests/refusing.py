"""Refusals, asserted by their code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from robust_tickets.errors import TicketsError


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[TicketsError]]:
    with pytest.raises(TicketsError) as caught:
        yield caught
    assert caught.value.code == code, caught.value
