"""The masked-language model that a classifier's encoder was pretrained with: its weights, its pretrained head.

A search on masked words is about theta_0, the classifier's encoder, so its weights are used whatever the checkpoint with the head
holds; where the two differ, the log says so. A head that the checkpoint lacks is never drawn at random: a ticket of the noise it makes would
look like any other.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.backbone.layout import code_of_layout, encoder_of, layout_of
from robust_tickets.classifier.loading import Checkpoint, find_checkpoint, unmapped
from robust_tickets.classifier.pretrained import check_weights, load_model, read_config, weight_files
from robust_tickets.classifier.tokenizer import digest_of, has_tokenizer, read_tokenizer
from robust_tickets.config import canonical, digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.progress import say

if TYPE_CHECKING:
    from robust_tickets.classifier.classifier import ModelClassifier

HOW = "search a model that has one (bert-base-uncased, roberta-base), or name a checkpoint of this backbone that does: mlm=FOLDER"


def masked_model(clf: ModelClassifier, name: str | Path | None = None) -> Any:
    """The masked-language model around a copy of ``clf``'s encoder, with the head of checkpoint ``name`` (by default ``clf``'s own)."""
    from robust_tickets.backbone.weight_masks import masks_of

    own = clf.needs_model("searched on masked words").model
    if masks_of(own):  # the copy below would train what they hold at zero
        raise TicketsError(
            f"{clf.identity} is masked to a ticket already", hint="search a whole model", code="model.masked"
        )
    found = _find(clf.identity, name)
    config = read_config(found.folder)
    if layout_of(config).family != layout_of(own).family or str(own.config.model_type).startswith("ticket-"):
        raise TicketsError(
            f"{found.identity} is a {config.model_type}, the classifier {clf.identity} a {own.config.model_type}",
            hint="search a whole model, with a head of its own backbone",
            code="mlm.backbone",
        )
    if name and has_tokenizer(found.folder) and digest_of(read_tokenizer(found.folder)) != digest_of(clf.tokenizer):
        raise TicketsError(
            f"{found.identity} reads words otherwise than {clf.identity}: their tokenizers differ",
            hint="take the head of the same backbone",
            code="mlm.tokenizer",
        )
    model = _read(found, config)
    _put_encoder(model, own, found.identity, clf.identity)
    return model.to(clf.device)


def _find(identity: str, name: str | Path | None) -> Checkpoint:
    if name:
        return find_checkpoint(name)
    try:
        return find_checkpoint(identity)
    except TicketsError as problem:  # the classifier was loaded from it, so it was there
        raise TicketsError(
            f"the head for masked words is read from {identity}, where the classifier came from, and it is gone: {problem.message}",
            hint="put it back, or name a checkpoint of this backbone with such a head: mlm=FOLDER",
            exit_code=problem.exit_code,
            code="mlm.not_found",
        ) from None


def digest_of_head(name: str | Path) -> str:
    """sha256 of the checkpoint that brings the head, without reading it in."""
    found = find_checkpoint(name)
    check_weights(found.folder)
    return digest([sha256_file(file) for file in weight_files(found.folder)])


def digest_of_model(model: Any) -> str:
    """sha256 of a model's weights, and of the file of a plug-in's backbone."""
    import torch

    hashed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        hashed.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        hashed.update(memoryview(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()))
    if code := code_of_layout(model):
        hashed.update(canonical(code).encode())
    return hashed.hexdigest()


def _read(found: Checkpoint, config: Any) -> Any:
    import torch

    model, missing = load_model(found.folder, "masked language model", config, dtype=torch.float32)
    if lacks := sorted(name for name in missing if not name.startswith(f"{model.base_model_prefix}.")):
        raise TicketsError(
            f"{found.identity} has no pretrained head for masked words (it lacks {lacks[0]})",
            hint=HOW,
            code="mlm.no_head",
        )
    unmapped(model)
    return model.eval()


def _put_encoder(model: Any, own: Any, head: str, encoder: str) -> None:
    """Make ``model``'s encoder the classifier's."""
    import torch

    mine, theirs = dict(encoder_of(own).named_parameters()), dict(encoder_of(model).named_parameters())
    for name, parameter in theirs.items():
        if name not in mine or mine[name].shape != parameter.shape:
            raise TicketsError(
                f"the encoder of {encoder} is not that of {head}: {name} is missing or misshapen there",
                hint="take the head of the same backbone, and search a whole model",
                code="mlm.backbone",
            )
    with torch.no_grad():
        changed = sum(
            not torch.equal(mine[name].to("cpu", torch.float32), parameter) for name, parameter in theirs.items()
        )
        for name, parameter in theirs.items():
            parameter.copy_(mine[name])  # words are shared with the output layer, which follows
    if changed:
        say(
            f"masked words: the encoder is {encoder}'s as it is now ({changed} of {len(theirs)} weights differ), the head {head}'s"
        )
