"""A transformers model with its tokenizer, labels and maximum length, as a classifier that can be trained, pruned and saved."""

from __future__ import annotations

import copy
import hashlib
import inspect
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from robust_tickets.backbone.layout import code_of_layout, has_layout, layout_of
from robust_tickets.classifier.base import MAX_LENGTH, TokenClassifier
from robust_tickets.classifier.encode import KNOWN, Encoded, Inputs
from robust_tickets.classifier.pretrained import silence
from robust_tickets.classifier.tokenizer import SCHEMA, digest_of, save_tokenizer, settings_of
from robust_tickets.config import canonical
from robust_tickets.environment import device_of
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import drop_links, write_json
from robust_tickets.ticket.ticket import Ticket

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedModel

NOT_IN_DIGEST = {  # labels are hashed by themselves
    "transformers_version", "_name_or_path", "dtype", "architectures", "id2label", "label2id", "loaded_by",
}  # fmt: skip
ABOUT = "tickets.json"  # what transformers does not save
MASKS = "ticket"  # the folder of the masks of an unstructured ticket


class ModelClassifier(TokenClassifier):
    """``model`` is a sequence classifier of transformers; ``identity`` says what it was loaded from."""

    kind = "a model"

    def __init__(
        self,
        *,
        model: PreTrainedModel,
        tokenizer: Any,
        labels: Sequence[str],
        max_length: int = MAX_LENGTH,
        identity: str = "",
        columns: Sequence[str] | None = None,
    ) -> None:
        super().__init__(tokenizer=tokenizer, labels=labels, max_length=max_length, identity=identity, columns=columns)
        limit = positions_of(model)
        if self.max_length < 3 or (limit is not None and self.max_length > limit):
            message = (
                f"max_length must be between 3 and {limit or 'any'}, the positions of this model; got {max_length}"
            )
            raise TicketsError(message, hint="leave it out for the model's own", code="classifier.max_length")
        if model.config.num_labels != len(self.labels):
            message = f"the model has {model.config.num_labels} outputs, got {len(self.labels)} labels"
            raise TicketsError(message, hint="give one a class", code="classifier.labels")
        rename_labels(model.config, self.labels)
        self.model = model.eval()
        self._tokenizer_settings = settings_of(tokenizer)  # as they came, for saving
        self.inputs = _inputs_of(model, tokenizer)
        if not has_layout(model):  # how a family that we do not know bears padding, it shows on a few texts
            self._choose_side(("equal",) if model.config.pad_token_id is None else ("right", "left", "equal"))

    @property
    def precision(self) -> str:
        return str(self.model.dtype).removeprefix("torch.")

    def _run(self, rows: Sequence[Encoded]) -> torch.Tensor:
        import torch

        with torch.inference_mode(), evaluating(self.model):
            logits: torch.Tensor = self.model(**self.batch(rows)).logits.float().cpu()
        return logits

    def batch(self, rows: Sequence[Encoded]) -> dict[str, torch.Tensor]:
        """One padded batch, on the model's device."""
        import torch

        return {name: torch.from_numpy(array).to(self.device) for name, array in self.inputs.arrays(rows).items()}

    def needs_model(self, what: str) -> ModelClassifier:
        return self

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

    def with_model(self, model: PreTrainedModel) -> Self:
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
        from robust_tickets.backbone.weight_masks import masks_of

        config = {k: v for k, v in self.model.config.to_dict().items() if k not in NOT_IN_DIGEST}
        total.update(canonical(config).encode())
        total.update(digest_of(self.tokenizer).encode())
        if code := code_of_layout(self.model):
            total.update(canonical(code).encode())
        hash_weights(self.model, total)
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
                weights.chmod((folder / "config.json").stat().st_mode)
        except (OSError, SafetensorError) as problem:  # what safetensors raises on a full disk is no OSError
            message, hint = f"could not write {folder}: {problem}", "check the disk and the folder's rights"
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
            upload = {"commit_message": "Upload classifier", **upload}
            return hub.upload_folder(repo_id=name, folder_path=folder, **upload)


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """``model`` in eval mode, and afterwards as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def positions_of(model: PreTrainedModel) -> int | None:
    """Tokens that ``model`` has positions for; None where it takes texts of any length."""
    most = getattr(model.config, "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        return None
    if has_layout(model):
        return most - layout_of(model).reserved_positions
    for name, module in model.named_modules():  # RoBERTa and its kin count from the padding row on
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return most - int(module.padding_idx) - 1
    return most


def _inputs_of(model: PreTrainedModel, tokenizer: Any) -> Inputs:
    """The inputs that ``model`` takes, padded on the right."""
    pad = tokenizer.pad_token_id
    if has_layout(model):
        typed = getattr(model.config, "type_vocab_size", 0) > 1
        return Inputs(names=KNOWN if typed else KNOWN[:2], pad=pad)
    taken = inspect.signature(model.forward).parameters
    typed = "token_type_ids" in tokenizer.model_input_names
    if model.config.pad_token_id is None:
        model.config.pad_token_id = pad  # models that read the last token find it by this
    return Inputs(
        names=tuple(name for name in KNOWN if name in taken and (typed or name != "token_type_ids")),
        pad=(model.config.pad_token_id if pad is None else pad) or 0,
        pad_type=int(getattr(tokenizer, "pad_token_type_id", 0) or 0),
    )


def hash_weights(model: PreTrainedModel, total: hashlib._Hash) -> None:
    """Add names, types, shapes and bytes of a model's weights."""
    import torch

    for name, tensor in sorted(model.state_dict().items()):
        total.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        total.update(memoryview(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()))


def rename_labels(config: PretrainedConfig, labels: Sequence[str]) -> None:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}


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


def load_masks(model: PreTrainedModel, folder: Path) -> None:
    """Mask ``model`` by the ticket in ``folder``; the weights read must be zero outside already."""
    import torch

    from robust_tickets.backbone.weight_masks import attach

    ticket, modules = Ticket.load(folder / MASKS), layout_of(model).matrices_of(model)
    masks = dict(zip(ticket.names, map(torch.tensor, ticket.masks.get("weights", ())), strict=False))
    fits = bool(masks)
    for name, mask in masks.items():
        weight = modules[name].weight.detach().cpu() if name in modules else torch.ones(())
        fits = fits and weight.shape == mask.shape and not weight.masked_fill(mask, 0.0).any()
    if not fits:
        message = f"the weights in {folder} are not those of the ticket beside them"
        hint = f'save the model again, or remove {MASKS}/ and "masked" in {ABOUT} to load it without masks'
        raise TicketsError(message, hint=hint, code="model.masks")
    attach(model, masks)
