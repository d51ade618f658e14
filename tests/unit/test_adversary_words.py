"""SynonymSwap, SynonymHotFlip and ASCC against slow, literal references in fp64, and what every adversary in word space promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from adversaries import agree, generator, gradients, gradients_of, objective_on
from refusing import refused
from robust_tickets.adversary.ascc import ASCC
from robust_tickets.adversary.objective import IGNORED, Objective
from robust_tickets.adversary.synonymhotflip import SynonymHotFlip
from robust_tickets.adversary.synonymswap import SynonymSwap
from robust_tickets.adversary.words import Words
from robust_tickets.stages import identity_of
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.update import make_step, plain
from tiny import tiny_classifier
from toy import QUICK, toy_task

LISTS = {
    "good": ["great", "fine", "unheard"],
    "great": ["good"],
    "fine": ["good", "great", "poor"],
    "bad": ["awful", "poor"],
    "awful": ["bad"],
    "poor": ["bad", "awful"],
    "film": ["movie"],
    "movie": ["film", "story", "plot"],
    "story": ["plot"],
    "the": ["a"],  # a stop word
}
TEXTS = [
    ("the goods film is good", "a fine plot"),
    ("bad", "story was very very awful"),
    ("not a fine movie at all", "great"),
]
Adversary = SynonymSwap | SynonymHotFlip | ASCC


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    return str(tmp_path / "lists.json")


def _objective(adversary: Any, **changes: Any) -> Objective:
    """On texts that hold longer words ("goods", "at") and words at the rim."""
    return objective_on(adversary=adversary, texts=TEXTS, **changes)


def _table(objective: Objective) -> list[list[list[int]]]:
    """The candidates of every place, itself first, written out from LISTS and the tokens; [id] where nothing may be swapped."""
    tokenizer = tiny_classifier().tokenizer
    batch = objective.inputs
    rows = []
    for ids, mask, labels in zip(
        batch["input_ids"].tolist(), batch["attention_mask"].tolist(), objective.labels, strict=True
    ):
        tokens, row = tokenizer.convert_ids_to_tokens(ids), []
        for t, (number, token) in enumerate(zip(ids, tokens, strict=True)):
            longer = t + 1 < len(ids) and tokens[t + 1].startswith("##")
            asked = labels.ndim > 0 and int(labels[t]) != IGNORED
            near = [w for w in LISTS.get(token, []) if w in tokenizer.get_vocab()] if token != "the" else []
            free = near and mask[t] and not longer and not asked
            row.append([number, *tokenizer.convert_tokens_to_ids(near)] if free else [number])
        rows.append(row)
    return rows


def _logits(objective: Objective, embedded: torch.Tensor) -> torch.Tensor:
    kept = {key: objective.inputs[key] for key in ("attention_mask", "token_type_ids")}
    return objective.model(inputs_embeds=embedded, **kept).logits


def _cross_entropy(objective: Objective, ids: torch.Tensor) -> torch.Tensor:
    logits = _logits(objective, objective.words[ids])
    return F.cross_entropy(logits.flatten(0, -2), objective.labels.flatten())


def _swap(objective: Objective, adversary: SynonymSwap) -> torch.Tensor:
    draws = generator()
    ids = objective.inputs["input_ids"].clone()
    whether, which = (torch.rand(ids.shape, generator=draws) for _ in range(2))
    for i, row in enumerate(_table(objective)):
        for t, candidates in enumerate(row):
            if len(candidates) > 1 and whether[i, t] < adversary.p:
                ids[i, t] = candidates[int(which[i, t] * len(candidates))]
    assert adversary.p == 0 or not torch.equal(ids, objective.inputs["input_ids"])
    return adversary.mix * _cross_entropy(objective, objective.inputs["input_ids"]) + (
        1 - adversary.mix
    ) * _cross_entropy(objective, ids)


def _hotflip(objective: Objective, adversary: SynonymHotFlip) -> torch.Tensor:
    ids = objective.inputs["input_ids"].clone()
    embedded = objective.words.detach()[ids].requires_grad_()
    loss = F.cross_entropy(_logits(objective, embedded).flatten(0, -2), objective.labels.flatten())
    (g,) = torch.autograd.grad(loss, embedded)
    whether = torch.rand(ids.shape, generator=generator())
    table = objective.words.detach()
    for i, row in enumerate(_table(objective)):
        for t, (own, *others) in enumerate(row):
            gains = [float(((table[c] - table[own]) * g[i, t]).sum()) for c in others]
            if gains and max(gains) > 0 and whether[i, t] < adversary.p:
                ids[i, t] = others[gains.index(max(gains))]
    assert not torch.equal(ids, objective.inputs["input_ids"])
    return (_cross_entropy(objective, objective.inputs["input_ids"]) + _cross_entropy(objective, ids)) / 2


def _mixes(objective: Objective, w: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    rows = []
    for i, row in enumerate(_table(objective)):
        mixed = []
        for t, candidates in enumerate(row):
            weights = torch.exp(w[i, t, : len(candidates)]) / torch.exp(w[i, t, : len(candidates)]).sum()
            mixed.append(
                sum((weight * words[c] for weight, c in zip(weights, candidates, strict=True)), torch.zeros(()))
            )
        rows.append(torch.stack(mixed))
    return torch.stack(rows)


def _apart(objective: Objective, adversary: ASCC, adversarial: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
    p, q = adversarial.softmax(-1), clean.softmax(-1)
    if adversary.divergence == "clean":
        p, q = q, p
    each = (p * torch.log(p / q)).sum(-1)
    labels = objective.labels
    return each.mean() if each.ndim == 1 else each[labels != IGNORED].mean()


def _ascc(objective: Objective, adversary: ASCC) -> torch.Tensor:
    ids, table = objective.inputs["input_ids"], _table(objective)
    most = max(len(near) for near in LISTS.values()) + 1
    w = torch.randn((*ids.shape, most), generator=generator(), dtype=torch.float64) * adversary.init
    clean = _logits(objective, objective.words[ids])
    w = w.requires_grad_()
    adam = torch.optim.Adam([w], lr=adversary.step, maximize=True)
    for _ in range(adversary.steps):
        apart = _apart(
            objective, adversary, _logits(objective, _mixes(objective, w, objective.words.detach())), clean.detach()
        )
        entropies = []
        for i, row in enumerate(table):
            for t, candidates in enumerate(row):
                weights = w[i, t, : len(candidates)].softmax(-1)
                entropies += [-(weights * weights.log()).sum()] if len(candidates) > 1 else []
        (w.grad,) = torch.autograd.grad(
            apart - adversary.sparsity * sum(entropies, torch.zeros(())) / len(entropies), w
        )
        if adversary.ascent == "adam":
            adam.step()
            continue
        with torch.no_grad():
            for i, row in enumerate(table):
                for t in range(len(row)):
                    w[i, t] += adversary.step * w.grad[i, t] / max(float(w.grad[i, t].norm()), 1e-8)
    adversarial = _logits(objective, _mixes(objective, w.detach(), objective.words))
    loss = F.cross_entropy(clean.flatten(0, -2), objective.labels.flatten())
    return loss + adversary.alpha * _apart(objective, adversary, adversarial, clean)


STEPS: list[tuple[type[Adversary], dict[str, Any], Callable[..., torch.Tensor]]] = [
    (SynonymSwap, {}, _swap),
    (SynonymSwap, {"p": 1.0, "mix": 0.0}, _swap),
    (SynonymSwap, {"p": 0.9, "mix": 0.3}, _swap),
    (SynonymHotFlip, {}, _hotflip),
    (SynonymHotFlip, {"p": 1.0}, _hotflip),
    (ASCC, {}, _ascc),
    (ASCC, {"steps": 3, "step": 0.5, "sparsity": 0.0, "divergence": "clean"}, _ascc),
    (ASCC, {"steps": 4, "step": 1.0, "ascent": "adam", "sparsity": 15.0, "init": 0.1, "alpha": 2.0}, _ascc),
]


@pytest.mark.parametrize("mlm", [False, True], ids=["classifier", "mlm"])
@pytest.mark.parametrize(("kind", "settings", "reference"), STEPS, ids=[f"{k.__name__}-{s}" for k, s, _ in STEPS])
def test_equals_a_literal_reference(
    kind: type[Adversary], settings: dict[str, Any], reference: Callable[..., torch.Tensor], mlm: bool, source: str
) -> None:
    adversary = kind(source=source, **settings)
    objective = _objective(adversary, mlm=mlm)
    loss = reference(objective, adversary)
    expected = gradients_of(loss, objective)
    got, value = gradients(objective, adversary)
    assert abs(float(value) - float(loss.detach())) < 1e-9
    agree(got, expected)


def test_the_swappable_places_are_those_of_the_lists(source: str) -> None:
    for mlm in (False, True):
        objective = _objective(SynonymSwap(source=source), mlm=mlm)
        assert isinstance(objective.memory, Words)
        expected = [[len(candidates) > 1 for candidates in row] for row in _table(objective)]
        assert objective.memory.swappable(objective.inputs, objective.labels).tolist() == expected
        assert any(map(any, expected))


def test_a_word_whose_continuation_is_masked_stays(source: str) -> None:
    objective = _objective(SynonymSwap(source=source), mlm=True)
    words, clf = objective.memory, tiny_classifier()
    assert isinstance(words, Words)
    (ids,) = clf.encode([("goods good",)])
    batch = clf.batch([ids])
    tokens = clf.tokenizer.convert_ids_to_tokens(batch["input_ids"][0].tolist())
    piece = tokens.index("##s")
    labels = torch.full_like(batch["input_ids"], IGNORED)
    labels[0, piece] = batch["input_ids"][0, piece]
    batch["input_ids"][0, piece] = clf.tokenizer.mask_token_id
    assert words.swappable(batch, labels)[0].tolist() == [t == tokens.index("good", piece) for t in range(len(tokens))]


def test_without_a_swap_it_is_a_plain_step(source: str) -> None:
    for adversary in (SynonymSwap(source=source, p=0.0, mix=0.0), SynonymSwap(source=source, mix=1.0)):
        objective = _objective(adversary, double=False)
        expected, loss = gradients(objective, plain)
        got, value = gradients(objective, adversary)
        assert adversary.passes == 1
        assert torch.equal(loss, value)
        assert all(torch.equal(got[name], expected[name]) for name in expected)
    for half in (
        SynonymSwap(source=source, p=0.0),
        SynonymHotFlip(source=source, p=0.0),
        ASCC(source=source, alpha=0.0),
    ):
        objective = _objective(half)
        expected, loss = gradients(objective, plain)
        got, value = gradients(objective, half)
        assert abs(float(loss) - float(value)) < 1e-12
        agree(got, expected, 1e-12)


def test_the_content_of_the_source_is_in_a_runs_identity(source: str, tmp_path: Path) -> None:
    trainer, clf, task = FineTune(**QUICK, adversary=SynonymSwap(source=source)), tiny_classifier(), toy_task()  # type: ignore[arg-type]
    before = identity_of(trainer, clf, task)
    assert identity_of(trainer, clf, task) == before
    Path(source).write_text(json.dumps({**LISTS, "good": ["poor"]}))
    assert identity_of(trainer, clf, task) != before


@pytest.mark.parametrize("lists", [{}, {"zebra": ["horse"]}, {"good": ["goodish"]}, {"the": ["a"]}])
def test_a_source_that_swaps_nothing_is_refused(lists: dict[str, list[str]], tmp_path: Path) -> None:
    """It would train on clean texts and call it adversarial."""
    (tmp_path / "mine.json").write_text(json.dumps(lists))
    with refused("adversary.swaps_nothing"):
        FineTune(**QUICK, adversary=ASCC(source=str(tmp_path / "mine.json")))(tiny_classifier(), toy_task())  # type: ignore[arg-type]
    with refused("adversary.tokenizer"):
        make_step(tiny_classifier().model, generator=generator(), adversary=SynonymSwap())
