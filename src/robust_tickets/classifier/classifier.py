"""A transformers model with its tokenizer, labels and maximum length, as a classifier that can be trained, pruned and saved."""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from robust_tickets.backbone.layout import code_of_layout, has_layout, layout_of
from robust_tickets.classifier.base import MAX_LENGTH, NOISE, TokenClassifier, check_logits
from robust_tickets.classifier.encode import Encoded, check_tokens, inputs_of, positions_of
from robust_tickets.classifier.pretrained import silence
from robust_tickets.classifier.tokenizer import digest_of, save_tokenizer, settings_of
from robust_tickets.config import canonical
from robust_tickets.environment import device_of
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import drop_links, mapping, read_json, write_json
from robust_tickets.ticket.ticket import Ticket

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

NOT_IN_DIGEST = {  # labels are hashed by themselves
    "transformers_version", "_name_or_path", "dtype", "architectures", "id2label", "label2id", "loaded_by",
}  # fmt: skip


ABOUT = "tickets.json"  # what transformers does not save
SCHEMA = 1
MASKS = "ticket"  # the folder of the masks of an unstructured ticket


class ModelClassifier(TokenClassifier):
    """``model`` is a sequence classifier of transformers; ``identity`` says what it was loaded from."""

    kind = "a model"

    def __init__(
        self,
        *,
        model: Any,
        tokenizer: Any,
        labels: Sequence[str],
        max_length: int = MAX_LENGTH,
        identity: str = "",
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(tokenizer=tokenizer, labels=labels, max_length=max_length, identity=identity, columns=columns)
        limit = positions_of(model)
        if self.max_length < 3 or (limit is not None and self.max_length > limit):
            raise TicketsError(
                f"max_length must be between 3 and {limit or 'any'}, the positions of this model; got {max_length}",
                hint="give a length between these, or leave it out",
                code="classifier.max_length",
            )
        if model.config.num_labels != len(self.labels):
            message = f"the model has {model.config.num_labels} outputs, got {len(self.labels)} labels"
            raise TicketsError(message, hint="give one a class", code="classifier.labels")
        rename_labels(model.config, self.labels)
        self.model = model.eval()
        self.inputs = inputs_of(model, tokenizer, self.max_length)
        self._tokenizer_settings = settings_of(tokenizer)  # as they came, for saving

    def forward(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Compute the logits of one batch, float32 on the CPU, with the model in eval mode."""
        import torch

        check_tokens(rows)
        logits = torch.zeros((len(rows), len(self.labels)))  # out of inference mode: callers may do arithmetic in place
        with torch.inference_mode(), evaluating(self.model):
            for where in self.inputs.together(rows):
                logits[where] = self.model(**self.batch([rows[i] for i in where])).logits.float().cpu()
        check_logits(logits, self.identity)
        return logits

    def batch(self, rows: Sequence[Encoded]) -> dict[str, torch.Tensor]:
        """One padded batch, on the model's device."""
        import torch

        return {name: torch.from_numpy(array).to(self.device) for name, array in self.inputs.arrays(rows).items()}

    def needs_model(self, what: str) -> ModelClassifier:
        return self

    @property
    def noise(self) -> float:
        if self.inputs.side == "alone":
            return 0.0  # no two texts share a batch
        return NOISE.get(str(self.model.dtype).removeprefix("torch."), NOISE["bfloat16"])

    @property
    def device(self) -> torch.device:
        found: torch.device = self.model.device
        return found

    def to(self, device: str | torch.device) -> Self:
        self.model.to(device_of(device))
        return self

    def copy(self) -> Self:
        twin = copy.copy(self)
        twin.model, twin.tokenizer, twin._splicer = copy.deepcopy(self.model), copy.deepcopy(self.tokenizer), None
        return twin

    def with_model(self, model: Any) -> Self:
        """The same tokenizer, labels and length around another model."""
        twin = copy.copy(self)
        twin.model = model
        rename_labels(model.config, self.labels)
        return twin

    def named(self, labels: Sequence[str]) -> Self:
        super().named(labels)
        rename_labels(self.model.config, self.labels)
        return self

    def _hash_outputs(self, total: hashlib._Hash) -> None:
        """Weights, masks, config, tokenizer, and the file of a plug-in's backbone."""
        import torch

        from robust_tickets.backbone.weight_masks import masks_of

        config = {k: v for k, v in self.model.config.to_dict().items() if k not in NOT_IN_DIGEST}
        total.update(canonical(config).encode())
        total.update(digest_of(self.tokenizer).encode())
        if code := code_of_layout(self.model):
            total.update(canonical(code).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            total.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            total.update(memoryview(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()))
        # two with the same weights, one masked, train differently
        for name, mask in sorted(masks_of(self.model).items()):
            total.update(f"mask {name}{tuple(mask.shape)}".encode())
            total.update(np.packbits(mask.cpu().numpy()).tobytes())

    def save_pretrained(self, folder: str | Path) -> Path:
        """Save what transformers' auto classes read, and ``tickets.json`` with the rest; that one is written last.

        The masks of an unstructured ticket go into ``ticket/``; without this package the weights outside are zeros like any others.
        """
        from safetensors import SafetensorError

        ticket = ticket_of(self.model)
        folder = Path(folder)
        if folder.is_file():
            raise TicketsError(f"{folder} is a file", hint="give a folder", code="file.not_a_folder")
        try:
            drop_links(folder)
            with silence():
                self.model.save_pretrained(folder)
                self.save_tokenizer(folder)
            for weights in folder.glob("*.safetensors"):  # safetensors writes for the owner alone
                weights.chmod(0o666 & ~_umask())
        except (OSError, SafetensorError) as problem:  # what safetensors raises on a full disk is no OSError
            hint = "check the disk and the folder's rights"
            message = f"could not write {folder}: {problem}"
            raise TicketsError(message, hint=hint, exit_code=FAILED, code="file.unwritable") from None
        if ticket is not None:
            ticket.save(folder / MASKS)
        about = {"schema": SCHEMA, "max_length": self.max_length, "columns": list(self.columns)}
        about |= {"labels": list(self.labels)} | ({} if ticket is None else {"masked": True})
        write_json(folder / ABOUT, about)
        return folder

    def save_tokenizer(self, folder: Path) -> None:
        """The same bytes whatever it read before."""
        save_tokenizer(self.tokenizer, folder, self.max_length, self._tokenizer_settings)

    def push_to_hub(self, repo_id: str, *, private: bool | None = None, token: str | None = None, **upload: Any) -> Any:
        """Upload what ``save_pretrained`` writes in one commit; ``upload`` goes to ``huggingface_hub``'s ``upload_folder``."""
        from huggingface_hub import HfApi

        hub = HfApi(token=token)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            name = hub.create_repo(repo_id, private=private, exist_ok=True).repo_id
            return hub.upload_folder(
                repo_id=name, folder_path=folder, **{"commit_message": "Upload classifier", **upload}
            )

    def _details(self) -> list[str]:
        """Family, size, and what a ticket kept: a compact model is not to look like the whole one."""
        from robust_tickets.backbone.weight_masks import masks_of

        config = self.model.config
        sizes = layout_of(config).sizes(config) if has_layout(config) else {}
        kept = {
            group: f"{sum(map(len, units))}/{size * config.num_hidden_layers}"
            for group, size in sizes.items()
            if (units := getattr(config, f"kept_{group}", None)) is not None
        }
        if masks := masks_of(self.model).values():
            kept["weights"] = f"{sum(int(mask.sum()) for mask in masks)}/{sum(mask.numel() for mask in masks)}"
        family = str(config.model_type).removeprefix("ticket-")
        parts = [family, f"{sum(p.numel() for p in self.model.parameters()):,} parameters"]
        return [*parts, "kept: " + ", ".join(f"{group}={n}" for group, n in kept.items())] if kept else parts


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """``model`` in eval mode, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _umask() -> int:
    mask = os.umask(0o077)  # it can only be read by setting it
    os.umask(mask)
    return mask


def rename_labels(config: PretrainedConfig, labels: Sequence[str]) -> None:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}


class About(NamedTuple):
    """What ``tickets.json`` says."""

    max_length: int | None = None
    columns: tuple[str, ...] | None = None  # None if unknown
    masked: bool = False  # whether the masks of an unstructured ticket lie beside it


def read_about(folder: Path) -> About:
    """What ``folder`` says; nothing where it has no such file."""
    path = folder / ABOUT
    if not path.is_file():
        return About()
    about = mapping(read_json(path))
    if about.get("schema") != SCHEMA:
        message = f"{path} has schema {about.get('schema')!r}, this version reads {SCHEMA}"
        raise TicketsError(message, hint="update the package, or save the model again", code="file.schema")
    length, columns = about.get("max_length"), about.get("columns")
    names = isinstance(columns, list) and len(columns) in (1, 2) and all(isinstance(name, str) for name in columns)
    if type(length) is not int or not names:
        raise TicketsError(
            f"{path}: expected a number as max_length and one or two names as columns, got {length!r} and {columns!r:.80}",
            hint="the file is damaged: save the model again",
            code="file.damaged",
        )
    return About(length, tuple(columns or ()), about.get("masked") is True)


def ticket_of(model: PreTrainedModel) -> Ticket | None:
    """What ``model`` is masked to, as a ticket without scores; None where it is not. Refuses weights outside that are not zero."""
    from robust_tickets.backbone.weight_masks import check_zeros, masks_of

    masks = masks_of(model)
    if not masks:
        return None
    check_zeros(model)
    return Ticket(
        kind="unstructured",
        family=layout_of(model).family,
        names=tuple(masks),
        masks={"weights": tuple(mask.cpu().numpy() for mask in masks.values())},
        unit_weights={"weights": 1},
        provenance={"method": "the masks of a model"},
    )


def put_back(model: PreTrainedModel, folder: Path) -> None:
    """Mask ``model`` by the ticket in ``folder``; the weights read must be zero outside already."""
    import torch

    from robust_tickets.backbone.weight_masks import attach

    ticket = Ticket.load(folder / MASKS)
    if ticket.kind != "unstructured":
        message = f"{folder / MASKS} holds a {ticket.kind} ticket, expected the masks of a model"
        raise TicketsError(message, hint="save the model again", code="model.masks")
    modules = layout_of(model).matrices_of(model)
    arrays = zip(ticket.names, ticket.masks["weights"], strict=True)
    masks = {name: torch.from_numpy(mask.copy()) for name, mask in arrays}
    for name, mask in masks.items():
        weight = modules[name].weight.detach().cpu() if name in modules else None
        if weight is None or weight.shape != mask.shape or weight.masked_fill(mask, 0.0).any():
            raise TicketsError(
                f"the weights in {folder} are not those of the ticket beside them ({name})",
                hint=f'save the model again, or remove {MASKS}/ and "masked" in {ABOUT} to load it without masks',
                code="model.masks",
            )
    attach(model, masks)
