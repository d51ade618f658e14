"""Read the config, tokenizer and weights of a folder: JSON and safetensors files in that folder only.

transformers is never given a folder to look for weights in: it would take what an index or the config names (a pickle, a file elsewhere),
an adapter, a sharded training checkpoint. No code of a folder runs, no prompt offers to run it, and nothing is fetched from the Hub.
A test keeps every other call of ``from_pretrained`` out of the package.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError, tokenising
from robust_tickets.files import mapping, read_json

if TYPE_CHECKING:
    from transformers import PretrainedConfig

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
CONVERT = (
    "only safetensors are read; if you trust where pickled weights come from, convert them once: "
    "AutoModelForSequenceClassification.from_pretrained(FOLDER).save_pretrained(FOLDER)"
)
AGAIN = "the files are damaged, the weights are another model's, or config.json was changed: copy both again"
MOST_NAMES = 50_000  # of weights; transformers takes a minute for some more
# of a config: so long lists are made before any weight is seen
MOST = {"num_labels": 100_000, "num_hidden_layers": 10_000}
MODELS = {
    "encoder": "MODEL_MAPPING",
    "masked language model": "MODEL_FOR_MASKED_LM_MAPPING",
    "sequence classifier": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
}


def read_config(folder: Path) -> Any:
    """The transformers config in ``folder``, of any family that transformers itself has."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    import robust_tickets.auto  # noqa: F401  # pruned models are read like any other

    path = folder / "config.json"
    try:
        raw = mapping(read_json(path))
        family = raw.get("model_type")
        if (
            not isinstance(family, str) or family not in CONFIG_MAPPING
        ):  # code that the folder names for it is never run
            raise ValueError(f"transformers knows no model family {family!r}")
        if not isinstance(raw.get("architectures") or [], list):
            raise ValueError("architectures is no list of names")
        for part in (raw, *(each for each in raw.values() if isinstance(each, dict))):
            for key, most in MOST.items():
                if isinstance(part.get(key), int) and part[key] > most:
                    raise ValueError(f"it asks for {key}={part[key]}, at most {most} are read")
        # an attention of its own choice may be a kernel of the Hub, which is code
        return AutoConfig.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, attn_implementation=None
        )
    except Exception as problem:  # transformers raises many kinds for a bad config
        why = problem.message if isinstance(problem, TicketsError) else first_line(problem)
        hint = "give a folder that save_pretrained wrote, update transformers, or give a function: my_module:function"
        raise TicketsError(f"{path} does not describe a model: {why}", hint=hint, code="model.config") from None


def load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        with tokenising():
            return AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as problem:  # transformers raises many kinds
        message = f"no tokenizer could be read from {folder}: {first_line(problem)}"
        raise TicketsError(message, hint="save or copy the tokenizer there too", code="model.tokenizer") from None


def load_model(folder: Path, kind: str, config: PretrainedConfig, *, dtype: Any) -> tuple[Any, set[str]]:
    """The model of a ``kind`` of ``MODELS`` in ``folder``, and the names of the weights that are not there, which are random."""
    import torch
    import transformers

    known = getattr(transformers, MODELS[kind])
    if type(config) not in known:
        message = f"{folder}: transformers has no {kind} of the family {config.model_type}"
        raise TicketsError(message, hint=f"give a {kind}", code="model.family")
    classes = known[type(config)] if isinstance(known[type(config)], list | tuple) else [known[type(config)]]
    saved = getattr(config, "architectures", None) or ()
    model_class = next((each for each in classes if each.__name__ in saved), classes[0])
    if not isinstance(config, model_class.config_class):  # of a family whose config holds one for texts
        config = config.get_text_config()
    try:
        tensors = load_weights(folder)
        with silence(), torch.random.fork_rng(), _no_larger_than(tensors, folder):
            model, info = model_class.from_pretrained(
                None,
                config=config,
                state_dict=tensors,
                dtype=dtype,
                output_loading_info=True,
                trust_remote_code=False,
                local_files_only=True,
                ignore_mismatched_sizes=True,  # refused below, in words: transformers points to a report that it printed
            )
    except TicketsError:
        raise
    except Exception as problem:
        message = f"the weights in {folder} could not be read: {first_line(problem)}"
        raise TicketsError(message, hint=AGAIN, code="model.damaged") from None
    for name, there, wanted in sorted(info["mismatched_keys"]):
        message = f"{folder}: the weight {name} is misshapen: {tuple(there)}, where config.json says {tuple(wanted)}"
        raise TicketsError(message, hint=AGAIN, code="model.shape")
    model.config.name_or_path = str(folder)
    return model, set(info["missing_keys"])


def load_weights(folder: Path) -> dict[str, Any]:
    """The tensors in ``folder``, by name."""
    from safetensors import safe_open

    tensors: dict[str, Any] = {}
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as opened:
            names = opened.keys()
            if len(tensors) + len(names) > MOST_NAMES:
                message = f"{file} names {len(names)} weights, at most {MOST_NAMES} are read"
                raise TicketsError(message, hint="the file is no text model's", code="model.size")
            tensors.update({name: opened.get_tensor(name) for name in names})
    return tensors


@contextmanager
def _no_larger_than(tensors: dict[str, Any], folder: Path) -> Iterator[None]:
    """Stops a model while it is built, without memory yet, when config.json asks for far more than the files hold."""
    from torch.nn.modules.module import register_module_parameter_registration_hook

    # as many again for what is drawn and what is tied, two weights a byte for those that are packed
    parts, weights = 2 * len(tensors) + 1000, 2 * sum(tensor.nbytes for tensor in tensors.values()) + (1 << 24)

    def count(_module: Any, _name: str, parameter: Any) -> None:
        nonlocal parts, weights
        if parameter is not None and parameter.is_meta:  # what is read into it comes later
            parts, weights = parts - 1, weights - parameter.numel()
            if parts < 0 or weights < 0:
                message = f"{folder / 'config.json'} describes a model several times as large as the weights beside it"
                raise TicketsError(message, hint=AGAIN, code="model.size")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def has_weights(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file() or (folder / INDEX).is_file()


def is_complete(folder: Path) -> bool:
    """Whether a config and all weights are there."""
    return (folder / "config.json").is_file() and has_weights(folder) and all(map(Path.is_file, _named(folder)))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors that hold the weights; refuses a folder where they are not whole, not to be read or lie elsewhere."""
    if not has_weights(folder):
        pickled = sorted(path.name for pattern in PICKLED for path in folder.glob(pattern))
        there = f", only {pickled[0]}, a pickle, which can run code when it is opened" if pickled else ""
        raise TicketsError(f"{folder} has no {WEIGHTS}{there}", hint=CONVERT, code="model.weights")
    found = _named(folder)
    # links may not leave the folder, or the whole cache of the Hub, whose folders are links
    home = folder.resolve()
    for at in home.parents:
        if at.name.startswith("models--") and at / "snapshots" in home.parents:
            home = at.parent
            break
    for file in found:
        if not file.is_file():
            hint = "download or copy the folder again"
            raise TicketsError(f"{folder} lacks {file.name}, which {INDEX} names", hint=hint, code="model.incomplete")
        if not file.resolve().is_relative_to(home):
            hint = "copy the file into the folder"
            raise TicketsError(f"{file} is a link that leads out of the folder", hint=hint, code="model.outside")
    return found


def _named(folder: Path) -> list[Path]:
    """The file of all weights, or those that the index names."""
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [folder / WEIGHTS]
    names = list(mapping(mapping(read_json(folder / INDEX)).get("weight_map")).values())
    for name in names or [None]:
        if not isinstance(name, str) or not name.endswith(".safetensors") or not inside(name):
            message = f"{folder / INDEX} names {name!r:.80}, expected safetensors in the folder"
            raise TicketsError(message, hint=CONVERT, code="model.outside")
    return [folder / name for name in sorted(set(names))]


def inside(name: str) -> bool:
    """Whether a name that a file gives stays in the file's folder."""
    return not Path(name).is_absolute() and ".." not in Path(name).parts


def first_line(problem: BaseException) -> str:
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)


@contextmanager
def silence() -> Iterator[None]:
    """Hide transformers' progress bars and its report on new weights: what matters in it, we report ourselves."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    with warnings.catch_warnings(action="ignore"):  # both warn where an environment variable has the last word
        logging.disable_progress_bar()
        logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level)
            if shown:
                logging.enable_progress_bar()
