"""What a ticket is made of: arrays and provenance that nobody can change, and masks from the indices kept. numpy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from robust_tickets.errors import TicketsError

Group = tuple[np.ndarray, ...]


class ReadOnly(dict[str, Any]):
    """A dict that json can write and nobody can change."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("a ticket's provenance cannot be changed")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return read_only, (dict(self),)


def read_only(value: Any) -> Any:
    """JSON values with nothing in them that can be changed: lists become tuples."""
    if isinstance(value, dict):
        return ReadOnly({key: read_only(inner) for key, inner in value.items()})
    return tuple(map(read_only, value)) if isinstance(value, list | tuple) else value


def frozen(groups: Mapping[str, Sequence[np.ndarray]], dtype: Any) -> Mapping[str, Group]:
    """Copies that cannot be written to. What already is such a copy is shared: the scores of 85 million weights are 340 MB."""
    made = {}
    for name, arrays in groups.items():
        copies = []
        for array in map(np.asarray, arrays):
            if dtype is bool and array.dtype != bool and not np.isin(array, (0, 1)).all():
                raise TicketsError(
                    f"a mask of {name!r} holds values other than 0 and 1",
                    hint="masks are boolean: True keeps a unit",
                    code="ticket.mask_values",
                )
            if array.dtype != dtype or array.flags.writeable or not array.flags.owndata:
                array = array.astype(dtype, copy=True)
                array.flags.writeable = False
            copies.append(array)
        made[name] = tuple(copies)
    return MappingProxyType(made)


def masks_from_kept(group: str, kept: Sequence[Sequence[int]], sizes: Sequence[int]) -> Group:
    if len(kept) != len(sizes):
        raise TicketsError(
            f"{group}: the backbone has {len(sizes)} layers, got {len(kept)} lists",
            hint="give one list of kept indices per layer",
            code="ticket.layers",
        )
    masks = []
    for layer, (indices, size) in enumerate(zip(kept, sizes, strict=True)):
        mask = np.zeros(size, dtype=bool)
        for i in indices:
            if (
                isinstance(i, bool | np.bool_) or not isinstance(i, int | np.integer) or not 0 <= i < size
            ):  # a list of booleans is no list of indices
                raise TicketsError(
                    f"{group}: layer {layer} has {size} of them, got index {i}",
                    hint=f"indices run from 0 to {size - 1}",
                    code="ticket.index",
                )
            mask[i] = True
        masks.append(mask)
    return tuple(masks)


def size_of(masks: Group) -> int:
    return sum(m.size for m in masks)


def kept_in(masks: Group) -> int:
    return sum(int(np.count_nonzero(m)) for m in masks)


def rounding_of(note: Any, masks: Mapping[str, Group], unit_weights: Mapping[str, int]) -> str:
    """The note that rounding leaves in a ticket's provenance, in words; empty for none, and for what is no such note."""
    match note:
        case {"round_to": int(multiple), "neurons": (int(before), int(after))}:
            weights = sum(kept_in(m) * unit_weights[g] for g, m in masks.items())
            were = weights + (before - after) * unit_weights["neurons"]
            return (
                f"neurons rounded to multiples of {multiple}: {after:,} kept instead of {before:,}, "
                f"{weights:,} prunable weights instead of {were:,} ({100 * (weights / max(1, were) - 1):+.2f} %)"
            )
    return ""
