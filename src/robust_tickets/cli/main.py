"""The command ``tickets``: parsing, printing and exit codes; each verb lives in a file of its own group.

Exit codes: 0 done; 1 a gate failed; 2 bad input or usage; 3 failed while running; 130 interrupted. An error is one line that says
what and where, and one that says what to do; ``--debug`` shows the traceback. ``--help`` and ``ls`` import no torch.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Any

from cyclopts import App, CycloptsError, UnusedCliTokensError

from robust_tickets import __version__, environment, progress
from robust_tickets.cli import attack, check, doctor, export, ls, reproduce, run, stages
from robust_tickets.cli.options import Answer
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError
from robust_tickets.stages import typed

INTERRUPTED = 130
VERBS = (
    run.demo, run.run, stages.search, stages.draw, stages.train, attack.attack, attack.replay, export.predict, export.report,
    export.export, check.check, reproduce.reproduce, ls.ls, doctor.doctor,
)  # fmt: skip

app = App(
    name="tickets",
    help="Find, train, attack, prove and ship robust lottery tickets of pretrained text encoders.",
    version=f"robust-tickets {__version__}",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
for verb in VERBS:
    app.command(verb)


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``tickets`` and exit with its code."""
    # Spinning OpenMP threads cost a training step 6 times its time where another process wants a core too (docs/dev/log.md);
    # the setting is read when torch is loaded, which no verb has done yet.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # torch would start a thread for each of the machine's processors, also in a container that may use two of 64
    if (most := environment.allowed()) is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(most))
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader went away (`tickets ls | head -1`): not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    as_json = _flag(arguments, "--json")
    with progress.printed(quiet=_flag(arguments, "--quiet")):
        try:
            # a victim's own code may print: standard output belongs to the document
            with (
                redirect_stdout(sys.stderr) if as_json and "--help" not in arguments else nullcontext(),
                typed(progress.clean(shlex.join(["tickets", *arguments]))),
            ):
                answer = app(arguments, exit_on_error=False, print_error=False)
            return _print(answer, as_json)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt, SystemExit) as problem:
            if isinstance(problem, SystemExit) and isinstance(problem.__context__, BrokenPipeError):
                return 0  # of rich, when the reader went away (`tickets --help | head -1`)
            if _flag(arguments, "--debug"):
                progress.write(traceback.format_exc())
            message, hint, code = _words(problem)
            progress.write(f"error: {message}" + (f"\n  what to do: {hint}" if hint else ""))
            if as_json:
                print(json.dumps({"error": {"message": message, "hint": hint}, "exit_code": code}, indent=2))
            return code


def _flag(arguments: list[str], name: str) -> bool:
    return any(argument.lower() in (name, f"{name}=true", f"{name}=1") for argument in arguments)


def _print(answer: Any, as_json: bool) -> int:
    if not isinstance(answer, Answer):  # --help and --version print for themselves
        return 0
    if as_json:
        print(json.dumps(answer.data, indent=2, sort_keys=True, ensure_ascii=True))
    else:
        console = progress.console(sys.stdout)  # has escapes of its own
        with redirect_stdout(progress.Cleaned(sys.stdout)):  # type: ignore[type-var]
            answer.show(console)
    return answer.exit_code


def _words(problem: BaseException) -> tuple[str, str, int]:
    """What is wrong, what to do, and the exit code."""
    if isinstance(problem, TicketsError):
        return problem.message, problem.hint, problem.exit_code
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted", "run the same command to resume", INTERRUPTED
    if isinstance(problem, CycloptsError):
        return str(problem), _usage(problem), BAD_INPUT
    if isinstance(problem, SystemExit):  # no verb ends the process: code that a verb called did
        message = f"code that was called ended the process (exit {problem.code})"
        return message, "see that it returns, or raises an error", FAILED
    text = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
    if isinstance(problem, MemoryError) or "out of memory" in text.lower():
        hint = "lower batch_size or max_length and run the same command: finished stages are kept"
        return f"out of memory: {text}", hint, FAILED
    if isinstance(problem, OSError) or "No space left on device" in text:  # what a Rust package raises is no OSError
        return text, "check the disk and the folder's rights, then run the same command", FAILED
    hint = "run again with --debug for the traceback; finished stages are kept"
    return f"{type(problem).__name__}: {text}", hint, FAILED


def _usage(problem: CycloptsError) -> str:
    """What to type instead."""
    tokens = problem.unused_tokens or [] if isinstance(problem, UnusedCliTokensError) else []
    if settings := [token for token in tokens if "=" in token.strip("=") and not token.startswith("-")]:
        return f"a setting stands behind --set: {' '.join(f'--set {setting}' for setting in settings)}"
    return f"`{' '.join(['tickets', *(problem.command_chain or ())])} --help` lists what it takes"
