"""Magnitude tickets on tiny models: IMP's ladder, its rewinding and its resume; one-shot tickets; random tickets of single weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.backbone.layout import layout_of
from robust_tickets.config import build
from robust_tickets.search import imp
from robust_tickets.search.imp import IMP
from robust_tickets.search.omp import OMP
from robust_tickets.search.random import RandomTicket
from robust_tickets.seeds import derive
from robust_tickets.ticket.ticket import Ticket
from robust_tickets.ticket.topk import removed_count
from robust_tickets.train import checkpoint
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from tiny import tiny_classifier
from toy import rates, toy_task

SMALL: dict[str, Any] = {"epochs": 1, "batch_size": 8, "lr": 1e-2, "seed": 3}
RUNGS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def weights_of(clf: Any) -> dict[str, np.ndarray]:
    return {n: m.weight.detach().clone().numpy() for n, m in layout_of(clf.model).matrices_of(clf.model).items()}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every round's model, before and after its training, and its trainer."""
    rounds: list[dict[str, Any]] = []
    train = FineTune.__call__

    def watched(self: FineTune, clf: Any, task: Any, **options: Any) -> Any:
        rounds.append({"trainer": self, "start": {n: p.detach().clone() for n, p in clf.model.named_parameters()}})
        train(self, clf, task, **options)
        rounds[-1] |= {
            "end": {n: p.detach().clone() for n, p in clf.model.named_parameters()},
            "weights": weights_of(clf),
        }
        return clf

    monkeypatch.setattr(FineTune, "__call__", watched)
    return rounds


def literal(rounds: list[dict[str, Any]], rungs: list[float]) -> list[dict[str, np.ndarray]]:
    """The algorithm box on what was trained: after each round the smallest of what is left go, until a share s of all is gone."""
    names = list(rounds[0]["weights"])
    kept = {name: np.ones(rounds[0]["weights"][name].shape, dtype=bool) for name in names}
    masks = []
    for found, rung in zip(rounds, rungs, strict=True):
        flat = np.concatenate([np.where(kept[n], np.abs(found["weights"][n]), -1.0).reshape(-1) for n in names])
        keep = len(flat) - removed_count(len(flat), rung)
        mask = np.zeros(len(flat), dtype=bool)
        mask[np.argsort(-flat, kind="stable")[:keep]] = True
        parts = np.split(mask, np.cumsum([kept[n].size for n in names])[:-1])
        kept = {n: part.reshape(kept[n].shape) for n, part in zip(names, parts, strict=True)}
        masks.append(kept)
    return masks


@pytest.mark.parametrize("classifier", ["kept", "rewound"])
def test_the_ladder(classifier: Any, seen: list[dict[str, Any]]) -> None:
    clf, task = tiny_classifier(), toy_task(16)
    before = clf.digest
    method = IMP(sparsity=0.9, classifier=classifier, **SMALL)
    found = method(clf, task)
    assert clf.digest == before
    assert method.rungs == [line["sparsity"] for line in found.trace] == RUNGS
    assert all({"round", "loss", "accuracy", "removed"} <= line.keys() for line in found.trace)
    total = sum(m.size for m in found.ticket.masks["weights"])
    theta = dict(clf.model.named_parameters())
    for i, masks in enumerate(literal(seen, RUNGS)):
        drawn = found.ticket.draw(sparsity=RUNGS[i])
        assert sum(int((~m).sum()) for m in drawn.masks["weights"]) == removed_count(total, RUNGS[i])
        assert all(np.array_equal(drawn.masks["weights"][k], masks[name]) for k, name in enumerate(drawn.names))
        if i + 1 < len(seen):  # the next round starts from theta_0 in what is left, and with the head that was trained
            for name, value in seen[i + 1]["start"].items():
                inner = name.removeprefix("bert.")
                head = not name.startswith("bert.")
                whole = seen[i]["end"][name] if head and classifier == "kept" else theta[name]
                expected = torch.where(torch.from_numpy(masks[inner]), whole, 0.0) if inner in masks else whole
                assert torch.equal(value, expected), name
    assert found.ticket == found.ticket.draw(sparsity=0.9)
    between = found.ticket.draw(sparsity=0.25)
    assert all(
        (b | ~t).all()
        for b, t in zip(between.masks["weights"], found.ticket.draw(sparsity=0.3).masks["weights"], strict=True)
    )


def test_a_round_is_trained_with_the_schedule_of_all_ten(seen: list[dict[str, Any]]) -> None:
    task = toy_task(16)
    IMP(sparsity=0.2, adversary=FreeLB(steps=2), **SMALL)(tiny_classifier(), task)
    trainers = [found["trainer"] for found in seen]
    assert [t.horizon for t in trainers] == [20, 20]  # 2 updates a round, ten rounds
    assert [t.seed for t in trainers] == [derive(3, "imp", 1), derive(3, "imp", 2)]
    assert all(t.adversary == FreeLB(steps=2) and t.weight_decay == 0 and t.clip == 1 for t in trainers)
    assert IMP(schedule="round").training(task, 1).horizon is None


@pytest.mark.parametrize(("horizon", "last"), [(None, 1 / 4), (20, 17 / 20)])
def test_the_horizon_of_a_schedule(horizon: int | None, last: float, tmp_path: Path) -> None:
    FineTune(epochs=2, batch_size=8, lr=1e-3, horizon=horizon, log_every=1)(
        tiny_classifier(), toy_task(16), folder=tmp_path
    )
    assert rates(tmp_path)[0] == pytest.approx(1e-3)
    assert rates(tmp_path)[-1] == pytest.approx(1e-3 * last)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("when", ["in the midst of round 2", "before round 1 is noted", "after round 2 is noted"])
def test_a_killed_search_goes_on_and_ends_the_same(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clf, task = tiny_classifier(), toy_task(24)
    method = IMP(sparsity=0.3, checkpoint_steps=1, **SMALL)
    whole = method(clf, task, folder=tmp_path / "whole")
    with monkeypatch.context() as patch:
        calls = {"n": 0}
        owner, name, at = {
            "in the midst of round 2": (TrainingRun, "_update", 5),
            "before round 1 is noted": (checkpoint.Phase, "save", 1),
            "after round 2 is noted": (imp, "rewound", 3),
        }[when]
        old = getattr(owner, name)

        def dying(*args: Any, **options: Any) -> Any:
            calls["n"] += 1
            if calls["n"] == at:
                raise KilledError
            return old(*args, **options)

        patch.setattr(owner, name, dying)
        with pytest.raises(KilledError):
            method(clf, task, folder=tmp_path / "again")
    again = method(clf, task, folder=tmp_path / "again")
    assert again.ticket == whole.ticket
    assert list(again.trace) == list(whole.trace)
    for name in ("scores.safetensors", "ticket.safetensors", "trace.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "again").glob("round-*/checkpoint"))
    before = Ticket.load(tmp_path / "again")
    monkeypatch.setattr(TrainingRun, "_update", None)  # a finished search trains nothing
    assert method(clf, task, folder=tmp_path / "again").ticket == before
    with refused("stage.other_work"):
        IMP(sparsity=0.3, checkpoint_steps=1, **{**SMALL, "seed": 4})(clf, task, folder=tmp_path / "again")


def test_rungs_end_where_asked() -> None:
    assert IMP(sparsity=0.25).rungs == [0.1, 0.2, 0.25]
    assert IMP(sparsity=0.99).rungs == [*RUNGS, 0.99]
    for wrong in ({"sparsity": 1.0}, {"sparsity": 0.05}, {"step": 0.0}):
        with refused("settings.rule"):
            IMP(**wrong)


def test_the_papers_sparsities() -> None:
    for method in (IMP, OMP):
        found = [method.for_task(name).sparsity for name in ("imdb", "ag_news", "sst2", "other.csv")]
        assert found == [0.2, 0.4, 0.6, 0.6]
    assert build(OMP, {"of": "finetuned", "tuning": {"epochs": 1}}, "x").tuning.epochs == 1


# --- one shot -------------------------------------------------------------------------------------------------------------------


def test_omp_removes_the_smallest_of_theta_0() -> None:
    clf = tiny_classifier()
    found = OMP(sparsity=0.3)(clf)
    weights = weights_of(clf)
    kept, gone = (
        np.concatenate(
            [
                np.abs(weights[n])[m if k else ~m]
                for n, m in zip(found.ticket.names, found.ticket.masks["weights"], strict=True)
            ]
        )
        for k in (True, False)
    )
    assert gone.max() <= kept.min()
    assert len(gone) == removed_count(len(gone) + len(kept), 0.3)
    each = OMP(sparsity=0.3, scope="matrix")(clf).ticket
    assert all(int((~m).sum()) == removed_count(m.size, 0.3) for m in each.masks["weights"])


def test_omp_of_a_fine_tuned_model(tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(16)
    before = clf.digest
    tuning = FineTune(epochs=1, batch_size=8, lr=1e-2)
    method = OMP(of="finetuned", tuning=tuning, seed=5)
    found = method(clf, task, folder=tmp_path)
    assert clf.digest == before
    assert Ticket.load(tmp_path) == found.ticket
    tuned = FineTune(epochs=1, batch_size=8, lr=1e-2, seed=5)(clf.copy(), task)
    assert OMP(of="finetuned")(clf, tuned=tuned).ticket == found.ticket == OMP()(tuned).ticket
    assert OMP()(clf).ticket != found.ticket
    with refused("search.task"):
        method(clf)
    with refused("search.tuned"):
        OMP()(clf, tuned=tuned)


# --- random ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def like() -> Ticket:
    return OMP(sparsity=0.6)(tiny_classifier()).ticket


def counts(ticket: Ticket) -> list[int]:
    return [int(m.sum()) for m in ticket.masks["weights"]]


def test_random_weights_matched_by_matrix(like: Ticket) -> None:
    clf = tiny_classifier()
    found = RandomTicket(match="matrix", seed=1)(clf, like=like).ticket
    assert counts(found) == counts(like)
    assert found.names == like.names
    assert found != like
    assert found.provenance["like"] == like.digest
    assert RandomTicket(match="matrix", seed=1)(clf, like=like).ticket == found
    assert RandomTicket(match="matrix", seed=2)(clf, like=like).ticket != found


def test_random_weights_matched_by_layer(like: Ticket) -> None:
    found = RandomTicket(match="layer", seed=1)(tiny_classifier(), like=like).ticket
    assert counts(found) != counts(like)
    for layer in range(3):
        inside = [i for i, name in enumerate(like.names) if f".{layer}." in name]
        assert sum(counts(found)[i] for i in inside) == sum(counts(like)[i] for i in inside)
    assert counts(found)[-1] == counts(like)[-1]  # the pooler is matched by itself


def test_random_weights_without_a_ticket_to_match() -> None:
    clf = tiny_classifier()
    over_all, each = (RandomTicket(sparsity=0.35, match=match)(clf).ticket for match in ("global", "matrix"))  # type: ignore[arg-type]
    sizes = [m.size for m in over_all.masks["weights"]]
    assert sum(counts(over_all)) == sum(sizes) - removed_count(sum(sizes), 0.35)
    assert counts(each) == [n - removed_count(n, 0.35) for n in sizes]
    assert over_all.draw(sparsity=0.8).sparsity == pytest.approx(0.8, abs=1e-4)
    assert RandomTicket()(clf).ticket.kind == "structured"


@pytest.mark.parametrize(
    ("settings", "which", "code"),
    [
        ({"match": "matrix"}, None, "settings.rule"),
        ({"match": "layer"}, None, "settings.rule"),
        ({"match": "global", "sparsity": 0.3}, "weights", "settings.rule"),
        ({"match": "layer", "sparsity": 0.3}, "units", "settings.rule"),
        ({"match": "matrix"}, "roberta", "ticket.family"),
        ({"match": "matrix"}, "smaller", "ticket.shape"),
    ],
)
def test_random_tickets_that_make_no_sense_are_refused(
    settings: dict[str, Any], which: str | None, code: str, like: Ticket
) -> None:
    tickets = {None: lambda: None, "weights": lambda: like, "units": lambda: RandomTicket()(tiny_classifier()).ticket}
    tickets["roberta"] = lambda: OMP()(tiny_classifier("roberta")).ticket
    tickets["smaller"] = lambda: OMP()(tiny_classifier(hidden=16)).ticket
    with refused(code):
        RandomTicket(**settings)(tiny_classifier(), like=tickets[which]())
    with refused("settings.limit"):
        RandomTicket(sparsity=1.0)
