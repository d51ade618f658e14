"""Averaged weights: the mean over the last part of a run, the same after an interruption, and nothing else is changed by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.train import finetune as averaging
from robust_tickets.train.finetune import Average, FineTune
from tiny import tiny_classifier
from toy import toy_task

TASK = toy_task(40)
SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 8, "lr": 1e-3, "evaluate": "never"}  # ten updates


def weights(clf: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in clf.model.state_dict().items()}


def test_the_result_is_the_mean_of_the_last_weights() -> None:
    seen = []
    for done in range(6, 11):  # the same run, cut off after so many updates
        clf = tiny_classifier()
        FineTune(**SETTINGS)(clf, TASK, stop_after=done)
        seen.append(weights(clf))
    clf = tiny_classifier()
    FineTune(**SETTINGS, average=0.5)(clf, TASK)
    for name, value in weights(clf).items():
        assert torch.allclose(
            value, torch.stack([each[name].double() for each in seen]).mean(0).to(value.dtype), atol=1e-7
        ), name
    assert any(not torch.equal(value, seen[-1][name]) for name, value in weights(clf).items())


@pytest.mark.parametrize("cut", [4, 7, 10])
def test_an_interrupted_run_ends_with_the_same_mean(tmp_path: Path, cut: int) -> None:
    whole, parts = tiny_classifier(), tiny_classifier()
    FineTune(**SETTINGS, average=0.5)(whole, TASK)
    FineTune(**SETTINGS, average=0.5)(parts, TASK, folder=tmp_path, stop_after=cut)
    again = tiny_classifier()
    FineTune(**SETTINGS, average=0.5)(again, TASK, folder=tmp_path)
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(whole).items())


def test_a_run_that_is_left_keeps_its_own_weights() -> None:
    plain, left = tiny_classifier(), tiny_classifier()
    FineTune(**SETTINGS)(plain, TASK, stop_after=8)
    FineTune(**SETTINGS, average=0.5)(left, TASK, stop_after=8)
    assert all(torch.equal(value, weights(left)[name]) for name, value in weights(plain).items())


@given(st.floats(0.01, 1.0), st.integers(1, 3000))
def test_places_are_spread_over_the_last_part_and_end_with_it(share: float, total: int) -> None:
    taken: list[int] = []
    one = Average(torch.nn.Linear(1, 1), share, total)
    for done in range(1, total + 1):
        before = one.count
        one.take(done)
        taken += [done] * (one.count - before)
    assert taken[-1] == total
    assert len(taken) <= averaging.POINTS
    assert min(taken) > total - max(1, round(share * total))
    assert len(taken) >= min(round(share * total), averaging.POINTS // 2)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_from_none_to_all(share: float) -> None:
    with refused("settings.limit"):
        FineTune(average=share)
