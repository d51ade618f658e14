"""Checkpoints beside training on an accelerator: the snapshot is ordered with the updates, and costs the run nothing but time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from robust_tickets.train import checkpoint
from robust_tickets.train.checkpoint import State
from robust_tickets.train.cuda.writer import Writer
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")]


def test_a_snapshot_is_the_moment_of_the_call(tmp_path: Path) -> None:
    weights = torch.zeros(2**25 + 1, device="cuda")  # larger than one buffer
    small = torch.zeros(3, device="cuda", dtype=torch.bfloat16)
    for step in (1, 2, 3):
        with Writer(tmp_path, weights.device) as out:
            for _ in range(20):  # queued, and not waited for
                weights.add_(0.05)
            expected = weights[:1].clone()
            small.fill_(step)
            out.write(State(step=step, tensors={"w": weights, "s": small, "host": torch.tensor(step)}))
            assert all(slab.is_pinned() for slab in out._slabs)
            weights.add_(100)
            small.fill_(-1)
            weights.sub_(100)
        found = checkpoint.read(tmp_path)
        assert found is not None
        assert found.step == step
        assert torch.equal(found.tensors["w"], expected.cpu().expand(2**25 + 1))
        assert found.tensors["s"].tolist() == [step] * 3
        assert int(found.tensors["host"]) == step


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_checkpoints_after_every_update_change_nothing(tmp_path: Path, precision: str) -> None:
    """Graphs are recorded while the thread writes."""
    task, texts = toy_task(40), [f"the film {i} was fine" for i in range(5)]
    train = FineTune(epochs=3, batch_size=4, lr=1e-3, evaluate="never", precision=precision)  # type: ignore[arg-type]
    often = FineTune(epochs=3, batch_size=4, lr=1e-3, evaluate="never", precision=precision, checkpoint_steps=1)  # type: ignore[arg-type]
    plain, saved, rest = (tiny_classifier().to("cuda") for _ in range(3))
    train(plain, task)
    often(saved, task, folder=tmp_path / "whole")
    np.testing.assert_allclose(saved.logits(texts), plain.logits(texts), atol=1e-5)
    often(tiny_classifier().to("cuda"), task, folder=tmp_path / "cut", stop_after=7)
    often(rest, task, folder=tmp_path / "cut")
    # a resumed run records its graphs anew, after eager updates: the same numbers in another order of adding
    np.testing.assert_allclose(rest.logits(texts), plain.logits(texts), atol=1e-3 if precision == "fp32" else 3e-2)
