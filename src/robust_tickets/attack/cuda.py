"""Forward passes of a few fixed shapes on a GPU: each captured once as a graph, each giving a text the same bits beside any others.

A GPU's matrix kernels are chosen by the shape of a batch, so a text's logits move (by about 1e-6) when its batch has another size. Here
the shape depends on the text alone: its length rounded up, and as many rows as make ``TOKENS`` tokens, empty rows filled up. Within one
shape the arithmetic of a row is the same wherever it stands and whoever stands beside it; that is tried out on the very model, and where
it does not hold, or the model cannot be captured, there are no shapes and the texts of near-ties are run alone (see ``example``). So an attack
needs no second opinion, a forward pass costs one launch instead of hundreds, and nothing waits for the GPU until a round is through.
In fp32 one pass of that size leaves part of a large GPU idle, so two run side by side, each in a lane (a stream) of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from robust_tickets.backbone.layout import encoder_of
from robust_tickets.classifier import Classifier, Encoded, ModelClassifier
from robust_tickets.classifier.base import check_logits
from robust_tickets.classifier.classifier import evaluating
from robust_tickets.classifier.encode import check_tokens
from robust_tickets.environment import attention
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator
from robust_tickets.stats.classification import ERROR, FAILED, SKIPPED, SUCCESS, UNKNOWN

TOKENS = 2048  # of one pass: 85 sentences of 24 tokens. An H200 then gives 75 % (fp32) of what it gives at 16,384, and little is filled up
STEPS = ((64, 8), (128, 16), (1 << 20, 32))  # lengths are rounded up to a multiple of the second, up to the first
TRIALS = 4  # batches a probe is put into
# streams; half precision is quick enough that capturing every shape twice costs more than it brings
LANES = {"float32": 2}


class Shapes:
    """``logits(rows)`` in the order of the rows, float32 on the CPU."""

    def __init__(self, clf: ModelClassifier) -> None:
        self.clf = clf
        self._graphs: dict[tuple[int, int], Any] = {}  # by length and lane
        self._turn = 0  # the lane of the last pass
        self._lanes: list[Any] = []
        self._pools: dict[int, Any] = {}

    @classmethod
    def of(cls, clf: Classifier) -> Shapes | None:
        """Shapes for ``clf``, if it lies on a GPU, pads its texts and proves to treat every row of a shape alike."""
        if (
            not isinstance(clf, ModelClassifier)
            or clf.device.type != "cuda"
            or clf.inputs.side not in ("right", "left")
        ):
            return None
        made = cls(clf)
        try:
            return made if made.alike() else None
        except RuntimeError:  # what capturing says of a model that waits for the GPU, or of too little memory
            return None

    def length(self, size: int) -> int:
        """The length a text of ``size`` tokens is filled up to."""
        step = next(step for most, step in STEPS if size <= most)
        return min(self.clf.max_length, -(-size // step) * step)

    def logits(self, rows: Sequence[Encoded]) -> Any:
        import torch

        check_tokens(rows)
        groups: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(self.length(row.size), []).append(place)
        positions: list[int] = []
        found: list[Any] = []
        device = self.clf.device
        with torch.inference_mode(), evaluating(self.clf.model):
            self._begin()
            for length, where in sorted(groups.items()):
                found += self._passes(length, [rows[i] for i in where])
                positions += where
            for lane in self._lanes:
                torch.cuda.current_stream(device).wait_stream(lane)
            # the one wait of the round
            logits = torch.cat(found).cpu() if found else torch.zeros((0, len(self.clf.labels)))
        check_logits(logits, self.clf.identity)
        out = torch.empty_like(logits)  # made here, out of inference mode
        out[torch.tensor(positions, dtype=torch.long)] = logits
        return out

    def _begin(self) -> None:
        """The lanes, made once; each begins where the work before it ended."""
        import torch

        device = self.clf.device
        if not self._lanes:
            count = LANES.get(str(self.clf.model.dtype).removeprefix("torch."), 1)
            self._lanes = [torch.cuda.Stream(device) for _ in range(count)]
        for lane in self._lanes:
            lane.wait_stream(torch.cuda.current_stream(device))

    def _passes(self, length: int, rows: list[Encoded]) -> Iterator[Any]:
        """Logits on the device, a tensor for every pass; lanes take turns."""
        import torch

        height = max(1, TOKENS // length)
        for start in range(0, len(rows), height):
            self._turn = (self._turn + 1) % len(self._lanes)
            with torch.cuda.stream(self._lanes[self._turn]):
                logits = self._pass(length, height, rows[start : start + height])
            yield logits

    def _pass(self, length: int, height: int, rows: list[Encoded]) -> Any:
        """One pass; empty rows are copies of the first."""
        import torch

        graph, fed, logits = self._graph(length, height)
        arrays = self.clf.inputs.arrays([*rows, *rows[:1] * (height - len(rows))], width=length)
        for name, place in fed.items():
            place.copy_(torch.from_numpy(arrays[name]).pin_memory(), non_blocking=True)
        graph.replay()
        return logits[: len(rows)].clone()

    def _graph(self, length: int, height: int) -> tuple[Any, dict[str, Any], Any]:
        """Captured in the lane it will run in: libraries keep a scratch memory for every stream, which two passes must not share."""
        import torch

        key = length, self._turn
        if key not in self._graphs:
            device = self.clf.device
            fed = {
                name: torch.ones((height, length), dtype=torch.long, device=device) for name in self.clf.inputs.names
            }
            if "token_type_ids" in fed:
                fed["token_type_ids"].zero_()
            pool = self._pools.setdefault(self._turn, torch.cuda.graph_pool_handle())
            graph = torch.cuda.CUDAGraph()
            with attention(device, length, half=self.clf.model.dtype.itemsize == 2):
                for _ in range(2):  # libraries set themselves up in the first calls, which must not be captured
                    self.clf.model(**fed)
                torch.cuda.synchronize(device)
                with torch.cuda.graph(
                    graph, pool=pool, stream=self._lanes[self._turn], capture_error_mode="thread_local"
                ):
                    logits = self.clf.model(**fed).logits.float()
            self._graphs[key] = graph, fed, logits
        return self._graphs[key]

    def alike(self) -> bool:
        """Whether a probe gets the same bits at every position and beside any rows of its shape, at three lengths."""
        import torch

        limit = self.clf.max_length
        for size in sorted({min(limit, 13), min(limit, 40), max(3, limit - 3)}):
            dice = numpy_generator(0, "shapes", size)
            height = max(1, TOKENS // self.length(size))
            probe = self._noise(dice, size)
            seen = []
            for trial in range(TRIALS):
                company = [
                    self._noise(dice, int(dice.integers(max(1, self.length(size) - 7), self.length(size) + 1)))
                    for _ in range(height)
                ]
                company = [row for row in company if self.length(row.size) == self.length(size)] or [probe]
                place = int(dice.integers(0, min(height, len(company)))) if trial else 0
                company[place] = probe
                seen.append(self.logits(company[:height])[place])
            if not all(torch.equal(seen[0], other) for other in seen):
                return False
        return True

    def _noise(self, dice: np.random.Generator, size: int) -> Encoded:
        ids = dice.integers(0, self.clf.model.config.vocab_size, size).astype("<i4")
        return Encoded(data=ids.tobytes(), kinds=bytes(size) if self.clf.token_types else b"", size=size)


HEAD = "float32"  # and the pooler
AT_A_TIME = 512  # examples


def lowered(clf: Classifier, precision: str | None) -> Classifier:
    """``clf`` itself, or a copy that computes in ``precision``, up to its head."""
    if precision is None:
        return clf
    if not isinstance(clf, ModelClassifier):
        raise TicketsError(
            f"{clf.identity} is no model at hand: its precision cannot be lowered",
            hint="leave precision out, or load the model itself",
            code="attack.precision",
        )
    import torch

    twin = clf.copy()
    twin.model.to(getattr(torch, precision))
    for module in _head(twin.model):
        module.float()
        module.register_forward_pre_hook(_widened, with_kwargs=True)
    return twin


def _head(model: Any) -> list[Any]:
    """All that follows the encoder's layers."""
    encoder = encoder_of(model)
    if encoder is model:
        return []
    return [
        module
        for module in (getattr(encoder, "pooler", None), *model.children())
        if module is not None and module is not encoder
    ]


def _widened(_module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a module is given, with its floats as float32."""
    return tuple(map(_wide, given)), {name: _wide(value) for name, value in named.items()}


def _wide(value: Any) -> Any:
    import torch

    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def unconfirmed(clf: Classifier, lines: Iterable[bytes], target: Any) -> int:
    """How many outcomes ``clf`` does not confirm; ``target`` gives its class for a label of the task."""
    count = 0
    answered = (line for line in map(json.loads, lines) if line["status"] not in (UNKNOWN, ERROR))
    while some := list(islice(answered, AT_A_TIME)):
        texts = [tuple(text) for line in some for text in (line["original"], line["perturbed"] or line["original"])]
        predicted = clf.logits(texts).argmax(axis=1).reshape(-1, 2)
        for line, (before, after) in zip(some, predicted, strict=True):
            label = target(line["label"])
            status = SKIPPED if before != label else SUCCESS if after != label else FAILED
            count += status != line["status"]
    return count
