"""What tests of engines share: loops of every kind of step on tiny models, and a stand-in for CUDA graphs on the CPU.

The stand-in records the operations that a body runs and repeats them on the same tensors, with no Python between them, as a CUDA graph
does: what the body computed in Python is not computed again, and numbers that were baked in stay. What recording changed is put back, for a
CUDA graph computes nothing while it is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from adversaries import Reworded
from robust_tickets.adversary.ascc import ASCC
from robust_tickets.adversary.freeat import FreeAT
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.infobert import InfoBERT
from robust_tickets.adversary.objective import Ground
from robust_tickets.adversary.pgd import PGD
from robust_tickets.adversary.smart import SMART
from robust_tickets.adversary.synonymhotflip import SynonymHotFlip
from robust_tickets.adversary.synonymswap import SynonymSwap
from robust_tickets.adversary.tavat import TAVAT
from robust_tickets.backbone.layout import layout_of
from robust_tickets.backbone.weight_masks import attach
from robust_tickets.data.mlm import IGNORED
from robust_tickets.prune.compact import compact
from robust_tickets.prune.gates import Gates
from robust_tickets.prune.hardconcrete import HardConcrete
from robust_tickets.search.random import RandomTicket
from robust_tickets.seeds import torch_generator
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.update import Unclipped, make_step
from tiny import tiny_classifier, tiny_model
from toy import toy_task

Batch = dict[str, torch.Tensor]
KINDS: dict[str, Callable[[], Any]] = {
    "plain": lambda: None,
    "freelb": lambda: FreeLB(steps=3, step_size=0.1),
    "pgd": lambda: PGD(steps=2, step_size=0.1),
    "wasteful": lambda: PGD(steps=2, step_size=0.1, naive=True),
    "freeat": lambda: FreeAT(replays=3),
    "smart": lambda: SMART(),
    "infobert": lambda: InfoBERT(steps=2),
    "tavat": lambda: TAVAT(),
    "swap": lambda: SynonymSwap(),
    "ascc": lambda: ASCC(),
    "hotflip": lambda: SynonymHotFlip(),
    "search": lambda: FreeLB(steps=2, step_size=0.1),
    "gates": lambda: FreeLB(steps=2, step_size=0.1),
    "head-gates": lambda: FreeLB(steps=2, step_size=0.1),
    "gates-and-weights": lambda: None,
    "masks": lambda: FreeLB(steps=2, step_size=0.1),
    "views": lambda: Reworded(),
    "mlm": lambda: FreeLB(steps=2, step_size=0.1),
    "ticket": lambda: FreeLB(steps=2, step_size=0.1),  # compact, of uneven and odd widths
}


def loop_on(
    kind: str,
    family: str = "bert",
    *,
    precision: Any = "bf16",
    engine: Any = "eager",
    device: str = "cpu",
    dropout: float = 0.1,
    adversary: Any = None,
    clip: float = 1.0,
    trained: Callable[[str], bool] = lambda name: True,
) -> TrainingRun:
    """A loop that has begun: ``loop.engine.update([batch], done)`` is one update. ``trained``: the parameters that are not frozen."""
    settings = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    clf = tiny_classifier(family, **settings)
    if kind == "ticket":
        clf = compact(clf, RandomTicket(heads=0.25, neurons=0.4, seed=5)(clf).ticket)
    model = (tiny_model(family, "AutoModelForMaskedLM", **settings) if kind == "mlm" else clf.model).to(device)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained(name))
    generators = {name: torch_generator(0, name, device=torch.device(device)) for name in ("adversary", "gates")}
    parts, gates, extra = {"model": model}, None, {}
    if kind == "search":
        gates = Gates(model).attach()
        parts["gates"], extra["regulariser"] = gates, lambda: gates.l1(1e-3, 1e-3)
    if "gates" in kind:
        granularity: Any = "weight" if kind == "gates" else "head"
        freeze = kind != "gates-and-weights"
        gates = HardConcrete(model, generator=generators["gates"], granularity=granularity, freeze=freeze).attach()
        parts["gates"] = gates
    if kind == "masks":
        dice = torch_generator(1, "masks")
        matrices = layout_of(model).matrices_of(model)
        attach(
            model, {name: torch.rand(module.weight.shape, generator=dice) < 0.7 for name, module in matrices.items()}
        )
    step = make_step(
        model,
        generator=generators["adversary"],
        adversary=adversary or KINDS[kind](),
        precision=precision,
        ground=Ground(
            model=model, layout=layout_of(model), tokenizer=clf.tokenizer, split=toy_task().train, labels=("a", "b")
        ),
        gates=gates,
        **extra,
    )
    penalty = Unclipped(loss=lambda: gates.regulariser(), weight=lambda done: 0.1 * done) if "gates" in kind else None
    loop = TrainingRun(
        settings=FineTune(lr=1e-2, warmup=0.1, weight_decay=0.01, clip=clip, epochs=1, engine=engine),
        model=model,
        batches=[None] * 40,  # type: ignore[arg-type]  # never read: only their number counts here
    )
    loop.title, loop.seed, loop.generators = kind, 0, generators
    loop.unclipped, loop.evaluate = penalty, None
    loop._prepare(parts, step, {"gates": 3e-2})
    loop.engine.continues = True  # as recorded updates draw: engines are compared draw by draw
    loop._begin()
    return loop


def batches(kind: str = "", *, device: str = "cpu") -> list[Batch]:
    """Two lengths, and a batch of fewer rows."""
    made = []
    for rows, tokens in ((4, 12), (4, 16), (3, 12)):
        dice = torch_generator(rows * tokens, "batch")
        ids = torch.randint(5, 60, (rows, tokens), generator=dice)
        mask = torch.ones_like(ids)
        mask[1, tokens - 3 :] = 0
        batch = {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.arange(rows) % 2}
        if kind == "views":
            batch |= {"shuffled/input_ids": ids[:, :10], "shuffled/attention_mask": mask[:, :10]}
        if kind == "mlm":
            batch["labels"] = torch.where((torch.rand(ids.shape, generator=dice) < 0.3) & mask.bool(), ids, IGNORED)
        made.append({name: value.to(device) for name, value in batch.items()})
    return made


def run(
    loop: TrainingRun, count: int, *, accumulate: int = 1, device: str = "cpu"
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """The losses of ``count`` updates, and the parameters after them."""
    made = batches(loop.title, device=device)
    losses = [
        loop.engine.update([made[(i * accumulate + j) % len(made)] for j in range(accumulate)], i) for i in range(count)
    ]
    return [float(loss) for loss in losses], {name: p.detach().clone() for name, p in loop.parameters.items()}


def gradients(loop: TrainingRun, *, accumulate: int = 1) -> dict[str, torch.Tensor]:
    """What one update leaves behind."""
    loop.engine.update(batches(loop.title)[:accumulate], 0)
    return {name: p.grad.clone() for name, p in loop.parameters.items() if p.grad is not None}


class Tape(TorchDispatchMode):
    """Notes every operation, and what it overwrote."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[tuple[Any, Any, Any, Any]] = []
        self.before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[place] if place < len(args) else kwargs.get(argument.name)
                for tensor in tree_leaves(given):
                    if isinstance(tensor, torch.Tensor):
                        self.before.setdefault(id(tensor), (tensor, tensor.detach().clone()))
        out = func(*args, **kwargs)
        self.notes.append((func, args, kwargs, out))
        return out


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    replays = 0

    def register_generator_state(self, generator: torch.Generator) -> None:
        self.generators = [*getattr(self, "generators", []), generator]

    @contextmanager
    def recording(self) -> Iterator[None]:
        streams = [torch.default_generator, *getattr(self, "generators", [])]
        places = [stream.get_state() for stream in streams]
        self.tape = Tape()
        try:
            with self.tape:
                yield
        finally:
            with torch.no_grad():
                for tensor, value in reversed(
                    self.tape.before.values()
                ):  # of two views of one memory, the first has the oldest value
                    tensor.copy_(value)
            for stream, place in zip(streams, places, strict=True):
                stream.set_state(place)

    @torch.no_grad()
    def replay(self) -> None:
        Graph.replays += 1
        for func, args, kwargs, out in self.tape.notes:
            for old, new in zip(tree_leaves(out), tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, torch.Tensor) and old is not new:
                    old.data.copy_(new)


class Stream:
    """Stands in for torch.cuda.Stream; a type, for it stands in annotations of modules that are imported meanwhile."""

    device = torch.device("cpu")

    def __init__(self, *_: Any) -> None: ...

    def wait_stream(self, _: Any) -> None: ...


@pytest.fixture
def graphs_on_cpu(monkeypatch: pytest.MonkeyPatch) -> type[Graph]:
    """``engine="graph"`` works on the CPU, with the stand-in."""
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: stream)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph, **_: graph.recording())
    monkeypatch.setattr(
        "robust_tickets.train.cuda.graphs.random_streams", lambda engine: list(engine.generators.values())
    )
    monkeypatch.setattr("robust_tickets.train.cuda.graphs.mend", lambda stream, place: stream.set_state(place))
    monkeypatch.setattr("robust_tickets.train.cuda.graphs.release", lambda device, pool: None)
    monkeypatch.setattr("robust_tickets.train.update.on_device", lambda device: True)
    monkeypatch.setattr("robust_tickets.train.cuda.capturable", lambda device: True)
    Graph.replays = 0
    return Graph
