"""What a sentence-transformers folder does after its transformer: pooling, dense layers, normalisation, in the order of modules.json.

Every part is applied or the folder is refused: vectors without one of its parts would be another encoder's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.lexicon.pretrained import inside, load_weights

if TYPE_CHECKING:
    import torch

# in the order in which sentence-transformers puts them side by side, where several are asked for
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len", "weightedmean", "lasttoken")
SPELLINGS = {"cls_token": "cls", "max_tokens": "max", "mean_tokens": "mean", "mean_sqrt_len_tokens": "mean_sqrt_len"}
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")
HINT = "folders of a transformer, pooling, dense layers and normalisation can be used"
Step = Callable[["torch.Tensor"], "torch.Tensor"]


def parts_of(folder: Path) -> list[tuple[str, Path]]:
    """The kind and folder of every part after the transformer; without modules.json, whatever pooling there is."""
    file = folder / "modules.json"
    if not file.is_file():
        return [("Pooling", folder / "1_Pooling")]
    raw = read_json(file)
    try:
        parts = [(str(part["type"]).rpartition(".")[2], folder / str(part["path"])) for part in raw]
    except (TypeError, KeyError):
        raise TicketsError(f"{file} is not a list of modules", hint="get the folder again") from None
    if outside := [part["path"] for part in raw if not inside(str(part["path"]))]:
        raise TicketsError(
            f"{file} names the folder {outside[0]!r:.80}, expected one inside", hint="get the folder again"
        )
    kinds = [kind for kind, _ in parts]
    refused = [kind for kind in kinds[1:] if kind not in ("Pooling", "Dense", "Normalize", "Dropout")]
    if refused or kinds[:1] != ["Transformer"] or kinds[1:2] != ["Pooling"] or kinds.count("Pooling") != 1:
        raise TicketsError(f"{file} asks for {', '.join(kinds) or 'nothing'}", hint=HINT)
    return parts[1:]


def transformer_folder(folder: Path) -> Path:
    """Where the transformer itself lies: in older folders in one of its own."""
    inner = folder / "0_Transformer"
    return inner if (inner / "config.json").is_file() and not (folder / "config.json").is_file() else folder


def poolings(folder: Path) -> tuple[str, ...]:
    """How tokens become one vector: the mean, unless its pooling file says otherwise."""
    place = next(place for kind, place in parts_of(folder) if kind == "Pooling")
    file = place / "config.json"
    if not file.is_file():
        return ("mean",)
    raw = _settings(file)
    asked = [
        key.removeprefix("pooling_mode_") for key, on in raw.items() if key.startswith("pooling_mode_") and on is True
    ]
    said = raw.get("pooling_mode", "mean")
    asked = asked or ([str(each) for each in said] if isinstance(said, list) else [str(said)])
    modes = [SPELLINGS.get(each, each) for each in asked]
    if unknown := sorted(set(modes) - set(POOLINGS)):
        raise TicketsError(f"{file} asks for pooling by {', '.join(unknown)}", hint=f"known are {', '.join(POOLINGS)}")
    return tuple(sorted(modes, key=POOLINGS.index))


def _settings(file: Path) -> dict[str, Any]:
    raw = read_json(file)
    if not isinstance(raw, dict):
        raise TicketsError(f"{file} is not a JSON object", hint="get the folder again")
    return raw


def pool(states: torch.Tensor, mask: torch.Tensor, modes: tuple[str, ...]) -> torch.Tensor:
    """One row a text from the states of its tokens; ``mask`` is 0 on padding."""
    import torch

    weight = mask.unsqueeze(-1).to(states.dtype)
    count = weight.sum(1).clamp(min=1)
    rows = []
    for mode in modes:
        if mode == "cls":
            rows.append(states[:, 0])
        elif mode == "max":
            rows.append(states.masked_fill(weight == 0, float("-inf")).max(1).values)
        elif mode == "lasttoken":
            last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
            rows.append(states[torch.arange(len(states), device=states.device), last])
        elif mode == "weightedmean":  # later tokens count more
            place = (
                weight * torch.arange(1, states.shape[1] + 1, device=states.device, dtype=states.dtype)[None, :, None]
            )
            rows.append((states * place).sum(1) / place.sum(1).clamp(min=1e-9))
        else:
            total = (states * weight).sum(1)
            rows.append(total / (count.sqrt() if mode == "mean_sqrt_len" else count))
    return torch.cat(rows, dim=-1)


def steps_after(folder: Path, device: str) -> list[Step]:
    """What is done to the pooled rows, in order."""
    import torch

    steps: list[Step] = []
    for kind, place in parts_of(folder):
        if kind == "Normalize":
            steps.append(lambda rows: torch.nn.functional.normalize(rows, dim=-1))
        elif kind == "Dense":
            steps.append(_dense(place, device))
    return steps


def width_after(steps: list[Step], pooled: int) -> int:
    """The width of the vectors."""
    for step in reversed(steps):
        if (wide := getattr(step, "out_features", None)) is not None:
            return int(wide)
    return pooled


def _dense(place: Path, device: str) -> Step:
    import torch
    from safetensors import SafetensorError

    class Dense(torch.nn.Module):
        def __init__(self, weight: Any, bias: Any, activation: torch.nn.Module) -> None:
            super().__init__()
            self.weight, self.bias, self.activation, self.out_features = weight, bias, activation, weight.shape[0]

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.activation(torch.nn.functional.linear(rows, self.weight, self.bias))
            return answer

    name = str(_settings(place / "config.json").get("activation_function", "Tanh")).rpartition(".")[2]
    if name not in ACTIVATIONS:
        raise TicketsError(f"{place} asks for the activation {name}", hint=f"known are {', '.join(ACTIVATIONS)}")
    try:
        weights = load_weights(place)
        weight = weights["linear.weight"].float().to(device)
    except (OSError, KeyError, SafetensorError):
        raise TicketsError(
            f"{place} has no model.safetensors with its layer", hint="save it in that form; pickles are not read"
        ) from None
    bias = weights.get("linear.bias")
    return Dense(weight, None if bias is None else bias.float().to(device), getattr(torch.nn, name)())
