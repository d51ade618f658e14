"""InfoBERT against a literal reference with loops over tokens, in fp64, and its properties."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

import infobert_loops as loops
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.infobert import InfoBERT, most_anchored
from robust_tickets.adversary.objective import Ground, Objective
from robust_tickets.backbone.layout import layout_of
from robust_tickets.registry import BACKBONES
from robust_tickets.search.robustt import RobustT
from robust_tickets.seeds import torch_generator
from robust_tickets.train.update import Engine, make_step
from tiny import tiny_classifier
from toy import toy_task

TEXTS = [
    ("the film is great", "a plot"),
    ("bad", "story was very very poor"),
    ("not a fine movie at all, not at all", "the"),
    ("a", "an"),
]
STRONG: dict[str, Any] = {"alpha": 0.7, "beta": 0.3}  # so that no error hides behind a small weight
SWITCHES = [
    InfoBERT(**STRONG),
    InfoBERT(alpha=0.0, beta=0.3),
    InfoBERT(alpha=0.7, beta=0.0),
    InfoBERT(**STRONG, steps=2, chunk=3, low=0.2, high=1.0),
    InfoBERT(**STRONG, chunk=100),
    InfoBERT(**STRONG, max_norm=0.05),
    InfoBERT(**STRONG, norm="linf", init=0.02, step_size=0.03, max_norm=0.03),
    InfoBERT(),
]


def _objective(
    adversary: Any, family: str = "bert", *, dropout: float = 0.0, double: bool = True, **changes: Any
) -> Objective:
    clf = tiny_classifier(family, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    model = clf.model.double() if double else clf.model
    model.train()
    inputs, labels = clf.batch(clf.encode(TEXTS)), torch.tensor([0, 1, 1, 0])
    memory = adversary.begin(Ground(model=model, layout=layout_of(model), seed=5))
    settings: dict[str, Any] = {
        "backward": lambda loss: loss.backward(),
        "generator": torch_generator(3, "infobert"),
        "memory": memory,
    }
    return Objective(model=model, layout=layout_of(model), inputs=inputs, labels=labels, **{**settings, **changes})


def _named(objective: Objective) -> dict[str, torch.nn.Parameter]:
    critic = {f"critic.{n}": p for n, p in objective.memory.named_parameters()} if objective.memory is not None else {}
    return {**dict(objective.model.named_parameters()), **critic}


def _gradients(objective: Objective, adversary: Any) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    for parameter in _named(objective).values():
        parameter.grad = None
    loss = adversary(objective)
    return {name: p.grad.clone() for name, p in _named(objective).items() if p.grad is not None}, loss


def _reference(objective: Objective, adversary: InfoBERT) -> tuple[dict[str, torch.Tensor], float]:
    """The docstring's algorithm on BERT's ``inputs_embeds``, sentence by sentence and token by token, with two separate gradients."""
    model, batch, draw = objective.model, objective.inputs, torch_generator(3, "infobert")
    words, mask = model.bert.embeddings.word_embeddings.weight, batch["attention_mask"]
    rows, tokens = mask.shape
    noise = torch.rand((rows, tokens, words.shape[1]), generator=draw, dtype=words.dtype) * 2 - 1
    delta = torch.zeros_like(noise)
    for i in range(rows):
        n = int(mask[i].sum())
        delta[i, :n] = noise[i, :n] * (
            adversary.init / (n * words.shape[1]) ** 0.5 if adversary.norm == "l2" else adversary.init
        )
    names, parameters = zip(*_named(objective).items(), strict=True)
    total = {name: torch.zeros_like(p) for name, p in zip(names, parameters, strict=True)}
    losses, order = [], 2.0 if adversary.norm == "l2" else float("inf")

    def add(loss: torch.Tensor) -> None:
        for name, grad in zip(
            names, torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True), strict=True
        ):
            total[name] += 0 if grad is None else grad

    for k in range(adversary.steps):
        delta = delta.detach().requires_grad_()
        kept = {key: batch[key] for key in ("attention_mask", "token_type_ids")}
        out = model(inputs_embeds=words[batch["input_ids"]] + delta, output_hidden_states=True, **kept)
        task = F.cross_entropy(out.logits, objective.labels)
        losses.append(float(task.detach()))
        embedded, last = out.hidden_states[0], out.hidden_states[-1]
        loss = task / adversary.steps
        if adversary.beta:
            draws = torch.rand(rows * tokens, generator=draw, dtype=torch.float64)
            loss = loss + adversary.beta * loops.upper_bound(embedded, mask, draws) / adversary.steps
        (g,) = torch.autograd.grad(loss, delta, retain_graph=True)
        add(loss)
        if adversary.alpha:
            slots = most_anchored(tokens, adversary.low, adversary.high)
            draws = torch.rand(rows * slots, generator=draw, dtype=torch.float64)
            local = loops.anchored(g, mask, adversary.low, adversary.high)
            bound = loops.lower_bound(
                objective.memory, embedded, last[:, 0], local, draws, slots, adversary.chunk or rows
            )
            add(-adversary.alpha * bound / adversary.steps)
        if k == adversary.steps - 1:
            break
        moved = torch.zeros_like(delta)
        for i in range(rows):
            moved[i] = delta[i].detach() + adversary.step_size * g[i] / max(float(g[i].flatten().norm(p=order)), 1e-8)
            if adversary.max_norm and adversary.norm == "l2":
                moved[i] *= min(1.0, adversary.max_norm / float(moved[i].norm()))
            elif adversary.max_norm:
                moved[i] = moved[i].clamp(-adversary.max_norm, adversary.max_norm)
        delta = moved
    return total, sum(losses) / adversary.steps


@pytest.mark.parametrize("adversary", SWITCHES, ids=str)
def test_equals_the_loops(adversary: InfoBERT) -> None:
    objective = _objective(adversary)
    expected, loss = _reference(objective, adversary)
    got, mean = _gradients(objective, adversary)
    assert abs(float(mean) - loss) < 1e-9
    for name, gradient in expected.items():
        assert torch.allclose(got.get(name, torch.zeros_like(gradient)), gradient, rtol=0, atol=1e-9), name
    critic = [gradient.abs().max() for name, gradient in expected.items() if name.startswith("critic.")]
    assert all(float(size) > 0 for size in critic) == bool(adversary.alpha)


@pytest.mark.parametrize("dropout", ["fresh", "shared"])
@pytest.mark.parametrize("family", ["bert", "mpnet"])
def test_without_bounds_it_is_freelb(family: str, dropout: Any) -> None:
    settings: dict[str, Any] = {"steps": 3, "step_size": 0.04, "init": 0.08, "dropout": dropout}
    one, other = (_objective(FreeLB(), family, dropout=0.2, double=False) for _ in range(2))
    torch.manual_seed(5)
    expected, loss = _gradients(one, FreeLB(**settings))
    torch.manual_seed(5)
    got, mean = _gradients(other, InfoBERT(alpha=0.0, beta=0.0, **settings))
    assert torch.equal(loss, mean)
    assert got.keys() == expected.keys()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_the_penalty_enters_once_and_undivided_and_backward_is_the_loops_own() -> None:
    adversary = InfoBERT(**STRONG)
    without, loss = _gradients(_objective(adversary), adversary)
    penalised = _objective(adversary)
    calls: list[int] = []
    bias = penalised.model.classifier.bias

    def regulariser() -> torch.Tensor:
        calls.append(1)
        return 0.7 * bias.sum()

    penalised.regulariser = regulariser
    penalised.backward = lambda value: (0.5 * value).backward()
    with_it, mean = _gradients(penalised, adversary)
    assert len(calls) == 1
    assert torch.equal(loss, mean)
    for name, gradient in with_it.items():  # the critic's too: all gradients go through the objective
        extra = 0.35 if name == "classifier.bias" else 0.0
        assert torch.allclose(gradient, 0.5 * without[name] + extra, rtol=0, atol=1e-12), name


@pytest.mark.parametrize("family", BACKBONES.names())
def test_a_step_of_every_family_trains_the_critic(family: str) -> None:
    clf = tiny_classifier(family.replace("_", "-"))
    batch = {**clf.batch(clf.encode(TEXTS)), "labels": torch.tensor([0, 1, 1, 0])}
    step = make_step(
        clf.model.train(),
        generator=torch_generator(0),
        adversary=InfoBERT(),
        ground=Ground(model=clf.model, layout=layout_of(clf.model), seed=1),
    )
    loss = step(batch, lambda value: value.backward())
    assert loss.isfinite()
    assert step.memory is not None
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in step.memory.parameters())


def test_a_search_for_gates_leaves_the_critic_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the gates' learning rate its gradient was exactly zero after some twenty updates, and the lower bound with it."""
    sizes: list[float] = []
    descend = Engine._descend

    def watched(self: Engine) -> None:
        critic = [
            p.grad.norm() for name, p in self.parameters.items() if name.startswith("adversary.") and p.grad is not None
        ]
        sizes.append(float(torch.stack(critic).norm()))
        descend(self)

    monkeypatch.setattr(Engine, "_descend", watched)
    RobustT(epochs=3, batch_size=8, adversary=InfoBERT(steps=2), evaluate="never")(
        tiny_classifier(seed=1), toy_task(80), tuned=tiny_classifier(seed=1)
    )
    assert len(sizes) == 30
    assert min(sizes) > 0.1 * sizes[0] > 0


def test_the_critic_is_drawn_by_the_seed_alone() -> None:
    adversary, model = InfoBERT(), tiny_classifier().model

    def ground(seed: int) -> Ground:
        return Ground(model=model, layout=layout_of(model), tokenizer=None, seed=seed)

    before = torch.get_rng_state()
    one, same, other = (adversary.begin(ground(seed)).token.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert float(one.detach().abs().max()) <= (2 * 32) ** -0.5
