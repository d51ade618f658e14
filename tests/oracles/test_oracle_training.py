"""Kept units, probabilities and coefficients of every search, adversary and trainer, with fixed seeds, in fp32 and in bf16 on a CPU.

Each runs once whole, which is compared with what was recorded, and once killed after every fifth update and resumed, which gives the same
bits. An adversary is seen through FineTune. The kill is a hook of torch's optimisers, so that it needs nothing of the loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import world
from record import differences, recorded
from torch.optim.optimizer import register_optimizer_step_post_hook

import robust_tickets as rt

PRECISIONS = ("fp32", "bf16")
CLOSE = {"fp32": 1e-4, "bf16": 2e-2}
OFTEN = {"checkpoint_steps": 2, "batch_size": 8, "lr": 1e-3}
TUNED = rt.FineTune(epochs=1, evaluate="never", batch_size=8, lr=1e-3, checkpoint_steps=2)
ADVERSARIES: dict[str, Any] = {
    "none": None,
    "freelb": rt.FreeLB(steps=2),
    "freelb, shared dropout": rt.FreeLB(steps=2, dropout="shared", norm="linf", max_norm=0.1),
    "pgd": rt.PGD(steps=2),
    "freeat": rt.FreeAT(replays=2),
    "smart": rt.SMART(),
    "tavat": rt.TAVAT(),
    "infobert": rt.InfoBERT(steps=2),
    "yopo": rt.YOPO(steps=2, ascents=2),
    "synonymswap": rt.SynonymSwap(),
    "synonymhotflip": rt.SynonymHotFlip(),
    "ascc": rt.ASCC(candidates=4),
}
TRAINERS: dict[str, dict[str, Any]] = {
    "accumulated and averaged": {"accumulate": 2, "batch_size": 4, "average": 0.4, "warmup": 0.2, "weight_decay": 0.1},
    "of a structured ticket": {},
    "of a ticket of weights": {"adversary": rt.FreeLB(steps=2)},
}
SEARCHES: dict[str, Any] = {
    "earlyrobust": (rt.EarlyRobust, {**OFTEN, "gamma": 0.3, "adversary": rt.FreeLB(steps=2)}),
    "earlyrobust, official": (rt.EarlyRobust, {**OFTEN, "stop": "official", "gamma": 0.3, "mini": 0.1, "adversary": None}),
    "earlybert": (rt.EarlyBERT, {**OFTEN, "at_epoch": 1.0}),
    "orticket": (rt.ORTicket, {**OFTEN, "stop": "fixed", "at_epoch": 1.0, "block": 16, "adversary": rt.FreeLB(steps=2)}),
    "robustt": (rt.RobustT, {**OFTEN, "lr": 0.05, "epochs": 1, "evaluate": "never", "tuning": TUNED}),
    "robustt, heads": (rt.RobustT, {**OFTEN, "lr": 0.05, "epochs": 1, "evaluate": "never", "tuning": TUNED, "granularity": "head"}),
    "imp": (rt.IMP, {**OFTEN, "epochs": 1, "sparsity": 0.2}),
    "prasanna": (rt.Prasanna, {"tuning": TUNED, "batch_size": 16}),
    "omp": (rt.OMP, {}),
    "random": (rt.RandomTicket, {}),
}  # fmt: skip
UNTRAINED = ("omp", "random")  # neither updates nor a precision
CASES = [
    *(f"{name} | {precision}" for name in SEARCHES if name not in UNTRAINED for precision in PRECISIONS),
    *UNTRAINED,
    *(f"finetune, {name} | {precision}" for name in (*ADVERSARIES, *TRAINERS) for precision in PRECISIONS),
]
SAMPLE = ("earlyrobust", "robustt", "imp", "finetune, none", "finetune, smart", "finetune, accumulated and averaged")


class Killed(BaseException):
    """As sudden as a kill, for the process's own code."""


@contextmanager
def killed(after: int) -> Iterator[None]:
    """Die once ``after`` updates are done."""
    done = 0

    def count(*_: object) -> None:
        nonlocal done
        done += 1
        if done == after:
            raise Killed

    handle = register_optimizer_step_post_hook(count)
    try:
        yield
    finally:
        handle.remove()


class Setting:
    """The model and the data of all cases, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = world.model_folder(folder / "model")
        self.mlm = world.model_folder(folder / "mlm", "BertForMaskedLM")
        data = world.data_folder(folder / "data", rows=96)
        self.task, self.texts = rt.load_task(str(data)), world.texts(data / "validation.csv")
        (folder / "corpus.txt").write_text("\n".join(world.SENTENCES * 6))

    def run(self, case: str, folder: Path | None = None) -> dict[str, Any]:
        """What a case gives; with a folder, one that was interrupted there is resumed."""
        name, _, precision = case.partition(" | ")
        clf = rt.load_classifier(str(self.model), self.task)
        with world.one_thread():
            if name.startswith("finetune, "):
                return self.train(name.removeprefix("finetune, "), precision, clf, folder)
            return self.search(name, precision, clf, folder)

    def train(self, name: str, precision: str, clf: Any, folder: Path | None) -> dict[str, Any]:
        settings = {
            **OFTEN,
            "epochs": 1,
            "evaluate": "never",
            "precision": precision,
            "adversary": ADVERSARIES.get(name),
        }
        if name == "of a structured ticket":
            clf = rt.compact(clf, rt.RandomTicket(heads=1 / 4, neurons=1 / 3, seed=1)(clf).ticket)
        if name == "of a ticket of weights":
            clf = rt.apply(clf, rt.RandomTicket(sparsity=0.5, seed=1)(clf).ticket)
        clf = rt.FineTune(**{**settings, **TRAINERS.get(name, {})})(clf, self.task, folder=folder)
        return {"probabilities": self.probabilities(clf), "weights": norms(clf.model)}

    def search(self, name: str, precision: str, clf: Any, folder: Path | None) -> dict[str, Any]:
        method, settings = SEARCHES[name]
        if name == "orticket":
            settings = {**settings, "corpus": str(self.folder / "corpus.txt"), "mlm": str(self.mlm)}
        if name == "prasanna":
            tuning = rt.FineTune(epochs=1, evaluate="never", precision=precision, **OFTEN)
            settings = {**settings, "tuning": tuning}
        elif precision:
            settings = {**settings, "precision": precision}
        found = method(**settings)(clf, self.task, folder=folder)
        ticket = found.ticket
        made = rt.compact(clf, ticket) if ticket.kind == "structured" else rt.apply(clf, ticket)
        about = {key: ticket.provenance[key] for key in ("epoch", "converged", "steps_run") if key in ticket.provenance}
        return {
            **{f"kept {group}": [kept(mask) for mask in masks] for group, masks in ticket.masks.items()},
            **{f"scores of {group}": [shown(layer) for layer in layers] for group, layers in ticket.scores.items()},
            "probabilities": self.probabilities(made),
            "points": len(found.trace),
            **about,
        }

    def probabilities(self, clf: Any) -> list[float]:
        """Of the label "positive", for the twelve validation texts."""
        logits = torch.as_tensor(clf.logits(self.texts)).double()
        return torch.softmax(logits, dim=-1)[:, 1].tolist()  # type: ignore[no-any-return]


def kept(mask: np.ndarray) -> Any:
    """The indices of a layer's units; the mask of a matrix as bits, in hex."""
    return np.flatnonzero(mask).tolist() if mask.ndim == 1 else np.packbits(mask).tobytes().hex()


def shown(scores: np.ndarray) -> list[float]:
    """A layer's scores; of a matrix every 97th, for they are many."""
    flat = scores.ravel()[:: 1 if scores.ndim == 1 else 97]
    return np.where(np.isfinite(flat), flat, -1).astype(float).tolist()  # type: ignore[no-any-return]


def norms(model: torch.nn.Module) -> dict[str, float]:
    """The length of the weights of every layer."""
    parts: dict[str, list[torch.Tensor]] = {}
    for name, parameter in model.named_parameters():
        parts.setdefault(".".join(name.split(".")[:4]), []).append(parameter.detach().double().flatten())
    return {name: float(torch.cat(tensors).norm()) for name, tensors in parts.items()}


def rounded(value: Any) -> Any:
    """Seven digits of every number, which is what fp32 has."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def resumed(setting: Setting, case: str, folder: Path, every: int = 5) -> tuple[dict[str, Any], int]:
    """What a case gives that is killed after every so many updates of an attempt, and how often it was."""
    for kills in range(100):
        try:
            with killed(every):
                return setting.run(case, folder), kills
        except Killed:
            continue
    raise AssertionError("no progress")


def values(folder: Path) -> dict[str, Any]:
    setting = Setting(folder)
    return {case: rounded(setting.run(case)) for case in CASES}


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Setting(tmp_path_factory.mktemp("training"))


def check(case: str, got: dict[str, Any]) -> None:
    wanted, precision = recorded("training")[case], case.partition(" | ")[2]
    if (
        precision == "bf16" and "kept weights" in wanted
    ):  # thousands of scores in a row: some lie too near the threshold
        pairs = zip(got.pop("kept weights"), wanted.pop("kept weights"), strict=True)
        assert all((int(one, 16) ^ int(other, 16)).bit_count() <= 0.02 * 4 * len(one) for one, other in pairs)
    assert differences(rounded(got), wanted, close=CLOSE[precision or "fp32"]) == []


@pytest.mark.parametrize("case", recorded("training"))
def test_values_are_as_recorded(setting: Setting, case: str, tmp_path: Path) -> None:
    """Those of the sample are killed after every fifth update as well."""
    got = setting.run(case)
    if case.partition(" | ")[0] in SAMPLE:
        again, kills = resumed(setting, case, tmp_path)
        assert kills >= 2
        assert again == got
    check(case, got)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in recorded("training") if case not in UNTRAINED])
def test_a_kill_at_any_fifth_update_changes_nothing(setting: Setting, case: str, tmp_path: Path) -> None:
    """One kill a run, at each of these updates; and all of them in one run."""
    got = setting.run(case)
    assert resumed(setting, case, tmp_path / "often")[0] == got
    for after in itertools.count(5, 5):
        folder = tmp_path / str(after)
        try:
            with killed(after):
                setting.run(case, folder)
            break  # it has fewer updates
        except Killed:
            assert setting.run(case, folder) == got, after


def test_every_component_is_recorded() -> None:
    names = {case.partition(" | ")[0] for case in recorded("training")}
    assert {name.partition(",")[0] for name in names} - {"finetune"} == set(rt.methods())
    assert {name.split(", ")[1] for name in names if name.startswith("finetune")} >= {*rt.adversaries(), "none"}
