"""The one training loop. Fine-tuning and every search iterate over its steps; the run owns the rest.

    with TrainingRun(settings=settings, model=model, batches=batches) as run:
        for done in run.steps({"model": model}, under=adversary):
            ...  # ``run.loss`` is that of the last step; ``run.stop()``, ``break`` and ``return`` end the run

Order, metrics, progress, evaluation, stopping and checkpoints live here; what one update computes (accumulation, clipping, schedule,
precision, draws) is its engine's, eager or captured, see ``update.py``. A run that is killed and started again ends with the same
weights, bit for bit on CPU: a checkpoint holds parameters, optimiser and the step, and everything else (learning rate, epoch, place in
the data, what is drawn) is a function of the step; of captured updates, whose random streams continue, it holds the streams too. A
checkpoint is taken only between steps, after the caller's part of the step, its log line and its evaluation. Ctrl-C and SIGTERM end a
run with one; after an exception nothing is saved.

The model is trained where it is: move the classifier to a device first.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from robust_tickets import progress
from robust_tickets.adversary.objective import Adversary, Ground
from robust_tickets.backbone.layout import layout_of
from robust_tickets.data.batching import Batch, Batches, prefetched
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.files import no_link, writing
from robust_tickets.jsonl_log import to_line
from robust_tickets.seeds import derive, seed_dropout, torch_generator
from robust_tickets.train import checkpoint
from robust_tickets.train.bf16 import Half
from robust_tickets.train.cuda import engine_for
from robust_tickets.train.cuda.late import Late
from robust_tickets.train.cuda.writer import Writer
from robust_tickets.train.settings import TrainingSettings
from robust_tickets.train.update import Step, Unclipped, adamw, make_step, named_parameters

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from robust_tickets.classifier import ModelClassifier


class Metrics:
    """Appends to ``path``; with no path it forgets everything."""

    def __init__(self, path: Path | None) -> None:
        self.path = path

    def write(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with open(self.path, "ab", opener=no_link) as out:
                    out.write(to_line(line))

    def length(self) -> int:
        """Bytes written so far, safely on disk."""
        if self.path is None or not self.path.exists():
            return 0
        with open(self.path, "rb") as stream:
            os.fsync(stream.fileno())
            return stream.seek(0, os.SEEK_END)

    def cut(self, length: int) -> None:
        """Forget what came after the first ``length`` bytes."""
        if self.path is not None and self.length() > length:
            with writing(self.path), open(self.path, "r+b", opener=no_link) as out:
                out.truncate(length)


USUAL = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


class Interrupt:
    """True once somebody asked to stop, while it is entered; ``title`` is whose steps are counted."""

    def __init__(self, title: str, *, active: bool = True) -> None:
        self.title, self.active = title, active
        self._asked = False
        self._before: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        if self.active and threading.current_thread() is threading.main_thread():
            for number, usual in USUAL.items():
                if signal.getsignal(number) == usual:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.close()
        self._asked = True
        with suppress(RuntimeError):  # the signal came while a line was printed
            progress.say(f"{self.title}: stopping after this step (again: at once, without a checkpoint)")

    def close(self) -> None:
        """Put the handlers back."""
        while self._before:
            signal.signal(*self._before.popitem())


CHECKPOINT_SHARE = 0.01  # training waits for checkpoints for at most this share of its time

M = TypeVar("M", bound=checkpoint.Memory)


class Feed(Sized, Protocol):
    """Micro-batches, ``len`` of them an epoch."""

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


@dataclass(kw_only=True, eq=False)
class TrainingRun:
    """One run. ``name`` is the word that its draws are derived from."""

    settings: TrainingSettings
    model: PreTrainedModel  # what the adversary sees
    batches: Feed | None = None
    classifier: ModelClassifier | None = None  # around the model: what evaluates it, and its tokenizer
    name: Literal["finetune", "search"] = "finetune"
    folder: Path | None = None  # metrics.jsonl and checkpoint/
    identity: str = ""  # hash of what determines the run; a checkpoint of another run is refused

    def __post_init__(self) -> None:
        self.title: str = "train" if self.name == "finetune" else self.name
        self.seed = derive(self.settings.seed, self.name)
        self.optim, self.accumulate = self.settings.optim, self.settings.accumulate
        self.per_epoch = -(-len(self.batches or ()) // self.accumulate)
        self.total, self._end, self.horizon = self.settings.length(self.per_epoch)
        self.device = next(self.model.parameters()).device
        self.generators: dict[str, torch.Generator] = {}
        self.memory: checkpoint.Memory | None = None
        self.done, self.stopped, self.note = 0, False, ""
        self._unfinished = self._concluded = False

    def __enter__(self) -> Self:
        self._open = ExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, problem, trace)

    def draws(self, name: str) -> torch.Generator:
        """A generator for the run's steps: what it gives is a function of the seed, the update and the micro-batch."""
        if name not in self.generators:
            self.generators[name] = torch_generator(self.settings.seed, self.name, name, device=self.device)
        return self.generators[name]

    def remember(self, memory: M) -> M:
        """Save ``memory`` with every checkpoint, and restore it with the one that is resumed."""
        self.memory = memory
        return memory

    def steps(
        self,
        parts: Mapping[str, nn.Module],
        *,
        under: Adversary | None = None,
        penalty: Callable[[], Tensor] | None = None,
        after_clip: Unclipped | None = None,
        evaluate: Callable[[], dict[str, Any]] | None = None,
        wrap: Callable[[Step], Step] | None = None,
        rates: Mapping[str, float] | None = None,
        until: int | None = None,
    ) -> Iterator[int]:
        """Train ``parts``; the number of updates done, over all attempts, after each of them.

        ``under`` is an adversary, ``penalty`` joins the loss in its last pass, ``after_clip`` after the gradients were clipped.
        ``evaluate`` is asked at the start, after every epoch and at the end; ``wrap`` changes the step, which then has no working
        weights; ``rates`` are of parts that learn at another rate; ``until`` leaves after so many updates in all, with a checkpoint.
        """
        gates: Any = parts.get("gates")
        step = make_step(
            self.model,
            generator=self.draws("adversary"),
            adversary=under,
            precision=self.settings.precision,
            regulariser=penalty,
            ground=Ground(
                model=self.model,
                layout=layout_of(self.model),
                tokenizer=None if self.classifier is None else self.classifier.tokenizer,
                seed=derive(self.settings.seed, self.name, "adversary"),
                split=self.batches.split if isinstance(self.batches, Batches) else None,
                labels=() if self.classifier is None else self.classifier.labels,
            ),
            gates=gates,
            autocast=wrap is not None,  # the gradients must lie where autograd puts them
        )
        self.evaluate, self.unclipped = evaluate, after_clip
        if until is not None:
            self._end = min(self._end, until)
        self._prepare(parts, wrap(step) if wrap else step, rates)
        enter = self._open.enter_context
        # dropout reads torch's global stream: the caller's is put back
        enter(torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []))
        self._open.callback(self.optimiser.zero_grad, set_to_none=True)  # gradients are as large as the model
        enter(self.writer or nullcontext())
        self._begin()
        self._asked = enter(Interrupt(self.title, active=self.writer is not None))
        self._reading = enter(ExitStack())
        self._bar = self._reading.enter_context(progress.track(self.title, self.last, self.done))
        self._groups = self._reading.enter_context(closing(self._read()))
        self._open.push(self._left)
        return iter(self._next, None)

    def phase(self, name: str, memory: checkpoint.Memory) -> checkpoint.Phase:
        """What outlives one training: ``memory`` is restored at once, and saved when the method says so."""
        return checkpoint.Phase(folder=self.below(f"checkpoint/{name}"), identity=self.identity, memory=memory)

    def below(self, name: str) -> Path | None:
        """A folder for one training of several."""
        return self.folder / name if self.folder else None

    def stop(self) -> None:
        """End the run after this step, with a checkpoint."""
        self.stopped = True

    def _next(self) -> int | None:
        """Finish the step before and make another one; none when all are made."""
        self._finish_step()
        if self._concluded:
            return None
        if self._over() or self._asked:
            self._conclude()
            return None
        self.loss = self._update(next(self._groups))
        self._unfinished = True
        return self.done

    def _finish_step(self) -> None:
        """What belongs after the caller's part of a step."""
        if self._unfinished:
            self._unfinished = False
            self._after(self.loss)
            self._bar.advance(1, self.note)

    def _left(self, kind: type[BaseException] | None, *_: object) -> None:
        """The caller left the run: without an exception that is a stop."""
        if kind is None and not self._concluded:
            self.stop()
            self._finish_step()
            self._conclude()

    def _conclude(self) -> None:
        self._concluded = True
        self._reading.close()
        self._check_loss()
        self._check_weights()
        self._save(always=True)
        for part in self.parts.values():
            part.eval()
        self._asked.close()
        if self._asked:
            progress.say(f"{self.title}: saved after step {self.done} of {self.last}")
            raise KeyboardInterrupt

    def _read(self) -> Generator[list[Batch], None, None]:
        """The micro-batches of each update, from where the run stands."""
        while True:
            epoch, within = divmod(self.done, self.per_epoch)
            with closing(self._batches(epoch, within * self.accumulate)) as batches:
                for group in groups(batches, self.accumulate):
                    yield group
                    if self.done % self.per_epoch == 0:
                        break

    def _prepare(self, parts: Mapping[str, nn.Module], step: Step, rates: Mapping[str, float] | None = None) -> None:
        if (processes := os.environ.get("WORLD_SIZE") or "1") != "1":  # each would train the whole run, in one folder
            message = f"training runs in one process on one device, got {processes}"
            raise TicketsError(message, hint="start it without torchrun", code="train.processes")
        if self.per_epoch == 0:
            message = "nothing to train on: the training split is empty"
            raise TicketsError(message, hint="check the data file", code="train.empty")
        self.step, self.parts = step, {**parts, **step.parts}
        if isinstance(self.batches, Batches):
            self.batches = replace(self.batches, views=step.views)
        self.optimiser = adamw(self.parts, self.optim, rates)
        self.parameters = named_parameters(self.parts)
        self.writer = Writer(self.folder / "checkpoint", self.device) if self.folder else None
        self.engine = engine_for(self)

    def _begin(self) -> None:
        self.metrics = Metrics(self.folder / "metrics.jsonl" if self.folder else None)
        self.spent, self.started = 0.0, time.monotonic()
        self.running, self.counted = torch.zeros((), device=self.device), 0
        self.late = Late(self.device)
        self.saved_at, self.saved_step, self.save_cost = time.monotonic(), -1, 0.0
        for part in self.parts.values():
            part.train()
        seed_dropout(self.seed, self.title, "dropout")
        if not self._resume():
            if self.metrics.length():
                progress.say(f"{self.title}: an earlier attempt left no checkpoint, so it starts over")
            self.metrics.cut(0)
            self._evaluate()

    def _over(self) -> bool:
        return self.stopped or self.done >= self.last

    @property
    def last(self) -> int:
        """The update to end at; the schedule is made for ``total``."""
        return min(self.total, self._end)

    def _batches(self, epoch: int, start: int) -> Generator[Batch, None, None]:
        """The rest of an epoch; for a GPU made ahead by a thread, in memory that it reads without waiting."""
        assert self.batches is not None
        batches = self.batches.epoch(epoch, start=start)
        yield from prefetched(batches, pin=True) if self.device.type == "cuda" else batches

    def _update(self, group: list[Batch]) -> Tensor:
        loss = self.engine.update([batch.tensors() for batch in group], self.done)
        self.done += 1
        return loss

    def _after(self, loss: Tensor) -> None:
        self.running = self.running + loss  # of the loss's own precision from the first on
        self.counted += 1
        epoch_ends = self.done % self.per_epoch == 0
        if self.done % self.settings.log_every == 0 or epoch_ends or self.stopped or self.done == self.total:
            self._log()
        if epoch_ends or self.stopped or self.done == self.total:
            self._evaluate()
        if self._over():
            self.late.finish()  # the bar ends with the last loss
        self._save(epoch_ends=epoch_ends)

    def _log(self) -> None:
        """Ask for the mean loss since the last line; the line is written when it is there."""
        line, rate = self._line(), self.engine.rate

        def write(loss: float, exploded: bool) -> None:
            self._check(loss, exploded, line["step"])
            self.note = f"loss {loss:.3f}"
            self.metrics.write(line | {"loss": loss, "lr": rate, "seconds": round(self._seconds(), 3)})

        self.late.ask(self.running / self.counted, self.engine.exploded, write)
        self.running, self.counted = torch.zeros((), device=self.device), 0

    def _check_loss(self) -> None:
        """Wait for the device: the line that is on its way is written, and the updates since were good ones."""
        self.late.finish()
        self._check(float(self.running / max(1, self.counted)), bool(self.engine.exploded), self.done)

    def _check(self, loss: float, exploded: bool, step: int) -> None:
        self._refuse(not math.isfinite(loss), f"the loss became {loss} by step {step}")
        self._refuse(exploded, f"the gradient exploded by step {step}")

    def _check_weights(self) -> None:
        # few kernels, for all at once
        norm = torch.nn.utils.get_total_norm([p.detach() for p in self.parameters.values() if p.numel()])
        self._refuse(not torch.isfinite(norm), f"the weights are not finite after step {self.done}")

    def _refuse(self, diverged: bool, how: str) -> None:
        if diverged:
            hint = "lower the learning rate or the adversary's step size, or train in fp32"
            raise TicketsError(f"{self.title}: {how}", hint=hint, exit_code=FAILED, code="train.diverged")

    def _evaluate(self) -> None:
        if self.evaluate is None:
            return
        self.late.finish()  # lines stay in order, and a run that went wrong is not evaluated
        half = self._working()
        for part in self.parts.values():
            part.eval()
        with half or nullcontext():
            numbers = self.evaluate()
        for part in self.parts.values():
            part.train()
        self.metrics.write(self._line() | {"evaluation": {**numbers, "precision": "bf16"} if half else numbers})

    def _working(self) -> Half | None:
        """The bf16 weights, where an evaluation may use them: on a GPU, where one in fp32 took 2 % of an epoch of SST-2.

        What is seen here stands only in metrics.jsonl, no epoch is chosen by it, and the line says its precision. Numbers that are
        published come from evaluations after the run, in fp32. Gates are evaluated as they are drawn: in fp32.
        """
        half = self.engine.half
        return half if half is not None and half.gates is None and self.engine.on_device else None

    def _line(self) -> dict[str, Any]:
        return {"step": self.done, "epoch": round(self.done / self.per_epoch, 4)}

    def _seconds(self) -> float:
        return self.spent + time.monotonic() - self.started

    def _save(self, *, always: bool = False, epoch_ends: bool = False) -> None:
        if self.writer is None or self.saved_step == self.done:
            return
        since = time.monotonic() - self.saved_at
        # no write is waited for because of another
        cheap = since >= self.save_cost / CHECKPOINT_SHARE and not self.writer.busy
        by_time = cheap and (epoch_ends or since >= self.settings.checkpoint_every)
        by_step = self.settings.checkpoint_steps and self.done % self.settings.checkpoint_steps == 0
        if not (always or by_time or by_step):
            return
        self._check_loss()  # a run that went wrong never replaces a good checkpoint
        begun = time.monotonic()
        self._check_weights()
        taken = checkpoint.capture(self)
        prepared = time.monotonic() - begun
        self.writer.write(taken, wait=always)
        self.saved_at, self.saved_step = time.monotonic(), self.done
        self.save_cost = prepared + self.writer.cost  # without what only the first one costs

    def _resume(self) -> bool:
        found = checkpoint.read(self.folder / "checkpoint") if self.folder else None
        if found is None:
            return False
        checkpoint.restore(self, found)
        self.engine.resumed()
        self.saved_step = self.done
        if not self._over():
            progress.say(f"{self.title}: resuming at step {self.done} of {self.last}")
        return True


def groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Consecutive groups of ``size``; the last may be smaller."""
    source = iter(batches)
    while group := list(islice(source, size)):
        yield group
