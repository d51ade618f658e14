"""What a walk says about its time before it begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robust_tickets.walk import estimate


@pytest.mark.parametrize(("device", "said"), [("cpu", "estimate: about"), ("cuda", "estimate: at most about")])
def test_steps_timed_eagerly_are_a_bound_on_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: Any, device: str, said: str) -> None:
    monkeypatch.setattr(estimate, "_plan", lambda _: [])
    monkeypatch.setattr(estimate, "estimate", lambda _: {"search": 20.0, "training": 100.0})
    walk: Any = SimpleNamespace(
        start=SimpleNamespace(device=torch.device(device)),
        task=SimpleNamespace(train=range(7)),
        recipe=SimpleNamespace(arms=[None]),
        run=SimpleNamespace(folder=Path("runs/x")),
    )
    estimate.tell(walk)
    told = capsys.readouterr().err
    assert f"{said} 2 min" in told
    assert "1 arm and 7 training rows" in told
