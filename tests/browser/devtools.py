"""Debian's chromium, driven over its DevTools pipe: messages are JSON ended by a NUL, asked for on descriptor 3, answered on descriptor 4.

The standard library is enough for that, so the tests need no package and no download but the browser itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
NAMED = "ROBUST_TICKETS_BROWSER"  # which browser; one that is named must start
HOW = f"none of {', '.join(NAMES)} is here: install Debian's with `apt-get install chromium`, or name one in {NAMED}"
WAIT = 30.0  # seconds for an answer: other work may keep all cores busy
START = 90.0  # seconds for the first answer, with a cold disk
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # which root and containers cannot have; only pages that the tests made are opened
    "--disable-gpu",
    "--disable-dev-shm-usage",  # small in containers
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--password-store=basic",
    "--hide-scrollbars",  # a scrollbar's width would count as content
    "--force-color-profile=srgb",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing goes out, whatever a page asks for
)
Event = dict[str, Any]


class BrowserError(Exception):
    """The browser did not start, did not answer, or refused a command."""


def find() -> str | None:
    """The browser that is named, or the first that is installed."""
    named = os.environ.get(NAMED)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One process. ``send`` asks and waits for the answer; what the browser tells meanwhile goes to the session's listener."""

    def __init__(self, path: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "stderr.txt"
        self.listeners: dict[str, Callable[[Event], None]] = {}
        self._numbers = itertools.count(1)
        self._answers: dict[int, Event] = {}
        self._rest = b""
        theirs, self._ask = _pipe()
        self._hear, answers = _pipe()
        argv = [path, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        # the profile is the home too: a browser writes to more places than the one it is given
        environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs, 3),
            (os.POSIX_SPAWN_DUP2, answers, 4),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, str(self.log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        self.pid = os.posix_spawn(path, argv, environment, file_actions=actions, setpgroup=0)
        os.close(theirs)
        os.close(answers)
        try:
            self.version = self.send("Browser.getVersion", wait=START)["product"]
        except BrowserError:
            self.close()
            raise

    def send(self, method: str, params: Event | None = None, session: str | None = None, wait: float = WAIT) -> Event:
        """Ask, and return the answer."""
        return self.answer(self.post(method, params, session), method, wait)

    def post(self, method: str, params: Event | None = None, session: str | None = None) -> int:
        """Ask without waiting; returns the number under which the answer comes."""
        number = next(self._numbers)
        message: Event = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        left = json.dumps(message).encode() + b"\0"
        while left:
            try:
                left = left[os.write(self._ask, left) :]
            except BrokenPipeError:
                raise BrowserError(f"{method}: the browser has gone; {self.said()}") from None
        return number

    def answer(self, number: int, method: str, wait: float = WAIT) -> Event:
        self.until(lambda: number in self._answers, method, wait)
        found = self._answers.pop(number)
        if "error" in found:
            raise BrowserError(f"{method}: {found['error'].get('message', found['error'])}")
        return found["result"]

    def until(self, done: Callable[[], bool], what: str, wait: float = WAIT) -> None:
        """Take in what the browser tells until ``done()``."""
        end = time.monotonic() + wait
        while not done():
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._hear], [], [], left)[0]:
                raise BrowserError(f"{what}: no answer within {wait:g} s; {self.said()}")
            piece = os.read(self._hear, 1 << 20)
            if not piece:
                raise BrowserError(f"{what}: the browser has gone; {self.said()}")
            *whole, self._rest = (self._rest + piece).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self._answers[message["id"]] = message
                elif listener := self.listeners.get(message.get("sessionId", "")):
                    listener(message)

    def said(self) -> str:
        """The end of what the browser wrote to its standard error."""
        text = self.log.read_text("utf-8", "replace")[-1500:] if self.log.is_file() else ""
        return f"it said: {text.strip() or 'nothing'}"

    def close(self) -> None:
        """End the process and those it started."""
        with contextlib.suppress(BrowserError):
            self.post("Browser.close")
        end = time.monotonic() + 5
        while not (gone := os.waitpid(self.pid, os.WNOHANG)[0]) and time.monotonic() < end:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # the group is ours alone
        if not gone:
            os.waitpid(self.pid, 0)
        os.close(self._ask)
        os.close(self._hear)


def _pipe() -> tuple[int, int]:
    """Its two ends, far from 3 and 4, which the child gets."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]
