"""The command ``tickets``: parsing, printing and exit codes; each verb lives in a file of its own group.

Exit codes: 0 done; 1 a gate failed; 2 bad input or usage; 3 failed while running; 130 interrupted. An error is one line that says
what and where, and one that says what to do; ``--debug`` shows the traceback. ``--help`` and ``ls`` import no torch.
"""

from __future__ import annotations

import inspect
import json
import os
import shlex
import sys
import traceback
import typing
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Any

from cyclopts import App, CycloptsError, MissingArgumentError, UnusedCliTokensError

from robust_tickets import __version__, environment, progress
from robust_tickets.cli import attack, check, doctor, export, ls, report, reproduce, run, stages
from robust_tickets.cli.options import Answer
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError
from robust_tickets.progress import clean
from robust_tickets.stages import typed

HELP = "`tickets --help` lists the verbs, `tickets VERB --help` its flags"


def _usage_error(problem: CycloptsError) -> tuple[str, str]:
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


INTERRUPTED = 130

app = App(
    name="tickets",
    help="Find, train, attack, prove and ship robust lottery tickets of pretrained text encoders.",
    version=f"robust-tickets {__version__}",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for verb in (
    run.demo, run.run, stages.search, stages.draw, stages.train, attack.attack, attack.replay, export.predict, report.report,
    export.export, check.check, reproduce.reproduce, ls.ls, doctor.doctor,
):  # fmt: skip
    app.command(verb)


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``tickets`` and exit with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Spinning OpenMP threads cost a training step 6 times its time where another process wants a core too (docs/dev/log.md);
    # the setting is read when torch is loaded, which no verb has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # torch would start a thread for each of the machine's processors, also in a container that may use two of 64
    if (most := environment.allowed()) is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(most))
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away (`tickets ls | head -1`): not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    with progress.printed(quiet=_flag(arguments, "--quiet")):
        return _answered(arguments)


def _answered(arguments: list[str]) -> int:
    as_json, debug = _flag(arguments, "--json"), _flag(arguments, "--debug")
    try:
        # a victim's own code may print: standard output belongs to the document
        with (
            redirect_stdout(sys.stderr) if as_json and not _flag(arguments, "--help") else nullcontext(),
            typed(clean(shlex.join(["tickets", *arguments]))),
        ):
            answer = app(arguments, exit_on_error=False, print_error=False)
        return _print(answer, as_json)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return _fail("interrupted", "run the same command to resume", INTERRUPTED, as_json)
    except CycloptsError as problem:
        return _fail(*_usage_error(problem), BAD_INPUT, as_json)
    except TicketsError as problem:
        if debug:
            progress.write(traceback.format_exc())
        return _fail(problem.message, problem.hint, problem.exit_code, as_json)
    except SystemExit as end:  # no verb ends the process: code that a verb called did
        if isinstance(end.__context__, BrokenPipeError):  # rich, when the reader went away (`tickets --help | head -1`)
            return 0
        if debug:
            progress.write(traceback.format_exc())
        return _fail(
            f"code that was called ended the process (exit {end.code})",
            "see that it returns, or raises an error",
            FAILED,
            as_json,
        )
    except Exception as problem:
        if debug:
            progress.write(traceback.format_exc())
        message, hint = _unexpected(problem)
        return _fail(message, hint, FAILED, as_json)


def _flag(arguments: list[str], name: str) -> bool:
    return any(argument == name or argument in (f"{name}=true", f"{name}=True", f"{name}=1") for argument in arguments)


def _print(answer: Any, as_json: bool) -> int:
    if not isinstance(answer, Answer):  # --help and --version print for themselves
        return 0
    if as_json:
        print(json.dumps(answer.data, indent=2, sort_keys=True, ensure_ascii=True))
    else:
        console = progress.console(sys.stdout)
        with redirect_stdout(progress.Cleaned(sys.stdout)):  # type: ignore[type-var]  # what is printed; the console has escapes of its own
            answer.show(console)
    return answer.exit_code


def _fail(message: str, hint: str, code: int, as_json: bool) -> int:
    progress.write(f"error: {message}" + (f"\n  what to do: {hint}" if hint else ""))
    if as_json:
        print(json.dumps({"error": {"message": message, "hint": hint}, "exit_code": code}, indent=2))
    return code


def _unexpected(problem: Exception) -> tuple[str, str]:
    """What to say of a failure without an error of its own: memory and disk have their own words."""
    text = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
    if isinstance(problem, MemoryError) or "out of memory" in text.lower():
        return (
            f"out of memory: {text}",
            "lower batch_size or max_length and run the same command: finished stages are kept",
        )
    if isinstance(problem, OSError) or "No space left on device" in text:  # what a Rust package raises is no OSError
        return f"{text}", "check the disk and the folder's rights, then run the same command"
    return f"{type(problem).__name__}: {text}", "run again with --debug for the traceback; finished stages are kept"
