"""``tickets check``: a gate over runs and attacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calling import Capture, called, tickets
from fake_run import make_run
from robust_tickets import PWWS, Classifier
from robust_tickets.attack.result import AttackResult
from robust_tickets.data.task import Split


def judge(texts: list[str]) -> list[list[float]]:
    return [[0.2, 0.8] if "good" in text or "film" in text else [0.8, 0.2] for text in texts]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> AttackResult:
    texts = ["a good film", "a bad plot", "a good story", "an awful movie", "a bad film"]
    split = Split.of([(text,) for text in texts], [1, 0, 1, 0, 0])
    return PWWS()(Classifier.wrap(judge, labels=["bad", "good"]), split, n=0, folder=tmp_path_factory.mktemp("attack"))


@pytest.fixture
def run(tmp_path: Path, attacked: AttackResult) -> Path:
    """Two arms of a run, the second with the attack's real result, the first with none."""
    folder = make_run(tmp_path / "run", n=4)
    about = json.loads((folder / "arms.json").read_text())
    about["arms"] = about["arms"][:2]
    about["arms"][0]["attacks"] = []
    for arm in about["arms"][1:]:
        attacked.save(folder / arm["attacks"][0])
    (folder / "arms.json").write_text(json.dumps(about))
    return folder


def check(capsys: Capture, folder: Any, *floors: str, flags: tuple[str, ...] = (), code: int = 0) -> Any:
    return tickets(
        capsys, "check", str(folder), *(part for floor in floors for part in ("--min", floor)), *flags, code=code
    )


def test_an_attack_folder(capsys: Capture, attacked: AttackResult) -> None:
    assert (attacked.clean, attacked.folder is not None) == (80.0, True)
    assert attacked.aua is not None
    answer = check(capsys, attacked.folder, "clean=80", f"aua={attacked.aua}", "n=5")
    assert (answer["passed"], [gate["measure"] for gate in answer["gates"]]) == (True, ["clean", "aua", "n"])
    assert answer["flags"] == list(attacked.flags)
    answer = check(capsys, attacked.folder, "clean=80.0001", "aua=0", code=1)
    assert [gate["passed"] for gate in answer["gates"]] == [False, True]


def test_the_interval_is_stricter(capsys: Capture, attacked: AttackResult) -> None:
    low = attacked.interval("clean")[0]
    answer = check(capsys, attacked.folder, f"clean={low}", "n=5", flags=("--interval",))
    assert [gate["judged"] for gate in answer["gates"]] == [low, 5]
    answer = check(capsys, attacked.folder, f"clean={low + 0.001}", flags=("--interval",), code=1)


def test_what_was_not_measured_does_not_pass(capsys: Capture, attacked: AttackResult) -> None:
    for name in ("clean_full", "similarity"):
        check(capsys, attacked.folder, f"{name}=0", code=1)


def test_every_arm_of_a_run(capsys: Capture, run: Path) -> None:
    answer = check(capsys, run, "clean=80", "clean_full=81")
    assert [(gate["arm"], gate["measure"], gate["value"]) for gate in answer["gates"]] == [
        ("earlyrobust", "clean", 81.4), ("earlyrobust", "clean_full", 81.4), ("finetune", "clean", 80.0), ("finetune", "clean_full", 82.6),
    ]  # fmt: skip
    answer = check(capsys, run, "clean_full=82", code=1)
    assert [gate["passed"] for gate in answer["gates"]] == [False, True]
    check(capsys, f"{run}:finetune", "clean_full=82")
    assert "not measured" in check(capsys, run, "aua=0", code=1)["gates"][0]["said"]
    check(capsys, f"{run}:finetune", "aua=0")
    check(capsys, run, "clean_full=79.5", flags=("--interval",), code=1)  # 850 texts: some 2.6 points below
    check(capsys, f"{run}:finetunes", "aua=0", code=2)


def test_a_part_that_is_gone_is_no_pass(capsys: Capture, run: Path) -> None:
    about = json.loads((run / "arms.json").read_text())
    about["arms"][1]["attacks"].append("attack/gone")
    (run / "arms.json").write_text(json.dumps(about))
    check(capsys, run, "clean=0", code=2)


@pytest.mark.parametrize("floor", ["aua", "aua=x", "aua=nan", "aua=-1", "aua=101", "clena=1", "suc=1", "n=inf"])
def test_floors_that_say_nothing(floor: str, capsys: Capture, attacked: AttackResult) -> None:
    assert check(capsys, attacked.folder, floor, code=2)["error"]["hint"]


def test_what_is_refused(capsys: Capture, tmp_path: Path, attacked: AttackResult) -> None:
    for target, flags in (
        (attacked.folder, ()),  # nothing is asked for
        (attacked.folder, ("--fail-on", "few")),
        (f"{attacked.folder}:arm", ("--min", "aua=1")),
    ):
        check(capsys, target, flags=flags, code=2)
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "examples.jsonl.part").write_bytes(b"{}\n")
    for folder in (tmp_path, tmp_path / "none", tmp_path / "part"):
        check(capsys, folder, "aua=1", code=2)


def always_bad(folder: Path) -> Path:
    same = Classifier.wrap(lambda texts: [[0.6, 0.4]] * len(texts), labels=["bad", "good"])
    split = Split.of(["a good film", "a bad plot", "a good story", "an awful movie"], [1, 0, 1, 0])
    PWWS()(same, split, n=0, folder=folder)
    return folder


def test_a_victim_that_always_says_the_same_passes_with_a_warning(capsys: Capture, tmp_path: Path) -> None:
    always_bad(tmp_path / "a")
    answer = check(capsys, tmp_path / "a", "aua=45")
    assert [words.partition(": ")[2].partition(":")[0] for words in answer["warnings"]] == ["one answer", "unmoved"]
    assert called(capsys, "check", str(tmp_path / "a"), "--min", "aua=45")[1]
    assert check(capsys, tmp_path / "a", "aua=55", code=1)["warnings"] == [], "what fails needs no warning"


def trained_to_one_class(run: Path, stage: str) -> None:
    path = run / f"train/{stage}/evaluation.json"
    classes = [
        {"label": name, "n": 425, "precision": 50.0 - 50 * i, "recall": 100 - 100 * i}
        for i, name in enumerate(("bad", "good"))
    ]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"accuracy": 50.0, "per_class": classes}))


DEGENERATE = ("--fail-on", "degenerate")


def test_a_degenerate_result_fails_where_that_is_asked_for(
    capsys: Capture, tmp_path: Path, attacked: AttackResult
) -> None:
    same = always_bad(tmp_path / "a")
    answer = check(capsys, same, "aua=45", flags=DEGENERATE, code=1)
    assert (answer["passed"], answer["warnings"]) == (False, []), "what fails needs no warning"
    assert [(gate["measure"], gate["passed"]) for gate in answer["gates"]] == [("aua", True), ("flags", False)]
    assert answer["gates"][1]["codes"] == ["one-answer", "unmoved"]
    assert check(capsys, same, "aua=45", flags=("--fail-on", "unmoved"), code=1)["gates"][1]["codes"] == ["unmoved"]
    assert check(capsys, same, "aua=45", flags=("--fail-on", "saturated"))["warnings"], (
        "another flag was asked for: it is warned of"
    )
    answer = check(capsys, attacked.folder, "aua=0", flags=("--fail-on", "one-answer", "--fail-on", "errors"))
    assert answer["gates"][1]["passed"]
    assert "1 of 2 passed" in called(capsys, "check", str(same), "--min", "aua=45", *DEGENERATE, code=1)[0]


@pytest.mark.parametrize(("arm", "stage"), [("earlyrobust", "00000000"), ("finetune", "00000001")])
def test_an_arm_of_one_class_fails_attacked_or_not(capsys: Capture, run: Path, arm: str, stage: str) -> None:
    check(capsys, run, "clean=0", flags=("--fail-on", "one-answer"))
    trained_to_one_class(run, stage)
    answer = check(capsys, run, "clean=0", flags=("--fail-on", "one-answer"), code=1)
    assert [gate["arm"] for gate in answer["gates"] if not gate["passed"]] == [arm]


def test_a_flag_that_was_not_looked_for_opens_no_gate(capsys: Capture, run: Path) -> None:
    """An arm that was not attacked: a number that was not measured does not pass either."""
    answer = check(capsys, f"{run}:earlyrobust", flags=("--fail-on", "errors", "--fail-on", "one-answer"), code=1)
    assert [gate["passed"] for gate in answer["gates"]] == [False]
    trained_to_one_class(run, "00000000")
    answer = check(capsys, f"{run}:earlyrobust", flags=DEGENERATE, code=1)
    assert [gate["codes"] for gate in answer["gates"]] == [["one-answer"]], "what is known stands first"
    assert check(capsys, f"{run}:finetune", flags=("--fail-on", "errors"))["passed"], "flags alone are a gate too"


def test_numbers_are_enough(capsys: Capture, run: Path, attacked: AttackResult) -> None:
    check(capsys, run, "clean=0")
    for left in ("ticket.json", "ticket.safetensors", "distances.json", "examples.jsonl", "config.json"):
        for file in run.rglob(left):
            file.unlink()
    assert not [*run.rglob("examples.jsonl")]
    assert check(capsys, run, "clean=0")["passed"]
    alone = next(run.rglob("result.json")).parent
    assert check(capsys, alone, "clean=0")["passed"]
