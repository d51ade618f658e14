"""An attack's folder → values; whatever is missing or odd is left out, and a note says so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.files import listed, mapping
from robust_tickets.measure.metrics import FAILED, STATUSES, SUCCESS, UNKNOWN
from robust_tickets.report.fields import interval, number, optional, percent_interval
from robust_tickets.report.model import Attack, Example

ABOUT = (
    "semantics", "compat", "scoring", "temperature", "calibration", "subset", "query_budget", "precision", "unconfirmed", "seen",
    "constraints", "resources", "model", "task", "words", "outcomes", "spread", "digest", "env",
)  # fmt: skip


def read_attack(folder: Path, notes: list[str]) -> Attack | None:
    found = optional(folder / "result.json", notes)
    if not found:
        return None
    n = int(number(found.get("n")) or 0)
    value = {
        key: number(found.get(key))
        for key in ("clean", "aua", "suc", "queries", "perturbed", "similarity", "clean_full", "seconds")
    }
    given = mapping(found.get("intervals"))
    intervals = {key: interval(given.get(key)) or percent_interval(value[key], n) for key in ("clean", "aua")}
    intervals |= {key: interval(given.get(key)) for key in ("suc", "queries", "perturbed", "similarity")}
    name, flags = found.get("attack"), listed(found.get("flags") or [])
    codes = listed(found.get("flag_codes") or [])
    errors = found.get("errors")
    passes, seed = number(found.get("forward_passes")), number(found.get("seed"))
    key, task, ids = (
        mapping(optional(folder / "stage.json", []).get("key")),
        mapping(found.get("task")),
        found.get("ids") or (),
    )
    return Attack(
        key="",  # given once all arms are read
        plan={**mapping(key.get("plan")), "data": key.get("split")} if key.get("plan") else {},
        split=str(task.get("split") or (str(ids[0]).rpartition(":")[0] if ids else "")),
        name=str(name.get("name", "attack")) if isinstance(name, Mapping) else str(name or "attack"),
        n=n,
        **{key: value[key] for key in value},  # type: ignore[arg-type]
        forward_passes=None if passes is None else int(passes),
        seed=None if seed is None else int(seed),
        errors=len(errors) if isinstance(errors, list | dict) else int(number(errors) or 0),
        attacked=_attacked(mapping(found.get("outcomes"))),
        intervals={key: ends for key, ends in intervals.items() if ends is not None},
        flags=tuple(_flag(flag) for flag in flags),
        codes=tuple(map(str, codes)) if len(codes) == len(flags) else ("",) * len(flags),
        ids=tuple(map(str, ids)),
        examples=tuple(_examples(folder / "examples.jsonl", len(ids), notes)),
        about={k: found[k] for k in ABOUT if k in found},
    )


def _attacked(outcomes: Mapping[str, Any]) -> int | None:
    success, failed, unknown = (number(outcomes.get(status)) for status in (SUCCESS, FAILED, UNKNOWN))
    return None if success is None or failed is None else int(success + failed + (unknown or 0))


def _examples(path: Path, expected: int, notes: list[str]) -> list[Example]:
    if not path.is_file():
        return []
    found, bad = [], 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                row = json.loads(line)
                texts = [
                    None if row.get(k) is None else tuple(map(str, listed(row[k]))) for k in ("original", "perturbed")
                ]
                status = str(row["status"])
                if status not in STATUSES:
                    raise ValueError(status)
                counts = {key: number(row.get(key)) for key in ("queries", "fell_at", "words", "words_changed")}
                found.append(
                    Example(
                        id=str(row["id"]),
                        label=row.get("label"),
                        status=status,
                        original=texts[0] or (),
                        perturbed=texts[1],
                        predicted=row.get("predicted_after"),
                        error=str(row.get("error") or ""),
                        similarity=number(row.get("similarity")),
                        **{key: None if value is None else int(value) for key, value in counts.items()},
                    )
                )
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
                bad += 1
    if bad:
        notes.append(f"{path.parent.name}/{path.name}: {bad} lines could not be read and are left out")
    if (lost := expected - len(found) - bad) > 0:
        notes.append(
            f"{path.parent.name}/{path.name}: {lost} of {expected} lines are missing; models are compared without these texts"
        )
    return found


def _flag(flag: Any) -> str:
    if isinstance(flag, Mapping):
        return ": ".join(str(flag[key]) for key in ("name", "flag", "message", "why", "detail") if flag.get(key))
    return str(flag)
