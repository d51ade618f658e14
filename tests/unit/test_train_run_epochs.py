"""FineTune(run_epochs=…): the same training, left on its way."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from robust_tickets.errors import TicketsError
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

TASK = toy_task(20)
SETTINGS: dict[str, Any] = {"epochs": 3, "batch_size": 8, "lr": 1e-3, "warmup": 0.2, "evaluate": "never"}


def trained(stop_after: int | None = None, **settings: Any) -> dict[str, torch.Tensor]:
    clf = tiny_classifier()
    FineTune(**{**SETTINGS, **settings})(clf, TASK, stop_after=stop_after)
    return dict(clf.model.state_dict())


def test_it_is_the_whole_run_up_to_there() -> None:
    per_epoch = FineTune(**{**SETTINGS, "epochs": 1}).steps(TASK)
    assert FineTune(**SETTINGS, run_epochs=2).steps(TASK) == 2 * per_epoch
    left, cut, short = trained(run_epochs=2), trained(stop_after=2 * per_epoch), trained(epochs=2)
    assert all(torch.equal(value, cut[name]) for name, value in left.items())
    assert any(not torch.equal(value, short[name]) for name, value in left.items()), (
        "a schedule of its own would be another run"
    )


@pytest.mark.parametrize(
    "wrong", [{"run_epochs": 4}, {"run_epochs": -1}, {"run_epochs": 1, "max_steps": 5}, {"run_epochs": 1, "horizon": 5}]
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(TicketsError, match="run_epochs"):
        FineTune(**{**SETTINGS, **wrong})
