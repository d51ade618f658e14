"""Every registered adversary inside FineTune, on families with and without token types. New files join by being there."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from adversaries import generator, gradients, make, objective_on, recording
from refusing import refused
from robust_tickets.adversary.ascc import ASCC
from robust_tickets.adversary.freeat import FreeAT
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.infobert import InfoBERT
from robust_tickets.adversary.objective import Adversary, Kind, Objective, defined
from robust_tickets.adversary.pgd import PGD
from robust_tickets.adversary.smart import SMART
from robust_tickets.adversary.synonymhotflip import SynonymHotFlip
from robust_tickets.adversary.synonymswap import SynonymSwap
from robust_tickets.adversary.tavat import TAVAT
from robust_tickets.config import build_component, describe
from robust_tickets.errors import TicketsError
from robust_tickets.registry import ADVERSARIES
from robust_tickets.search.earlybert import EarlyBERT
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.imp import IMP
from robust_tickets.search.orticket import ORTicket
from robust_tickets.search.robustt import RobustT
from robust_tickets.train.finetune import FineTune
from tiny import tiny_classifier
from toy import toy_task

NAMES = ADVERSARIES.names()
FAMILIES = ["bert", "roberta"]
SHORT: dict[str, Any] = {"epochs": 1, "batch_size": 8, "lr": 1e-3, "evaluate": "never"}


@cache
def plainly(family: str, pairs: bool) -> str:
    task = toy_task(16, pairs=pairs)
    return str(FineTune(**SHORT)(tiny_classifier(family, columns=task.columns), task).digest)


@pytest.mark.parametrize(("family", "pairs"), [("bert", True), ("roberta", False)], ids=["bert-pairs", "roberta-texts"])
@pytest.mark.parametrize("name", NAMES)
def test_trains_and_resumes_bitwise(name: str, family: str, pairs: bool, tmp_path: Path) -> None:
    task, trainer = toy_task(16, pairs=pairs), FineTune(**SHORT, adversary=make(name))

    def start() -> Any:
        return tiny_classifier(family, columns=task.columns)

    whole = trainer(start(), task)
    trainer(start(), task, folder=tmp_path, stop_after=1)
    assert trainer(start(), task, folder=tmp_path).digest == whole.digest
    assert whole.digest != plainly(family, pairs), "an adversary changes what is learnt"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_padding_is_never_touched(name: str, family: str) -> None:
    adversary = make(name)
    objective = recording(objective_on(family, adversary=adversary))
    ids: list[torch.Tensor] = []
    objective.layout.words_of(objective.model).register_forward_pre_hook(
        lambda _module, args: ids.append(args[0].clone())
    )
    gradients(objective, adversary)
    padding = objective.inputs["attention_mask"] == 0
    assert padding.any()
    for delta in objective.seen:
        assert delta is None or (delta[padding] == 0).all()
    pad = objective.inputs["input_ids"][padding]
    whole = [seen for seen in ids if seen.shape == padding.shape]  # a look-up of candidates has another shape
    assert all(torch.equal(seen[padding], pad) for seen in whole)


@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_is_added_in_any_order(name: str) -> None:
    """Plain indexing (x[ids]) adds the gradients of repeated rows from several CPU threads as they come: no run would be the same."""
    adversary = make(name)
    met: set[str] = set()

    def backward(loss: torch.Tensor) -> None:
        waiting, seen = [loss.grad_fn], set()
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                met.add(node.name())
                waiting += [following for following, _ in node.next_functions]
        loss.backward()

    gradients(objective_on(adversary=adversary, backward=backward), adversary)
    assert "EmbeddingBackward0" in met
    assert not met & {"IndexBackward0", "IndexPutBackward0", "ScatterAddBackward0"}


@pytest.mark.parametrize("name", NAMES)
def test_token_types_reach_every_pass(name: str) -> None:
    adversary = make(name)
    objective = objective_on(adversary=adversary)
    seen: list[torch.Tensor] = []
    objective.model.bert.embeddings.token_type_embeddings.register_forward_pre_hook(
        lambda _module, args: seen.append(args[0].clone())
    )
    gradients(objective, adversary)
    assert seen
    assert objective.inputs["token_type_ids"].any()
    assert all(torch.equal(types, objective.inputs["token_type_ids"]) for types in seen)


@pytest.mark.parametrize("name", NAMES)
def test_masked_language_models_too_or_the_reason_why_not(name: str) -> None:
    adversary = make(name)
    if "mlm" not in adversary.defined_for:
        with refused("adversary.undefined"):
            defined(adversary, "mlm")
        return
    defined(adversary, "mlm")
    got, loss = gradients(objective_on(mlm=True, adversary=adversary), adversary)
    assert loss > 0
    assert all(torch.isfinite(gradient).all() for gradient in got.values())


@pytest.mark.parametrize("name", NAMES)
def test_bf16_is_near_fp32(name: str) -> None:
    losses = []
    for half in (True, False):
        adversary = make(name)
        objective = objective_on(adversary=adversary, double=False, half=half)
        got, loss = gradients(objective, adversary)
        assert loss.dtype == torch.float32
        assert all(gradient.dtype == torch.float32 and torch.isfinite(gradient).all() for gradient in got.values())
        losses.append(float(loss))
    assert losses[0] == pytest.approx(losses[1], rel=0.2)
    assert losses[0] != losses[1]


class Waiting(TorchDispatchMode):
    """Notes which of our files ask for something that an accelerator can answer only once it has finished."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masked = func.overloadpacket is torch.ops.aten.index and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        )
        name = str(func.overloadpacket)
        if masked or name in (
            "aten._local_scalar_dense",
            "aten.nonzero",
            "aten.masked_select",
            "aten.equal",
            "aten._unique2",
        ):
            frame: Any = sys._getframe(1)
            while frame is not None and not {"robust_tickets", "transformers"} & set(
                Path(frame.f_code.co_filename).parts
            ):
                frame = frame.f_back
            where = frame.f_code.co_filename if frame is not None else ""
            if "robust_tickets" in Path(where).parts:  # transformers itself looks whether a mask is all ones
                self.found.append(f"{where}:{frame.f_lineno} {name}")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", NAMES)
def test_no_step_waits_for_the_device(name: str) -> None:
    adversary = make(name)
    objective: Objective = objective_on(adversary=adversary)
    with Waiting() as waiting:
        adversary(objective)
    assert not waiting.found


@pytest.mark.parametrize("name", NAMES)
def test_goes_into_a_config_and_comes_back(name: str) -> None:
    adversary = make(name)
    assert build_component("adversaries", describe(adversary), "adversary") == adversary
    assert adversary.passes >= 1


@pytest.mark.parametrize("name", NAMES)
def test_draws_from_its_own_generator_alone(name: str) -> None:
    """Dropout reads torch's global stream; without dropout nothing does, and the same generator gives the same step."""
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        adversary = make(name)
        objective = objective_on(adversary=adversary, generator=generator())
        found.append(gradients(objective, adversary))
        assert torch.equal(torch.get_rng_state(), before)
    (one, loss), (other, again) = found
    assert torch.equal(loss, again)
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_enters_once_and_undivided(name: str) -> None:
    """Through the objective's own backward pass, which scales it; FreeAT adds it to each of its updates."""
    adversary = make(name)
    found, calls = [], list[int]()
    for strength in (0.0, 0.7):
        objective = objective_on(adversary=adversary, backward=lambda loss: (0.5 * loss).backward())
        bias = objective.model.classifier.bias
        objective.regulariser = lambda bias=bias, strength=strength: (calls.append(1), strength * bias.sum())[1]
        found.append(gradients(objective, adversary))
    (without, loss), (penalised, other) = found
    if adversary.updates == 1:
        assert len(calls) == 2
        assert torch.equal(loss, other)  # the reported loss is the data's, and no ascent was moved by the penalty
        for key, gradient in penalised.items():
            extra = 0.35 if key == "classifier.bias" else 0.0
            assert torch.allclose(gradient, without[key] + extra, rtol=0, atol=1e-12), key


class Odd(Adversary):
    defined_for: ClassVar[tuple[Kind, ...]] = ("classification",)


class Elsewhere(Adversary):
    defined_for: ClassVar[tuple[Kind, ...]] = ("mlm",)


METHODS: list[tuple[Any, dict[str, Any]]] = [(m, {}) for m in (FineTune, EarlyRobust, EarlyBERT, RobustT, IMP)]
METHODS.append((ORTicket, {"corpus": "task"}))


@pytest.mark.parametrize(("method", "needs"), METHODS)
def test_what_cannot_train_is_refused_when_the_method_is_made(method: Any, needs: dict[str, str]) -> None:
    for wrong in ("freelb", FreeLB):
        with refused("adversary.type"):
            method(adversary=wrong, **needs)
    with refused("adversary.accumulate"):
        method(adversary=FreeAT(), accumulate=2, **needs)
    method(adversary=FreeAT(), **needs)
    method(adversary=FreeLB(), accumulate=2, **needs)


def test_an_adversary_of_another_training_is_refused() -> None:
    defined(Odd(), "classification")
    defined(None, "mlm")
    for call, code in (
        (lambda: defined(Odd(), "mlm"), "adversary.undefined"),
        (lambda: FineTune(adversary=Elsewhere()), "adversary.undefined"),
        (lambda: RobustT(adversary=Elsewhere()), "adversary.undefined"),
        (lambda: EarlyRobust(adversary=Elsewhere())(tiny_classifier(), toy_task()), "adversary.undefined"),
    ):
        with refused(code):
            call()
    with refused("settings.rule"):
        RobustT(clip_scope="all", adversary=FreeAT())


WRONG: list[tuple[Any, dict[str, Any]]] = [
    *((kind, {"steps": 0}) for kind in (FreeLB, PGD, SMART, TAVAT, InfoBERT, ASCC)),
    *((FreeLB, wrong) for wrong in ({"init": -1.0}, {"norm": "l1"}, {"dropout": "none"})),
    (InfoBERT, {"low": 0.9, "high": 0.5}),
    *((SynonymSwap, wrong) for wrong in ({"p": 1.5}, {"candidates": 0}, {"source": None})),
    (SynonymHotFlip, {"p": float("nan")}),
    (TAVAT, {"norm": "linf"}),
]


@pytest.mark.parametrize(("kind", "wrong"), WRONG)
def test_wrong_settings_are_refused_by_name(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TicketsError, match=next(iter(wrong))):
        kind(**wrong)
