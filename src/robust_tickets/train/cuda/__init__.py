"""The engine of a run: eager, or CUDA graphs where they pay. The log names it, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from robust_tickets import progress
from robust_tickets.backbone.layout import has_layout, layout_of
from robust_tickets.train.bf16 import MULTIPLE
from robust_tickets.train.update import Engine

if TYPE_CHECKING:
    from robust_tickets.train.loop import TrainingRun

Kind = Literal["auto", "eager", "graph"]
WORTH = 100  # updates from which recording (some tenths of a second a shape) is worth it


def capturable(device: torch.device) -> bool:
    return device.type == "cuda"


def engine_for(run: TrainingRun) -> Engine:
    """``auto`` takes graphs on a CUDA device for runs of some length; elsewhere ``graph`` logs that it runs eagerly."""
    kind, cuda = run.settings.engine, capturable(run.device)
    if kind == "graph" and not cuda:
        progress.say(f"{run.title}: graphs need a CUDA device, the model is on {run.device.type}: it runs eagerly")
    graphs = cuda and (kind == "graph" or (kind == "auto" and run.total >= WORTH))
    if cuda:
        progress.say(f"{run.title}: engine {'graph' if graphs else 'eager'}")
        if odd := odd_widths(run):
            progress.say(
                f"{run.title}: the ticket has feed-forward layers of odd widths (like {odd[0]}), a fifth slower in bf16 than multiples "
                f"of {MULTIPLE}: draw it with round_to={MULTIPLE}"
            )
    made: type[Engine] = Engine
    if graphs:
        from robust_tickets.train.cuda.graphs import Captured

        made = Captured
    return made(
        step=run.step,
        parameters=run.parameters,
        optimiser=run.optimiser,
        optim=run.optim,
        horizon=run.horizon,
        unclipped=run.unclipped,
        seed=run.seed,
        generators=run.generators,
    )


def odd_widths(run: TrainingRun) -> list[int]:
    """Feed-forward widths of a compact model at which bf16 products are slow; none where the working weights have room around them."""
    half = run.step.half
    model: Any = run.parts.get("model")
    if half is None or not has_layout(model) or not model.config.model_type.startswith("ticket-"):
        return []
    layout = layout_of(model)
    works = {id(copy.module): copy.work for copy in half.copies if copy.name == "weight"}
    widths = [works[id(layer.get_submodule(layout.down))].shape[1] for layer in layout.layers_of(model)]
    return [width for width in widths if width % MULTIPLE]
