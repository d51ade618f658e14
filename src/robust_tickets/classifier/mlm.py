"""The masked-language model that a classifier's encoder was pretrained with: its weights, its pretrained head.

A search on masked words is about theta_0, the classifier's encoder, so its weights are used whatever the checkpoint with the head
holds; where the two differ, the log says so. A head that the checkpoint lacks is never drawn at random: a ticket of the noise it makes would
look like any other.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from robust_tickets.backbone.layout import code_of_layout, encoder_of, layout_of
from robust_tickets.classifier.classifier import hash_weights
from robust_tickets.classifier.loading import copy_mapped, find_checkpoint
from robust_tickets.classifier.pretrained import load_model, read_config, weight_files
from robust_tickets.classifier.tokenizer import digest_of, has_tokenizer, read_tokenizer
from robust_tickets.config import canonical, digest
from robust_tickets.errors import TicketsError
from robust_tickets.files import sha256_file
from robust_tickets.progress import say

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier.classifier import ModelClassifier

HOW = "search a model that has one (bert-base-uncased, roberta-base), or name a checkpoint of this backbone that does: mlm=FOLDER"
SAME = "search a whole model, with a head of its own backbone"


def masked_model(clf: ModelClassifier, name: str | Path | None = None) -> PreTrainedModel:
    """The masked-language model around a copy of ``clf``'s encoder, with the head of checkpoint ``name`` (by default ``clf``'s own)."""
    import torch

    from robust_tickets.backbone.weight_masks import masks_of

    own = clf.needs_model("searched on masked words").model
    if masks_of(own):  # the copy below would train what they hold at zero
        message = f"{clf.identity} is masked to a ticket already"
        raise TicketsError(message, hint="search a whole model", code="model.masked")
    try:
        folder = find_checkpoint(name or clf.identity)
    except TicketsError as problem:
        problem.hint = f"it holds the head for masked words; {HOW}"
        raise
    source, config = name or clf.identity, read_config(folder)
    if layout_of(config).family != layout_of(own).family or str(own.config.model_type).startswith("ticket-"):
        message = f"{source} is a {config.model_type}, the classifier {clf.identity} a {own.config.model_type}"
        raise TicketsError(message, hint=SAME, code="mlm.backbone")
    if name and has_tokenizer(folder) and digest_of(read_tokenizer(folder)) != digest_of(clf.tokenizer):
        message = f"{source} reads words otherwise than {clf.identity}: their tokenizers differ"
        raise TicketsError(message, hint=SAME, code="mlm.tokenizer")
    model, missing = load_model(folder, "masked language model", config, dtype=torch.float32)
    if lacks := sorted(name for name in missing if not name.startswith(f"{model.base_model_prefix}.")):
        message = f"{source} has no pretrained head for masked words (it lacks {lacks[0]})"
        raise TicketsError(message, hint=HOW, code="mlm.no_head")
    copy_mapped(model)
    mine, theirs = dict(encoder_of(own).named_parameters()), dict(encoder_of(model).named_parameters())
    changed = 0
    with torch.no_grad():
        for part, parameter in theirs.items():
            if part not in mine or mine[part].shape != parameter.shape:
                message = f"the encoder of {clf.identity} is not that of {source}: {part} is missing or misshapen"
                raise TicketsError(message, hint=SAME, code="mlm.backbone")
            changed += not torch.equal(mine[part].to("cpu", torch.float32), parameter)
            parameter.copy_(mine[part])  # words are shared with the output layer, which follows
    if changed:
        say(f"masked words: {changed} of {len(theirs)} weights of {clf.identity}'s encoder differ from {source}'s")
    return model.eval().to(clf.device)


def digest_of_head(name: str | Path) -> str:
    """sha256 of the checkpoint that brings the head, without reading it in."""
    return digest([sha256_file(file) for file in weight_files(find_checkpoint(name))])


def digest_of_model(model: PreTrainedModel) -> str:
    """sha256 of a model's weights, and of the file of a plug-in's backbone."""
    hashed = hashlib.sha256()
    hash_weights(model, hashed)
    if code := code_of_layout(model):
        hashed.update(canonical(code).encode())
    return hashed.hexdigest()
