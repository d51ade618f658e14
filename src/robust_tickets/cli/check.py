"""The verb ``check``: measured numbers against thresholds, for CI. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.progress import warn

if TYPE_CHECKING:
    from robust_tickets.attack.flags import Flag

MEASURES = ("clean", "clean_full", "aua", "queries", "similarity", "n")  # of result.json, those of which more is better
PERCENT = MEASURES[:3]
GATE_FAILED = 1
EVERY_DEGENERATE = "degenerate"  # stands for all codes in DEGENERATE
Floors = Annotated[tuple[str, ...], Parameter(name="--min", negative="", consume_multiple=False)]
Codes = Annotated[tuple[str, ...], Parameter(name="--fail-on", negative="", consume_multiple=False)]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The numbers of one arm under one attack; ``attack`` is empty where an arm was not attacked."""

    arm: str
    attack: str
    values: Mapping[str, Any]
    intervals: Mapping[str, Any]
    flags: tuple[Flag, ...]


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
        raise TicketsError(
            "check: at least how much of what? no --min is given, and no --fail-on",
            hint="--min clean=90 --min aua=25 --fail-on degenerate",
        )
    rows = list(measured(run))
    gates = [
        gate
        for row in rows
        for gate in (*(_gate(row, *floor, interval) for floor in wanted), *_unflagged(row, unwanted))
    ]
    passed = all(gate["passed"] for gate in gates)
    flags = list(dict.fromkeys(flag.text for row in rows for flag in row.flags))
    warnings = [
        f"{_where(row.arm, row.attack)}: {flag.text}"
        for row in rows
        for flag in row.flags
        if passed and flag.code in DEGENERATE
    ]
    for text in warnings:
        warn(f"check: passed, but do not rely on it: {text}")

    def show(console: Any) -> None:
        for gate in gates:
            print(f"{'pass' if gate['passed'] else 'FAIL'}  {_where(gate['arm'], gate['attack'])}: {gate['said']}")
        for flag in flags:
            print(f"flag: {flag}")
        print(f"{sum(gate['passed'] for gate in gates)} of {len(gates)} passed")

    return Answer(
        data={"run": run, "passed": passed, "interval": interval, "gates": gates, "flags": flags, "warnings": warnings},
        show=show,
        exit_code=0 if passed else GATE_FAILED,
    )


def _where(arm: str, attack: str) -> str:
    return ", ".join(filter(None, (arm, attack)))


def _floor(given: str) -> tuple[str, float]:
    name, _, value = (part.strip() for part in given.partition("="))
    if name not in MEASURES:
        raise TicketsError(f"--min {given}: {name!r} is nothing that is measured", hint=did_you_mean(name, MEASURES))
    try:
        least = float(value)
    except ValueError:
        least = math.nan
    if not math.isfinite(least) or least < 0 or (name in PERCENT and least > 100):
        raise TicketsError(
            f"--min {given}: {value!r} is no {'percentage from 0 to 100' if name in PERCENT else 'number'}",
            hint="for example aua=25",
        )
    return name, least


def _codes(given: tuple[str, ...]) -> tuple[str, ...]:
    from robust_tickets.attack.flags import CODES, DEGENERATE

    for code in given:
        if code not in (EVERY_DEGENERATE, *CODES):
            raise TicketsError(
                f"--fail-on {code}: no flag has this code", hint=did_you_mean(code, (EVERY_DEGENERATE, *CODES))
            )
    return tuple(dict.fromkeys(code for one in given for code in (DEGENERATE if one == EVERY_DEGENERATE else (one,))))


def _gate(row: Measured, name: str, least: float, interval: bool) -> dict[str, Any]:
    """A number that was not measured does not pass: a gate must not open because nothing was looked at."""
    value, ends = row.values.get(name), row.intervals.get(name)
    judged = (ends[0] if ends else value if name == "n" else None) if interval else value
    passed = judged is not None and judged >= least
    unit = " %" if name in PERCENT else ""
    if judged is None:
        said = f"{name} {'has no interval' if interval and value is not None else 'was not measured'}, at least {least:g}{unit} is wanted"
    else:
        what = f"{name}, lower end of the interval," if interval and ends else name
        said = f"{what} {_short(judged)}{unit} is {'at least' if passed else 'below'} {least:g}{unit}"
    return {
        "arm": row.arm, "attack": row.attack, "measure": name, "min": least, "value": value, "interval": ends and list(ends),
        "judged": judged, "passed": passed, "said": said,
    }  # fmt: skip


def _unflagged(row: Measured, unwanted: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """One gate for all codes that are to fail, none where there are none. It stays shut for an arm that was not attacked, of which no
    more than one-answer can be known.
    """
    from robust_tickets.attack.flags import FAILED_EXAMPLES, ONE_ANSWER

    if FAILED_EXAMPLES not in unwanted and any(flag.code == FAILED_EXAMPLES for flag in row.flags):
        unwanted = (FAILED_EXAMPLES, *unwanted)
    if unwanted:
        found = [code for code in unwanted if any(flag.code == code for flag in row.flags)]
        unknown = [code for code in unwanted if code != ONE_ANSWER] if not row.attack and not found else []
        yield {
            "arm": row.arm, "attack": row.attack, "measure": "flags", "min": None, "value": None, "interval": None, "judged": None,
            "passed": not found and not unknown, "codes": found,
            "said": f"flagged {', '.join(found)}" if found else f"not attacked, so that {', '.join(unknown)} are not known" if unknown
            else f"not flagged {', '.join(unwanted)}",
        }  # fmt: skip


def _short(value: float) -> str:
    # as many digits as result.json keeps, so that no number looks equal to its floor
    return f"{value:.4f}".rstrip("0").rstrip(".")


def measured(run: str) -> Iterator[Measured]:
    """What was measured in a run, in one arm of it, or in an attack's folder; a part that is missing is an error, not a pass."""
    from robust_tickets.attack.result import RESULT
    from robust_tickets.report.run_data import no_result

    folder, arm = Path(run), ""
    if not folder.exists() and ":" in run:
        folder, arm = Path(run.rpartition(":")[0]), run.rpartition(":")[2]
    if (folder / "arms.json").is_file():
        yield from _arms(folder, arm)
    elif (folder / RESULT).is_file():
        if arm:
            raise TicketsError(
                f"{run}: {folder} is an attack, which has no arms", hint=f"tickets check {folder} --min …"
            )
        yield _attacked("", folder, {}, {})
    else:
        raise no_result(folder)


def _arms(folder: Path, wanted: str) -> Iterator[Measured]:
    from robust_tickets.attack.flags import ONE_ANSWER, Flag
    from robust_tickets.files import listed, mapping, read_json
    from robust_tickets.report.run_data import inside, interval, number
    from robust_tickets.report.verdict import one_answer

    about = mapping(read_json(folder / "arms.json"))
    arms = {str(mapping(entry).get("name")): mapping(entry) for entry in listed(about.get("arms") or [])}
    if not arms or (wanted and wanted not in arms):
        raise TicketsError(
            f"{folder} has no arm {wanted!r}" if arms else f"{folder} has no arm", hint=did_you_mean(wanted, arms)
        )
    for name, entry in arms.items():
        if wanted and name != wanted:
            continue
        notes: list[str] = []
        train = inside(folder, entry.get("train"), notes)
        attacks = [inside(folder, path, notes) for path in listed(entry.get("attacks") or [])]
        if notes:
            raise TicketsError(f"{folder}: {notes[0]}", hint="run the command that made it again")
        evaluation = (
            mapping(read_json(train / "evaluation.json")) if train and (train / "evaluation.json").is_file() else {}
        )
        whole, ends = number(evaluation.get("accuracy")), interval(evaluation.get("interval"))
        values, intervals = {"clean_full": whole}, {"clean_full": ends} if ends else {}
        only = one_answer([mapping(row) for row in listed(evaluation.get("per_class") or [])])
        constant = (
            () if only is None else (Flag(ONE_ANSWER, f"one answer: the model gives every row the class {only}"),)
        )
        for attack in filter(None, attacks):
            yield _attacked(name, attack, values, intervals, constant)
        if not attacks:  # all that is known of it is its accuracy
            both = {**intervals, **({"clean": ends} if ends else {})}
            yield Measured(arm=name, attack="", values={**values, "clean": whole}, intervals=both, flags=constant)


def _attacked(
    arm: str, folder: Path, values: Mapping[str, Any], intervals: Mapping[str, Any], constant: tuple[Flag, ...] = ()
) -> Measured:
    """``constant``: the flag of an evaluation that saw one answer; the result may have it too."""
    from robust_tickets.attack.flags import ONE_ANSWER, Flag
    from robust_tickets.attack.result import AttackResult
    from robust_tickets.report.run_data import interval, number

    found = AttackResult.load(folder)
    own = {name: number(getattr(found, name)) for name in MEASURES}
    ends = {name: pair for name, given in found.intervals.items() if (pair := interval(given)) is not None}
    more = () if ONE_ANSWER in found.flag_codes else constant
    return Measured(
        arm=arm or folder.name or str(folder),
        attack=found.attack,
        values={**own, **{name: value for name, value in values.items() if value is not None}},
        intervals={**intervals, **ends},
        flags=(*(Flag(code, text) for text, code in zip_longest(found.flags, found.flag_codes, fillvalue="")), *more),
    )
