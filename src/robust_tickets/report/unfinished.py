"""A folder without a result, in words: of a run or an attack that was stopped it is told how far it came and how it goes on."""

from __future__ import annotations

from pathlib import Path

from robust_tickets.attack.store import PART, RESULT
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.run import command_of


def no_result(folder: Path) -> TicketsError:
    """Why there is nothing to tell of ``folder``, which has no arms.json and no result.json."""
    if (folder / PART).is_file():
        with open(folder / PART, "rb") as lines:
            done = sum(line.endswith(b"\n") for line in lines)
        return TicketsError(
            f"the attack in {folder} is not finished: {max(0, done - 1)} examples are done so far",  # the first line says which attack
            hint=f"run the `tickets attack … --out {folder}` that began it: it goes on from there",
        )
    command = command_of(folder)
    if command or _of_a_run(folder / "config.json"):
        hint = f"go on: {command}" if command else "the command that began it goes on"
        return TicketsError(f"the run in {folder} is not finished: arms.json is missing", hint=hint)
    if not folder.exists():
        return TicketsError(f"no such folder: {folder}", hint="`tickets ls runs` lists the runs here")
    return TicketsError(
        f"{folder} is neither a finished run nor a finished attack: arms.json is missing, and so is {RESULT}",
        hint="give a folder that `tickets run` or `tickets attack` wrote",
    )


def _of_a_run(config: Path) -> bool:
    """Whether it is a run's: models have a file of that name too."""
    try:
        return "recipe" in read_json(config)
    except (TicketsError, TypeError):
        return False
