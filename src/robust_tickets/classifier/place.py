"""Where a model lies that is named as the commands name it: a folder, a Hub id, a run or one arm of it, an ONNX file or folder."""

from __future__ import annotations

from pathlib import Path

from robust_tickets.classifier.pretrained import has_weights
from robust_tickets.errors import DamagedError, TicketsError
from robust_tickets.files import read_json, within

GRAPH = "model.onnx"


def model_folder(run: Path, arm: str = "") -> Path:
    """Where the model of an arm of a finished run lies; a run of one arm needs no name."""
    about = run / "arms.json"
    try:
        rows = {row["name"]: within(run, row["train"]) / "model" for row in read_json(about)["arms"]}
    except (KeyError, TypeError):
        rows = {}
    if not rows:
        raise DamagedError(
            f"{about} names no models", hint="the file is damaged: the command that made the run writes it again"
        )
    if arm not in rows and (arm or len(rows) > 1):
        said = f"has no arm {arm!r}" if arm else f"trained {len(rows)} models"
        raise TicketsError(f"{run} {said}", hint="name one: " + ", ".join(f"{run}:{name}" for name in rows))
    return rows[arm] if arm else next(iter(rows.values()))


def model_path(model: str | Path) -> Path:
    """A run folder stands for its model, ``RUN:ARM`` for that of one arm; any other name for itself."""
    if "://" in str(model):
        hint = "a model of the Hub is named OWNER/NAME; one from elsewhere is downloaded first: give its folder"
        raise TicketsError(f"{model} is an address, expected a folder, a Hub id or RUN:ARM", hint=hint)
    run, _, arm = str(model).rpartition(":")
    there, begun = Path(model).expanduser(), Path(run).expanduser()
    if run and not there.exists() and (begun / "arms.json").is_file():
        return model_folder(begun, arm)
    if run and len(run) > 1 and not there.exists():  # C: is no run; no Hub id has a colon
        what = "is not finished" if (begun / "config.json").is_file() else "is no run folder"
        raise TicketsError(
            f"{model}: {run} {what}",
            hint="`tickets ls runs` lists them; an unfinished one goes on with the command that began it",
        )
    return model_folder(there) if (there / "arms.json").is_file() else Path(model)


def graph_of(path: Path) -> Path | None:
    """The ONNX file that ``path`` is, or that lies in it without weights: these can be trained, pruned and run on a GPU, and come first."""
    there = path.expanduser()
    if there.suffix == ".onnx":
        return there
    return there / GRAPH if (there / GRAPH).is_file() and not has_weights(there) else None


def graph_beside(path: Path) -> Path | None:
    """The ONNX file that lies in the folder ``path`` beside weights, and is not the one that opens."""
    graph = path.expanduser() / GRAPH
    return graph if graph.is_file() and has_weights(graph.parent) else None
