"""What one step minimises, as an adversary sees it: a loss at a perturbation, and a way to backpropagate it.

A perturbation enters as ``delta`` added to the output of the word-embedding module, by a forward hook. The papers' code calls the model
with ``inputs_embeds`` instead; then RoBERTa and MPNet cannot derive position ids from the padding, and that code lost the token types
of pairs on the way. With a hook the model is called exactly as in plain training, whatever its family, and every pass looks the
embeddings up again, so that each pass owns its graph. Nothing here reads a value back from the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from robust_tickets.layout import Layout

NOT_INPUTS = ("labels", "index")  # keys of a batch that the model is not called with


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in fp32 or better; over sentences, or over tokens whose label is not -100."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


@dataclass(kw_only=True)
class Objective:
    """One batch, the model, and how to descend; made anew for every step."""

    model: Any
    layout: Layout
    batch: Mapping[str, Tensor]
    backward: Callable[[Tensor], None]  # scales for gradient accumulation
    generator: torch.Generator  # on the model's device; adversaries draw from nothing else
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    regulariser: Callable[[], Tensor] | None = None
    half: bool = False  # bf16 autocast around the forward pass

    def logits(self, delta: Tensor | None = None) -> Tensor:
        """The model's logits with ``delta`` added to the word embeddings."""
        inputs = {k: v for k, v in self.batch.items() if k not in NOT_INPUTS}
        device = self.batch["input_ids"].device.type
        with self._perturbed(delta), torch.autocast(device, torch.bfloat16) if self.half else nullcontext():
            return self.model(**inputs).logits

    def loss(self, delta: Tensor | None = None) -> Tensor:
        return self.loss_fn(self.logits(delta), self.batch["labels"])

    def penalty(self) -> Tensor | float:
        """The regulariser, which a step adds once, in its last pass, undivided by the number of passes (EarlyRobust §3.3)."""
        return self.regulariser() if self.regulariser else 0.0

    @property
    def mask(self) -> Tensor:
        """1 at the positions that may be perturbed, 0 at padding; shape (batch, tokens, 1)."""
        return self.batch["attention_mask"].unsqueeze(-1).to(self._weight.dtype)

    def embedding_shape(self) -> tuple[int, int, int]:
        rows, tokens = self.batch["input_ids"].shape
        return rows, tokens, self._weight.shape[1]

    def uniform(self, low: float, high: float) -> Tensor:
        """A draw of the embeddings' shape from the step's own generator."""
        unit = torch.rand(self.embedding_shape(), generator=self.generator, device=self._weight.device, dtype=self._weight.dtype)
        return unit * (high - low) + low

    @property
    def _weight(self) -> Tensor:
        return self.layout.words_of(self.model).weight

    @contextmanager
    def _perturbed(self, delta: Tensor | None) -> Iterator[None]:
        if delta is None:
            yield
            return
        words = self.layout.words_of(self.model)
        handle = words.register_forward_hook(lambda _module, _inputs, output: output + delta.to(output.dtype))
        try:
            yield
        finally:
            handle.remove()


class SameDropout:
    """Rewinds torch's global stream, which dropout reads, so that all passes of a step drop the same units."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.at_start = self._state()

    def rewind(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(self.at_start, self.device)
        else:
            torch.set_rng_state(self.at_start)

    def _state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()
