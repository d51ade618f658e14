"""From an arm's origin to its ticket: searched or found done, read from a folder, drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.experiment import execute
from robust_tickets.files import sha256_file
from robust_tickets.run import Stage

if TYPE_CHECKING:
    from robust_tickets.experiment.arms import Origin
    from robust_tickets.experiment.runner import Walk
    from robust_tickets.ticket.ticket import Ticket


def ticket_of(walk: Walk, origin: Origin) -> tuple[Ticket, Stage | None, Stage]:
    """The ticket, the stage that searched it (none: it came from a folder), and the stage where the ticket itself lies."""
    from robust_tickets.ticket.ticket import Ticket

    searched = None
    if origin.search is None:
        ticket, source = Ticket.load(str(origin.folder)), fingerprint(origin.folder)
    else:
        like = ticket_of(walk, origin.like)[0] if origin.like else None
        searched = walk.run.stage("search", search_key(walk, origin, like))
        task = walk.elsewhere[origin.searched_on] if origin.searched_on else walk.task
        with walk.run.alone(searched):
            ticket = execute.search(searched, origin.search, lambda: walk.classifier(origin.searched_on), task, like)
        if origin.draw is None:
            return ticket, searched, searched
        source = digest(searched.key)
    lies = walk.run.stage("ticket", execute.draw_key(source, origin.draw))
    with walk.run.alone(lies):
        return execute.draw(lies, ticket, origin.draw), searched, lies


def search_key(walk: Walk, origin: Origin, like: Ticket | None) -> Mapping[str, Any]:
    given = dict(walk.inputs)
    if (
        origin.searched_on is not None
    ):  # theta_0 stands for the encoder; the head is another one, drawn from the recipe's seed
        other = walk.elsewhere[origin.searched_on]
        given |= {
            "task": other.digest,
            "head": {"labels": list(other.labels), "columns": list(other.columns), "seed": walk.recipe.seed},
        }
    return execute.search_key(origin.search, given, like)


def fingerprint(folder: str | Path | None) -> str:
    """Hash of a saved ticket: its masks and the scores that other draws are made from."""
    files = [Path(str(folder)) / name for name in ("ticket.safetensors", "scores.safetensors")]
    if not files[0].is_file():
        raise TicketsError(
            f"no ticket in {folder}: {files[0].name} is missing", hint="give the folder that a search wrote"
        )
    return digest([sha256_file(file) for file in files if file.is_file()])
