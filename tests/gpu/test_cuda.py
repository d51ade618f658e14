"""What must hold on an accelerator too: same logits three ways, runs that go on, attacks that do not depend on the batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.prune.compact import compact, zero_outside
from robust_tickets.prune.gates import Gates
from robust_tickets.registry import BACKBONES
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.random import RandomTicket
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")]
TEXTS = [f"the film {i} was {'good' if i % 2 else 'awful'}" for i in range(9)]


@pytest.mark.parametrize("family", BACKBONES.names())
def test_compact_gated_and_zeroed_agree(family: str) -> None:
    clf = tiny_classifier(family).to("cuda")
    ticket = RandomTicket(heads=0.25, neurons=0.5, seed=1)(clf).ticket
    gates = Gates(clf.model)
    gates.set_masks(ticket.masks)
    with gates:
        gated = clf.logits(TEXTS)
    np.testing.assert_allclose(compact(clf, ticket).logits(TEXTS), gated, atol=1e-5)
    np.testing.assert_allclose(clf.with_model(zero_outside(clf.model, ticket)).logits(TEXTS), gated, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_search_and_training_run(precision: str) -> None:
    task, clf = toy_task(), tiny_classifier().to("cuda")
    found = EarlyRobust(adversary=FreeLB(steps=2), precision=precision, batch_size=8)(clf, task)  # type: ignore[arg-type]
    small = FineTune(epochs=1, precision=precision, adversary=FreeLB(steps=2, dropout="shared"))(
        compact(clf, found.ticket), task
    )  # type: ignore[arg-type]
    assert np.isfinite(small.logits(TEXTS)).all()


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    task, train = toy_task(), FineTune(epochs=2, batch_size=4, lr=1e-3, evaluate="never")
    whole, first, rest = (tiny_classifier().to("cuda") for _ in range(3))
    train(whole, task, folder=tmp_path / "whole")
    train(first, task, folder=tmp_path / "cut", stop_after=3)
    train(rest, task, folder=tmp_path / "cut")
    np.testing.assert_allclose(rest.logits(TEXTS), whole.logits(TEXTS), atol=1e-6)


def test_an_attack_does_not_depend_on_the_batch() -> None:
    task, clf = toy_task(), tiny_classifier().to("cuda")
    found = [
        [
            (e.id, e.status, e.perturbed, e.queries)
            for e in PWWS()(clf, task.test, n=8, token_budget=budget, live=live).examples()
        ]
        for budget, live in ((64, 1), (4096, 8))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("family", BACKBONES.names())
def test_shapes_give_a_text_the_same_bits_in_any_company(family: str) -> None:
    from robust_tickets.attack.cuda import Shapes

    clf = tiny_classifier(family, max_length=48).to("cuda")
    made = Shapes.of(clf)
    if made is None:
        pytest.skip("this family cannot be captured: near-ties are settled one by one")
    rows = clf.encode([f"{text} {'and so on ' * (i % 7)}" for i, text in enumerate(TEXTS * 9)])
    together = made.logits(rows)
    np.testing.assert_allclose(together.numpy(), clf.forward(rows).numpy(), atol=1e-5)
    for place in (0, 7, 40, 80):
        assert torch.equal(made.logits([rows[place]])[0], together[place])
        assert torch.equal(made.logits(rows[place:])[0], together[place])


def test_an_attack_in_shapes_is_the_attack_settled_one_by_one() -> None:
    clf = tiny_classifier("bert", max_length=24).to("cuda")
    split = toy_task().test
    found = [PWWS()(clf, split, n=40, **way) for way in ({}, {"live": 3}, {"token_budget": 512})]
    outcomes = [[(e.id, e.status, e.perturbed, e.queries) for e in result.examples()] for result in found]
    assert outcomes[0] == outcomes[1]
    differ = sum(
        a != b for a, b in zip(outcomes[0], outcomes[2], strict=True)
    )  # exact ties may fall otherwise: other bits, same rules
    assert differ <= 1


def test_an_attack_in_fewer_bits_runs_on_the_gpu() -> None:
    clf = tiny_classifier("bert", max_length=24).to("cuda")
    result = PWWS()(clf, toy_task().test, n=40, precision="bfloat16")
    assert result.precision == "bfloat16"
    assert result.unconfirmed is not None
