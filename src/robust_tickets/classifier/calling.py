"""Calls to a function that may be far away: in batches, spaced, tried again.

A call that raises is repeated after 0.5, 1, 2, … seconds; when that is used up it is made in halves, down to one text: a service may take
only so many at once. The exception of one text goes to the caller, and with it the example whose text it was. Answers already had are
kept for a while, so that looking for the culprit in a failed round asks nothing twice. One that has failed on ``HOPELESS`` texts in a
row, each alone and tried again, is taken to be gone, and the run ends: it can be resumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from robust_tickets.config import Settings, setting
from robust_tickets.errors import FAILED, TicketsError

HOPELESS = 10  # failed calls of one text in a row, with all their retries
CALM = 100  # calls without a failure after which more texts at once are tried again: the limit may have been a moment's
MOST = 1e6  # seconds to wait, or calls a second; a thread cannot wait for ever
KEPT = 4_000_000  # characters of texts whose answers are kept


@dataclass(frozen=True, kw_only=True)
class Calls(Settings):
    """How a function is called."""

    batch_size: int | None = setting(None, at_least=1)  # texts in one call; by default as many as make 512 words
    retries: int = setting(0, at_least=0)  # further tries of a call that raised
    rate_limit: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")  # calls a second
    # seconds to wait for an answer
    timeout: float | None = setting(None, above=0, below=MOST, hint="leave it out for none")
    backoff: float = setting(0.5, at_least=0)  # seconds before the first retry, then twice as long each time


PLAIN = Calls()  # of a function that is near: its answers are not kept


class Caller:
    """``function`` called as ``calls`` says."""

    def __init__(self, function: Callable[..., Any], name: str, calls: Calls) -> None:
        self.function, self.name, self.calls = function, name, calls
        self.free_at = 0.0  # when the next call may start
        self.failed = 0  # calls in a row that failed for good
        self.kept: dict[Any, Any] = {}
        self.held = 0  # characters in kept
        self.most: int | None = None  # texts at once, since more of them failed
        self.calm = 0  # calls since the last failure
        self.culprit: Any = None  # the last text that failed alone: asked about first, it fails no other's call

    def __call__(self, texts: Sequence[Any], afresh: bool = False) -> Any:
        """Its answers; ``afresh``: past those that are kept, and keeping none."""
        kept = {} if afresh else self.kept
        wanted = [text for text in dict.fromkeys(texts) if text not in kept]
        rows: dict[Any, Any] = {text: kept[text] for text in texts if text in kept}
        if self.culprit in wanted:
            wanted.remove(self.culprit)
            wanted.insert(0, self.culprit)
        before = self.most
        while wanted:
            part = wanted[
                : 1 if wanted[0] == self.culprit else min(filter(None, (self.calls.batch_size, self.most, len(wanted))))
            ]
            try:
                answer = self._patiently(part)
            except TicketsError:
                raise  # it knows better
            except Exception:
                self.calm = 0
                if len(part) == 1:
                    self.culprit, self.most = part[0], before  # the text was at fault, not how many there were
                    raise
                self.most = len(part) // 2
                continue
            answer = answer.detach().cpu().tolist() if hasattr(answer, "detach") else answer
            answer = answer.to_numpy() if hasattr(answer, "to_numpy") else answer  # a table's rows, not its columns
            if not hasattr(answer, "__len__") or len(answer) != len(part):
                return answer  # not one row a text: the check that follows says so
            wanted = wanted[len(part) :]
            rows |= dict(zip(part, answer, strict=True))
            if self.calls != PLAIN and not afresh:
                self._keep(part, answer)
            self.calm += 1
            if self.most is not None and self.calm >= CALM:
                self.most, self.calm = 2 * self.most, 0
        return [rows[text] for text in texts]

    def _patiently(self, part: list[Any]) -> Any:
        for attempt in range(self.calls.retries + 1):
            if attempt:
                time.sleep(self.calls.backoff * 2 ** (attempt - 1))
            self._wait()
            try:
                answer = self._within_time(part)
            except TicketsError:
                raise  # it knows better
            except Exception as problem:
                last = problem
            else:
                self.failed = 0
                return answer
        self.failed += len(part) == 1
        if self.calls.retries and self.failed >= HOPELESS:
            raise TicketsError(
                f"{self.name} failed {self.failed} calls in a row, {self.calls.retries + 1} times each: {type(last).__name__}: {last}",
                hint="see that it answers, then give the same command again: what is done is kept",
                exit_code=FAILED,
            ) from last
        raise last

    def _wait(self) -> None:
        if self.calls.rate_limit is None:
            return
        now = time.monotonic()
        if self.free_at > now:
            time.sleep(self.free_at - now)
        self.free_at = max(now, self.free_at) + 1 / self.calls.rate_limit

    def _within_time(self, part: list[Any]) -> Any:
        if self.calls.timeout is None:
            return self.function(part)
        said: list[Any] = []

        def call() -> None:
            try:
                said.append((True, self.function(part)))
            except Exception as problem:
                said.append((False, problem))

        thread = threading.Thread(
            target=call, daemon=True
        )  # one that never returns must not hold the process back at its end
        thread.start()
        thread.join(self.calls.timeout)
        if not said:
            raise TimeoutError(f"no answer within {self.calls.timeout:g} s")
        fine, answer = said[0]
        if not fine:
            raise answer
        return answer

    def _keep(self, part: Sequence[Any], answer: Any) -> None:
        for text, row in zip(part, answer, strict=True):
            self.kept[text] = row
            self.held += _characters(text)
        while self.held > KEPT:
            oldest = next(iter(self.kept))
            del self.kept[oldest]
            self.held -= _characters(oldest)


def _characters(text: Any) -> int:
    return 64 + (len(text) if isinstance(text, str) else sum(map(len, text)))  # 64: what an empty text costs about
