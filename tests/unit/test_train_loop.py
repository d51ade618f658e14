"""The loop: schedule, weight-decay groups, accumulation, metrics, NaN, order; FineTune on dense and compact classifiers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refusing import refused
from robust_tickets.adversary.ascc import ASCC
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.pgd import PGD
from robust_tickets.adversary.smart import SMART
from robust_tickets.adversary.synonymhotflip import SynonymHotFlip
from robust_tickets.adversary.yopo import YOPO
from robust_tickets.config import build, to_plain
from robust_tickets.data.batching import Batch, batches_of
from robust_tickets.errors import TicketsError
from robust_tickets.prune.compact import compact
from robust_tickets.search.random import RandomTicket
from robust_tickets.stages import identity_of
from robust_tickets.train.evaluate import evaluate
from robust_tickets.train.finetune import FineTune
from robust_tickets.train.loop import TrainingRun
from robust_tickets.train.settings import Optim
from robust_tickets.train.update import adamw, named_parameters
from tiny import tiny_classifier
from toy import QUICK, STILL, metrics, rates, toy_task


def test_the_schedule_rises_from_zero_and_falls_to_zero() -> None:
    optim = Optim(lr=1.0, warmup=0.1)
    rates = [optim.lr_at(step, 100) for step in range(101)]
    assert rates[0] == 0
    assert rates[5] == pytest.approx(0.5)
    assert max(rates) == rates[10] == 1
    assert rates[55] == pytest.approx(0.5)
    assert rates[100] == 0
    assert Optim(lr=1.0).lr_at(0, 4) == 1
    assert Optim(lr=1.0).lr_at(3, 4) == 0.25


def test_the_loop_follows_the_schedule(tmp_path: Path) -> None:
    FineTune(epochs=2, batch_size=8, warmup=0.2, lr=1e-3, log_every=1)(tiny_classifier(), toy_task(40), folder=tmp_path)
    assert rates(tmp_path) == [Optim(lr=1e-3, warmup=0.2).lr_at(step, 10) for step in range(10)]


def test_a_part_may_learn_at_a_rate_of_its_own() -> None:
    parts = {"model": tiny_classifier().model, "critic": torch.nn.Linear(3, 2)}
    groups = adamw(parts, Optim(lr=0.05, weight_decay=0.01), {"critic": 2e-5, "absent": 1.0}).param_groups
    told = {id(p): (group["pace"] * 0.05, group["weight_decay"]) for group in groups for p in group["params"]}
    assert len(told) == len(named_parameters(parts))
    assert told[id(parts["critic"].weight)] == (pytest.approx(2e-5), 0.01)
    assert told[id(parts["critic"].bias)] == (pytest.approx(2e-5), 0.0)
    assert all(told[id(p)][0] == 0.05 for p in parts["model"].parameters())


def test_weight_decay_pulls_what_it_should() -> None:
    def norm_and_weight(decay: float) -> tuple[float, float]:
        clf = tiny_classifier()
        FineTune(**QUICK, max_steps=3, weight_decay=decay)(clf, toy_task())
        layer = clf.model.bert.encoder.layer[0].output
        return float(layer.LayerNorm.weight.detach().sum()), float(layer.dense.weight.detach().square().sum())

    (norm, weight), (norm_decayed, weight_decayed) = norm_and_weight(0.0), norm_and_weight(50.0)
    assert weight_decayed < 0.9 * weight
    assert norm_decayed == pytest.approx(norm, rel=0.05)


ALIKE = [  # without draws, and with nothing that belongs to a batch as a whole (TAVAT's table, InfoBERT's contrasts)
    None,
    FreeLB(steps=2, init=0.0),
    PGD(steps=2, init=0.0),
    YOPO(steps=2, init=0.0),
    SMART(init=0.0, radius=0.1, step_size=0.1),
    SynonymHotFlip(p=1.0),
    ASCC(),
]


@pytest.mark.parametrize("adversary", ALIKE, ids=lambda adversary: type(adversary).__name__)
def test_accumulation_equals_one_large_batch(adversary: Any) -> None:
    """Groups whose micro-batches have unequal rows, and a last group that is not full, weigh every row the same."""
    rows = toy_task(22).train.take(range(22))
    clf = tiny_classifier(**STILL)
    encoded = clf.encode([row.texts for row in rows])
    labels = torch.tensor([row.label for row in rows])

    def cut(*sizes: int) -> Any:
        whole = clf.batch(encoded)
        parts, at = [], 0
        for size in sizes:
            inputs = {key: value[at : at + size] for key, value in whole.items()}
            parts.append(Batch(inputs=inputs, labels=labels[at : at + size], index=torch.arange(at, at + size)))
            at += size
        return Listed(parts)

    def weights(batches: Any, accumulate: int) -> dict[str, torch.Tensor]:
        twin = tiny_classifier(**STILL)
        twin.model.double()
        bias = twin.model.classifier.bias
        settings = FineTune(lr=1e-3, clip=0.5, epochs=1, accumulate=accumulate)
        with TrainingRun(settings=settings, model=twin.model, batches=batches, classifier=twin) as run:
            list(run.steps({"m": twin.model}, under=adversary, penalty=lambda: 0.1 * bias.abs().sum()))
        return twin.model.state_dict()

    one = weights(cut(9, 9, 4), 1)
    many = weights(cut(4, 5, 3, 6, 4), 2)
    for name, value in one.items():
        assert torch.allclose(value, many[name], rtol=0, atol=1e-9), name


class Listed:
    """Batches from a list."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return len(self.parts)

    def epoch(self, epoch: int, start: int = 0) -> Any:
        return iter(self.parts[start:])


def test_steps_are_counted_up_front(tmp_path: Path) -> None:
    task = toy_task(22)
    for trainer in (FineTune(**QUICK | {"epochs": 2}, accumulate=2), FineTune(**QUICK, max_steps=2), FineTune(**QUICK)):
        folder = tmp_path / str(trainer.steps(task))
        trainer(tiny_classifier(), task, folder=folder)
        assert metrics(folder)[-1]["step"] == trainer.steps(task)


def test_training_learns_and_the_metrics_say_so(tmp_path: Path) -> None:
    clf, task = tiny_classifier(**STILL), toy_task(80)
    before = evaluate(clf, task.train)
    assert FineTune(epochs=6, batch_size=8, lr=3e-3, log_every=5)(clf, task, folder=tmp_path) is clf
    after = evaluate(clf, task.train)
    assert after.accuracy > max(90, before.accuracy)
    assert after.loss < before.loss
    assert not clf.model.training
    written = metrics(tmp_path)
    evaluations = [line for line in written if "evaluation" in line]
    assert [line["epoch"] for line in evaluations] == [0, 1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in written if "loss" in line] == list(range(5, 61, 5))
    assert set(written[1]) == {"step", "epoch", "loss", "lr"}
    assert {entry.name for entry in tmp_path.iterdir()} == {"metrics.jsonl", "checkpoint"}


@pytest.mark.parametrize("adversary", [None, FreeLB(steps=2)])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_compact_classifiers_train_alike(adversary: Any, precision: Any) -> None:
    clf = tiny_classifier()
    small = compact(clf, RandomTicket(heads=0.5, neurons=0.5)(clf).ticket)
    before = small.digest
    shapes = [p.shape for p in small.model.parameters()]
    FineTune(**QUICK, max_steps=2, adversary=adversary, precision=precision)(small, toy_task())
    assert small.digest != before
    assert [p.shape for p in small.model.parameters()] == shapes
    assert all(p.dtype == torch.float32 for p in small.model.parameters())


def test_pairs_train_with_token_types() -> None:
    task = toy_task(16, pairs=True)
    clf = tiny_classifier(columns=("first", "second"))
    batch = next(iter(batches_of(clf, task, 8, 0).epoch(0)))
    assert batch.inputs["token_type_ids"].any()
    FineTune(**QUICK, max_steps=1, adversary=FreeLB(steps=2))(clf, task)


def trained(**settings: Any) -> str:
    clf = tiny_classifier()
    FineTune(**{**QUICK, "max_steps": 4, **settings})(clf, toy_task())
    return clf.digest


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    torch.manual_seed(1)
    first = trained(adversary=FreeLB(steps=2))
    torch.manual_seed(2)
    np.random.seed(3)
    assert trained(adversary=FreeLB(steps=2)) == first
    assert trained(adversary=FreeLB(steps=2), seed=1) != first
    assert trained() != first
    assert trained(evaluate="never", log_every=1) == trained()  # looking changes nothing


def test_every_epoch_sees_every_row_once_in_another_order() -> None:
    task, clf = toy_task(22), tiny_classifier()
    seen: list[list[Any]] = []

    class Spy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __len__(self) -> int:
            return len(self.inner)

        def epoch(self, epoch: int, start: int = 0) -> Any:
            seen.append([])
            for batch in self.inner.epoch(epoch, start=start):
                seen[-1] += [tuple(row) for row in batch.inputs["input_ids"].tolist()]
                yield batch

    with TrainingRun(settings=FineTune(epochs=2), model=clf.model, batches=Spy(batches_of(clf, task, 5, 0))) as run:
        list(run.steps({"m": clf.model}))
    assert len(seen) == 2
    assert len(seen[0]) == len(seen[1]) == 22
    assert seen[0] != seen[1]


@pytest.mark.parametrize("log_every", [1, 3, 50])
def test_a_loss_that_is_not_a_number_stops_the_run(tmp_path: Path, log_every: int) -> None:
    clf = tiny_classifier()
    with pytest.raises(TicketsError, match="the loss became") as problem:
        FineTune(epochs=1, batch_size=4, lr=1e30, clip=0.0, log_every=log_every, evaluate="never")(
            clf, toy_task(), folder=tmp_path
        )
    assert problem.value.exit_code == 3


def test_no_step_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the log reads a value: our code calls item(), float() or bool() on tensors as often for 2 steps as for 8."""
    reads: list[str] = []

    def watched(name: str) -> Any:
        original = getattr(torch.Tensor, name)

        def call(self: torch.Tensor, *args: Any) -> Any:
            caller = sys._getframe(1).f_code.co_filename
            if "robust_tickets" in caller:  # transformers itself looks whether a mask is all ones
                reads.append(f"{caller}: {name}")
            return original(self, *args)

        return call

    for name in ("item", "__float__", "__bool__", "__int__", "tolist"):
        monkeypatch.setattr(torch.Tensor, name, watched(name))
    trainer = FineTune(**QUICK | {"epochs": 1}, adversary=FreeLB(steps=2), evaluate="never", log_every=1000)
    trainer(tiny_classifier(), toy_task(16))
    few = list(reads)
    reads.clear()
    trainer(tiny_classifier(), toy_task(64))
    assert reads == few
    assert few


def test_settings_come_from_a_table_and_go_back() -> None:
    trainer = build(FineTune, {"epochs": 3, "adversary": {"name": "freelb", "steps": 2}})
    assert trainer.adversary == FreeLB(steps=2)
    plain = to_plain(trainer)
    assert build(FineTune, plain) == trainer
    clf, task = tiny_classifier(), toy_task()
    assert identity_of(trainer, clf, task) == identity_of(
        FineTune(epochs=3, adversary=FreeLB(steps=2), checkpoint_every=1.0), clf, task
    )
    assert identity_of(trainer, clf, task) != identity_of(FineTune(epochs=3), clf, task)


def test_evaluation_of_a_wrapped_callable() -> None:
    from robust_tickets.classifier import Classifier

    task = toy_task()
    oracle = Classifier.wrap(lambda texts: [[0.9, 0.1] if any(w in t for w in ("bad", "awful", "poor")) else [0.1, 0.9] for t in texts],
                             labels=task.labels)  # fmt: skip
    result = evaluate(oracle, task.test)
    assert (result.accuracy, result.macro_f1, result.n, result.correct) == (100.0, 100.0, 12, 12)
    assert result.loss == pytest.approx(-np.log(0.9), rel=1e-5)
    assert [row["label"] for row in result.per_class] == list(task.labels)
    with pytest.raises(TicketsError, match="empty"):
        evaluate(oracle, task.test.select([]))
    with refused("classifier.no_model"):
        FineTune()(oracle, task)


# --- what surrounds a run: the classifier, the task, the caller's state ------------------------------------------------


def ended(way: str, folder: Path) -> tuple[int, str, list[dict[str, Any]]]:
    """A run that its caller ends after four updates: those done, the weights, and metrics.jsonl but for the time."""
    clf, task = tiny_classifier(), toy_task(40)

    def left(run: TrainingRun) -> None:
        for done in run.steps({"model": clf.model}):
            if done == 4 and way == "stop":
                run.stop()
            elif done == 4 and way == "return":
                return
            elif done == 4:
                break

    settings = FineTune(epochs=2, batch_size=8, lr=1e-3, log_every=3)
    with TrainingRun(settings=settings, model=clf.model, batches=batches_of(clf, task, 8, 0), folder=folder) as run:
        left(run)
    assert not clf.model.training
    return run.done, clf.digest, metrics(folder)


def test_stop_break_and_return_mean_the_same(tmp_path: Path) -> None:
    expected = ended("stop", tmp_path / "stop")
    assert expected[0] == 4
    assert [line["step"] for line in expected[2]] == [3, 4]
    for way in ("break", "return"):
        assert ended(way, tmp_path / way) == expected
        assert (tmp_path / way / "checkpoint" / "step-00000004").is_dir()
        assert ended(way, tmp_path / way) == expected  # resumed: nothing is left to do


def test_after_an_exception_nothing_is_saved(tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(40)
    run = TrainingRun(
        settings=FineTune(epochs=2), model=clf.model, batches=batches_of(clf, task, 8, 0), folder=tmp_path
    )

    def fails() -> None:
        with run:
            for _ in run.steps({"model": clf.model}):
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not (tmp_path / "checkpoint").exists()
