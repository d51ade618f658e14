"""RobustT on tiny models: the ramp, the two stages, resuming, drawing, switches, and the papers' tables."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from killing import killed
from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune.hardconcrete import START, HardConcrete
from robust_tickets.search import base
from robust_tickets.search.robustt import GateTrace, RobustT
from robust_tickets.seeds import torch_generator
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import toy_task

TUNE = FineTune(epochs=2, batch_size=8, lr=1e-3, evaluate="never")
SMALL: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 8,
    "tuning": TUNE,
    "adversary": FreeLB(steps=2),
    "trace_every": 4,
    "warmup": 0.0,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("robustt")
    clf, task = tiny_classifier(), toy_task(40)
    before = clf.digest
    found = RobustT(**SMALL)(clf, task, folder=folder)
    return clf, task, before, found, folder


# --- the ramp -------------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3000), st.floats(0, 2), st.sampled_from(["corrected", "official"]))
def test_the_ramp(step: int, penalty: float, ramp: Any) -> None:
    """0 until 10 % (released: 3.3 %) of training, full from 40 % (13.3 %), a line between."""
    total, scale = 3000, 3 if ramp == "official" else 1
    got = RobustT(penalty=penalty, ramp=ramp).penalty_at(step, total)
    if step * scale <= 300:
        assert got == 0
    elif step * scale >= 1200:
        assert got == penalty
    else:
        assert got == pytest.approx(penalty * (step * scale - 300) / 900)


def test_the_penalty_joins_after_clipping_at_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    original = HardConcrete.regulariser

    def scaled(self: HardConcrete, normalisation: Any) -> Any:
        assert normalisation == "global"
        value = original(self, normalisation)
        value.register_hook(lambda g: seen.append(float(g)))
        return value

    monkeypatch.setattr(HardConcrete, "regulariser", scaled)
    method = RobustT(**SMALL, normalisation="global", penalty=0.7, evaluate="never")
    found = method(tiny_classifier(), toy_task(40), tuned=tiny_classifier())
    assert seen == pytest.approx([method.penalty_at(done, 15) for done in range(15)])
    assert [line["lambda"] for line in found.trace] == pytest.approx(
        [method.penalty_at(s - 1, 15) for s in (4, 5, 8, 10, 12, 15)]
    )


# --- what a search leaves -------------------------------------------------------------------------------------------------------


def test_the_classifier_is_left_as_it_was(ran: Any) -> None:
    clf, _, before, _, _ = ran
    assert clf.digest == before
    assert not any(module._forward_pre_hooks for module in clf.model.modules())
    assert all(p.requires_grad and p.grad is None for p in clf.model.parameters())


@pytest.mark.parametrize("clip_scope", ["gates", "all"])
def test_the_searched_weights_have_gradients_only_in_the_released_way(
    clip_scope: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, seen = tiny_classifier(), []
    before = {name: p.detach().clone() for name, p in tuned.model.named_parameters()}
    original = GateTrace.record

    def look(self: GateTrace, step: int, loss: torch.Tensor) -> None:
        weights = dict(self.gates._model[0].named_parameters())
        assert all(torch.equal(weights[name], value) for name, value in before.items())
        seen.append([p.requires_grad and p.grad is not None for p in weights.values()])
        original(self, step, loss)

    monkeypatch.setattr(GateTrace, "record", look)
    RobustT(**{**SMALL, "epochs": 1}, clip_scope=clip_scope)(tuned, toy_task(16), tuned=tuned)
    assert len(seen) == 2
    assert all(all(step) if clip_scope == "all" else not any(step) for step in seen)


def test_the_ticket(ran: Any) -> None:
    clf, _, _, found, folder = ran
    ticket = found.ticket
    assert ticket.kind == "unstructured"
    assert list(ticket.names) == list(layout_of(clf.model).matrices_of(clf.model))
    total = sum(m.size for m in ticket.masks["weights"])
    assert sum(int((~m).sum()) for m in ticket.masks["weights"]) == math.floor(0.3 * total + 1e-9)
    scores = np.concatenate([s.ravel() for s in ticket.scores["weights"]])
    kept = np.concatenate([m.ravel() for m in ticket.masks["weights"]])
    assert scores[kept].min() >= scores[~kept].max()
    assert (scores != np.float32(START)).all()
    assert Ticket.load(folder) == ticket
    assert ticket.provenance["method"]["name"] == "robustt"


def test_other_sparsities_come_from_one_search(ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, task, _, found, folder = ran
    monkeypatch.setattr(TrainingRun, "_update", lambda self, group: pytest.fail("searched again"))
    for sparsity in (0.1, 0.5, 0.9):
        drawn = found.ticket.draw(sparsity=sparsity)
        assert drawn.sparsity == pytest.approx(sparsity, abs=1e-4)
        again = RobustT(**SMALL, sparsity=sparsity)(clf, task, folder=folder)  # the folder's search is finished
        assert again.ticket == drawn
    RobustT(**SMALL)(clf, task, folder=folder)


def test_the_trace(ran: Any) -> None:
    _, _, _, found, folder = ran
    lines = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    assert lines == list(found.trace)
    assert [line["step"] for line in lines] == [0, 4, 5, 8, 10, 12, 15]
    assert [line["step"] for line in lines if "accuracy" in line] == [0, 5, 10, 15]
    assert lines[0]["R"] == pytest.approx(0.961, abs=1e-3)
    assert lines[0]["exact"] == lines[0]["below_half"] == 0
    assert all(0 <= line[key] <= 1 for line in lines for key in ("R", "R_global", "exact", "below_half"))
    assert all(line["loss"] > 0 for line in lines[1:])


def test_a_strong_penalty_closes_gates() -> None:
    settings = {**SMALL, "lr": 0.5, "evaluate": "never", "epochs": 6}
    tuned = tiny_classifier()
    loose, tight = (RobustT(**settings, penalty=p)(tuned, toy_task(40), tuned=tuned).trace[-1] for p in (0.0, 1e4))
    assert tight["R"] < loose["R"] - 0.1
    assert tight["below_half"] > loose["below_half"]


@pytest.mark.parametrize("granularity", ["neuron", "head"])
def test_gates_of_units_give_structured_tickets(granularity: Any) -> None:
    ticket = RobustT(**SMALL, granularity=granularity, sparsity=0.5)(
        tiny_classifier(), toy_task(24), tuned=tiny_classifier()
    ).ticket
    other = {"neuron": "heads", "head": "neurons"}[granularity]
    assert ticket.kind == "structured"
    assert ticket.removed == {f"{granularity}s": 0.5, other: 0.0}


@pytest.mark.parametrize("granularity", ["matrix", "layer"])
def test_gates_of_matrices_and_layers_give_unstructured_tickets(granularity: Any) -> None:
    ticket = RobustT(**SMALL, granularity=granularity, sparsity=0.5)(
        tiny_classifier(), toy_task(24), tuned=tiny_classifier()
    ).ticket
    shares = sorted(float(m.mean()) for m in ticket.masks["weights"])
    assert ticket.sparsity == pytest.approx(0.5, abs=1e-4)
    assert sum(0 < share < 1 for share in shares) <= 1  # at most one matrix lies at the border


# --- stages, resuming -----------------------------------------------------------------------------------------------------------


def test_a_tuned_model_may_be_given_and_stays_as_it_was(ran: Any) -> None:
    clf, task, _, found, _ = ran
    tuned = TUNE(clf.copy(), task)
    before = tuned.digest
    given_one = RobustT(**SMALL)(clf, task, tuned=tuned)
    assert given_one.ticket == found.ticket
    assert tuned.digest == before
    assert all(p.requires_grad and p.grad is None for p in tuned.model.parameters())


@pytest.mark.parametrize(
    ("stage", "step", "clip_scope"),
    [("train", 3, "gates"), ("search", 0, "gates"), ("search", 7, "gates"), ("search", 13, "all")],
)
def test_a_killed_search_goes_on_to_the_same_ticket(stage: str, step: int, clip_scope: Any, tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(40)
    method = RobustT(**SMALL, clip_scope=clip_scope, checkpoint_steps=2)
    method = replace(method, tuning=replace(TUNE, checkpoint_steps=2))
    whole = method(clf, task)
    with killed(step, stage):
        method(clf, task, folder=tmp_path)
    torch.manual_seed(99)
    found = replace(method, checkpoint_steps=0)(
        clf, task, folder=tmp_path
    )  # when checkpoints are taken is no setting of the search
    assert [list(line.items()) for line in found.trace] == [
        list(line.items()) for line in whole.trace
    ]  # the same file, keys in order
    for one, other in zip(found.ticket.scores["weights"], whole.ticket.scores["weights"], strict=True):
        assert np.array_equal(one, other)


def test_the_first_stages_model_comes_back_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    clf.model.set_attn_implementation("eager")  # which no file says
    first = base.fine_tuned(TUNE, clf, task, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_update", lambda self, group: pytest.fail("trained again"))
        again = base.fine_tuned(TUNE, clf, task, tmp_path)
    assert again.digest == first.digest != clf.digest
    assert again.model.config._attn_implementation == "eager"
    shutil.rmtree(tmp_path / "tuned" / "checkpoint")  # as a finished stage does
    assert base.fine_tuned(TUNE, clf, task, tmp_path).digest == first.digest


def test_a_search_may_be_left_early_and_taken_up(ran: Any, tmp_path: Path) -> None:
    clf, task, _, found, _ = ran
    method = RobustT(**SMALL)
    early = replace(method, run_epochs=1)(clf, task, folder=tmp_path)
    assert early.trace[-1]["step"] == 5
    assert list(early.trace) == list(found.trace)[: len(early.trace)]
    assert list(method(clf, task, folder=tmp_path).trace) == list(found.trace)
    with refused("search.epochs"):
        replace(method, run_epochs=2)(clf, task, folder=tmp_path)


def test_another_runs_folder_is_refused(ran: Any) -> None:
    clf, task, _, _, folder = ran
    with refused("stage.other_work"):
        RobustT(**{**SMALL, "lr": 0.2})(clf, task, folder=folder)
    with refused("stage.other_work"):
        RobustT(**{**SMALL, "tuning": FineTune(epochs=1)})(clf, task, folder=folder)


def test_seeds(ran: Any) -> None:
    clf, task, _, found, _ = ran
    torch.manual_seed(5)
    assert list(RobustT(**SMALL)(clf, task).trace) == list(found.trace)
    assert list(RobustT(**SMALL, seed=1)(clf, task).trace) != list(found.trace)


# --- clipping as released -------------------------------------------------------------------------------------------------------


def test_the_released_clipping_is_one_norm_over_gates_and_never_zeroed_weights() -> None:
    """Literal: gradients of weights pile up over the batches, and what is clipped stays clipped in the pile."""
    from robust_tickets.train.update import make_step

    def setting() -> Any:
        clf = tiny_classifier(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        gates = HardConcrete(clf.model, generator=torch_generator(1, "gates"), freeze=False).attach()
        batch = {**clf.batch(clf.encode(["the film is great", "bad"])), "labels": torch.tensor([0, 1])}
        return (
            clf.model.train(),
            gates,
            batch,
            make_step(clf.model, generator=torch_generator(2, "adversary"), adversary=FreeLB(steps=2)),
        )

    model, gates, batch, step = setting()
    log = GateTrace(gates, every=1, per_epoch=1, penalty=lambda done: 0.0)
    clipped, got = log.clipping_all(step, model=model, clip=0.5), []
    for _ in range(3):
        gates.zero_grad(set_to_none=True)  # as the optimiser does
        clipped(batch, lambda loss: loss.backward())
        got.append([p.grad.clone() for p in gates.parameters()])
    model, gates, batch, step = setting()
    for k in range(3):
        gates.zero_grad(set_to_none=True)
        step(batch, lambda loss: loss.backward())
        grads = [p.grad for p in (*gates.parameters(), *model.parameters()) if p.grad is not None]
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads))
        assert norm > 0.5
        for g in grads:
            g.mul_(0.5 / (norm + 1e-6))
        for one, p in zip(got[k], gates.parameters(), strict=True):
            assert torch.allclose(one, p.grad, rtol=1e-4, atol=1e-9)
    assert float(sum((g**2).sum() for g in got[2])) < 0.25  # the gates have but a part of the norm


# --- settings -------------------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_table_7_is_the_papers(shared: Path) -> None:
    told = json.loads((shared / "papers" / "paper_tables.json").read_text())["hyperparameters"]["RobustT_table7"]
    names = {"SST2": "sst2", "AGNEWS": "ag_news", "IMDB": "imdb", "QQP": "qqp", "QNLI": "qnli", "MNLI": "mnli"}
    assert told.keys() == names.keys()
    for table, name in names.items():
        method = RobustT.for_task(name)
        attack = method.adversary
        got = [attack.step_size, method.lr, method.penalty, attack.init, attack.steps, method.weight_decay]
        assert got == list(told[table].values())


def test_the_defaults_are_sst2s() -> None:
    assert RobustT() == RobustT.for_task("sst2") == RobustT.for_task("mine.csv")
    assert RobustT().tuning == FineTune(epochs=3, weight_decay=1e-2, warmup=0.1)
    assert RobustT.for_task("sst2", sparsity=0.5).sparsity == 0.5


def test_the_released_settings() -> None:
    method = RobustT.released("ag_news", seed=3)
    assert (method.lr, method.penalty, method.sparsity, method.seed) == (0.05, 0.5, 0.4, 3)
    assert (method.ramp, method.clip_scope, method.normalisation) == ("official", "all", "per_matrix")
    assert method.tuning.clip == 0
    assert method.tuning.epochs == 3  # a table changes one setting of the default
    assert method.adversary == FreeLB(steps=5, step_size=0.03, token_types=False)
    assert RobustT.released("mine").lr == 0.1


@pytest.mark.parametrize("wrong", [{"round_to": 8}, {"run_epochs": 21}, {"clip_scope": "all", "accumulate": 2}])
def test_settings_that_do_not_go_together_are_refused(wrong: dict[str, Any]) -> None:
    with refused("settings.rule"):
        RobustT(**wrong)


def test_half_precision_weights_are_searched_in_float32(ran: Any) -> None:
    clf, task, _, _, _ = ran
    half = clf.copy()
    half.model.to(torch.bfloat16)
    before = half.digest
    found = RobustT(**SMALL)(half, task, tuned=half)
    assert found.ticket.scores["weights"][0].dtype == np.float32
    assert half.digest == before
