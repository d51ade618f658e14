"""What a model costs: parameters, forward FLOPs, memory.

FLOPs are counted on paper, from the heads and neurons that each layer has now, so that a ticket's saving does not
depend on a profiler or on the machine. One multiply-add is two FLOPs. Counted: every matrix product of the layers and
the head. Not counted: biases, embeddings (a lookup), LayerNorm, softmax and activations, together about one percent.
Local attention (ModernBERT) counts as global: masked scores are computed all the same. So do weights that an
unstructured ticket holds at zero: dense kernels multiply them too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from robust_tickets.backbone.layout import Layout, encoder_of, layout_of

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def parameters(model: Any) -> int:
    """All parameters of a model or Classifier; tied ones count once."""
    return sum(p.numel() for p in _module(model).parameters())


def encoder_parameters(model: Any) -> int:
    """Parameters of the layers alone: without embeddings, pooler and classifier, as the papers' tables count."""
    module = _module(model)
    return sum(p.numel() for layer in layout_of(module).layers_of(module) for p in layer.parameters())


def outside_masks(model: Any, *, encoder: bool = False) -> int:
    """Weights that an unstructured ticket holds at zero; ``encoder``: of the layers alone."""
    from robust_tickets.backbone.weight_masks import masks_of

    module = _module(model)
    layout = layout_of(module)
    masks = (mask for name, mask in masks_of(module).items() if not encoder or layout.place_of(name) is not None)
    return sum(mask.numel() - int(mask.sum()) for mask in masks)


def flops(model: Any, tokens: int) -> int:
    """FLOPs of one forward pass over one text of ``tokens`` tokens."""
    module = _module(model)
    layout = layout_of(module)
    hidden, head = module.config.hidden_size, layout.head_size(module)
    forward = 3 if layout.gate else 2  # up, down, and the gate where there is one
    total = 0
    for heads, neurons in zip(layout.heads_of(module), layout.neurons_of(module), strict=True):
        total += 2 * tokens * 4 * hidden * heads * head  # query, key, value, output
        total += layout.attention_flops(module, heads, tokens)
        total += 2 * tokens * forward * hidden * neurons
    return total + _flops_outside(module, layout, tokens)


def peak_memory() -> int:
    """The most host memory this process has held, in bytes, since it began or since ``reset_peak_memory``."""
    try:
        status = STATUS.read_text(encoding="utf-8")
        return int(status.split("VmHWM:", 1)[1].split(maxsplit=1)[0]) * 1024  # kB
    except (OSError, IndexError, ValueError):  # not Linux
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024  # kilobytes everywhere but on macOS


def reset_peak_memory() -> bool:
    """Let ``peak_memory`` begin anew from what is held now; False where the system cannot (only Linux can)."""
    try:
        CLEAR.write_text("5", encoding="ascii")  # see proc_pid_clear_refs(5)
    except OSError:
        return False
    return True


def _flops_outside(module: Any, layout: Layout, tokens: int) -> int:
    """Outside the layers: pooler and classifier read one token, projected embeddings and convolutions all."""
    inside = {id(m) for layer in layout.layers_of(module) for m in layer.modules()}
    encoder = {id(m): name for name, m in encoder_of(module).named_modules()}
    total = 0
    for m in module.modules():
        if id(m) not in inside and (hasattr(m, "in_features") or hasattr(m, "kernel_size")):
            total += 2 * m.weight.numel() * (tokens if encoder.get(id(m), layout.pooler) != layout.pooler else 1)
    return total


def _module(model: Any) -> Any:
    return model if hasattr(model, "parameters") else model.model
