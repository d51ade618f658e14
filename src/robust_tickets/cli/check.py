"""The verb ``check``: measured numbers against thresholds, for CI. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.progress import warn

PERCENT = ("clean", "clean_full", "aua")
MEASURES = (*PERCENT, "queries", "similarity", "n")  # of result.json, those of which more is better
GATE_FAILED = 1
EVERY_DEGENERATE = "degenerate"  # stands for all codes in DEGENERATE
Floors = Annotated[tuple[str, ...], Parameter(name="--min", negative="", consume_multiple=False)]
Codes = Annotated[tuple[str, ...], Parameter(name="--fail-on", negative="", consume_multiple=False)]


class Measured(NamedTuple):
    """The numbers of one arm under one attack; ``attack`` is empty where an arm was not attacked."""

    arm: str
    attack: str
    values: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float] | None]
    flags: tuple[tuple[str, str], ...]  # code and text


def check(
    run: str,
    *,
    floors: Floors = (),
    fail_on: Codes = (),
    interval: Annotated[bool, Parameter(negative="")] = False,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """A gate for CI: exits with 0 if every number is at least what is asked for, with 1 if not, and says which.

    Flags are repeated and decide only under --fail-on, but for failed-examples, which always fails; where a number that a flag makes
    meaningless passes, a warning says so.

    Parameters
    ----------
    run
        A run folder, whose every arm must pass, under every attack; RUN:ARM for one arm; or a folder that `tickets attack` wrote.
    floors
        MEASURE=NUMBER, any number of times, such as clean=90 or aua=25: of clean, clean_full, aua (percent), queries, similarity, n.
    fail_on
        A flag's code, any number of times, such as few-examples or substitute: what has the flag fails, whatever its numbers.
        degenerate stands for one-answer and unmoved, which take the meaning out of the numbers.
    interval
        Judge the lower end of the 95 % interval instead of the number itself.
    """
    from robust_tickets.attack.flags import DEGENERATE

    wanted, unwanted = [_floor(given) for given in floors], _codes(fail_on)
    if not wanted and not unwanted:
        hint = "--min clean=90 --min aua=25 --fail-on degenerate"
        raise TicketsError("check: no --min is given, and no --fail-on", hint=hint, code="check.nothing")
    rows = list(measured(run))
    gates = [gate for row in rows for gate in _gates(row, wanted, unwanted, interval)]
    passed = all(gate["passed"] for gate in gates)
    flags = list(dict.fromkeys(text for row in rows for _, text in row.flags))
    doubtful = [(row, text) for row in rows for code, text in row.flags if passed and code in DEGENERATE]
    warnings = [f"{_called(row.arm, row.attack)}: {text}" for row, text in doubtful]
    for text in warnings:
        warn(f"check: passed, but do not rely on it: {text}")

    def show(console: Any) -> None:
        for gate in gates:
            print(f"{'pass' if gate['passed'] else 'FAIL'}  {_called(gate['arm'], gate['attack'])}: {gate['said']}")
        for flag in flags:
            print(f"flag: {flag}")
        print(f"{sum(gate['passed'] for gate in gates)} of {len(gates)} passed")

    return Answer(
        data={"run": run, "passed": passed, "interval": interval, "gates": gates, "flags": flags, "warnings": warnings},
        show=show,
        exit_code=0 if passed else GATE_FAILED,
    )


def _called(arm: str, attack: str) -> str:
    return f"{arm}, {attack}" if attack else arm


def _floor(given: str) -> tuple[str, float]:
    name, _, value = (part.strip() for part in given.partition("="))
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if name not in MEASURES or not 0 <= least <= (100 if name in PERCENT else 1e300):
        raise TicketsError(
            f"--min {given}: expected MEASURE=NUMBER, at most 100 for a percentage",
            hint=f"for example aua=25; {did_you_mean(name, MEASURES)}",
            code="check.floor",
        )
    return name, least


def _codes(given: tuple[str, ...]) -> list[str]:
    from robust_tickets.attack.flags import CODES, DEGENERATE

    known = {**{code: (code,) for code in CODES}, EVERY_DEGENERATE: DEGENERATE}
    for code in given:
        if code not in known:
            hint = did_you_mean(code, known)
            raise TicketsError(f"--fail-on {code}: no flag has this code", hint=hint, code="check.flag")
    return list(dict.fromkeys(code for one in given for code in known[one]))


def _gates(
    row: Measured, floors: Sequence[tuple[str, float]], unwanted: Sequence[str], interval: bool
) -> Iterator[dict[str, Any]]:
    """What is asked of an arm. What was not measured does not pass: a gate must not open because nothing was looked at."""
    from robust_tickets.attack.flags import FAILED_EXAMPLES, ONE_ANSWER

    about: dict[str, Any] = {"arm": row.arm, "attack": row.attack}
    for name, least in floors:
        value, ends, by_interval = row.values.get(name), row.intervals.get(name), interval and name != "n"
        judged = value if not by_interval else ends[0] if ends else None
        passed, unit = judged is not None and judged >= least, " %" if name in PERCENT else ""
        what = f"{name}, lower end of the interval," if by_interval else name
        # with as many digits as result.json keeps, so that no number looks equal to its floor
        found = "was not measured" if judged is None else f"{round(judged, 4):.10g}{unit}"
        words = f"{what} {found} is {'at least' if passed else 'below'} {least:g}{unit}"
        about |= {"measure": name, "min": least, "value": value, "interval": ends and list(ends), "judged": judged}
        yield {**about, "passed": passed, "said": words}
    codes = {code for code, _ in row.flags}
    if asked := [*unwanted, *({FAILED_EXAMPLES} & codes - {*unwanted})]:
        flagged = [code for code in asked if code in codes]
        # of an arm that was not attacked no more than one-answer can be known
        unknown = [code for code in asked if code != ONE_ANSWER and not row.attack and not flagged]
        words = f"flagged {', '.join(flagged)}" if flagged else f"not flagged {', '.join(asked)}"
        words = f"not attacked, so that {', '.join(unknown)} are not known" if unknown else words
        about |= {"measure": "flags", **dict.fromkeys(("min", "value", "interval", "judged"))}
        yield {**about, "passed": not flagged and not unknown, "codes": flagged, "said": words}


def measured(run: str) -> Iterator[Measured]:
    """What was measured in a run, in one arm of it, or in an attack's folder; a part that is missing is an error, not a pass."""
    from robust_tickets.attack.flags import ONE_ANSWER
    from robust_tickets.attack.result import RESULT
    from robust_tickets.files import listed, mapping, read_json
    from robust_tickets.report.run_data import read_attacks, read_run
    from robust_tickets.report.verdict import one_answer

    folder, wanted = Path(run), ""
    if not folder.exists() and ":" in run:
        folder, wanted = Path(run.rpartition(":")[0]), run.rpartition(":")[2]
    lone = not (folder / "arms.json").is_file() and (folder / RESULT).is_file()
    found = read_attacks([folder]) if lone else read_run(folder)
    entries = [] if lone else listed(mapping(read_json(folder / "arms.json")).get("arms"))
    attacks = sum(len(listed(mapping(entry).get("attacks"))) for entry in entries)
    # tickets, logs and texts, which may have been left behind, hold no number that is asked for
    unread = not lone and (
        any(arm.evaluation is None for arm in found.arms) or attacks > sum(len(arm.attacks) for arm in found.arms)
    )
    if found.notes and unread:
        hint = "run the command that made it again"
        raise TicketsError(f"{folder}: {'; '.join(found.notes)}", hint=hint, code="check.damaged")
    arms = {folder.name or str(folder) if lone else arm.name: arm for arm in found.arms}
    if not arms or (wanted and (lone or wanted not in arms)):
        known = did_you_mean(wanted, () if lone else arms)
        raise TicketsError(f"{folder} has no arm {wanted!r}", hint=known, code="check.no_arm")
    for name, arm in arms.items():
        if wanted in ("", name):
            whole = {"clean_full": arm.evaluation.accuracy} if arm.evaluation else {}
            ends = {"clean_full": arm.evaluation.interval} if arm.evaluation else {}
            only = one_answer(arm.evaluation.per_class) if arm.evaluation else None
            constant = ((ONE_ANSWER, f"one answer: the model gives every row the class {only}"),) if only else ()
            for attack in arm.attacks:
                values = {measure: getattr(attack, measure) for measure in MEASURES} | whole
                more = () if ONE_ANSWER in attack.flag_codes else constant
                flags = (*zip(attack.flag_codes, attack.flags, strict=True), *more)
                yield Measured(name, attack.attack, values, {**ends, **attack.intervals}, flags)
            if not arm.attacks:  # all that is known of it is its accuracy
                clean = {"clean": whole.get("clean_full"), **whole}
                yield Measured(name, "", clean, {"clean": ends.get("clean_full"), **ends}, constant)
