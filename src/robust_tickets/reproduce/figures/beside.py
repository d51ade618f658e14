"""Marks of one size stand side by side, since their bars would lie on one another; a bracket below them points at where they belong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robust_tickets.report.markup import Html, tag

NEAR = 3.0  # pixels: what lies nearer cannot be told apart
APART, OVER = 9.0, 64.0  # pixels from one mark to the next, and over all of them
LEVEL, ARM, STEM = 8.0, 4.0, 5.0  # pixels between two brackets, of a bracket's ends, and of its stem below the axis

WIDEST = (
    OVER / 2 + ARM + 3
)  # pixels from the place of a bunch to its furthest end, with half a mark; what is drawn leaves as much


@dataclass(frozen=True, kw_only=True)
class Bunch:
    """Marks, by their numbers, that belong at one place of the axis: ``at``, in pixels."""

    at: float
    members: tuple[int, ...]

    @property
    def places(self) -> dict[int, float]:
        """Where each is drawn: in the order of the numbers, around the place of all."""
        step = min(APART, OVER / len(self.members))
        return {
            member: self.at + step * (k - (len(self.members) - 1) / 2) for k, member in enumerate(sorted(self.members))
        }

    @property
    def ends(self) -> tuple[float, float]:
        return min(self.places.values()) - ARM, max(self.places.values()) + ARM


def bunches(wanted: Mapping[int, float]) -> list[Bunch]:
    """From left to right; each mark is in one, most by themselves."""
    found: list[list[int]] = []
    for member in sorted(wanted, key=lambda member: (wanted[member], member)):
        if found and wanted[member] - wanted[found[-1][-1]] < NEAR:
            found[-1].append(member)
        else:
            found.append([member])
    return [Bunch(at=(wanted[own[0]] + wanted[own[-1]]) / 2, members=tuple(own)) for own in found]


def brackets(found: Sequence[Bunch], bottom: float) -> list[Html]:
    """Above the axis at ``bottom``, one for each bunch of several; those that would touch stand one above the other."""
    reached: list[float] = []  # by each level, from the axis up
    drawn = []
    for bunch in found:
        start, end = bunch.ends
        if len(bunch.members) == 1:
            continue
        level = next((k for k, before in enumerate(reached) if before < start - ARM), len(reached))
        reached[level : level + 1] = [end]
        y = bottom - LEVEL * (level + 1)
        path = f"M{start:.1f} {y - ARM:.1f}V{y:.1f}H{end:.1f}V{y - ARM:.1f}M{bunch.at:.1f} {y:.1f}V{bottom + STEM:.1f}"
        drawn.append(tag("path", d=path, class_="bracket"))
    return drawn
