"""The cache folder: where it lies, and work in homes and containers where it cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import robust_tickets as rt
from calling import Capture
from robust_tickets import cache
from robust_tickets.data.arrow_tables import token_table
from robust_tickets.data.mlm import blocks_of, find_corpus
from robust_tickets.errors import TicketsError
from robust_tickets.resources import kinds
from robust_tickets.resources.synonyms import synonym_table
from robust_tickets.resources.vectors import Vectors, read_vectors
from tiny import tiny_config, tiny_tokenizer

ROWS = "text,label\n" + "".join(
    f"a truly wonderful film number {i},good\na dull and awful film number {i},bad\n" for i in range(9)
)


@pytest.fixture
def shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that cannot be made: its parent is a file. Root may write wherever there is a folder."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / "file" / "cache"


def read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """What lies in ``folder`` can be read; it looks like a folder on a read-only disk."""
    writable = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: writable(path, mode) and not (mode & os.W_OK and folder in Path(path).parents)
    )
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))


def near_good(file: Path, *words: str) -> list[tuple[str, float]]:
    """The neighbours of "good", looked up together with those of other words."""
    vectors = Vectors(*read_vectors([file])[:2])
    vectors.look_up(words, 2)
    return vectors.neighbours("good", 2)


def test_it_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path / "own"))
    assert cache.cache_writable()
    assert not (tmp_path / "own").exists()
    assert cache.cache_folder("a", "b") == tmp_path / "own" / "a" / "b"
    monkeypatch.delenv("ROBUST_TICKETS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_folder() == tmp_path / "xdg" / "robust-tickets"
    assert cache.cache_folder().is_dir()


def test_one_that_cannot_be_written_stops_no_attack(shut: Path, tmp_path: Path, capsys: Capture) -> None:
    """One warning, however many tables are made."""

    def asked(texts: list[str]) -> np.ndarray:
        return np.array([[0.9, 0.1] if "awful" in text else [0.2, 0.8] for text in texts])

    assert not cache.cache_writable()
    data = tmp_path / "reviews.csv"
    data.write_text(ROWS)
    victim = rt.Classifier.wrap(asked, labels=["bad", "good"])
    results = [rt.PWWS()(victim, rt.load_task(data, splits=splits).test, n=4) for splits in (None, {"test": "all"})]
    assert [result.clean for result in results] == [100.0, 100.0]
    (warning,) = [line for line in capsys.readouterr().err.splitlines() if "cache" in line]
    assert warning.startswith(
        f"warning: the cache folder {shut} cannot be written (Not a directory): {tmp_path}/robust-tickets-"
    )


ALONE = "(cache_folder('a') / 'b').write_text('c')"
FORKED = f"""
{ALONE}
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
assert (cache_folder('a') / 'b').read_text() == 'c'
"""


@pytest.mark.parametrize("code", [ALONE, FORKED])
def test_what_stood_for_it_goes_with_the_process_that_made_it(code: str, shut: Path, tmp_path: Path) -> None:
    code = f"import os, sys\nfrom robust_tickets.cache import cache_folder\n{code}\nprint(cache_folder('a'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout.startswith(f"{tmp_path}/robust-tickets-")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_a_place_for_temporary_files_it_is_said_what_to_set(
    shut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: str) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(TicketsError, match=r"nor can a temporary one be made \(Read-only file system\)") as caught:
        cache.cache_folder("data")
    assert "set ROBUST_TICKETS_CACHE" in caught.value.hint


def test_what_lies_in_one_that_can_only_be_read_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    kept, data, words = tmp_path / "cache", tmp_path / "reviews.csv", tmp_path / "words.vec"
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(kept))
    data.write_text(ROWS)
    words.write_text("good 1 0\nfine 0.9 0.1\nbad -1 0\npoor -0.9 0.1\n")
    rows = [example.texts for example in rt.load_task(data).train]
    near = near_good(words, "good")
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    read_only(monkeypatch, kept)
    assert [example.texts for example in rt.load_task(data).train] == rows
    assert near_good(words, "good") == near
    assert capsys.readouterr().err.count("warning") == 0  # all of it was there
    assert near_good(words, "good", "bad") == near
    assert capsys.readouterr().err.count("no right to write") == 1
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before
    (grown,) = cache.cache_folder("neighbours").iterdir()
    assert len(np.load(grown)["rows"]) == 2


def test_neighbours_are_looked_up_once_where_it_cannot_be_written(
    shut: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attack of a command opens its word vectors anew."""
    (tmp_path / "words.vec").write_text("good 1 0\nfine 0.9 0.1\nbad -1 0\npoor -0.9 0.1\n")
    near = near_good(tmp_path / "words.vec", "good")
    monkeypatch.setattr(Vectors, "_build", lambda *_: pytest.fail("looked up again"))
    assert near_good(tmp_path / "words.vec", "good") == near


def test_what_is_damaged_in_one_that_can_only_be_read_is_made_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, data, tokenizer = tmp_path / "cache", tmp_path / "reviews.csv", tiny_tokenizer(tiny_config())
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(kept))
    data.write_text(ROWS)
    (tmp_path / "corpus.txt").write_text("a truly wonderful film\n\n" * 40)

    def made() -> list[list[object]]:
        rows = [example.texts for example in rt.load_task(data).train]
        blocks = blocks_of(find_corpus(str(tmp_path / "corpus.txt")), tokenizer, 8)
        return [rows, blocks.tolist(), synonym_table(tokenizer).candidates.tolist()]

    first = made()
    for kind in ("data/*.arrow", "corpus/*.ids", "synonyms/*.npz"):
        (path,) = kept.glob(kind)
        path.write_bytes(b"")
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    read_only(monkeypatch, kept)
    assert made() == first
    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


def test_a_flipped_bit_costs_a_warning_and_changes_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """In any file of the cache: rows, blocks, tokens, vectors and the reports beside them."""
    kept, data, tokenizer = tmp_path / "cache", tmp_path / "reviews.csv", tiny_tokenizer(tiny_config())
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(kept))
    data.write_text(ROWS)
    (tmp_path / "corpus.txt").write_text("a truly wonderful film\n\n" * 40)
    (tmp_path / "vectors.txt").write_text("".join(f"{word} {i} {i + 0.5}\n" for i, word in enumerate("abcdef")))

    def made() -> list[object]:
        train = rt.load_task(data).train
        tokens = token_table(train, tokenizer, 16)
        assert tokens is not None
        blocks = blocks_of(find_corpus(str(tmp_path / "corpus.txt")), tokenizer, 8)
        words, matrix, _ = read_vectors([tmp_path / "vectors.txt"])
        return [
            words,
            matrix.tolist(),
            [(row.texts, row.label, row.id) for row in train],
            train.digest,
            tokens.tokens.tolist(),
            blocks.tolist(),
        ]

    first = made()
    assert capsys.readouterr().err == ""
    files = {path: path.read_bytes() for path in sorted(kept.rglob("*")) if path.is_file()}
    assert sorted({path.relative_to(kept).parts[0] for path in files}) == ["corpus", "data", "tokens", "vectors"]
    dice = np.random.default_rng(0)
    for path, whole in files.items():
        for bit in dice.integers(8 * len(whole), size=12).tolist():
            harmed = bytearray(whole)
            harmed[bit // 8] ^= 1 << bit % 8
            (tmp_path / "harmed").write_bytes(harmed)
            (tmp_path / "harmed").replace(path)  # what is mapped in this process stays as it is
            assert made() == first, (path, bit)
            assert capsys.readouterr().err.count("warning: ") == 1
            assert path.read_bytes() == whole


def test_a_home_that_may_not_be_looked_into_has_no_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    kind = kinds.KINDS["vectors"]
    monkeypatch.setitem(kinds.KINDS, "vectors", type(kind)(**{**vars(kind), "files": forbidden, "lacks": forbidden}))
    assert [line.found for line in kinds.status() if line.kind == "vectors"] == [False]
    with pytest.raises(TicketsError, match=r"paragramcf: Permission denied"):
        kinds.resolve("vectors")
