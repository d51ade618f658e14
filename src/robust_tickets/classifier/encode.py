"""Encoded texts, and batches of texts of similar length."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from robust_tickets.backbone.layout import has_layout, layout_of
from robust_tickets.classifier.tokenizer import Frame, Splicer, packed, tokenised
from robust_tickets.errors import TicketsError, tokenising

Text = str | tuple[str, ...]


def rows_of(texts: Sequence[str | Sequence[str]]) -> list[tuple[str, ...]]:
    """The columns of every text. One string is no list of texts: its letters would be taken for them."""
    if isinstance(texts, str):
        message = f"expected a list of texts, got the one text {texts!r:.80}"
        raise TicketsError(message, hint="put it into a list: [text]", code="text.not_a_list")
    if not _a_list(texts):
        message = f"expected a list of texts, got a {type(texts).__name__}"
        raise TicketsError(message, hint="give strings, or pairs: [text, text, …]", code="text.not_a_list")
    return [columns_of(text, place) for place, text in enumerate(texts)]


def _a_list(texts: Any) -> bool:
    if isinstance(texts, bytes | Mapping) or hasattr(texts, "columns"):  # a table of pandas gives its columns' names
        return False
    try:
        iter(texts)
    except TypeError:
        return False
    return True


def columns_of(text: str | Sequence[str], place: int) -> tuple[str, ...]:
    """The columns of one text; refuses anything but one or two strings."""
    columns = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, tuple | list) else ()
    if len(columns) not in (1, 2) or not all(isinstance(column, str) for column in columns):
        raise TicketsError(
            f"a text is a string or a tuple of one or two strings, got {text!r:.80} at place {place} of the list, counted from 0",
            hint="give texts, not rows or numbers; leave out those that are missing",
            code="text.columns",
        )
    return tuple(clean(column) for column in columns)


def check_count(rows: Sequence[tuple[str, ...]], columns: Sequence[str], name: str) -> None:
    """Refuse a text for a model of pairs, and a pair for one of texts: it would be answered as something else."""
    for number, row in enumerate(rows):
        if len(row) != len(columns):
            raise TicketsError(
                f"text {number} has {len(row)} column(s), the classifier {name!r} reads {len(columns)} ({', '.join(columns)})",
                hint=f"give a list of {'strings' if len(columns) == 1 else 'tuples: [(' + ', '.join(columns) + ')]'}",
                code="text.columns",
            )


def check_tokens(rows: Sequence[Encoded]) -> None:
    """Refuse texts without a token: the model has nothing to read."""
    if not all(row.size for row in rows):
        message = "the tokenizer gives no token for a text, so the model has nothing to read"
        raise TicketsError(message, hint="leave such texts out", code="text.no_token")


def clean(text: str) -> str:
    """``text`` with lone surrogates, which tokenizers refuse, replaced by U+FFFD, and split pairs joined; any other text as it is."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Encoded(NamedTuple):
    """One text as the model sees it, small enough to keep thousands: texts with equal token ids are equal and can share a forward pass."""

    data: bytes = b""  # token ids as int32
    kinds: bytes = b""  # token types, a byte each; empty where the model has none
    size: int = 0  # tokens (words for a wrapped callable): what batches are sorted and budgeted by
    columns: tuple[str, ...] = ()  # for a wrapped callable, the text itself, and no ids

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(np.frombuffer(self.data, dtype="<i4").tolist())

    @property
    def types(self) -> tuple[int, ...]:
        return tuple(self.kinds)


@tokenising()
def encoded(
    tokenizer: Any, splicer: Splicer | None, rows: Sequence[tuple[str, ...]], longest: int, token_types: bool
) -> list[Encoded]:
    """Token ids of each row, cut to ``longest`` tokens: from its pieces where that is the same, else read whole."""
    out: list[Encoded | None] = [None] * len(rows)
    for width in (1, 2):  # tokenizers want single texts and pairs apart
        where = [i for i, row in enumerate(rows) if len(row) == width]
        if splicer is not None and where:
            spliced = [splicer.ids([rows[i][column] for i in where]) for column in range(width)]
            frame = splicer.frames[width - 1]
            assert frame is not None  # a splicer has both
            for i, *parts in zip(where, *spliced, strict=True):
                out[i] = _framed(parts, frame, longest, token_types)
        where = [i for i in where if out[i] is None]
        if where:
            columns = [[rows[i][column] for i in where] for column in range(width)]
            read, types = tokenised(tokenizer, columns, longest, token_types)
            for i, ids, kinds in zip(where, read, types or [[]] * len(where), strict=True):
                out[i] = Encoded(data=packed(ids), kinds=bytes(kinds), size=len(ids))
    return [row for row in out if row is not None]


def _framed(parts: Sequence[bytes | None], frame: Frame, longest: int, token_types: bool) -> Encoded | None:
    """Ids with special tokens around; none where a text must be read whole, as a pair that has to be cut must (both sides lose)."""
    if any(part is None for part in parts):
        return None
    bodies = [part for part in parts if part is not None]
    special = sum(map(len, frame.tokens)) // 4
    size = special + sum(map(len, bodies)) // 4
    if size > longest:
        if len(bodies) > 1 or longest < special:
            return None
        bodies, size = [bodies[0][: 4 * (longest - special)]], longest
    data, kinds = frame.tokens[0], bytes(frame.types[0])
    for body, mark, inner, outer in zip(bodies, frame.tokens[1:], frame.inner, frame.types[1:], strict=True):
        data += body + mark
        if token_types:
            kinds += bytes((inner,)) * (len(body) // 4) + bytes(outer)
    return Encoded(data=data, kinds=kinds if token_types else b"", size=size)


def padded(
    rows: Sequence[Encoded],
    pad: int,
    token_types: bool,
    *,
    left: bool = False,
    width: int | None = None,
    pad_type: int = 0,
) -> dict[str, np.ndarray]:
    """One batch of int64 arrays, filled up on the right (or ``left``) to the longest row, or to ``width``."""
    sizes = np.array([row.size for row in rows])
    ids = np.full((len(rows), width or int(sizes.max())), pad, dtype=np.int64)
    wide = ids.shape[1]
    starts = wide - sizes if left else np.zeros_like(sizes)
    for line, row, start in zip(ids, rows, starts, strict=True):
        line[start : start + row.size] = np.frombuffer(row.data, dtype="<i4")
    positions = np.arange(wide)
    mask = (positions >= starts[:, None]) & (positions < (starts + sizes)[:, None])
    made = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
    if token_types:
        kinds = np.full_like(ids, pad_type)
        for line, row, start in zip(kinds, rows, starts, strict=True):
            if pad_type or any(row.kinds):
                line[start : start + row.size] = np.frombuffer(row.kinds, dtype=np.uint8)
        made["token_type_ids"] = kinds
    return made


# "equal": only texts of one length together; "alone": no two texts together
Side = Literal["right", "left", "equal", "alone"]
LONGEST = 512  # tokens of a text where nothing else is given
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
    own = getattr(tokenizer, "model_max_length", LONGEST)  # transformers writes 1e30 where it is unknown
    return int(min(own or LONGEST, positions or LONGEST, LONGEST))


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
