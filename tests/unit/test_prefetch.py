"""Batches ahead: same order, errors where they belong, and no thread outlives its consumer."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_tickets.data.batching import NAME, Batch, prefetched


def batches(count: int, made: list[int] | None = None) -> Iterator[Batch]:
    for i in range(count):
        if made is not None:
            made.append(i)
        n = torch.tensor([i])
        yield Batch(inputs={"n": n}, labels=n, index=n)


def running() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


@settings(max_examples=20)
@given(count=st.integers(0, 40), depth=st.integers(1, 9), leave=st.integers(0, 45))
def test_the_order_is_kept_and_leaving_is_safe(count: int, depth: int, leave: int) -> None:
    made: list[int] = []
    seen: list[int] = []
    with closing(prefetched(batches(count, made), depth)) as ahead:
        for batch in ahead:
            seen.append(int(batch.index))
            if len(seen) == leave:
                break
    assert seen == list(range(min(leave, count) if leave else count))
    assert running() == 0
    assert made == list(range(len(made)))
    assert len(made) <= min(count, len(seen) + depth + 1)


class OddError(Exception):
    """An error of its own type."""


def test_an_error_comes_where_its_batch_would_have() -> None:
    def failing() -> Iterator[Batch]:
        yield from batches(3)
        raise OddError("the fourth")

    ahead = prefetched(failing(), 2)
    assert [int(next(ahead).index) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OddError, match="the fourth") as caught:
        next(ahead)
    assert any(entry.name == "failing" for entry in caught.traceback)  # where it was raised
    assert running() == 0


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OddError])
def test_a_consumer_that_fails_leaves_no_thread_and_closes_the_source(problem: type[BaseException]) -> None:
    closed = threading.Event()

    def source() -> Iterator[Batch]:
        try:
            yield from batches(10**9)
        finally:
            closed.set()

    def consume() -> None:
        with closing(prefetched(source(), 3)) as ahead:
            for batch in ahead:
                if int(batch.index) == 5:
                    raise problem

    with pytest.raises(problem):
        consume()
    assert running() == 0
    assert closed.is_set()


def test_a_source_that_fails_while_closing_does_not_hang() -> None:
    def source() -> Iterator[Batch]:
        try:
            yield from batches(10**9)
        finally:
            raise OddError("while closing")

    ahead = prefetched(source(), 1)
    next(ahead)
    ahead.close()
    assert running() == 0


def test_a_generator_that_is_dropped_stops_too() -> None:
    ahead: Any = prefetched(batches(10**9), 2)
    next(ahead)
    assert running() == 1
    del ahead
    gc.collect()
    assert running() == 0


def test_pinning_is_asked_of_every_tensor() -> None:
    class Fake:
        def pin_memory(self) -> str:
            return "pinned"

    plain: Any = {"a": Fake(), "b": Fake()}
    source: Any = [Batch(inputs=plain, labels=Fake(), index=Fake(), views={"other": plain})]  # type: ignore[arg-type]
    (pinned,) = prefetched(source, pin=True)
    assert pinned.tensors() == dict.fromkeys(("a", "b", "other/a", "other/b", "labels"), "pinned")
    assert list(prefetched(source)) == source


def test_a_script_that_ends_in_the_middle_ends() -> None:
    code = """
from robust_tickets.data.batching import prefetched
def forever():
    while True:
        yield {}
ahead = prefetched(forever(), 2)
next(ahead)
raise SystemExit(7)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 7
