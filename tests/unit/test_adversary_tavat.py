"""TAVAT against a literal reference of its algorithm in fp64, its table, and its properties."""

from __future__ import annotations

import pytest
import torch

from adversaries import agree, first_delta, generator, gradients, gradients_of, loss_at, objective_on
from robust_tickets.adversary.objective import Ground, Objective
from robust_tickets.adversary.tavat import TAVAT, TokenTable, add_rows
from robust_tickets.backbone.layout import layout_of
from tiny import tiny_classifier

SWITCHES = [
    TAVAT(),
    TAVAT(steps=3),
    TAVAT(steps=4, max_norm=0.1, step_size=0.1),
    TAVAT(steps=3, max_norm=0.0),
    TAVAT(steps=1),
    TAVAT(steps=3, sum_passes=True),
]


def _table(objective: Objective) -> torch.Tensor:
    assert isinstance(objective.memory, TokenTable)
    return objective.memory.table


def _reference(objective: Objective, adversary: TAVAT) -> tuple[dict[str, torch.Tensor], float, torch.Tensor]:
    """The docstring's algorithm on BERT's ``inputs_embeds``, token by token, with a leaf and a gradient for each kind of delta."""
    table, ids = _table(objective).clone(), objective.inputs["input_ids"]
    lengths = [int(n) for n in objective.inputs["attention_mask"].sum(1)]
    instance = first_delta(objective, init=adversary.init, norm="l2")
    token = torch.zeros_like(instance)
    for i, n in enumerate(lengths):
        for t in range(n):
            token[i, t] = table[ids[i, t]]
    token = token / max(float(token.norm()), 1e-8)
    total = {name: torch.zeros_like(p) for name, p in objective.model.named_parameters()}
    losses = []
    for k in range(adversary.steps):
        instance, token = instance.detach().requires_grad_(), token.detach().requires_grad_()
        loss = loss_at(objective, instance + token)
        losses.append(float(loss.detach()))
        for name, gradient in gradients_of(loss if adversary.sum_passes else loss / adversary.steps, objective).items():
            total[name] += gradient
        g, h = torch.autograd.grad(loss, [instance, token])
        if k == adversary.steps - 1:
            break
        instance, token = instance.detach().clone(), token.detach().clone()
        for i, n in enumerate(lengths):
            instance[i, :n] += adversary.step_size * g[i, :n] / max(float(g[i, :n].norm()), 1e-8)
            for t in range(n):
                token[i, t] += adversary.step_size * h[i, t] / max(float(h[i, t].norm()), 1e-8)
            sizes = [float(token[i, t].norm()) for t in range(n)]
            for t in range(n):
                token[i, t] *= sizes[t] / max(sizes)
            both = float((instance[i] + token[i]).norm())
            if adversary.max_norm and both > adversary.max_norm:
                instance[i] *= adversary.max_norm / both
                token[i] *= adversary.max_norm / both
    for i, n in enumerate(lengths):
        for t in range(n):
            table[ids[i, t]] += token[i, t].detach()
    return total, sum(losses) / adversary.steps, table


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_algorithm_in_two_steps_running(adversary: TAVAT) -> None:
    objective = objective_on(adversary=adversary)
    for _ in range(2):  # the second batch starts from the table that the first has left
        before = _table(objective).clone()
        objective.generator = generator()
        expected, loss, table = _reference(objective, adversary)
        got, mean = gradients(objective, adversary)
        assert abs(float(mean) - loss) < 1e-9
        agree(got, expected)
        assert torch.allclose(_table(objective), table, rtol=0, atol=1e-9)
        assert not torch.equal(before, table)


def test_only_words_of_the_batch_change_and_padding_never() -> None:
    adversary = TAVAT(steps=3)
    objective = objective_on(adversary=adversary)
    before = _table(objective).clone()
    gradients(objective, adversary)
    ids, mask = objective.inputs["input_ids"], objective.inputs["attention_mask"].bool()
    present = torch.zeros(len(before), dtype=torch.bool)
    present[ids[mask]] = True
    assert (~mask).any()
    assert not present[objective.model.config.pad_token_id]
    changed = (_table(objective) != before).any(dim=1)
    assert torch.equal(changed, present)


def test_the_table_is_drawn_by_the_seed_alone() -> None:
    adversary, model = TAVAT(), tiny_classifier().model
    layout, before = layout_of(model), torch.get_rng_state()
    grounds = [Ground(model=model, layout=layout, tokenizer=None, seed=seed) for seed in (1, 1, 2)]
    one, same, other = (adversary.begin(ground).table for ground in grounds)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert one.shape == layout.words_of(model).weight.shape
    assert 0.9 * 0.2 / 32**0.5 < float(one.abs().max()) <= 0.2 / 32**0.5


def test_repeated_words_add_up_in_the_same_order_with_any_number_of_threads() -> None:
    draw = torch.Generator().manual_seed(0)
    ids, rows = torch.randint(0, 4, (4096,), generator=draw), torch.randn(4096, 64, generator=draw)
    expected = torch.zeros(5, 64, dtype=torch.float64).index_add_(0, ids, rows.double())
    threads, found = torch.get_num_threads(), set()
    try:
        for count in (1, 2, 2, 2, 2):
            torch.set_num_threads(count)
            table = torch.zeros(5, 64)
            add_rows(table, ids, rows)
            assert torch.allclose(table.double(), expected, atol=1e-3)
            found.add(table.numpy().tobytes())
    finally:
        torch.set_num_threads(threads)
    assert len(found) == 1
