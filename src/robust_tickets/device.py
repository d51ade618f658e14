"""Which device a model is put on: one that torch has here, or an error that says what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    import torch


def device_of(asked: str | torch.device | None) -> torch.device:
    """``asked``; none: a CUDA device where there is one, else the CPU."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked is None:
        return torch.device("cuda" if count else "cpu")
    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError):
        raise TicketsError(
            f"{asked!r} is no device", hint="'cpu', 'cuda' or, of several, 'cuda:1'; left out, a CUDA device is taken"
        ) from None
    if device.type == "cuda" and (device.index or 0) >= count:
        told = f"torch {torch.__version__} sees {count or 'no'} CUDA device{'s' * (count != 1)} here"
        raise TicketsError(
            f"the device {asked!s} was asked for, and {told}",
            hint="leave it out or take 'cpu'; nvidia-smi shows what is there",
        )
    return device
