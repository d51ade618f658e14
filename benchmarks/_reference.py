"""A training step with the released code's cost profile, written again to be timed against; nothing of that code is here.

It stands for what the released EarlyRobust and RobustT code (and the PGD that their tables are measured against) makes a device do:

- attention as a tensor of batch × heads × tokens × tokens, with the head's coefficient multiplied in; the neuron's into the activation;
- fp32 without TF32, eager, one kernel an operation; dropout 0.1; padding as the batch brings it (the released code: to its longest text);
- FreeLB: K passes, each forward and backward; PGD: K ascents with *all* gradients (thrown away) and one descent, K + 1 passes;
- search: a copy of every coefficient to the host after every step; RobustT: gates by plain autograd, the weights' gradients kept too;
- AdamW and clipping parameter by parameter (neither ``foreach`` nor ``fused``).

It is not that code: what that loses in Python (copied Trainer, logging, lists of records) is not charged to it. SynonymSwap and ORTicket
have no released code: their rows are two plain passes, and EarlyRobust's search step under a masked-word head, in this same profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LOW, HIGH, TEMPERATURE = -0.1, 1.1, 2 / 3  # of the hard-concrete gates
INIT, STEP = 0.05, 0.01  # of the perturbation: its start and a step's length


@dataclass(frozen=True, kw_only=True)
class Shape:
    """BERT-base's numbers."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    neurons: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    labels: int = 2
    dropout: float = 0.1


class Gated(nn.Linear):
    """A linear layer that may have a gate on each weight, every operation of it seen by autograd."""

    log_alpha: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.register_parameter("log_alpha", None)

    def gate(self) -> None:
        self.log_alpha = nn.Parameter(torch.full_like(self.weight, math.log(5)))

    def forward(self, x: Tensor) -> Tensor:
        if self.log_alpha is None:
            return F.linear(x, self.weight, self.bias)
        u = torch.rand_like(self.log_alpha).clamp(1e-4, 1 - 1e-4)
        s = torch.sigmoid((torch.log(u) - torch.log(1 - u) + self.log_alpha) / TEMPERATURE)
        mask = torch.clamp(s * (HIGH - LOW) + LOW, 0.0, 1.0)
        return F.linear(x, self.weight * mask, self.bias)


class Layer(nn.Module):
    """Post-norm transformer layer; coefficients are None outside a search."""

    head_c: nn.Parameter | None
    neuron_c: nn.Parameter | None

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.count, self.share = shape.heads, shape.dropout
        self.query, self.key, self.value, self.out = (Gated(shape.width, shape.width) for _ in range(4))
        self.up, self.down = Gated(shape.width, shape.neurons), Gated(shape.neurons, shape.width)
        self.norm1, self.norm2 = nn.LayerNorm(shape.width, eps=1e-12), nn.LayerNorm(shape.width, eps=1e-12)
        self.register_parameter("head_c", None)
        self.register_parameter("neuron_c", None)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.count, -1).permute(0, 2, 1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1]) + mask
        shares = F.dropout(torch.softmax(scores, dim=-1), self.share, self.training)
        if self.head_c is not None:
            shares = shares * self.head_c.view(1, -1, 1, 1)
        context = (shares @ value).permute(0, 2, 1, 3).contiguous().view(x.shape)
        x = self.norm1(F.dropout(self.out(context), self.share, self.training) + x)
        inner = F.gelu(self.up(x))
        if self.neuron_c is not None:
            inner = inner * self.neuron_c
        return self.norm2(F.dropout(self.down(inner), self.share, self.training) + x)


class Bert(nn.Module):
    """The encoder under a head: of classes, which reads the first token, or of words, which reads all."""

    def __init__(self, shape: Shape, *, of_words: bool) -> None:
        super().__init__()
        self.share, self.of_words = shape.dropout, of_words
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places, self.types = nn.Embedding(shape.positions, shape.width), nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.pooler = Gated(shape.width, shape.width)  # of the word head: its transform
        self.head_norm = nn.LayerNorm(shape.width, eps=1e-12)
        self.classes = nn.Linear(shape.width, shape.vocabulary if of_words else shape.labels)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        if of_words:
            self.classes.weight = self.words.weight  # tied

    def forward(self, ids: Tensor, batch: Mapping[str, Tensor], delta: Tensor | None = None) -> Tensor:
        embedded = self.words(ids) if delta is None else self.words(ids) + delta
        places = torch.arange(ids.shape[1], device=ids.device)
        x = embedded + self.places(places) + self.types(batch["token_type_ids"])
        x = F.dropout(self.norm(x), self.share, self.training)
        mask = (1.0 - batch["attention_mask"].float())[:, None, None, :] * -10000.0
        for layer in self.layers:
            x = layer(x, mask)
        if self.of_words:
            return self.classes(self.head_norm(F.gelu(self.pooler(x))))
        return self.classes(F.dropout(torch.tanh(self.pooler(x[:, 0])), self.share, self.training))


class Reference:
    """``Reference(kind)(batch)``: one whole step. ``fused`` swaps in the fused AdamW and nothing else, for the waterfall."""

    def __init__(
        self, kind: str, shape: Shape, device: torch.device | str, *, steps: int = 5, fused: bool = False
    ) -> None:
        torch.set_float32_matmul_precision("highest")
        self.kind, self.steps, self.swaps = kind, steps, None
        with torch.device(device):
            self.model = Bert(shape, of_words=kind in ("mlm", "orticket")).train()
            self.coefficients, self.gates = self._coefficients(shape), self._gates()
            if kind == "synonymswap":
                self.swaps = torch.randint(0, shape.vocabulary, (shape.vocabulary, 8))
        self.trained = self.gates or list(self.model.parameters())
        plain = {} if fused else {"foreach": False}
        self.optimiser = torch.optim.AdamW(self.trained, lr=2e-5, fused=fused, **plain)  # type: ignore[arg-type]
        self.fused = fused

    @property
    def passes(self) -> float:
        """Forward and backward passes of a step."""
        many = {
            "freelb": self.steps,
            "search": self.steps,
            "orticket": self.steps,
            "gates": self.steps,
            "pgd": self.steps + 1,
        }
        return float({**many, "synonymswap": 2}.get(self.kind, 1))

    def __call__(self, batch: Mapping[str, Tensor]) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        steps: dict[str, Callable[[Mapping[str, Tensor]], None]] = {"pgd": self._pgd, "synonymswap": self._swapped}
        steps |= dict.fromkeys(("freelb", "search", "orticket", "gates"), self._freelb)
        steps.get(self.kind, self._plain)(batch)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=None if self.fused else False)
        if self.gates:
            (
                0.1
                * torch.stack(
                    [torch.sigmoid(g - TEMPERATURE * math.log(-LOW / HIGH)).mean() for g in self.gates]
                ).mean()
            ).backward()
        self.optimiser.step()
        self.record = [
            c.detach().cpu().numpy() for c in self.coefficients
        ]  # waits for the device, as the released search does

    def _coefficients(self, shape: Shape) -> list[nn.Parameter]:
        if self.kind not in ("search", "orticket"):
            return []
        for layer in self.model.layers:
            assert isinstance(layer, Layer)
            layer.head_c, layer.neuron_c = (
                nn.Parameter(torch.ones(shape.heads)),
                nn.Parameter(torch.ones(shape.neurons)),
            )
        return [p for name, p in self.model.named_parameters() if name.endswith("_c")]

    def _gates(self) -> list[nn.Parameter]:
        if self.kind != "gates":
            return []
        for module in self.model.modules():
            if isinstance(module, Gated):
                module.gate()
        return [p for name, p in self.model.named_parameters() if name.endswith("log_alpha")]

    def _loss(self, batch: Mapping[str, Tensor], delta: Tensor | None = None, ids: Tensor | None = None) -> Tensor:
        logits = self.model(batch["input_ids"] if ids is None else ids, batch, delta)
        return F.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten())

    def _plain(self, batch: Mapping[str, Tensor]) -> None:
        self._loss(batch).backward()

    def _swapped(self, batch: Mapping[str, Tensor]) -> None:
        assert self.swaps is not None
        (self._loss(batch) / 2).backward()
        ids = batch["input_ids"]
        other = self.swaps[ids].gather(-1, torch.randint_like(ids, self.swaps.shape[1]).unsqueeze(-1)).squeeze(-1)
        (self._loss(batch, ids=torch.where(torch.rand_like(ids, dtype=torch.float32) < 0.5, other, ids)) / 2).backward()

    def _start(self, batch: Mapping[str, Tensor]) -> Tensor:
        mask = batch["attention_mask"].unsqueeze(-1).float()
        delta = (
            torch.zeros(*batch["input_ids"].shape, self.model.words.weight.shape[1], device=mask.device).uniform_(-1, 1)
            * mask
        )
        return (delta * (INIT / torch.sqrt(mask.sum(1, keepdim=True) * delta.shape[-1]))).detach()

    def _moved(self, delta: Tensor) -> Tensor:
        assert delta.grad is not None
        gradient = delta.grad.clone().detach()
        norm = torch.norm(gradient.view(len(gradient), -1), dim=1).view(-1, 1, 1).clamp(min=1e-8)
        return (delta + STEP * gradient / norm).detach()

    def _freelb(self, batch: Mapping[str, Tensor]) -> None:
        delta: Any = self._start(batch)
        for k in range(self.steps):
            delta.requires_grad_()
            loss = self._loss(batch, delta) / self.steps
            if self.coefficients and k == self.steps - 1:
                loss = loss + 1e-4 * torch.stack([c.abs().sum() for c in self.coefficients]).sum()
            loss.backward()
            delta = self._moved(delta)

    def _pgd(self, batch: Mapping[str, Tensor]) -> None:
        delta = self._start(batch)
        for _ in range(self.steps):
            delta.requires_grad_()
            self._loss(batch, delta).backward()
            delta = self._moved(delta)
            self.model.zero_grad(set_to_none=True)
        self._loss(batch, delta).backward()
