"""Randomness only through named, seeded generators.

``derive(seed, "search", "freelb")`` gives the same integer on every machine, and another one for another name, so that two
consumers of one run seed never share a stream and adding a consumer moves no other.
"""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import numpy as np

from robust_tickets.errors import TicketsError

if TYPE_CHECKING:
    import torch


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for one named consumer of ``seed``."""
    try:
        own = str(int(seed))
    except (TypeError, ValueError):
        raise TicketsError(
            f"a seed is one whole number, got {seed!r}",
            hint="for several runs, make one for each seed",
            code="settings.seed",
        ) from None
    text = "\x1f".join([own, *map(str, names)])
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


class Dice:
    """The two streams TextAttack's random attacks draw from, so that it draws the same numbers when both are given this seed.

    numpy's legacy stream chooses positions in a word, Python's own the letters. They take seeds of 32 bits; a longer one is cut to those.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed % 2**32
        self._places = np.random.RandomState(self.seed)
        self._letters = random.Random(self.seed)

    def place(self, first: int, end: int) -> int:
        """A whole number from ``first`` up to, not including, ``end``."""
        return int(self._places.randint(first, end))

    def letter(self, letters: str) -> str:
        return self._letters.choice(letters)
