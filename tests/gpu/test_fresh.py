"""On a GPU: a seed gives its model whatever the process did before. torch replaces its order of attention kernels the first time it needs
one, and a run that began before that was another one than a run that began after.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch

from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")]


def models(order: str) -> tuple[list[str], list[int]]:
    """Hashes of what is trained in an order of trainings (t) and attacks (a), and torch's order of kernels in the end."""
    found = []
    for kind in order:
        clf = tiny_classifier(heads=2, hidden=128, neurons=64).to("cuda")
        if kind == "a":
            PWWS()(clf, toy_task().test, n=4, precision="float16")
        else:
            FineTune(epochs=1, batch_size=4, lr=1e-3, precision="bf16", engine="graph", evaluate="never")(
                clf, toy_task()
            )
            found.append(clf.digest)
    return found, [int(one) for one in torch._C._get_sdp_priority_order()]


def test_a_run_is_the_same_in_a_fresh_process_and_in_a_used_one() -> None:
    spawn = multiprocessing.get_context("spawn")
    orders = ("tt", "at")
    with ProcessPoolExecutor(len(orders), mp_context=spawn) as pool:
        found = list(pool.map(models, orders))
    (first, kernels), (second, same) = found
    assert len(set(first + second)) == 1
    assert kernels == same
