"""A command line that cannot be read, in words a user can act on: what is missing and which words may stand there."""

from __future__ import annotations

import inspect
import typing

from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

HELP = "`tickets --help` lists the verbs, `tickets VERB --help` its flags"


def said(problem: CycloptsError) -> tuple[str, str]:
    """What is wrong, and what to do."""
    if isinstance(problem, UnusedCliTokensError) and problem.unused_tokens:
        takes = problem.target is not None and "set" in inspect.signature(problem.target).parameters
        return _unused(list(problem.unused_tokens), _verb(problem), takes)
    if isinstance(problem, MissingArgumentError) and problem.argument is not None:
        field, verb = problem.argument.field_info, _verb(problem)
        if field.is_positional:
            return _missing(field.name.upper(), verb, typing.get_args(problem.argument.hint))
        return (
            f"{verb}: {problem.argument.name} is missing, or nothing stands behind it",
            f"`tickets {verb} --help` says what it may be",
        )
    return str(problem), HELP


def _missing(name: str, verb: str, choices: tuple[typing.Any, ...]) -> tuple[str, str]:
    usage = f"`tickets {verb} {name}`"
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"{verb}: which {name}? none is given", f"{usage}, where {name} is one of: {', '.join(choices)}"
    return f"{verb}: {name} is missing", f"{usage}; `tickets {verb} --help` says what it may be"


def _unused(tokens: list[str], verb: str, takes: bool) -> tuple[str, str]:
    message = f"{verb}: not understood: {' '.join(tokens)}"
    settings = [token for token in tokens if "=" in token.strip("=") and not token.startswith("-")]
    if settings and takes:
        return message, f"a setting stands behind --set: {' '.join(f'--set {setting}' for setting in settings)}"
    return message, HELP


def _verb(problem: CycloptsError) -> str:
    return " ".join(problem.command_chain or ()) or "tickets"
