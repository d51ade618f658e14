"""What tests of adversaries share: pairs on a tiny model as an Objective, a step's gradients, and building blocks of slow references."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch.nn import functional as F

from robust_tickets.adversary.objective import IGNORED, Adversary, Ground, Kind, Objective
from robust_tickets.adversary.words import WordSpace
from robust_tickets.backbone.layout import layout_of
from robust_tickets.data.batching import View
from robust_tickets.data.task import Example
from robust_tickets.registry import ADVERSARIES
from robust_tickets.seeds import torch_generator
from tiny import tiny_classifier, tiny_model

TEXTS = [("the film is great", "a plot"), ("bad", "story was very very poor"), ("not a fine movie at all", "the")]
SYNONYMS = {"film": ["movie"], "story": ["plot"], "good": ["great", "fine"], "bad": ["awful", "poor"], "the": ["a"]}
Gradients = dict[str, torch.Tensor]


@cache
def synonyms() -> str:
    """A file of word lists: WordNet takes half a minute to read."""
    path = Path(tempfile.mkdtemp()) / "synonyms.json"
    path.write_text(json.dumps(SYNONYMS))
    return str(path)


def make(name: str) -> Any:
    """A registered adversary with its defaults."""
    cls = ADVERSARIES.get(name)
    return cls(source=synonyms()) if issubclass(cls, WordSpace) else cls()


def objective_on(
    family: str = "bert",
    *,
    dropout: float = 0.0,
    double: bool = True,
    mlm: bool = False,
    adversary: Any = None,
    texts: Sequence[tuple[str, str]] = TEXTS,
    **changes: Any,
) -> Objective:
    """Three pairs of different lengths, in fp64 by default; with ``mlm``, every third token is to be predicted."""
    clf = tiny_classifier(family, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    inputs, labels = clf.batch(clf.encode(texts)), torch.tensor([0, 1, 1])
    model = clf.model
    if mlm:
        model = tiny_model(
            family, "AutoModelForMaskedLM", hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        asked = (torch.arange(inputs["input_ids"].shape[1]) % 3 == 1) & inputs["attention_mask"].bool()
        labels = inputs["input_ids"].masked_fill(~asked, IGNORED)
    model = (model.double() if double else model).train()
    settings: dict[str, Any] = {
        "backward": lambda loss: loss.backward(),
        "generator": generator(),
        "update": lambda: None,
    }
    if adversary is not None:
        settings["memory"] = adversary.begin(
            Ground(model=model, layout=layout_of(model), tokenizer=clf.tokenizer, seed=3)
        )
    return Objective(model=model, layout=layout_of(model), inputs=inputs, labels=labels, **{**settings, **changes})


def generator() -> torch.Generator:
    """The stream that :func:`objective_on` gives an adversary, from its start."""
    return torch_generator(3, "freelb")


def gradients(objective: Objective, step: Callable[[Objective], torch.Tensor]) -> tuple[Gradients, torch.Tensor]:
    """The gradients that one step leaves, and the loss it returns."""
    for parameter in parameters_of(objective).values():
        parameter.grad = None
    loss = step(objective)
    return {name: p.grad.clone() for name, p in parameters_of(objective).items() if p.grad is not None}, loss


def parameters_of(objective: Objective) -> dict[str, torch.nn.Parameter]:
    """The model's, and those of the adversary's memory."""
    memory = {} if objective.memory is None else dict(objective.memory.named_parameters(prefix="memory"))
    return {**dict(objective.model.named_parameters()), **memory}


def agree(got: Gradients, expected: Gradients, within: float = 1e-9) -> None:
    """Both the same, for every parameter; one without a gradient counts as zero."""
    assert any((gradient != 0).any() for gradient in expected.values())
    for name, gradient in expected.items():
        assert torch.allclose(got.get(name, torch.zeros_like(gradient)), gradient, rtol=0, atol=within), name


def equals(
    adversary: Any, reference: Callable[[Objective, Any], tuple[Gradients, float]], objective: Objective
) -> Gradients:
    """Whether the adversary's step is that of its reference; gradients and the mean loss."""
    expected, loss = reference(objective, adversary)
    got, mean = gradients(objective, adversary)
    assert abs(float(mean) - loss) < 1e-9
    agree(got, expected)
    return got


class Recording(Objective):
    """Keeps every delta it is asked about."""

    def logits(
        self, delta: torch.Tensor | None = None, *, ids: torch.Tensor | None = None, view: str = ""
    ) -> torch.Tensor:
        self.seen = [*getattr(self, "seen", []), None if delta is None else delta.detach().clone()]
        return super().logits(delta, ids=ids, view=view)


def recording(objective: Objective) -> Recording:
    return Recording(**{f: getattr(objective, f) for f in objective.__dataclass_fields__})


# Building blocks of references: example by example, on BERT's ``inputs_embeds``.


def at(objective: Objective, delta: torch.Tensor | None, **changes: Any) -> torch.Tensor:
    """BERT's logits at the word embeddings plus delta."""
    return outputs_at(objective, delta, **changes).logits


def outputs_at(objective: Objective, delta: torch.Tensor | None, **changes: Any) -> Any:
    model, batch = objective.model, objective.inputs
    embedded = model.bert.embeddings.word_embeddings.weight[batch["input_ids"]]
    kept = {key: batch[key] for key in ("attention_mask", "token_type_ids")} | changes
    return model(inputs_embeds=embedded if delta is None else embedded + delta, **kept)


def loss_at(objective: Objective, delta: torch.Tensor | None, **changes: Any) -> torch.Tensor:
    return F.cross_entropy(at(objective, delta, **changes), objective.labels)


def first_delta(objective: Objective, *, init: float, norm: str) -> torch.Tensor:
    """Uniform noise; with the l2 norm divided by the root of how many numbers the example's delta holds."""
    width = objective.words.shape[1]
    noise = (
        torch.rand((*objective.inputs["input_ids"].shape, width), generator=generator(), dtype=objective.words.dtype)
        * 2
        - 1
    )
    delta = torch.zeros_like(noise)
    for i, mask in enumerate(objective.inputs["attention_mask"]):
        n = int(mask.sum())
        delta[i, :n] = noise[i, :n] * (init / (n * width) ** 0.5 if norm == "l2" else init)
    return delta


def next_delta(delta: torch.Tensor, gradient: torch.Tensor, *, step: float, norm: str, max_norm: float) -> torch.Tensor:
    moved = torch.zeros_like(delta)
    for i, g in enumerate(gradient):
        size = float(g.norm()) if norm == "l2" else float(g.abs().max())
        moved[i] = delta[i].detach() + step * g / max(size, 1e-8)
        if max_norm and norm == "l2" and float(moved[i].norm()) > max_norm:
            moved[i] = moved[i] * max_norm / float(moved[i].norm())
        if max_norm and norm == "linf":
            moved[i] = moved[i].clamp(-max_norm, max_norm)
    return moved


def gradients_of(loss: torch.Tensor, objective: Objective) -> Gradients:
    """By autograd.grad, so that no ``.grad`` is touched; parameters that the loss does not depend on get zeros."""
    named = parameters_of(objective)
    found = torch.autograd.grad(loss, list(named.values()), allow_unused=True, retain_graph=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in zip(named.items(), found, strict=True)}


@dataclass(frozen=True)
class Shuffled:
    """A view: the words of each text in another order."""

    name: str = "shuffled"

    def make(self, example: Example, draws: np.random.Generator) -> tuple[str, ...]:
        return tuple(" ".join(draws.permutation(text.split())) for text in example.texts)


@dataclass(frozen=True, kw_only=True)
class Reworded(Adversary):
    """Half of the loss at the text, half at noise around its words in another order."""

    defined_for: ClassVar[tuple[Kind, ...]] = ("classification",)

    noise: float = 0.05

    @property
    def passes(self) -> int:
        return 2

    def views(self, ground: Ground) -> tuple[View, ...]:
        assert ground.split is not None
        assert len(ground.labels) == 2
        assert ground.tokenizer is not None
        assert ground.words.ndim == 2
        return (Shuffled(),)

    def __call__(self, objective: Objective) -> torch.Tensor:
        other = objective.of("shuffled")
        delta = other.normal(self.noise) * other.mask
        loss = (objective.loss() + objective.loss(delta, view="shuffled")) / 2
        objective.backward(loss + objective.penalty())
        return loss.detach()
