"""One training step of every kind as this package makes it, through its own loop, on synthetic or given batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from robust_tickets import PGD, FreeLB, SynonymSwap
from robust_tickets.adversary.words import Words
from robust_tickets.backbone.cost import flops
from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune.gates import Gates
from robust_tickets.prune.hardconcrete import HardConcrete
from robust_tickets.resources.kinds import Resource
from robust_tickets.resources.synonyms import SynonymTable
from robust_tickets.seeds import torch_generator
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.update import Precision, Step, Unclipped, make_step

Engines = Literal["auto", "eager", "graph"]
SYNONYMS = 8  # candidates of every word of the synthetic table


@dataclass(frozen=True, kw_only=True)
class Swaps(SynonymSwap):
    """SynonymSwap over a table in which every word has synonyms: a real one needs a tokenizer, and costs the same."""

    def begin(self, ground: Any) -> Words:
        rows = ground.words.shape[0]
        others = np.random.default_rng(0).integers(0, rows, (rows, SYNONYMS))
        no = np.zeros(rows, dtype=bool)
        return Words(
            SynonymTable(
                candidates=np.concatenate([np.arange(rows)[:, None], others], axis=1).astype(np.int32),
                counts=np.full(rows, 1 + SYNONYMS, dtype=np.int32),
                joined=no,
                open=no,
                source=Resource(
                    kind="synonyms",
                    name="synthetic",
                    path=Path("synthetic"),
                    origin="made here",
                    digest="",
                    substitute=True,
                ),
            )
        )


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a step does. ``reference`` names its counterpart in the reference profile."""

    title: str
    reference: str
    adversary: Any = None
    coefficients: bool = False
    gates: str = ""  # granularity of hard-concrete gates
    of_words: bool = False

    @property
    def passes(self) -> float:
        """Forward and backward passes, or what costs as much."""
        return float(getattr(self.adversary, "passes", 1))

    @property
    def steps(self) -> int:
        return int(getattr(self.adversary, "steps", 1))


KINDS = {
    "finetune": Kind(title="fine-tune", reference="finetune"),
    "freelb": Kind(title="FreeLB-5", reference="freelb", adversary=FreeLB(steps=5)),
    "pgd": Kind(title="PGD-5", reference="pgd", adversary=PGD(steps=5)),
    "search": Kind(title="EarlyRobust search", reference="search", adversary=FreeLB(steps=5), coefficients=True),
    "gates": Kind(
        title="RobustT gates (FreeLB-3)", reference="gates", adversary=FreeLB(steps=3, step_size=0.03), gates="weight"
    ),
    "synonymswap": Kind(title="SynonymSwap", reference="synonymswap", adversary=Swaps()),
    "mlm": Kind(title="masked words", reference="mlm", of_words=True),
    "orticket": Kind(
        title="ORTicket search", reference="orticket", adversary=FreeLB(steps=5), coefficients=True, of_words=True
    ),
}
WASTEFUL = replace(
    KINDS["pgd"], adversary=PGD(steps=5, naive=True)
)  # all gradients in the ascents, as the papers' baseline


class Endless:
    """Stands for the data: the loop asks for its length only."""

    def __len__(self) -> int:
        return 1_000_000


def config_of(*, tiny: bool, **changes: Any) -> Any:
    """BERT-base's config, or one that a CPU steps through in milliseconds."""
    from transformers import BertConfig

    small = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 300,
    }
    return BertConfig(**{"num_labels": 2, **(small if tiny else {}), **changes})


def model_of(config: Any, device: torch.device, *, of_words: bool = False) -> Any:
    """Random weights: times do not depend on them."""
    from transformers import BertForMaskedLM, BertForSequenceClassification

    torch.manual_seed(0)
    with torch.device(device):
        return (BertForMaskedLM if of_words else BertForSequenceClassification)(config).train()


def batch_of(
    rows: int, tokens: int, vocabulary: int, device: torch.device, *, of_words: bool = False
) -> dict[str, Tensor]:
    """Random words without padding; two classes, or 15 % of the words asked for."""
    generator = torch_generator(0, "ids")
    ids = torch.randint(min(1000, vocabulary // 2), vocabulary, (rows, tokens), generator=generator)
    labels = torch.arange(rows) % 2
    if of_words:
        labels = torch.where(torch.rand(ids.shape, generator=generator) < 0.15, ids, -100)
    batch = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "token_type_ids": torch.zeros_like(ids),
        "labels": labels,
    }
    return {name: value.to(device) for name, value in batch.items()}


class Updates:
    """``updates(batch)`` makes one whole update, as training does: gradients, clipping, schedule, AdamW."""

    def __init__(self, loop: TrainingRun, parts: Mapping[str, nn.Module], step: Step) -> None:
        loop._prepare(parts, step)
        loop._begin()
        self.loop = loop

    def __call__(self, batch: Mapping[str, Tensor]) -> Tensor:
        loss = self.loop.engine.update([batch], self.loop.done)
        self.loop.done += 1
        return loss

    @property
    def engine(self) -> str:
        """What it has come to: a graph engine that could not record, for want of memory say, runs eagerly."""
        engine: Any = self.loop.engine
        return "graph" if getattr(engine, "graphs", None) and not engine.refused else "eager"


def updates(kind: Kind, model: Any, *, engine: Engines, precision: Precision) -> Updates:
    """Updates of ``model``, which each caller gives its own."""
    device = next(model.parameters()).device
    generator = torch_generator(0, "benchmark", device=device)
    parts: dict[str, nn.Module] = {"model": model}
    generators = {"adversary": generator}
    penalty: Unclipped | None = None
    gates: Any = None
    regulariser = None
    if kind.coefficients:
        gates = Gates(model).attach()
        regulariser = lambda: gates.l1(1e-4, 3e-4)  # noqa: E731
    if kind.gates:
        generators["gates"] = torch_generator(0, "gates", device=device)
        gates = HardConcrete(model, generator=generators["gates"], granularity=kind.gates).attach()  # type: ignore[arg-type]
        penalty = Unclipped(loss=gates.regulariser, weight=lambda _done: 0.1)
    if gates is not None:
        parts["gates"] = gates
    step = make_step(
        model, generator=generator, adversary=kind.adversary, precision=precision, regulariser=regulariser, gates=gates
    )
    run = TrainingRun(settings=FineTune(weight_decay=1e-2, epochs=1, engine=engine), model=model, batches=Endless())
    run.seed, run.generators, run.unclipped, run.evaluate = 0, generators, penalty, None
    return Updates(run, parts, step)


def step_flops(model: Any, rows: int, tokens: int, passes: float) -> float:
    """FLOPs of a step: 3 × those of a forward pass (once forward, twice backward) × passes × texts. The head of words reads every token."""
    forward = float(flops(model, tokens))
    if hasattr(model, "cls"):  # flops() has a head read one token
        forward += (tokens - 1) * sum(2 * m.weight.numel() for m in model.cls.modules() if isinstance(m, nn.Linear))
    return 3 * forward * passes * rows


def layers_of(config: Any) -> dict[str, int]:
    """The reference's shape of a config."""
    return {
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "width": config.hidden_size,
        "neurons": config.intermediate_size,
        "vocabulary": config.vocab_size,
        "labels": config.num_labels,
    }


def gates_in(model: Any, kind: Kind) -> int:
    """How many gates or coefficients a step of ``kind`` trains."""
    layout = layout_of(model)
    if kind.coefficients:
        return sum(layout.heads_of(model)) + sum(layout.neurons_of(model))
    if not kind.gates:
        return 0
    gates = HardConcrete(model, generator=torch_generator(0, "gates", device=model.device), granularity=kind.gates)  # type: ignore[arg-type]
    return sum(p.numel() for p in gates.log_alpha)
