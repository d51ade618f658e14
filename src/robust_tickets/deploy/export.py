"""Export a folder that others can load: compact (smallest), dense (plain transformers) or ONNX (no Python).

The folder appears whole or not at all: it is written beside its place and renamed into it. ``export.json`` lists its files with their
hashes, so that a later export may replace it, and only it: a folder with anything else in it, or with edits, is left alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal, get_args

from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import as_model
from robust_tickets.deploy.card import Evidence, write_card
from robust_tickets.errors import FAILED, TicketsError, did_you_mean
from robust_tickets.files import mapping, part_of, read_json, sha256_file, sweep, write_json

Format = Literal["compact", "dense", "onnx"]
MARK = "export.json"


def export(
    model: Classifier, folder: str | Path, format: Format = "compact", *, evidence: Evidence | None = None
) -> Path:
    """Write ``model`` into ``folder`` with a model card, and return the folder.

    ``compact``: the small model; loads with transformers after ``import robust_tickets.auto``. ``dense``: stock shapes, zeros where the ticket
    cut; loads with transformers alone. ``onnx``: the model as it is, for ONNX Runtime. ``evidence`` is what the card may claim. A model
    masked by an unstructured ticket is dense or onnx: it has the size and the speed of the whole model.
    """
    from robust_tickets.backbone.weight_masks import masks_of
    from robust_tickets.prune.compact import expand

    if format not in get_args(Format):
        hint = did_you_mean(str(format), get_args(Format))
        raise TicketsError(f"unknown format {format!r}", hint=hint, code="export.format")
    clf = as_model(model, "exported")
    if format == "compact" and masks_of(clf.model) and not clf.model.config.model_type.startswith("ticket-"):
        message = "an unstructured ticket masks single weights, so there is no smaller model to export"
        raise TicketsError(message, hint="export it as dense or onnx", code="export.unstructured")
    if broken := [name for name, tensor in clf.model.state_dict().items() if not tensor.isfinite().all()]:
        message = f"{clf.identity} has {len(broken)} weights that are not finite, such as {min(broken)}"
        raise TicketsError(
            message, hint="the weights are broken: train again", exit_code=FAILED, code="export.not_finite"
        )
    place = Path(folder).expanduser().resolve()
    _check_free(place)
    dense = expand(clf)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with part_of(place, folder=True) as part:
            if format == "onnx":
                from robust_tickets.deploy import onnx

                onnx.write(clf, part, dense.model.config)
            else:
                (dense if format == "dense" else clf).save_pretrained(part)
            write_card(part, clf, dense, format, evidence or Evidence())
            write_json(part / MARK, {"schema": 1, "files": _files(part)})
            _move(part, place)
        sweep(place, "old")
    except OSError as problem:
        message, hint = (
            f"could not write {place}: {problem.strerror or problem}",
            "check the disk and the folder's rights",
        )
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="file.not_written") from None
    return place


def _files(folder: Path) -> dict[str, str]:
    """The hash of every file below ``folder``, by its relative name."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / MARK]
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}


def _check_free(place: Path) -> None:
    """Refuse all but a missing or empty folder and an untouched earlier export."""
    if not place.exists() or (place.is_dir() and not any(place.iterdir())):
        return
    listed = mapping(mapping(read_json(place / MARK)).get("files")) if (place / MARK).is_file() else {}
    changed = [name for name, sha256 in _files(place).items() if listed.get(name) != sha256]  # what is gone is not lost
    if not listed or changed:
        what = f"was changed since it was exported ({changed[0]})" if listed else "is not an empty folder"
        hint = "give another folder, or remove this one yourself"
        raise TicketsError(f"{place} {what}", hint=hint, code="export.foreign_folder")


def _move(part: Path, place: Path) -> None:
    """Put the finished folder in its place; an earlier export steps aside first and goes last."""
    aside = part.with_suffix(".old")
    if place.exists():
        place.rename(aside)
    try:
        part.rename(place)
    except BaseException:
        if aside.exists():
            aside.rename(place)
        raise
    shutil.rmtree(aside, ignore_errors=True)
