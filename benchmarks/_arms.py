"""What the headline compares: a task and a classifier, batches in two orders, and the arms that take steps on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from _ours import KINDS, WASTEFUL, batch_of, config_of, layers_of, updates
from _reference import Reference, Shape
from torch import Tensor

import robust_tickets as rt
from robust_tickets.classifier import ModelClassifier
from robust_tickets.data.task import Split, Task
from robust_tickets.seeds import numpy_generator

LENGTHS = {"sst2": 128, "imdb": 256}  # the papers' longest texts, in tokens
CORPUS = (8, 128)  # ORTicket's batch and block
ALWAYS, SOMETIMES = 1, 10  # turns between two steps of an arm

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Arm:
    """``take(batch)`` is one step; ``order`` says whose batches it reads; it takes a step every ``every`` turns."""

    take: Callable[[Batch], Any]
    order: str  # "ours", "random" (the reference's own), "blocks"
    every: int = SOMETIMES
    passes: float = 1.0

    records: bool = False  # graphs

    @property
    def engine(self) -> str:
        return getattr(self.take, "engine", "eager")


def task_of(name: str, data: Path | None, *, tiny: bool) -> Task:
    if not tiny:
        return rt.load_task(name, data=data / name) if data else rt.load_task(name)
    generator = numpy_generator(0, "texts")
    texts = [" ".join(generator.choice(list("abcdefgh"), size)) for size in generator.integers(2, 20, 80)]
    labels = [i % 2 for i in range(len(texts))]
    splits = {
        "train": Split.of(texts[:64], labels[:64], name="train"),
        "validation": Split.of(texts[64:], labels[64:], name="validation"),
    }
    return Task(name=name, labels=("a", "b"), columns=("text",), splits=splits, test_split="validation")


def classifier_of(name: str, task: Task, model: Path | None, device: torch.device, *, tiny: bool) -> tuple[Any, str]:
    """The classifier, and what its weights are: a folder without weights (a config and a tokenizer) gives random ones."""
    from transformers import AutoConfig, AutoTokenizer, BertForSequenceClassification

    config, tokenizer, length = config_of(tiny=True), tiny_tokenizer(), 24
    if not tiny:
        if model is None:
            raise SystemExit("--model FOLDER: BERT-base, or its config.json and tokenizer.json for random weights")
        length = LENGTHS[name]
        if any(model.glob("*.safetensors")):
            return rt.load_classifier(model, task, max_length=length, device=str(device)), "pretrained"
        config, tokenizer = (
            AutoConfig.from_pretrained(model, num_labels=len(task.labels)),
            AutoTokenizer.from_pretrained(model),
        )
    torch.manual_seed(0)
    made = BertForSequenceClassification(config)
    return ModelClassifier(
        model=made, tokenizer=tokenizer, labels=task.labels, max_length=length, identity="random"
    ).to(device), "random"


def tiny_tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: i for i, token in enumerate([*special, *"abcdefgh"])}
    backend = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = Whitespace()
    backend.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=["input_ids", "token_type_ids", "attention_mask"], **names
    )


def our_batches(clf: Any, task: Task, size: int, count: int) -> list[Batch]:
    """As training reads them: sorted by length inside pools, padded to one of a few widths. Whole batches only."""
    from robust_tickets.data.batching import batches_of

    source = batches_of(clf, task, size, 0, reads=10 * len(task.train) // size, widths=True)
    whole = (batch for epoch in range(count) for batch in source.epoch(epoch) if len(batch) == size)
    return [_on(batch.tensors(), clf.device) for batch in islice(whole, count)]


def random_batches(clf: Any, task: Task, size: int, count: int) -> list[Batch]:
    """The reference's: rows in random order, padded to the batch's longest."""
    made: list[Batch] = []
    order = numpy_generator(0, "random order")
    while len(made) < count:
        rows = order.permutation(len(task.train))
        for start in range(0, len(rows) - size + 1, size):
            examples = task.train.take(rows[start : start + size])
            encoded = clf.tokenizer(
                [example.texts[0] for example in examples],
                truncation=True,
                max_length=clf.max_length,
                padding=True,
                return_tensors="pt",
                return_token_type_ids=True,
            )
            made.append(_on({**encoded, "labels": torch.tensor([example.label for example in examples])}, clf.device))
            if len(made) == count:
                break
    return made


def blocks(clf: Any, count: int) -> list[Batch]:
    """Masked words, synthetic: blocks have one length."""
    vocabulary = clf.model.config.vocab_size
    return [batch_of(*((2, 16) if vocabulary < 1000 else CORPUS), vocabulary, clf.device, of_words=True)] * count


def _on(batch: Mapping[str, Tensor], device: torch.device) -> Batch:
    return {name: value.to(device) for name, value in batch.items() if name != "index"}


def arms_of(clf: Any, small: Any, graphs: bool) -> dict[str, Arm]:
    """Every arm, each on a model of its own. ``small`` is the compact ticket. Without ``graphs`` (no CUDA) all of ours are eager."""
    from transformers import BertForMaskedLM

    shape = Shape(**layers_of(clf.model.config))
    device, fast = clf.device, "graph" if graphs else "eager"

    def ours(
        name: str, every: int, *, engine: Any = fast, precision: Any = "bf16", kind: Any = None, model: Any = None
    ) -> Arm:
        kind = kind or KINDS[name]
        take = updates(kind, (model or clf.copy().model).train(), engine=engine, precision=precision)
        return Arm(take, "blocks" if kind.of_words else "ours", every, kind.passes, records=engine == "graph")

    def reference(name: str, order: str, every: int, **more: Any) -> Arm:
        step = Reference(name, shape, device, steps=KINDS[name].steps, **more)
        return Arm(step, order, every, step.passes)

    masked = BertForMaskedLM(clf.model.config).to(device)
    return {
        "reference pgd": reference("pgd", "random", ALWAYS),
        "pgd": ours("pgd", ALWAYS),
        "finetune": ours("finetune", ALWAYS),
        "search": ours("search", ALWAYS),
        "ticket": ours("finetune", ALWAYS, model=small.model),
        # where the factor comes from, one change a line
        "reference pgd, our batches": reference("pgd", "ours", SOMETIMES),
        "reference pgd, our batches, fused AdamW": reference("pgd", "ours", SOMETIMES, fused=True),
        "wasteful pgd, eager fp32": ours("pgd", SOMETIMES, engine="eager", precision="fp32", kind=WASTEFUL),
        "wasteful pgd, eager": ours("pgd", SOMETIMES, engine="eager", kind=WASTEFUL),
        "wasteful pgd": ours("pgd", SOMETIMES, kind=WASTEFUL),
        # the other methods
        "reference finetune": reference("finetune", "random", SOMETIMES),
        "reference freelb": reference("freelb", "random", SOMETIMES),
        "reference gates": reference("gates", "random", SOMETIMES),
        "freelb": ours("freelb", SOMETIMES),
        "gates": ours("gates", SOMETIMES),
        "orticket": ours("orticket", SOMETIMES, model=masked),
    }
