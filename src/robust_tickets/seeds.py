"""Randomness only through named, seeded generators.

``derive(seed, "search", "freelb")`` gives the same integer on every machine, and another one for another name, so that two
consumers of one run seed never share a stream and adding a consumer moves no other.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for one named consumer of ``seed``."""
    text = "\x1f".join([str(int(seed)), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def numpy_generator(seed: int, *names: object) -> np.random.Generator:
    return np.random.default_rng(derive(seed, *names))


def torch_generator(seed: int, *names: object, device: str | torch.device = "cpu") -> torch.Generator:
    import torch

    return torch.Generator(device=device).manual_seed(derive(seed, *names))


def seed_dropout(seed: int, *names: object) -> None:
    """Seed torch's global stream, which dropout alone is allowed to read."""
    import torch

    torch.manual_seed(derive(seed, *names))
