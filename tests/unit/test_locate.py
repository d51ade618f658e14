"""Digests of resources: of the content, read once for big files, never believed after a change."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from robust_tickets import locate as digests
from robust_tickets.errors import TicketsError
from robust_tickets.locate import digest_of, file_digest


@pytest.fixture(autouse=True)
def _small_files_count_as_big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(digests, "BIG", 10)
    digests._digest.cache_clear()


def restarted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """As in a new process; gives the list of files that are read from here on."""
    digests._digest.cache_clear()
    read: list[Path] = []

    def counted(path: Path) -> str:
        read.append(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(digests, "sha256_file", counted)
    return read


def test_a_big_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big, small = tmp_path / "big", tmp_path / "small"
    big.write_text("0123456789")
    small.write_text("0")
    first = digest_of([big, small])
    assert file_digest(big) == hashlib.sha256(b"0123456789").hexdigest()
    read = restarted(monkeypatch)
    assert digest_of([small, big]) == first  # in any order
    assert read == [small]


def test_a_changed_file_is_read_again_whatever_its_date_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "big"
    file.write_text("0123456789")
    before, dates = file_digest(file), os.stat(file)
    file.write_text("9876543210")  # the same size
    os.utime(file, ns=(dates.st_atime_ns, dates.st_mtime_ns))
    read = restarted(monkeypatch)
    assert file_digest(file) != before
    assert read == [file]
    other = tmp_path / "other"
    other.write_text("abcdefghij")
    os.replace(other, file)
    assert file_digest(file) == hashlib.sha256(b"abcdefghij").hexdigest()


def test_damaged_notes_and_no_place_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "big"
    file.write_text("0123456789")
    right = file_digest(file)
    (kept,) = (tmp_path / "cache" / "digests").iterdir()
    for damage in (b"", b"\xff\xfe", b"nothing", right[:-1].encode()):
        kept.write_bytes(damage)
        restarted(monkeypatch)
        assert file_digest(file) == right
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "file"))
    restarted(monkeypatch)
    assert file_digest(file) == right


def test_the_name_and_the_content_decide_and_not_the_place(tmp_path: Path) -> None:
    for folder, name, content in (
        ("a", "x", "0123456789"),
        ("b", "x", "0123456789"),
        ("c", "y", "0123456789"),
        ("d", "x", "0123456780"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(content)
    a, b, c, d = (digest_of([tmp_path / part]) for part in ("a/x", "b/x", "c/y", "d/x"))
    assert a == b
    assert len({a, c, d}) == 3


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(TicketsError, match="could not read"):
        file_digest(tmp_path / "absent")
