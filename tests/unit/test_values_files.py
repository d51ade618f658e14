"""Seeds give the same streams for ever; files are whole or absent; stages are done once; a run folder has one owner."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calling import Capture
from refusing import refused
from robust_tickets import files, seeds
from robust_tickets.cli.reproduce import check_page
from robust_tickets.files import locked
from robust_tickets.stages import STAGE_FILES, RunFolder, Stage, command_of, listing

KEY = {"stage": "search", "seed": 3}


def test_derived_seeds_stay_as_they_are() -> None:
    """Golden numbers: another machine, another version of Python, the same streams."""
    assert seeds.derive(0) == 3456079177858693020
    assert seeds.derive(0, "search", "freelb") == 962228784433497039
    assert seeds.numpy_generator(7, "x").integers(0, 1000, 4).tolist() == [253, 286, 370, 633]
    assert (
        len(
            {
                seeds.derive(s, *n)
                for s in (0, 1, -1)
                for n in ((), ("a",), ("b",), ("a", "b"), ("ab",), ("a", 1), ("a", 2))
            }
        )
        == 21
    )
    assert all(0 <= seeds.derive(s, "x") < 2**63 for s in range(200))


def test_torch_generators_and_dropout_follow_the_name() -> None:
    import torch

    one, two, other = (torch.rand(3, generator=seeds.torch_generator(1, name)) for name in ("a", "a", "b"))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)
    with torch.random.fork_rng(devices=[]):
        seeds.seed_dropout(1, "a")
        assert torch.equal(torch.rand(3), one)


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = files.write_text(tmp_path / "deep" / "a.txt", "old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", full)
    with refused("file.not_written") as caught:
        files.write_text(path, "new")
    assert caught.value.exit_code == 3
    assert path.read_text() == "old"
    assert os.listdir(path.parent) == ["a.txt"]


@pytest.mark.parametrize("text", ["", "plain", "ü \U0001f600", "\ud800 alone", "line\r\nend"])
def test_text_comes_back_byte_for_byte(text: str, tmp_path: Path) -> None:
    files.write_json(tmp_path / "a.json", {"text": text})
    assert files.read_json(tmp_path / "a.json") == {"text": text}
    files.write_text(tmp_path / "a.txt", text)
    assert (tmp_path / "a.txt").read_bytes() == text.encode("utf-8", "surrogatepass")


def test_json_problems_name_the_file(tmp_path: Path) -> None:
    with refused("file.not_found"):
        files.read_json(tmp_path / "none.json")
    for blob in (b"{", b"\xff\xfe\x00", b""):
        (tmp_path / "bad.json").write_bytes(blob)
        with refused("file.json"):
            files.read_json(tmp_path / "bad.json")
    with refused("file.unreadable"):
        files.read_json(tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "nan.json", float("nan"))
    assert not (tmp_path / "nan.json").exists()


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder inside one that may not be looked into; root is somebody else meanwhile."""
    (tmp_path / "closed" / "inside").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    if was_root := hasattr(os, "geteuid") and os.geteuid() == 0:
        os.seteuid(65534)
    yield tmp_path / "closed" / "inside"
    if was_root:
        os.seteuid(0)
    (tmp_path / "closed").chmod(0o700)


def test_a_folder_that_may_not_be_looked_into_is_told_in_words(closed: Path) -> None:
    """Before Python 3.14 ``Path.exists`` raises there."""
    for check in (files.check_writable, lambda folder: check_page(folder / "index.html")):
        with refused("file.not_writable"):
            check(closed / "new")


def test_a_stage_is_done_when_finished_and_whole(tmp_path: Path) -> None:
    run = RunFolder(folder=tmp_path)
    stage = run.stage("search", KEY)
    assert stage.folder.parent == tmp_path / "search"
    assert stage.name == f"search/{stage.folder.name}"
    assert run.stage("search", {"seed": 3, "stage": "search"}).folder == stage.folder  # order of keys is nothing
    assert run.stage("search", {**KEY, "seed": 4}).folder != stage.folder
    files.write_text(stage.folder / "model" / "w.txt", "weights")
    assert not stage.done()
    stage.finish()
    assert stage.done()
    assert run.stage("search", KEY).done()
    files.write_text(stage.folder / "model" / "w.txt", "longer weights")
    assert not stage.done()
    (stage.folder / "model" / "w.txt").unlink()
    assert not stage.done()


@pytest.mark.parametrize("change", [{"key": {"other": 1}}, {"schema": 99}])
def test_a_mark_of_other_work_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    stage = RunFolder(folder=tmp_path).stage("search", KEY)
    stage.finish()
    about = json.loads((stage.folder / "stage.json").read_text())
    (stage.folder / "stage.json").write_text(json.dumps({**about, **change}))
    with refused("stage.other_work"):
        stage.done()


@pytest.mark.parametrize(
    "text", ["[]", "null", "3", "{}", '{"schema": 1}', '{"schema": 1, "key": {"stage": "search", "seed": 3}}', "{"]
)
def test_with_a_damaged_mark_a_stage_is_not_done(text: str, tmp_path: Path, capsys: Capture) -> None:
    stage = RunFolder(folder=tmp_path).stage("search", KEY)
    stage.mark.write_text(text)
    assert not stage.done()
    assert not stage.found("search")
    told = capsys.readouterr().err
    assert (
        f"warning: search: {stage.mark} is damaged (kept in {stage.folder / 'damaged'}): {stage.name} is run again"
        in told
    )
    assert (stage.folder / "damaged" / "stage.json").read_text() == text
    assert not stage.found("search")
    assert not capsys.readouterr().err, "said once"
    stage.finish()
    assert stage.found("search")
    assert f"search: found done in {stage.name}" in capsys.readouterr().err


def test_a_record_of_the_same_size_is_looked_into(tmp_path: Path, capsys: Capture) -> None:
    """A file system that lost its power leaves zeros of the right number."""
    stage = RunFolder(folder=tmp_path).stage("train", KEY)
    evaluation = files.write_json(stage.folder / "evaluation.json", {"accuracy": 90.0})
    stage.finish()
    whole = evaluation.read_bytes()
    for number in (1, 2):
        evaluation.write_bytes(bytes(len(whole)))
        assert not stage.found("train")
        assert f"{evaluation} is damaged" in capsys.readouterr().err
        assert not evaluation.exists()
        kept = sorted(path.name for path in (stage.folder / "damaged").iterdir())
        assert kept == ["evaluation.json", "evaluation.json.2", "stage.json", "stage.json.2"][:: 3 - number], (
            "none is written over"
        )
        evaluation.write_bytes(whole)
        stage.finish()
        assert stage.done()
    evaluation.unlink()
    assert not stage.found("train")
    assert f"{evaluation} is missing: {stage.name} is run again" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../own.txt", "{}/own.txt"])
def test_a_mark_moves_no_file_but_those_of_its_stage(name: str, tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("mine")
    stage = RunFolder(folder=tmp_path).stage("train", KEY)
    files.write_json(
        stage.mark, {"schema": 1, "key": KEY, "files": {name.format(tmp_path): {"bytes": 1, "sha256": ""}}}
    )
    assert not stage.found("train")
    assert own.read_text() == "mine"
    assert [path.name for path in (stage.folder / "damaged").iterdir()] == ["stage.json"]


def test_a_kill_between_the_two_moves_leaves_no_damaged_file_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whatever order a set has them, by a hash that is another in every process."""
    moved: list[str] = []
    monkeypatch.setattr("robust_tickets.stages.set_aside", lambda path, folder: moved.append(path.name))
    for seed in range(8):
        stage = RunFolder(folder=tmp_path).stage("train", {"seed": seed})
        evaluation = files.write_json(stage.folder / "evaluation.json", {"accuracy": 90.0})
        stage.finish()
        evaluation.write_bytes(b"")
        assert not stage.found("train")
    assert moved == ["evaluation.json", "stage.json"] * 8


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"files": []}', '{"files": {"config.json": 1}}', '{"processes": "x", "command": 1}']
)
def test_damaged_notes_of_a_run_are_as_none(text: str, tmp_path: Path, capsys: Capture) -> None:
    run = RunFolder(folder=tmp_path, processes=2)
    stage = run.stage("search", KEY)
    for name in ("config.json", "manifest.json", "command.json", f"{stage.name}/processes.json"):
        (tmp_path / name).write_text(text)
    assert not run.done()
    with run.alone(stage):
        assert stage.sharers == 2
    run.begin({"seed": 1})
    run.resumed_by("tickets run x")
    assert command_of(tmp_path) == "tickets run x"
    run.finish([])
    assert run.done()
    told = capsys.readouterr().err
    assert all(f"{name} is damaged" in told for name in ("config.json", "manifest.json", "command.json")) == (
        text[:1] != "{" or text == "{"
    )


def test_a_stage_lists_its_own_files_and_not_the_users(tmp_path: Path) -> None:
    for name in (
        "metrics.jsonl",
        "model/config.json",
        "model/.w.12.part",
        "checkpoint/w",
        ".lock",
        "diary.txt",
        "sub/diary.txt",
    ):
        files.write_text(tmp_path / name, name)
    told = listing(tmp_path, STAGE_FILES)
    assert set(told) == {"metrics.jsonl", "model/config.json"}
    assert told["metrics.jsonl"] == {"bytes": 13, "sha256": files.sha256_file(tmp_path / "metrics.jsonl")}
    stage = Stage(folder=tmp_path, key=KEY)
    stage.finish()
    files.write_text(tmp_path / "diary.txt", "a longer diary")
    assert stage.done()


def test_the_manifest_lists_the_runs_stages_with_their_hashes(tmp_path: Path) -> None:
    run = RunFolder(folder=tmp_path)
    stage, stale = run.stage("search", KEY), run.stage("search", {**KEY, "seed": 9})
    for one in (stage, stale):
        files.write_text(one.folder / "ticket.json", "x")
        one.finish()
    run.begin({"a": 1})
    assert not run.done()
    run.finish([stage.name])
    run.finish([stage.name])  # a second time changes nothing
    told = files.read_json(tmp_path / "manifest.json")["files"]
    assert set(told) == {"config.json", f"{stage.name}/ticket.json", f"{stage.name}/stage.json"}
    assert all(files.sha256_file(tmp_path / name) == entry["sha256"] for name, entry in told.items())
    assert run.done()


def test_a_folder_begun_for_another_config_keeps_no_conclusions(tmp_path: Path) -> None:
    run = RunFolder(folder=tmp_path)
    run.begin({"a": 1})
    files.write_text(tmp_path / "arms.json", "{}")
    run.finish([])
    run.begin({"a": 1})
    assert run.done()
    run.begin({"a": 2})
    assert not (tmp_path / "manifest.json").exists()
    assert not (tmp_path / "arms.json").exists()
    assert not run.done()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "new"):
        with refused("run.busy") as caught, locked(tmp_path / "new"):
            pass
        assert caught.value.exit_code == 3
    with locked(tmp_path / "new"):
        pass
    files.write_text(tmp_path / "file", "x")
    with refused("run.folder_is_file"), locked(tmp_path / "file"):
        pass


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import os, sys, robust_tickets.files as f; from pathlib import Path\nos.replace = lambda a, b: os.kill(os.getpid(), 9)\n"
    subprocess.run(
        [sys.executable, "-c", code + f"f.write_bytes(Path({str(tmp_path / 'x[1].json')!r}), b'1')"], check=False
    )
    assert [p.name.startswith(".x[1].json.") for p in tmp_path.iterdir()] == [True]
    recent, old = (tmp_path / f".x[1].json.another-{n}.part" for n in range(2))  # of another host: it may be at it
    for part, age in ((recent, 3600), (old, 2 * 86400)):
        part.write_bytes(b"")
        os.utime(part, (time.time() - age,) * 2)
    files.write_bytes(tmp_path / "x[1].json", b"2")
    assert {p.name for p in tmp_path.iterdir()} == {"x[1].json", recent.name}


@pytest.mark.parametrize("alike", [True, False])
def test_two_writers_of_a_file_keep_out_of_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alike: bool
) -> None:
    """As two containers on one volume: their process ids are equal, or mean nothing to each other."""
    ids = iter(range(4_000_000, 5_000_000))
    monkeypatch.setattr(os, "getpid", lambda: 7 if alike else next(ids))
    path = tmp_path / "x"

    def chunks() -> Iterator[bytes]:
        yield b"one "
        files.write_bytes(path, b"another")
        yield b"writer"

    assert files.write_chunks(path, chunks()).read_bytes() == b"one writer"
    assert list(tmp_path.iterdir()) == [path]
