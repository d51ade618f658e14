"""Shared fixtures: tiny random models, and the folder of real data and models where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from robust_tickets import progress

# two busy cores make any deadline a coin toss, and how fast examples are drawn too; the example database would only carry failures from
# one machine to another
hypothesis.settings.register_profile(
    "tests", deadline=None, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data, models and word vectors; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("ROBUST_TICKETS_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"needs real data and models in {folder} (set ROBUST_TICKETS_SHARED)")
    return folder


@pytest.fixture(autouse=True)
def _printed() -> Iterator[None]:
    """Log lines are printed as the command line prints them, so that a test may read them."""
    with progress.printed():
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
