"""Settings of a draw. Imports no numpy, so that the command line can list them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from robust_tickets.config import Settings, setting


@dataclass(frozen=True, kw_only=True)
class Draw(Settings):
    """Another draw from a ticket's scores; what is left out stays as it was.

    Parameters
    ----------
    heads
        The fraction of heads removed.
    neurons
        The fraction of feed-forward neurons removed.
    head_scope
        Compare heads of the whole model, or within each layer.
    neuron_scope
        The same for neurons.
    round_to
        Bring the neurons of every layer to the nearest multiple, which matrix kernels like; 1 leaves them as drawn.
    sparsity
        The fraction of single weights removed, for unstructured tickets.
    scope
        Compare weights of the whole model, or within each matrix.
    """

    heads: float | None = setting(None, at_least=0, below=1, hint="0.3 removes 30 %")
    neurons: float | None = setting(None, at_least=0, below=1, hint="0.3 removes 30 %")
    head_scope: Literal["global", "layer"] | None = None
    neuron_scope: Literal["global", "layer"] | None = None
    round_to: Literal[1, 8, 16, 64] | None = None
    sparsity: float | None = setting(None, at_least=0, below=1, hint="0.3 removes 30 %")
    scope: Literal["global", "matrix"] | None = None

    def shown(self, name: str) -> str:
        return f"draw.{name}"

    def asked(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}
