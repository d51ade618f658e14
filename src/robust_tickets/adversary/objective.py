"""What one step minimises, as an adversary sees it: a loss at a perturbation, and a way to backpropagate it.

A perturbation enters as ``delta`` added to the output of the word-embedding module, by a forward hook. The papers' code
calls the model with ``inputs_embeds`` instead; then RoBERTa and MPNet cannot derive position ids from the padding, and
that code lost the token types of pairs on the way. With a hook the model is called exactly as in plain training,
whatever its family, and every pass looks the embeddings up again, so that each pass owns its graph. Nothing here reads
a value back from the device.

``Adversary`` is the base class of every adversary, those of other packages too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from robust_tickets.backbone.layout import Layout, encoder_of
from robust_tickets.config import Settings
from robust_tickets.errors import TicketsError, did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from robust_tickets.data.batching import Inputs, View
    from robust_tickets.data.task import Split

IGNORED = -100  # the label of a token that a masked-language model is not asked for


Kind = Literal["classification", "mlm"]  # what is trained: a label for each text, or masked words


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in fp32 or better; over sentences, or over tokens whose label is not -100."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What an adversary may look at once, before the first step."""

    model: PreTrainedModel
    layout: Layout
    tokenizer: PreTrainedTokenizerBase | None = None
    seed: int = 0
    split: Split | None = None  # the training split; masked words have none
    labels: tuple[str, ...] = ()  # names of its classes

    @property
    def words(self) -> Tensor:
        """The table of word embeddings, (vocabulary, width)."""
        return _words_of(self.layout, self.model)


@dataclass(frozen=True, kw_only=True)
class Adversary(Settings):
    """Base class of every adversary: a call makes one step's gradients and returns its mean loss, detached."""

    defined_for: ClassVar[tuple[Kind, ...]] = get_args(Kind)

    @property
    def passes(self) -> float:
        """Cost of one step, in forward-backward passes."""
        return 1

    @property
    def updates(self) -> int:
        """Optimiser steps a batch."""
        return 1

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Other wordings of the texts that a step reads, as ``objective.logits(view=name)``."""
        return ()

    def begin(self, ground: Ground) -> nn.Module | None:
        """The memory between steps (``objective.memory``): parameters are trained, persistent buffers saved."""
        return None

    def resources(self) -> Mapping[str, Mapping[str, Any]]:
        """Fields that name a file, and what is read there (its digest): part of what a result is named by."""
        return {}

    def __call__(self, objective: Objective) -> Tensor:
        raise NotImplementedError


class Seen:
    """What a forward pass computed on its way: filled by :meth:`Objective.seeing`."""

    embedded: Tensor  # input of the first layer: embeddings after normalisation and dropout
    first: Tensor  # output of the first layer
    last: Tensor  # output of the encoder


@dataclass(kw_only=True)
class Objective:
    """One batch, the model, and how to descend; made anew for every step."""

    model: PreTrainedModel
    layout: Layout
    inputs: Inputs
    labels: Tensor
    views: Mapping[str, Inputs] = field(default_factory=dict)  # other wordings of the same texts, by name
    backward: Callable[[Tensor], None]  # scales for gradient accumulation
    generator: torch.Generator  # on the model's device; adversaries draw from nothing else
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy
    regulariser: Callable[[], Tensor] | None = None
    half: bool = False  # bf16 autocast around the forward pass
    dropping: Callable[[], AbstractContextManager[None]] = nullcontext  # around gradients that are thrown away
    memory: nn.Module | None = None  # what the adversary's ``begin`` returned
    update: Callable[[], None] | None = None  # clip, step, clear the gradients: for several updates a batch

    def of(self, view: str) -> Objective:
        """The same objective at another wording of the batch's texts."""
        if view not in self.views:
            hint = did_you_mean(view, self.views)
            raise TicketsError(f"no view is called {view!r}", hint=hint, code="adversary.views")
        return replace(self, inputs=self.views[view])

    def logits(self, delta: Tensor | None = None, *, ids: Tensor | None = None, view: str = "") -> Tensor:
        """The logits with ``delta`` added to the word embeddings, or with other words (``ids``) at the same positions.

        With ``view``, of that wording of the texts.
        """
        if view:
            return self.of(view).logits(delta, ids=ids)
        inputs = dict(self.inputs)
        if ids is not None:
            inputs["input_ids"] = ids
        device = self.inputs["input_ids"].device.type
        with self._perturbed(delta), torch.autocast(device, torch.bfloat16) if self.half else nullcontext():
            logits: Tensor = self.model(**inputs).logits
        return logits

    def loss(self, delta: Tensor | None = None, *, ids: Tensor | None = None, view: str = "") -> Tensor:
        return self.loss_fn(self.logits(delta, ids=ids, view=view), self.labels)

    def first_layer(self, delta: Tensor) -> Tensor:
        """The output of the first layer; the forward pass ends there."""

        def leave(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            raise _Left(output[0] if isinstance(output, tuple) else output)

        handle = self.layout.layers_of(self.model)[0].register_forward_hook(leave)
        try:
            self.logits(delta)
        except _Left as left:
            return left.output
        finally:
            handle.remove()
        raise AssertionError("the forward pass never came to the first layer")

    def mean(self, values: Tensor) -> Tensor:
        """The mean of one value per sentence or, for a masked-language model, per token to predict."""
        if values.ndim == 1:
            return values.mean()
        return self.total(values) / (self.labels != IGNORED).sum().clamp_min(1)

    def total(self, values: Tensor) -> Tensor:
        """The sum over what :meth:`mean` is the mean of."""
        return values.sum() if values.ndim == 1 else (values * (self.labels != IGNORED)).sum()

    @contextmanager
    def seeing(self) -> Iterator[Seen]:
        """While open, forward passes record the first layer's input and output and the encoder's output."""
        seen, layers = Seen(), self.layout.layers_of(self.model)

        def enter(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen.embedded = args[0] if args else kwargs["hidden_states"]

        def leave(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            seen.first = output[0] if isinstance(output, tuple) else output

        def end(_module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
            seen.last = output[0]

        handles = [
            layers[0].register_forward_pre_hook(enter, with_kwargs=True),
            layers[0].register_forward_hook(leave),
            encoder_of(self.model).register_forward_hook(end),
        ]
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()

    def penalty(self) -> Tensor | float:
        """The regulariser, which a step adds once, in its last pass, undivided (EarlyRobust §3.3)."""
        return self.regulariser() if self.regulariser else 0.0

    def rewinding(self, shared: bool) -> Callable[[], None]:
        """To be called before every pass of a step: all drop the same units where dropout is ``shared``."""
        return SameDropout(self.inputs["input_ids"].device).rewind if shared else lambda: None

    @property
    def mask(self) -> Tensor:
        """1 at the positions that may be perturbed, 0 at padding; shape (batch, tokens, 1)."""
        return self.inputs["attention_mask"].unsqueeze(-1).to(self.words.dtype)

    def embedding_shape(self) -> tuple[int, int, int]:
        rows, tokens = self.inputs["input_ids"].shape
        return rows, tokens, self.words.shape[1]

    def uniform(self, low: float, high: float) -> Tensor:
        """A draw of the embeddings' shape from the step's own generator."""
        unit = torch.rand(
            self.embedding_shape(), generator=self.generator, device=self.words.device, dtype=self.words.dtype
        )
        return unit * (high - low) + low

    def normal(self, deviation: float) -> Tensor:
        """Gaussian noise of the embeddings' shape from the step's own generator."""
        shape, like = self.embedding_shape(), self.words
        return torch.randn(shape, generator=self.generator, device=like.device, dtype=like.dtype) * deviation

    @property
    def words(self) -> Tensor:
        """The table of word embeddings, (vocabulary, width)."""
        return _words_of(self.layout, self.model)

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


def _words_of(layout: Layout, model: PreTrainedModel) -> Tensor:
    weight = layout.words_of(model).weight
    assert isinstance(weight, Tensor)
    return weight


class _Left(Exception):  # noqa: N818  # no error
    """Takes a layer's output out of a forward pass whose rest is not wanted."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


class SameDropout:
    """Rewinds torch's global stream, which dropout reads, so that all passes of a step drop the same units."""

    def __init__(self, device: torch.device) -> None:
        if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("dropout that is shared between passes rewinds the random stream, which a graph cannot")
        self.device = device
        self.at_start = self._state()

    def rewind(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(self.at_start, self.device)
        else:
            torch.set_rng_state(self.at_start)

    def _state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()


def defined(adversary: Adversary | None, kind: Kind) -> None:
    """Refuse an adversary that is not defined for ``kind``; ``None`` (no adversary) is always fine."""
    if adversary is not None and kind not in adversary.defined_for:
        where = "a masked-language model" if kind == "mlm" else "a classifier"
        message = f"{type(adversary).__name__} is not defined for the training of {where}"
        hint = "choose another adversary (FreeLB works everywhere), or none"
        raise TicketsError(message, hint=hint, code="adversary.undefined")


def usable(adversary: Adversary | None, accumulate: int = 1) -> None:
    """Refuse what is no adversary, and one that updates within a batch where batches are accumulated."""
    if adversary is None:
        return
    if not isinstance(adversary, Adversary):
        got = f"the class {adversary.__name__}" if isinstance(adversary, type) else repr(adversary)
        message = f"an adversary is a configured object of a subclass of Adversary, got {got}"
        raise TicketsError(message, hint="for example adversary=rt.FreeLB(steps=5), or None", code="adversary.type")
    if adversary.updates > 1 and accumulate > 1:
        message = f"an adversary that updates {adversary.updates} times a batch cannot accumulate {accumulate} batches"
        raise TicketsError(message, hint="set accumulate to 1", code="adversary.accumulate")
