"""Export a folder that others can load: compact (smallest), dense (plain transformers) or ONNX (no Python).

The folder appears whole or not at all: it is written beside its place and renamed into it. ``export.json`` lists its files with their
hashes, so that a later export may replace it, and only it: a folder with anything else in it, or with edits, is left alone.
"""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path
from typing import Any, Literal, get_args

from robust_tickets.classifier import Classifier, ModelClassifier
from robust_tickets.classifier.base import as_model
from robust_tickets.deploy.card import Evidence, Facts, write_card
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import hold, part_of, read_json, sha256_file, sweep, write_json

Format = Literal["compact", "dense", "onnx"]
MARK = "export.json"
SCHEMA = 1


def export(
    model: Classifier, folder: str | Path, format: Format = "compact", *, evidence: Evidence | None = None
) -> Path:
    """Write ``model`` into ``folder`` with a model card, and return the folder.

    ``compact``: the small model; loads with transformers after ``import robust_tickets.auto``. ``dense``: stock shapes, zeros where the ticket
    cut; loads with transformers alone. ``onnx``: the model as it is, for ONNX Runtime. ``evidence`` is what the card may claim. A model
    masked by an unstructured ticket is dense or onnx: it has the size and the speed of the whole model.
    """
    from robust_tickets.backbone.weight_masks import masks_of

    if format not in get_args(Format):
        raise TicketsError(
            f"unknown format {format!r}", hint=did_you_mean(str(format), get_args(Format)), code="export.format"
        )
    clf = as_model(model, "exported")
    if format == "compact" and masks_of(clf.model) and not clf.model.config.model_type.startswith("ticket-"):
        raise TicketsError(
            "an unstructured ticket masks single weights, so there is no smaller model to export",
            hint="export it as dense (stock transformers reads it, zeros included) or onnx",
            code="export.unstructured",
        )
    broken = sorted(name for name, tensor in clf.model.state_dict().items() if not tensor.isfinite().all())
    if broken:
        raise TicketsError(
            f"{clf.identity} has {len(broken)} weights that are not finite, such as {broken[0]}",
            hint="the weights are broken: train again",
            exit_code=FAILED,
            code="export.not_finite",
        )
    place = Path(folder).expanduser().resolve()
    _put_back(place)
    _refuse_unless_ours(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part_of(place, folder=True) as part:
            try:
                _write(clf, part, format, evidence or Evidence())
            except TicketsError as problem:
                problem.message = problem.message.replace(str(part), str(place))
                raise
            _mark(part)
            _move(part, place)
        sweep(place, "old")
    except OSError as problem:
        why = problem.strerror or problem  # without the name of a file that is gone
        raise TicketsError(
            f"could not write {place}: {why}",
            hint="check the disk and the folder's rights",
            exit_code=FAILED,
            code="file.not_written",
        ) from None
    return place


def _write(model: ModelClassifier, folder: Path, format: str, evidence: Evidence) -> None:
    from robust_tickets.prune.compact import expand

    dense = expand(model)
    if format == "onnx":
        from robust_tickets.deploy import onnx

        onnx.write(model, folder, dense.model.config)
    else:
        (dense if format == "dense" else model).save_pretrained(folder)
    write_card(folder, _facts(model, dense, format), evidence)


def _facts(model: ModelClassifier, dense: ModelClassifier, format: str) -> Facts:
    from robust_tickets.backbone.layout import layout_of
    from robust_tickets.backbone.weight_masks import masks_of

    layout, masks = layout_of(dense.model), masks_of(model.model).values()
    return Facts(
        format=format,
        family=layout.family,
        model_type=(model if format == "compact" else dense).model.config.model_type,
        labels=model.labels,
        columns=model.columns,
        max_length=model.max_length,
        parameters=sum(p.numel() for p in model.model.parameters()),
        dense_parameters=sum(p.numel() for p in dense.model.parameters()),
        heads=tuple(zip(layout.heads_of(model.model), layout.heads_of(dense.model), strict=True)),
        neurons=tuple(zip(layout.neurons_of(model.model), layout.neurons_of(dense.model), strict=True)),
        weights=(sum(int(mask.sum()) for mask in masks), sum(mask.numel() for mask in masks)) if masks else None,
    )


def _mark(folder: Path) -> None:
    """List every file of the export; written last."""
    write_json(
        folder / MARK, {"schema": SCHEMA, "files": {name: sha256_file(path) for name, path in _files(folder).items()}}
    )


def _files(folder: Path) -> dict[str, Path]:
    """Everything below ``folder`` that is not a plain directory, by relative name, except the mark."""
    found = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_symlink() or not p.is_dir()}
    found.pop(MARK, None)
    return found


def _refuse_unless_ours(place: Path) -> None:
    """Only a missing or empty folder, or an untouched earlier export, is written to."""
    if not place.exists():
        return
    hint = "give another folder, or remove this one yourself"
    if not place.is_dir():
        raise TicketsError(f"{place} is a file, expected a folder", hint=hint, code="export.not_a_folder")
    if not any(place.iterdir()):
        return
    if not (place / MARK).is_file():
        raise TicketsError(
            f"{place} is not empty and not an earlier export ({MARK} is missing)",
            hint=hint,
            code="export.foreign_folder",
        )
    listed: Any = read_json(place / MARK)
    listed = listed.get("files") if isinstance(listed, dict) else None
    for name, path in _files(place).items():
        if not isinstance(listed, dict) or name not in listed:
            raise TicketsError(f"{place} holds {name}, which no export wrote", hint=hint, code="export.foreign_folder")
        if path.is_symlink() or not path.is_file() or sha256_file(path) != listed[name]:
            raise TicketsError(
                f"{place / name} was changed after it was exported", hint=hint, code="export.foreign_folder"
            )


def _move(part: Path, place: Path) -> None:
    """Put the finished folder in its place; an earlier export steps aside first and goes last."""
    if not place.exists():
        part.rename(place)
        return
    aside, held = part.with_suffix(".old"), hold(place)
    place.rename(aside)
    try:
        part.rename(place)
    except BaseException:
        aside.rename(place)
        raise
    finally:
        if held is not None:
            os.close(held)
    shutil.rmtree(aside, ignore_errors=True)


def _put_back(place: Path) -> None:
    """Where a process was killed while it put a new export in the place of an earlier one, that one is at neither place."""
    for aside in () if place.exists() else place.parent.glob(f".{glob.escape(place.name)}.*.old"):
        held = hold(aside)
        if held is not None:
            aside.rename(place)
            os.close(held)
            return
