"""What every verb shares: its flags, and the answer it gives back for printing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from cyclopts import Parameter

Settings = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", consume_multiple=False, help="key=value, any number of times."),
]

MaxFailed = Annotated[
    float,
    Parameter(
        help="Percent of the examples, and never fewer than three, above which failed ones end the command with exit code 3."
    ),
]

Strict = Annotated[bool, Parameter(negative="", help="Any bad row stops the run.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags of every verb."""

    json: Annotated[bool, Parameter(negative="", help="One JSON document on standard output, nothing else there.")] = (
        False
    )
    quiet: Annotated[bool, Parameter(negative="", help="No progress on standard error.")] = False
    debug: Annotated[bool, Parameter(negative="", help="Show tracebacks.")] = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a verb: ``data`` for ``--json``, ``show`` (called with a rich console) for people."""

    data: Mapping[str, Any]
    show: Callable[[Any], None] = field(default=lambda console: None)
    exit_code: int = 0
