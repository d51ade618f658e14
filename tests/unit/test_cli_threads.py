"""A container's limit on processor time bounds the threads; what is no limit, or no such file, does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from robust_tickets import environment


@pytest.fixture(autouse=True)
def _eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("said", "threads_allowed"),
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("20000 100000", 1),
        ("800000 100000", None),
        ("max 100000", None),
        ("", None),
        ("x y", None),
        ("100000 0", None),
    ],
)
def test_second_version(tmp_path: Path, said: str, threads_allowed: int | None) -> None:
    (tmp_path / "cpu.max").write_text(said + "\n")
    assert environment.allowed(tmp_path) == threads_allowed


@pytest.mark.parametrize(("quota", "threads_allowed"), [("400000", 4), ("-1", None)])
def test_first_version(tmp_path: Path, quota: str, threads_allowed: int | None) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert environment.allowed(tmp_path) == threads_allowed


def test_no_files_no_limit(tmp_path: Path) -> None:
    assert environment.allowed(tmp_path) is None
