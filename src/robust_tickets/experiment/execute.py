"""Run one stage: search, draw, train or attack, found done, resumed or new; also from plain values (``execute``)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets import __version__, progress
from robust_tickets.config import build, build_component, counted, describe, digest, to_plain
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import read_json, sha256_file, within, write_json
from robust_tickets.progress import say, warn
from robust_tickets.registry import code_of
from robust_tickets.stages import OneStage, RunFolder, Stage, record, stage_key
from robust_tickets.ticket.settings import Draw

if TYPE_CHECKING:
    from robust_tickets.adversary.objective import Adversary
    from robust_tickets.classifier import Classifier, ModelClassifier
    from robust_tickets.data.task import Split, Task
    from robust_tickets.experiment.recipe import AttackPlan, Recipe
    from robust_tickets.ticket.ticket import Ticket
    from robust_tickets.train.finetune import FineTune


def search_key(method: Any, given: Mapping[str, Any], like: Ticket | None = None) -> Mapping[str, Any]:
    """A method that looks at no labelled task says ``needs_task = False`` and names what it reads in ``inputs()``."""
    given = dict(given) if getattr(method, "needs_task", True) else {k: v for k, v in given.items() if k != "task"}
    return stage_key("search", method, **given, like=like.digest if like is not None else None)


def train_key(
    trainer: Any, given: Mapping[str, Any], ticket: Ticket | None, without: str | None = None
) -> Mapping[str, Any]:
    return stage_key("train", trainer, **given, ticket=ticket.digest if ticket is not None else None, without=without)


def attack_key(plan: AttackPlan, victim: Classifier, split: Split) -> Mapping[str, Any]:
    """A resource counts by what it holds: another file under the same name is another attack."""
    held = {kind: about.get("digest") for kind, about in plan.attack.resources().items()}
    code = code_of(plan.attack) or None
    return stage_key("attack", plan=counted(plan), victim=victim.digest, split=split.digest, resources=held, code=code)


def search(
    stage: Stage, method: Any, start: Callable[[], ModelClassifier], task: Task | None, like: Ticket | None = None
) -> Ticket:
    """The ticket that ``method`` finds; ``start`` gives theta_0, which stays as it is."""
    from robust_tickets.ticket.ticket import Ticket

    if not stage.found("search"):
        # saves what it finds
        method(start(), task, folder=stage.folder, **({"like": like} if like is not None else {}))
        # a fine-tuned copy's, each round's
        phases = [_seconds(metrics) for metrics in sorted(stage.folder.rglob("metrics.jsonl"))]
        if phases:
            write_json(stage.folder / "cost.json", {"search_seconds": sum(phases)})
        stage.finish()
    _drop_checkpoint(stage)
    return Ticket.load(stage.folder)


def draw(stage: Stage, ticket: Ticket, asked: Draw | None) -> Ticket:
    """Another draw from the scores of ``ticket``; where none is asked for, a copy of it in the run's own folder."""
    from robust_tickets.ticket.ticket import Ticket

    if stage.found("draw"):
        return Ticket.load(stage.folder)
    drawn = ticket.draw(**asked.asked()) if asked else ticket
    if drawn.kind == "unstructured":  # its scores are as large as the model, and stay where they are
        drawn = replace(drawn, scores={})
    drawn.save(stage.folder)
    stage.finish()
    say("draw: " + ", ".join(f"{fraction:.1%} of the {group} removed" for group, fraction in drawn.removed.items()))
    if drawn.rounding:
        say(f"draw: {drawn.rounding}")
    return drawn


def train(
    stage: Stage,
    trainer: FineTune,
    start: ModelClassifier,
    task: Task,
    ticket: Ticket | None,
    without: str | None = None,
) -> None:
    """Fit ``start`` to the ticket, if there is one, train it, evaluate it on the attacked split, and save all that."""
    from robust_tickets.backbone.cost import peak_memory, reset_peak_memory
    from robust_tickets.stats.intervals import wilson
    from robust_tickets.train.evaluate import evaluate

    if stage.found("train"):
        _drop_checkpoint(stage)
        return
    reset_peak_memory()
    model = fitted(start, ticket, without, trainer.seed)
    trainer(model, task, folder=stage.folder)
    model.save_pretrained(within(stage.folder, "model"))
    found = evaluate(model, task.test, labels=task.labels, title="evaluate")
    interval = [100 * end for end in wilson(found.correct, found.n)]
    numbers = {"split": task.test_split, **found.numbers(), "per_class": list(found.per_class), "interval": interval}
    write_json(stage.folder / "evaluation.json", numbers)
    say(f"train: {found.accuracy:.1f} % clean on the {len(task.test)} rows of {task.test_split}")
    if found.only is not None:
        warn(
            f"train: the model gives all {found.n} rows of {task.test_split} one class ({found.only}): train longer or on more rows; its "
            "numbers under attack will say nothing"
        )
    if trainer.adversary is not None and trainer.adversary.resources():
        write_json(stage.folder / "adversary.json", trained_on(trainer.adversary, start, task))
    seconds = {"train_seconds": _seconds(stage.folder / "metrics.jsonl"), "peak_memory_bytes": peak_memory()}
    write_json(stage.folder / "cost.json", {**cost(model, start, task), **seconds})
    stage.finish()
    _drop_checkpoint(stage)


def fitted(start: ModelClassifier, ticket: Ticket | None, without: str | None = None, seed: int = 0) -> ModelClassifier:
    """What is trained: a copy of the whole model, or the ticket; ``without`` as an arm says it."""
    from robust_tickets.prune.compact import apply, compact
    from robust_tickets.prune.reinitialise import reinitialise_inside, reinitialise_outside

    if ticket is None:
        return start.copy()
    if without == "structure":
        return reinitialise_outside(start, ticket, seed)
    if without == "initialisation":
        start = reinitialise_inside(start, ticket, seed)
    return compact(start, ticket) if ticket.kind == "structured" else apply(start, ticket)


def attack(
    stage: Stage,
    plan: AttackPlan,
    victim: Classifier,
    task: Task,
    clean_full: float | None,
    workers: int | None = None,
) -> None:
    """Attack ``victim`` on the plan's examples; those of its training texts that are among them are counted.

    Where too many failed, a stage that is done is not: those are attacked again.
    """
    from robust_tickets.attack.attack import AttackData, AttackRun
    from robust_tickets.attack.engine import run
    from robust_tickets.attack.options import Speed
    from robust_tickets.attack.result import AttackResult

    if stage.found("attack"):
        if not AttackResult.load(stage.folder).to_repeat(plan.max_failed):
            return
        stage.mark.unlink()
    data = AttackData(
        labels=task.labels,
        calibration=task.validation if plan.temperature == "calibrated" else None,
        seen=task.train,
        clean_full=clean_full,
    )
    job = AttackRun(recipe=plan.attack, victim=victim, split=attacked(plan, task), options=plan, data=data)
    result = run(job, stage.folder, Speed(token_budget=plan.token_budget, workers=workers))
    stage.finish()
    if result.aua is None or result.queries is None:
        warn(f"attack: no example could be attacked ({result.errors} errors); see {stage.folder / 'examples.jsonl'}")
    else:
        say(f"attack: {result.aua:.1f} % accuracy under attack, {result.queries:.0f} queries an example")


def attacked(plan: AttackPlan, task: Task) -> Split:
    return task.split(plan.split) if plan.split else task.test


def trained_on(adversary: Adversary, start: ModelClassifier, task: Task) -> dict[str, Any]:
    """Which files an adversary trained on and, of a table of words, how much of the training texts it covers."""
    from robust_tickets.adversary.words import WordSpace

    about = {**describe(adversary), "resources": to_plain(adversary.resources())}
    if not isinstance(adversary, WordSpace):
        return about
    some = [text for i in range(0, len(task.train), max(1, len(task.train) // 400)) for text in task.train[i].texts]
    return {**about, "coverage": adversary.covers(start.tokenizer, some)}


def cost(model: ModelClassifier, start: ModelClassifier, task: Task) -> dict[str, Any]:
    """Parameters and FLOPs of a forward pass at the attacked split's mean length, beside those of the whole model."""
    from robust_tickets.backbone.cost import encoder_parameters, flops, outside_masks, parameters

    some = [task.test[i].texts for i in range(0, len(task.test), max(1, len(task.test) // 200))]
    tokens = round(sum(row.size for row in start.encode(some)) / len(some))
    found = {"tokens": tokens}
    for prefix, one in (("", model.model), ("dense_", start.model)):
        found |= {f"{prefix}parameters": parameters(one), f"{prefix}encoder_parameters": encoder_parameters(one)}
        found |= {f"{prefix}flops_per_example": flops(one, tokens)}
    if zeros := outside_masks(model.model):
        within_encoder = found["encoder_parameters"] - outside_masks(model.model, encoder=True)
        found |= {"nonzero_parameters": found["parameters"] - zeros, "nonzero_encoder_parameters": within_encoder}
    return found


def _seconds(metrics: Path) -> float:
    """How long the training behind a metrics.jsonl took, interruptions left out."""
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
    return max((float(json.loads(line).get("seconds", 0.0)) for line in lines), default=0.0)


def _drop_checkpoint(stage: Stage) -> None:
    """A finished stage needs no checkpoint, its own or a phase's, nor the fine-tuned copy a search began with.

    They go after the mark is written, or later.
    """
    for name in ("checkpoint", "tuned/checkpoint", "round-*/checkpoint"):
        for folder in stage.folder.glob(name):
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What a stage starts from: the checkpoint, and the task (none: of a search that looks at none)."""

    model: str
    max_length: int
    seed: int
    source: TaskSource | None

    @classmethod
    def of(cls, recipe: Recipe) -> Basis:
        return cls(model=recipe.model, max_length=recipe.max_length, seed=recipe.seed, source=recipe.source)


class Loaded:
    """The tasks and models of one process, each loaded once."""

    def __init__(self) -> None:
        self.task, self.start, self.inputs = cache(self._task), cache(self._start), cache(self._inputs)
        self._victim: tuple[Path, ModelClassifier] | None = None  # the last one: a model is large

    def _task(self, basis: Basis) -> Task:
        return basis.source.load(basis.seed) if basis.source else None  # type: ignore[return-value]

    def _start(self, basis: Basis) -> ModelClassifier:
        """theta_0 with a head for the task; never changed."""
        from robust_tickets.classifier import load_classifier

        task = self.task(basis)
        say(f"model: loading {basis.model}")
        labels = ("0", "1") if task is None else None  # for the encoder and the tokenizer alone
        clf = load_classifier(basis.model, task, labels=labels, max_length=basis.max_length, seed=basis.seed)
        return clf.needs_model("trained")

    def _inputs(self, basis: Basis) -> dict[str, Any]:
        """What theta_0 and the task are, for the stages' keys; reads all weights."""
        task = self.task(basis)
        return {"version": __version__, "model": self.start(basis).digest, "task": task.digest if task else None}

    def victim(self, folder: Path) -> ModelClassifier:
        """The trained model of a stage."""
        from robust_tickets.classifier import Classifier

        if self._victim is None or self._victim[0] != folder:
            self._victim = folder, Classifier.from_pretrained(folder / "model").needs_model("attacked")
        return self._victim[1]


def execute(request: Mapping[str, Any], loaded: Loaded | None = None) -> str:
    """Run one stage from plain values, or find it done; its name in the run folder.

    ``stage``, ``run`` (the folder; ``out`` for one that holds this stage alone), ``processes`` (as RunFolder has it), ``needs`` (names of
    finished stages by their role), ``basis``, and the settings of the stage's component.
    """
    request = {"needs": {}, **request}
    out, loaded = request.get("out"), loaded or Loaded()
    run = OneStage(folder=Path(out)) if out else RunFolder(folder=Path(request["run"]), processes=request["processes"])
    return _STAGES[request["stage"]](request, run, build(Basis, request["basis"], "basis"), loaded).name


def _inputs_of(request: Mapping[str, Any], basis: Basis, loaded: Loaded) -> dict[str, Any]:
    found: dict[str, Any] = loaded.inputs(basis)
    if found != request.get("inputs", found):
        message, hint = "the task or the model changed since this stage was planned", "run the same command again"
        raise TicketsError(message, hint=hint, exit_code=FAILED, code="job.other_inputs")
    return found


def _search(request: Mapping[str, Any], run: RunFolder, basis: Basis, loaded: Loaded) -> Stage:
    method = build_component("methods", request["method"], "search")
    like, given = _ticket_of(request, run, "like"), _inputs_of(request, basis, loaded)
    if request.get("searched_on"):  # theta_0 stands for the encoder; the head is another one, of the recipe's seed
        basis = replace(basis, source=build(TaskSource, request["searched_on"], "searched_on"))
    task = loaded.task(basis)
    if request.get("searched_on"):
        head = {"labels": list(task.labels), "columns": list(task.columns), "seed": basis.seed}
        given = {**given, "task": task.digest, "head": head}
    stage = run.stage("search", search_key(method, given, like))
    with run.alone(stage):
        search(stage, method, lambda: loaded.start(basis), task, like)
    return stage


def _draw(request: Mapping[str, Any], run: RunFolder, basis: Basis, loaded: Loaded) -> Stage:
    from robust_tickets.ticket.ticket import Ticket

    searched, folder = request["needs"].get("search"), request.get("folder")
    # by the hash of the scores, not of the masks: two searches may agree on those by chance
    source = digest(record(run.folder / searched / "stage.json")["key"]) if searched else fingerprint(folder)
    asked = build(Draw, request["draw"], "draw") if request.get("draw") else None
    stage = run.stage("ticket", stage_key("ticket", source=source, draw=asked.asked() if asked else None))
    with run.alone(stage):
        draw(stage, Ticket.load(run.folder / searched if searched else str(folder)), asked)
    return stage


def _train(request: Mapping[str, Any], run: RunFolder, basis: Basis, loaded: Loaded) -> Stage:
    from robust_tickets.train.finetune import FineTune

    trainer, without = build(FineTune, request["train"], "train"), request.get("without")
    ticket, given = _ticket_of(request, run, "ticket"), _inputs_of(request, basis, loaded)
    stage = run.stage("train", train_key(trainer, given, ticket, without))
    with run.alone(stage):
        train(stage, trainer, loaded.start(basis), loaded.task(basis), ticket, without)
    return stage


def _attack(request: Mapping[str, Any], run: RunFolder, basis: Basis, loaded: Loaded) -> Stage:
    from robust_tickets.experiment.recipe import AttackPlan

    plan = build(AttackPlan, request["plan"], "attack")
    task, trained = loaded.task(basis), run.made(request["needs"]["trained"])
    with run.alone(trained):
        victim = loaded.victim(trained.folder)
    split, evaluation = attacked(plan, task), read_json(trained.folder / "evaluation.json")
    stage = run.stage("attack", attack_key(plan, victim, split))
    clean = evaluation["accuracy"] if split.name == evaluation["split"] else None
    with run.alone(stage):
        attack(stage, plan, victim, task, clean, request.get("workers"))
    return stage


_STAGES = {"search": _search, "ticket": _draw, "train": _train, "attack": _attack}


def _ticket_of(request: Mapping[str, Any], run: RunFolder, role: str) -> Ticket | None:
    from robust_tickets.ticket.ticket import Ticket

    return Ticket.load(run.folder / request["needs"][role]) if role in request["needs"] else None


def fingerprint(folder: str | Path | None) -> str:
    """Hash of a saved ticket: its masks and the scores that other draws are made from."""
    files = [Path(str(folder)) / name for name in ("ticket.safetensors", "scores.safetensors")]
    if not files[0].is_file():
        hint = "give the folder that a search wrote"
        raise TicketsError(f"no ticket in {folder}: {files[0].name} is missing", hint=hint, code="ticket.not_found")
    return digest([sha256_file(file) for file in files if file.is_file()])


def serve(work: Callable[[Mapping[str, Any]], str]) -> None:
    """Do ``work`` for the request on standard input; print what it returns, or the error, as JSON.

    The process ends when the one that started it does, however that ends. SIGTERM unwinds it as Ctrl-C would; Ctrl-C itself is for the
    process that started it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    request, answer_to = json.loads(sys.stdin.readline()), os.dup(1)
    os.dup2(2, 1)  # what is printed meanwhile belongs to the log
    threading.Thread(target=_end_with_starter, daemon=True).start()
    try:
        with progress.printed():
            answer: dict[str, Any] = {"result": work(request)}
    except Exception as problem:
        known = isinstance(problem, TicketsError)
        if not known:
            traceback.print_exc()
        error = (
            problem
            if known
            else TicketsError(f"{type(problem).__name__}: {problem}", exit_code=FAILED, code="job.crashed")
        )
        answer = {"error": vars(error)}
    except KeyboardInterrupt:
        _synchronize()
        sys.exit(130)
    os.write(answer_to, json.dumps(answer).encode() + b"\n")


def _interrupt(*_: Any) -> None:
    """Under CUDA MPS a process that ends with work on the device may break the others, so that it unwinds; a second signal cuts nothing short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_starter() -> None:
    """End at once when standard input closes. It is read without a lock, which a forked process would wait for."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _synchronize() -> None:
    """Wait for what the device still does for this process."""
    import torch

    if torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):
            torch.cuda.synchronize()


if __name__ == "__main__":
    serve(execute)
