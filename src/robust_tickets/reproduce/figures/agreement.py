"""How far searches agree: what all of them keep or remove, where it lies, and how far two tickets drawn at random would lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import fsum

from robust_tickets.reproduce.figures.traces import Survivors
from robust_tickets.reproduce.wording import listed

THIRDS = ("lower", "middle", "upper")


def by_chance(first: float, second: float) -> float:
    """On what share of units two masks differ that keep these shares, each drawn by lot."""
    return first * (1 - second) + second * (1 - first)


def agreement(shapes: Sequence[Survivors]) -> str:
    """Two sentences at most: single heads over the searches, and the thirds of the layers that lose most. Empty without heads."""
    heads = [[head for layer in shape.heads for head in layer] for shape in shapes]
    if (
        not heads or not heads[0] or any(share not in (0, 1) for mask in heads for share in mask)
    ):  # whole heads, not weights of theirs
        return ""
    return " ".join(filter(None, (_heads(heads), _thirds(shapes))))


def _heads(masks: Sequence[Sequence[float]]) -> str:
    """A mask a search. One search agrees with itself."""
    if len(masks) < 2:
        return ""
    votes, searches = [sum(kept) for kept in zip(*masks, strict=True)], len(masks)
    pairs = list(combinations(masks, 2))
    apart = [sum(a != b for a, b in zip(one, other, strict=True)) / len(votes) for one, other in pairs]
    lot = [by_chance(sum(one) / len(votes), sum(other) / len(votes)) for one, other in pairs]
    return (
        f"Of {len(votes)} heads {votes.count(searches)} survive in every search and {votes.count(0)} in none; two searches differ on "
        f"{mean_percent(apart)} % of them ({100 * min(apart):.1f} to {100 * max(apart):.1f}), two random tickets of their size on "
        f"{mean_percent(lot)} %."
    )


def _thirds(shapes: Sequence[Survivors]) -> str:
    """Where what is removed lies; every layer has as many units of a part as the others. Empty where layers have no three equal parts."""
    depth = shapes[0].depth
    if depth % len(THIRDS):
        return ""
    ends = [depth * part // len(THIRDS) for part in range(len(THIRDS) + 1)]
    said: list[str] = []
    for name in shapes[0].parts:
        gone = [fsum(1 - shape.parts[name][layer] for shape in shapes) for layer in range(depth)]
        if total := fsum(gone):
            shares = [f"{100 * fsum(gone[start:end]) / total:.0f}" for start, end in pairwise(ends)]
            where = f" lie in the {listed(THIRDS)} third of the layers" if not said else ""
            said.append(f"of the {name} that are removed {listed(shares)} %{where}")
    return f"{'; '.join(said).capitalize()}." if said else ""


def mean_percent(shares: Sequence[float], digits: int = 1) -> str:
    """The mean of shares. fsum: the same bits in every Python, where sum() is another one since 3.12; halves are common here."""
    return f"{100 * fsum(shares) / len(shares):.{digits}f}"
