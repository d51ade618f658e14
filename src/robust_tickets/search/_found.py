"""Found: what a search returns. The ticket, how the search went, and the distances between its masks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robust_tickets import progress
from robust_tickets.files import write_json, write_text
from robust_tickets.ticket.ticket import Ticket


@dataclass(frozen=True, kw_only=True)
class Found:
    """``trace`` has one entry per recorded point; ``distances`` the matrices behind the heat map (empty for a random ticket)."""

    ticket: Ticket
    trace: Sequence[Mapping[str, Any]] = ()
    distances: Mapping[str, Any] = field(default_factory=dict)

    def save(self, folder: str | Path) -> Path:
        """trace.jsonl, distances.json and, last, the ticket's two files."""
        folder = Path(folder)
        write_text(
            folder / "trace.jsonl", "".join(json.dumps(dict(line), allow_nan=False) + "\n" for line in self.trace)
        )
        if self.distances:
            write_json(folder / "distances.json", dict(self.distances))
        return self.ticket.save(folder)

    def __repr__(self) -> str:
        """One line: the ticket, how sparse it is and where the search stopped; ``trace`` and ``distances`` are for figures."""
        parts = [repr(self.ticket), f"{self.ticket.sparsity:.1%} of the prunable weights removed"]
        told = self.ticket.provenance
        if "epoch" in told:
            settled = told.get("converged")  # None: a fixed point claims nothing
            parts.append(
                f"drawn at epoch {told['epoch']}"
                + ("" if settled is None else f", masks {'' if settled else 'not '}settled")
            )
            parts += ["near random"] if told.get("near_random") else []
        parts += [f"{told[key]} {key}" for key in ("rounds", "iterations") if key in told]
        if "steps_run" in told:
            parts.append(f"{told['steps_run']} updates")
        return f"Found({', '.join(parts)})"


def told(ticket: Ticket) -> Ticket:
    """``ticket``, after saying what rounding made of its neurons, where they were rounded."""
    if ticket.rounding:
        progress.say(f"search: {ticket.rounding}")
    return ticket
