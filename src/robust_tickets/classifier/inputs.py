"""What a model is fed: which inputs, and how texts of unequal length share a batch.

Families with a layout are padded on the right, masked; that is tested for each. Of any other family nothing is assumed: two short texts
are asked about alone and padded together, on the right and then on the left, and the side that leaves the answers as they were is taken.
Where neither does (there is no padding token, or padding is looked at), only texts of one length share a batch; the answers stay right.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from robust_tickets.backbone.layout import has_layout, layout_of
from robust_tickets.classifier.rows import encoded, padded
from robust_tickets.classifier.texts import Encoded

Side = Literal[
    "right", "left", "equal", "alone"
]  # "equal": only texts of one length together; "alone": no two texts together
LONGEST = 512  # tokens of a text where nobody says; what a model of unknown make is cut at
SHORT, LONG = "a good film", "this is quite a bit longer than the first text, and it has some more words in it"
AGREE = {"float64": 1e-6, "float32": 1e-4}  # of 1 + the largest logit; what padding may move, by rounding
HALF = 5e-2  # for shorter types


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """``names`` are those of input_ids, attention_mask and token_type_ids that the model takes."""

    names: tuple[str, ...] = ("input_ids", "attention_mask")
    side: Side = "right"
    pad: int = 0  # the id of the padding token
    pad_type: int = 0  # its token type

    def arrays(self, rows: Sequence[Encoded], width: int | None = None) -> dict[str, np.ndarray]:
        """One padded batch; ``width`` where the model fixes it."""
        types = "token_type_ids" in self.names
        made = padded(rows, self.pad, types, left=self.side == "left", width=width, pad_type=self.pad_type)
        return {name: made[name] for name in self.names}

    def together(self, rows: Sequence[Encoded]) -> Iterator[list[int]]:
        """Which of ``rows`` may share a forward pass."""
        if self.side in ("right", "left"):
            yield list(range(len(rows)))
            return
        groups: dict[int, list[int]] = {}
        for i, row in enumerate(rows):
            groups.setdefault(i if self.side == "alone" else row.size, []).append(i)
        yield from groups.values()


def positions_of(model: Any) -> int | None:
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


def own_length(tokenizer: Any, positions: int | None) -> int:
    """Tokens at which a model that was not made here is cut: what its tokenizer says, at most 512 and what it has positions for."""
    said = getattr(tokenizer, "model_max_length", LONGEST)  # transformers writes 1e30 where nobody said
    return int(min(said or LONGEST, positions or LONGEST, LONGEST))


def inputs_of(model: Any, tokenizer: Any, max_length: int) -> Inputs:
    """How ``model`` is fed; asks it a few questions where its family is not known."""
    typed = getattr(model.config, "type_vocab_size", 0) > 1
    if has_layout(model):
        return Inputs(
            names=("input_ids", "attention_mask", *(("token_type_ids",) if typed else ())), pad=tokenizer.pad_token_id
        )
    taken = inspect.signature(model.forward).parameters
    names = tuple(name for name in ("input_ids", "attention_mask", "token_type_ids") if name in taken)
    if "token_type_ids" not in tokenizer.model_input_names:
        names = tuple(name for name in names if name != "token_type_ids")
    if tokenizer.pad_token_id is not None and model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id  # models that read the last token find it by this
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else model.config.pad_token_id
    kind = int(getattr(tokenizer, "pad_token_type_id", 0) or 0)
    return _probed(
        Inputs(names=names, pad=pad or 0, pad_type=kind), model, tokenizer, max_length, padded=pad is not None
    )


def _probed(start: Inputs, model: Any, tokenizer: Any, max_length: int, padded: bool) -> Inputs:
    rows = encoded(tokenizer, None, [(SHORT,), (LONG,)], max_length, "token_type_ids" in start.names)
    first, second = (_logits(model, start, [row]) for row in rows)
    if first is None or second is None:
        return start  # it cannot answer at all: the first real text says why
    wanted = np.concatenate([first, second])
    close = AGREE.get(str(model.dtype).removeprefix("torch."), HALF) * (1 + float(np.abs(wanted).max()))
    for side in ("right", "left") if padded else ():
        inputs = replace(start, side=side)
        found = _logits(model, inputs, rows)
        if found is not None and np.abs(found - wanted).max() <= close:
            return inputs
    twice = _logits(model, start, [rows[0], rows[0]])
    return replace(start, side="equal" if twice is not None and np.abs(twice - first).max() <= close else "alone")


def _logits(model: Any, inputs: Inputs, rows: Sequence[Encoded]) -> np.ndarray | None:
    import torch

    fed = {name: torch.from_numpy(array).to(model.device) for name, array in inputs.arrays(rows).items()}
    try:
        with torch.inference_mode():
            return model(**fed).logits.float().cpu().numpy()
    except Exception:  # a family that refuses batches or padding says so in its own way
        return None
