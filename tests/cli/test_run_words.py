"""`tickets run` with an arm that trains on word swaps: one search for two arms, the table in the stage and on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.cli.main import main
from robust_tickets.deploy.card import evidence_of
from robust_tickets.resources import wordnet


def _run(capsys: pytest.CaptureFixture[str], *settings: str, out: Path) -> dict[str, Any]:
    arguments = [part for setting in settings for part in ("--set", setting)]
    with pytest.raises(SystemExit) as end:
        main(["run", "demo", *arguments, "--out", str(out), "--json"])
    told = capsys.readouterr()
    assert end.value.code == 0, told.err
    return dict(json.loads(told.out))


def test_the_demos_fourth_arm_on_a_csv(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    settings = [
        f"task={three_classes}",
        f"model={model_folder}",
        "attack.n=6",
        "max_length=32",
        "arms=earlyrobust,synonymswap",
    ]
    said = _run(capsys, *settings, out=tmp_path / "r")
    one, other = json.loads((tmp_path / "r" / "arms.json").read_text())["arms"]
    assert one["search"] == other["search"]
    assert one["train"] != other["train"]
    assert not (tmp_path / "r" / one["train"] / "adversary.json").exists()
    stage = tmp_path / "r" / other["train"]
    about = json.loads((stage / "adversary.json").read_text())
    assert about["resources"]["source"]["digest"] == wordnet.digest()
    assert about["coverage"]["words"] > 100
    assert "adversary.json" in json.loads((stage / "stage.json").read_text())["files"]
    assert any("the attack draws from the same table as the training" in words for words in said["warnings"])
    assert "the attack draws from the same table as the training" in (tmp_path / "r" / "report.html").read_text()
    evidence = evidence_of(stage / "model")
    assert (evidence.adversary, evidence.words[0]["digest"]) == ("synonymswap", wordnet.digest())
    assert evidence_of(tmp_path / "r" / one["train"] / "model").adversary == ""


def test_another_content_under_the_same_name_is_another_stage(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    lists = tmp_path / "lists.json"
    settings = [f"task={three_classes}", f"model={model_folder}", "attack=none", "max_length=32", "arms=synonymswap"]
    settings += [f"arms.synonymswap.train.adversary.source={lists}", "arms.synonymswap.search=false"]
    trained = []
    for near in ("movie", "story", "movie"):
        lists.write_text(json.dumps({"film": [near]}))
        _run(capsys, *settings, out=tmp_path / "r")
        trained.append(json.loads((tmp_path / "r" / "arms.json").read_text())["arms"][0]["train"])
    assert trained[0] == trained[2] != trained[1]


def test_words_that_are_not_there_are_missed_before_anything_is_searched(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    source = f"arms.synonymswap.train.adversary.source={tmp_path / 'nowhere.json'}"
    settings = [
        f"task={three_classes}",
        f"model={model_folder}",
        "attack=none",
        "max_length=32",
        "arms=synonymswap",
        source,
    ]
    with pytest.raises(SystemExit) as end:
        main(
            [
                "run",
                "demo",
                *(part for setting in settings for part in ("--set", setting)),
                "--out",
                str(tmp_path / "r"),
            ]
        )
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "nowhere.json" in said
    assert "--set arms.synonymswap.train.adversary.source=" in said
    assert not (tmp_path / "r").exists()


def test_what_an_attack_lacks_is_missed_before_anything_is_searched(
    capsys: pytest.CaptureFixture[str], three_classes: Path, model_folder: Path, tmp_path: Path
) -> None:
    settings = [
        f"task={three_classes}",
        f"model={model_folder}",
        "attack.name=textbugger",
        f"attack.vectors={three_classes}",
    ]
    with pytest.raises(SystemExit) as end:
        main(
            [
                "run",
                "demo",
                *(part for setting in settings for part in ("--set", setting)),
                "--out",
                str(tmp_path / "r"),
            ]
        )
    assert end.value.code == 2
    assert "--set attack.vectors=PATH" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
