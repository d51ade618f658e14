"""What a finished search leaves in a run folder, and that it can be run again over what is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.run import Stage
from robust_tickets.search.imp import IMP
from robust_tickets.search.prasanna import Prasanna
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.finetune import FineTune
from robust_tickets.walk.stages import search
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
    left: Any = ("tuned/checkpoint", "round-1/checkpoint")  # as of a process that was killed before it could remove them
    for folder in left:
        (tmp_path / folder).mkdir(parents=True)
    first = search(stage, METHODS[name], clf.copy, task)
    large = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.safetensors")]
    assert sorted(large) == (["ticket.safetensors"] if first.kind == "structured" else ["scores.safetensors", "ticket.safetensors"])
    assert not list(tmp_path.rglob("checkpoint"))
    (tmp_path / "ticket.json").unlink()
    assert search(stage, METHODS[name], clf.copy, task) == first
