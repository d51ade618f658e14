"""What a run knows about one of its models: the files that lie around ``train/<hash8>/model`` in a run folder.

A damaged one is warned of and says nothing: the model can be shipped all the same, with less on its card. One that names files outside
of the run folder is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.deploy.card import Evidence
from robust_tickets.files import listed, mapping, within
from robust_tickets.run import record


def evidence_of(model_folder: str | Path, **over: Any) -> Evidence:
    """The Evidence for a model that a run trained; for any other folder, only what ``over`` says. ``over`` wins where both speak."""
    stage = Path(model_folder).resolve().parent
    run = stage.parent.parent
    found: dict[str, Any] = {}
    if (stage / "stage.json").is_file() and (stage / "evaluation.json").is_file():
        found = {"evaluation": record(stage / "evaluation.json") or None} | _adversary(stage)
    if found and (run / "arms.json").is_file():
        found |= _of_run(run, f"{stage.parent.name}/{stage.name}")
    return Evidence(**{**found, **{key: value for key, value in over.items() if value}})


def _adversary(stage: Path) -> dict[str, Any]:
    """What the model was trained against, and the words it was swapped with."""
    told = mapping(mapping(mapping(record(stage / "stage.json").get("key")).get("train")).get("adversary"))
    words = mapping(record(stage / "adversary.json").get("resources"))
    return {"adversary": str(told.get("name", "")), "words": tuple(words.values())}


def _of_run(run: Path, stage: str) -> dict[str, Any]:
    about = record(run / "arms.json")
    for arm in map(mapping, listed(about.get("arms"))):
        if arm.get("train") == stage:
            title = str(arm.get("title", ""))
            return {
                "name": title,
                "method": _method(run, arm) or title,
                "base": str(about.get("model", "")),
                "task": str(mapping(about.get("task")).get("name", "")),
                "attacks": tuple(
                    filter(
                        None, (record(within(run, str(name)) / "result.json") for name in listed(arm.get("attacks")))
                    )
                ),
            }
    return {}


def _method(run: Path, arm: Mapping[str, Any]) -> str:
    """The search's name as its ticket tells it; a run without a search trained the whole model."""
    place = arm.get("ticket") or arm.get("search")
    if not place:
        return "fine-tuned, not pruned"
    told = mapping(record(within(run, str(place)) / "ticket.json").get("provenance")).get("method", "")
    return str(told.get("name", "")) if isinstance(told, Mapping) else str(told)
