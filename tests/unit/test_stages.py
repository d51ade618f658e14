"""What finished stages leave in a run folder, and what is made again where a part of it is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.recipes.textbugger import TextBugger
from robust_tickets.attack.result import AttackResult
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.experiment.execute import attack, attack_key, search
from robust_tickets.experiment.recipe import AttackPlan, read_recipe
from robust_tickets.search.imp import IMP
from robust_tickets.search.prasanna import Prasanna
from robust_tickets.search.robustt import RobustT
from robust_tickets.stages import Stage
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

TUNE = FineTune(epochs=1, batch_size=8, lr=1e-3, evaluate="never")
METHODS = {
    "robustt": RobustT(epochs=1, batch_size=8, tuning=TUNE, adversary=FreeLB(steps=1)),
    "imp": IMP(sparsity=0.2, epochs=1, batch_size=8),
    "prasanna": Prasanna(tuning=TUNE, floor=1.0),
}


@pytest.mark.parametrize("name", METHODS)
def test_only_what_is_needed_stays_and_a_lost_ticket_is_found_again(name: str, tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    stage = Stage(folder=tmp_path, key={"stage": "search"})
    left: Any = (
        "tuned/checkpoint",
        "round-1/checkpoint",
    )  # as of a process that was killed before it could remove them
    for folder in left:
        (tmp_path / folder).mkdir(parents=True)
    first = search(stage, METHODS[name], clf.copy, task)
    large = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.safetensors")]
    assert sorted(large) == (
        ["ticket.safetensors"] if first.kind == "structured" else ["scores.safetensors", "ticket.safetensors"]
    )
    assert not list(tmp_path.rglob("checkpoint"))
    (tmp_path / "ticket.json").unlink()
    assert search(stage, METHODS[name], clf.copy, task) == first


def test_an_attack_of_a_walk_knows_what_its_victim_was_trained_on(tmp_path: Path) -> None:
    task, rows = toy_task(60), 60
    known = Split.of(
        [e.texts for e in task.train.take(range(2))] + [e.texts for e in task.test],
        [0, 1, *task.test.labels],
        name="test",
    )
    task = replace(task, splits={**task.splits, "test": known, "validation": task.train.select(range(40))})
    plan = AttackPlan(attack=PWWS(), n=0, subset="first", temperature="calibrated", query_budget=5)
    attack(Stage(folder=tmp_path, key={"stage": "attack"}), plan, tiny_classifier(), task, None)
    result = AttackResult.load(tmp_path)
    assert result.seen == {"split": "train", "rows": rows, "digest": task.train.digest, "count": 2}
    assert result.subset == "first"
    assert (result.calibration["split"], result.calibration["n"]) == ("train", 38)  # of 40 rows, two are attacked


def test_another_file_under_the_same_name_is_another_attack(tmp_path: Path) -> None:
    words, clf, split = tmp_path / "words.json", tiny_classifier(), toy_task(8).test
    plan = AttackPlan(attack=TextBugger(vectors=str(words), encoder="none"))
    keys = []
    for near in ("great", "great", "fine"):
        words.write_text(json.dumps({"good": [near]}))
        keys.append(attack_key(plan, clf, split))
    assert keys[0] == keys[1] != keys[2]
    assert attack_key(plan, tiny_classifier("roberta"), split) != keys[2], "another victim"


def test_a_plan_of_an_attack_is_checked_when_it_is_read() -> None:
    given = ["attack.temperature=calibrated", "attack.subset=random"]
    plan = read_recipe("earlyrobust", given).attacks[0]
    assert (plan.temperature, plan.subset) == ("calibrated", "random")
    assert read_recipe("earlyrobust", ["attack.temperature=2"]).attacks[0].temperature == 2.0
    for wrong in ("attack.temperature=0", "attack.temperature=warm", "attack.subset=last"):
        with pytest.raises(TicketsError):
            read_recipe("earlyrobust", [wrong])
