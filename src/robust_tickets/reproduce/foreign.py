"""Whether a result is of what lies here: rows and the size of the model are looked at, and neither is loaded."""

from __future__ import annotations

from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.places import Places
from robust_tickets.reproduce.protocol import part_of, rules
from robust_tickets.reproduce.sizes import rows_of, weights_of

NEAR = (
    1.25  # times as many parameters as matrices alone would make: biases and norms are a tenth of the smallest models
)


def foreign(known: Outcome, places: Places) -> str | None:
    """Why a result cannot be of these data and weights; none: nothing speaks against it. Their hashes are not looked at."""
    unit, part = known.unit, part_of(known.notes)
    if part is not None and not places.subset:
        return f"there is a result of a part of the data: {part}"
    rows = rows_of(places, unit.task).get("train")
    if part is None and rows is not None and rows not in rules(unit.task).train:
        return f"there is a result of all rows of {unit.task}; {rows:,} lie in {places.data}"
    here, then = weights_of(places, unit.backbone), known.cost.get("dense_encoder_parameters")
    if here and isinstance(then, int | float) and not 1 <= then / here <= NEAR:
        return f"there is a result of a model with {then / 1e6:.3g} million parameters; the one in {places.models} has {here / 1e6:.3g}"
    return None
