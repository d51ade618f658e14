"""One browser for all tests that need it, a new tab for each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from devtools import HOW, NAMED, Browser, BrowserError, find
from showing import shown
from tab import Tab

WHY = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def browser(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Started once. Where there is none, or the one that was found cannot start, tests skip; a browser that is named must start."""
    path, why, started = find(), HOW, None
    try:
        started = Browser(path, tmp_path_factory.mktemp("browser")) if path else None
    except BrowserError as error:
        why = f"{path} does not start: {error}"
    if started is None:
        if os.environ.get(NAMED):
            pytest.fail(f"{NAMED} is {os.environ[NAMED]}: {why}")
        request.config.stash[WHY] = why
        pytest.skip(why)
    yield started
    started.close()


@pytest.fixture(scope="session")
def pages(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A page of each of ``showing.KINDS``, made once; not before there is a browser to open it."""
    return cache(lambda kind: shown(kind, tmp_path_factory.mktemp(kind)))


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    opened = Tab(browser)
    yield opened
    opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """A run without a browser says so at its end: a skip's reason is not shown otherwise."""
    if why := config.stash.get(WHY, None):
        terminalreporter.write_line(f"No page was opened in a browser: {why}")
