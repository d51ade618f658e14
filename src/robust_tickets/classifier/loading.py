"""load_classifier: from a name and a task to a Classifier."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier import checkpoint
from robust_tickets.classifier.base import MAX_LENGTH, Classifier, checked_labels
from robust_tickets.classifier.checkpoint import (
    check_head,
    fitting,
    labels_of_config,
    put_back,
    read_about,
    with_labels,
)
from robust_tickets.classifier.classifier import ModelClassifier
from robust_tickets.classifier.encode import own_length, positions_of
from robust_tickets.classifier.pretrained import has_weights, read_config
from robust_tickets.classifier.tokenizer import read_tokenizer
from robust_tickets.environment import device_of
from robust_tickets.errors import DamagedError, TicketsError
from robust_tickets.files import read_json, within
from robust_tickets.progress import say

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


def load_classifier(
    name: str | Path,
    task: Any = None,
    *,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    device: str | None = None,
) -> Classifier:
    """A classifier from a folder, an embedded name ("minilm"), a Hub id, a run or one arm of it (``"RUN:ARM"``), for the labels of
    ``task`` (or ``labels``).

    A checkpoint's own head is kept where its label names are the wanted ones, in whatever order; else a new head is drawn from
    ``seed``, which takes a family with a layout. Without wanted labels the checkpoint must bring a head, and may be of any family that
    transformers has. ``max_length`` defaults to what was saved with it; where nothing was, to 128 for a task (all three papers train
    with it), and else to what the tokenizer says, at most 512. An ONNX file, or a folder with one and no other weights, can be asked and
    attacked, not trained: it takes no task, and ``labels`` are the names of its outputs.
    """
    place = device_of(device)
    if dtype not in ("float32", "bfloat16", "float16", "float64"):
        raise TicketsError(f"unknown dtype {dtype!r}", hint="one of float32, bfloat16, float16, float64")
    if isinstance(task, str | Path):
        raise TicketsError(
            f"expected a loaded task, got {str(task)!r}", hint=f"task = rt.load_task({str(task)!r}), then give task"
        )
    if not isinstance(name, str | os.PathLike):
        raise TicketsError(
            f"expected a model's folder or name, got {name!r:.60} ({type(name).__name__})",
            hint='give a folder, a Hub id, "RUN:ARM" or an ONNX file',
        )
    path = model_path(name)
    if (graph := graph_of(path)) is not None:
        return _graph(graph, task, labels, max_length, dtype, device)
    if (beside := graph_beside(path)) is not None:
        say(f"{path} holds weights and a graph: the weights are opened; for the graph, give {beside}")
    found = checkpoint.find_checkpoint(name if path == Path(name) else path)
    config = read_config(found.folder)
    about = read_about(found.folder)
    wanted = (
        checked_labels(labels if labels is not None else task.labels)
        if labels is not None or task is not None
        else None
    )
    if wanted is None or fitting(config, wanted) is not None:
        check_head(config, found.identity)
    else:
        layout_of(config)  # a new head is for training; a family that cannot be is refused before its weights are read
    tokenizer = read_tokenizer(found.folder, getattr(config, "vocab_size", None))
    model, lacks = checkpoint.read_model(found.folder, config, dtype=dtype, seed=seed)
    headless = _headless(lacks, checkpoint.other_head(config))
    if wanted is None:
        if headless:
            raise TicketsError(f"{found.identity} {headless[0]}", hint=f"{headless[1]}, give a task or labels=[...]")
        wanted = labels_of_config(config)
    model, kept = with_labels(model, wanted, has_head=not headless, seed=seed)
    if headless and not lacks.head:
        say(f"{found.identity} {headless[0]}; a new head is made for {', '.join(wanted)}")
    elif not headless and not kept:
        say(
            f"{found.identity}: its head knows {', '.join(labels_of_config(config))}; a new one is made for {', '.join(wanted)}"
        )
    if about.masked:
        put_back(model, found.folder)
    limit = positions_of(model)
    ours = about.max_length or (MAX_LENGTH if task is not None or labels is not None else None)
    default = min(ours, limit or ours) if ours else own_length(tokenizer, limit)
    length = max_length if max_length is not None else default
    columns = task.columns if task is not None else about.columns
    model.to(place)
    return ModelClassifier(
        model=model, tokenizer=tokenizer, labels=wanted, max_length=length, identity=found.identity, columns=columns
    )


def _graph(
    path: Path, task: Any, labels: Sequence[str] | None, max_length: int | None, dtype: str, device: str | None
) -> Classifier:  # fmt: skip
    from robust_tickets.classifier.onnx import open_onnx

    if task is not None:
        raise TicketsError(
            f"{path} is a graph that answers and cannot be trained, searched or exported; a task was given to fit it to",
            hint="leave the task out to ask or attack it; to train, give the folder of weights that it was made from",
        )
    if dtype != "float32" or device not in (None, "cpu"):
        raise TicketsError(
            f"{path}: an ONNX file runs as it is, on the CPU; got dtype={dtype!r}, device={device!r}",
            hint="leave them out",
        )
    return open_onnx(path, labels=labels, max_length=max_length)


def _headless(lacks: checkpoint.Lacks, other: str) -> tuple[str, str] | None:
    """What keeps a checkpoint's head from being used, and what to do about it; none where nothing does."""
    train = "give a model that was trained to classify; to train a new head"
    if other:
        return f"has no classification head for whole texts: it is a {other}", train
    if lacks.head:
        return f"has no classification head (it lacks {lacks.head})", train
    if lacks.pooler:  # no head was ever trained on a pooler that is not there
        words = f"has a classification head, but not the pooler that it reads (it lacks {lacks.pooler})"
        return (
            words,
            "save the model again with its pooler, or copy it again from where it was trained; to train a new pooler and head",
        )
    return None
