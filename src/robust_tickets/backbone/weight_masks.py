"""Masks on single weights that stay exact: what is outside is zero, and training leaves it there.

A mask is a boolean buffer on its linear module that no state dict holds. The weights outside are set to zero once, and
their gradient is made zero in every backward pass: AdamW's moments stay zero, decay shrinks zero, so the weights stay
exactly zero without another step; a forward pass costs nothing more. Gradient hooks do not travel with a copied tensor,
module hooks do: so the module looks, before each forward pass, whether its weight still has the hook. Copies, moves
between devices and changes of precision are safe for that. Only ``torch.compile`` cannot look: a copy must have run
once before it is compiled and trained (else saving it refuses what grew).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from robust_tickets.backbone.layout import has_layout, layout_of
from robust_tickets.errors import FAILED, TicketsError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUFFER = "ticket_mask"


class KeepOut:
    """A gradient hook: nothing reaches the weights outside the mask that ``module`` has at that time."""

    __torch_unserializable__ = True  # copies get their own, see KeepHook

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, gradient: Tensor) -> Tensor:
        return torch.where(self.module.get_buffer(BUFFER), gradient, 0.0)


class KeepHook:
    """A module hook, before the forward pass: gives the weight its gradient hook where it has none, as after a copy."""

    def __call__(self, module: Any, _: Any) -> None:
        weight = module.weight
        if not weight.requires_grad or torch.compiler.is_compiling():
            return
        if not any(isinstance(hook, KeepOut) for hook in (weight._backward_hooks or {}).values()):
            weight.register_hook(KeepOut(module))


def attach(model: PreTrainedModel, masks: Mapping[str, Tensor]) -> None:
    """Mask matrices of ``model`` in place, by name; one that is masked already keeps the intersection."""
    modules = layout_of(model).matrices_of(model)
    for name, mask in masks.items():
        module = modules[name]
        mask = mask.to(device=module.weight.device, dtype=torch.bool)
        before = getattr(module, BUFFER, None)
        if before is None:
            module.register_buffer(BUFFER, mask.clone(), persistent=False)
            module.register_forward_pre_hook(KeepHook())
        else:
            setattr(module, BUFFER, before & mask)
        with torch.no_grad():
            module.weight.masked_fill_(~getattr(module, BUFFER), 0.0)
        KeepHook()(module, ())


def masks_of(model: PreTrainedModel) -> dict[str, Tensor]:
    """The masks of ``model``, by matrix; empty where it has none."""
    if not has_layout(model):
        return {}  # nobody could have masked it
    matrices = layout_of(model).matrices_of(model).items()
    return {name: getattr(module, BUFFER) for name, module in matrices if getattr(module, BUFFER, None) is not None}


def check_zeros(model: PreTrainedModel) -> None:
    """Refuse a masked model in which a weight outside is not zero any more."""
    modules = layout_of(model).matrices_of(model)
    for name, mask in masks_of(model).items():
        grown = int((modules[name].weight.detach().masked_fill(mask, 0.0) != 0).sum())
        if grown:
            message = f"{grown} weights of {name} are outside the ticket but not zero"
            hint = "something changed them other than training; apply the ticket again"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="masks.not_zero")
