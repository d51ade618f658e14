"""What a model costs: parameters, forward FLOPs, memory.

FLOPs are counted on paper, from the heads and neurons that each layer has now, so that a ticket's saving does not depend on a profiler
or on the machine. One multiply-add is two FLOPs. Counted: every matrix product of the layers and the head. Not counted: biases,
embeddings (a lookup), LayerNorm, softmax and activations, together about one percent.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError
from robust_tickets.layout import Layout, encoder_of, layout_of

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def parameters(model: Any) -> int:
    """All parameters of a model or Classifier; tied ones count once."""
    return sum(p.numel() for p in _module(model).parameters())


def encoder_parameters(model: Any, layout: Layout | None = None) -> int:
    """Parameters of the layers alone: without embeddings, pooler and classifier, as the papers' tables count."""
    module = _module(model)
    layout = layout or layout_of(module)
    return sum(p.numel() for layer in layout.layers_of(module) for p in layer.parameters())


def flops(model: Any, tokens: int, layout: Layout | None = None) -> int:
    """FLOPs of one forward pass over one text of ``tokens`` tokens."""
    if tokens < 1:
        raise TicketsError(f"a text has at least one token, got {tokens}", hint="give the length of a typical text")
    module = _module(model)
    layout = layout or layout_of(module)
    hidden, head = module.config.hidden_size, layout.head_size(module)
    total = 0
    for heads, neurons in zip(layout.heads_of(module), layout.neurons_of(module), strict=True):
        width = heads * head
        total += 2 * tokens * 4 * hidden * width  # query, key, value, output
        total += 2 * 2 * tokens * tokens * width  # scores, and the weighted sum of values
        total += 2 * tokens * 2 * hidden * neurons  # up, down
    return total + _head_flops(module, layout)


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


def _head_flops(module: Any, layout: Layout) -> int:
    """The pooler and classifier, which read one token: every matrix of a linear layer that is neither in a layer nor an embedding."""
    inside = {id(m) for layer in layout.layers_of(module) for m in layer.modules()}
    embeddings = getattr(encoder_of(module), "embeddings", None)
    inside |= {id(m) for m in embeddings.modules()} if embeddings is not None else set()
    linear = (m for m in module.modules() if id(m) not in inside and hasattr(m, "in_features"))
    return sum(2 * m.weight.numel() for m in linear)


def _module(model: Any) -> Any:
    return model if hasattr(model, "parameters") else model.model
