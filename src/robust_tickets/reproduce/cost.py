"""What a plan will cost, said before anything is loaded: rows × epochs × passes × seconds, from the numbers of ``cost.toml``.

A search or a training that several units share is counted once. Epochs, steps and batches are read from each unit's own recipe; only where
a recipe leaves them to the method does ``cost.toml`` say them again, because asking the method would load torch. A test holds the two
together. An estimate errs towards too long: a ticket is taken to cost what the whole model costs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from robust_tickets.config import Said, digest
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import mapping
from robust_tickets.report.run_data import number
from robust_tickets.reproduce.arms import arm, arms, tree
from robust_tickets.reproduce.job import Unit
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths, rows_of, share_of
from robust_tickets.reproduce.plan import Plan
from robust_tickets.reproduce.protocol import NamedAttack, rules, settings
from robust_tickets.reproduce.published import toml

Kind = Literal["search", "train", "attack"]
UNKNOWN = {
    "rows": 10_000,
    "tokens": 40,
    "attacked": 500,
    "words": 30,
    "long": 40,
}  # of a task that cost.toml does not have
BATCH = 32
DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl")  # there is a GPU
NOWHERE = Paths()
OURS = "h200"  # what the protocol's runs are planned on
QUESTIONS = 6.0  # a word, of an attack that cost.toml does not have


@dataclass(frozen=True, kw_only=True)
class Device:
    """Seconds on one kind of machine."""

    name: str
    about: str
    update: float  # an update whatever its size and its passes: the optimiser, recording
    each: float  # more for each of its passes, whatever their size
    token: float  # more for each token of a pass
    text: float  # a text that an attack asks about, whatever its length
    query: float  # more for each of its tokens
    margin: float
    start: float = 0.0  # of a search or training beside its updates: loading, capturing graphs, saving
    asking: float = 0.0  # of an attack beside its questions, likewise
    half: float = 1.0  # times as fast an attack is on a copy in float16
    searches: Mapping[str, float] = field(
        default_factory=dict
    )  # times as long a method's update takes: coefficients, gates, words


TOKENS = Device(name="tokens", about="passes by their tokens", update=0, each=0, token=1, text=0, query=0, margin=1)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One stage of work; units with the same ``key`` share it."""

    kind: Kind
    key: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds that are left to do, by kind of stage, and for each unit: what it adds after those before it."""

    search: float
    train: float
    attack: float
    units: Mapping[Unit, float]  # done ones are not in it
    done: tuple[Unit, ...]

    @property
    def total(self) -> float:
        return self.search + self.train + self.attack


def device(name: str | None = None) -> Device:
    """A device of ``cost.toml``; by default what this machine seems to have, found without torch."""
    known = _numbers()["devices"]
    if name is None:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
        name = OURS if any(Path(one).exists() for one in DRIVER) and not hidden else "cpu"
    if name not in known:
        raise TicketsError(f"no seconds are known of the device {name!r}", hint=did_you_mean(name, known))
    return Device(name=name, **known[name])


def cost(
    plan: Plan,
    outcomes: Sequence[Outcome] = (),
    on: Device | None = None,
    paths: Paths = NOWHERE,
    *,
    store: Path | None = None,
) -> Cost:
    """What is left of a plan after ``outcomes``; folders of ``paths`` are looked at for their sizes.

    Outcomes outlive stores: what was not made in this ``store`` and lacks an attack is trained again, its search too.
    """
    on = device() if on is None else on
    found = {outcome.unit: outcome for outcome in outcomes}
    trained = {unit for unit, outcome in found.items() if outcome.clean}  # of the others there is the search alone
    kept = [unit for unit in plan.units if unit in found and store is not None and (store / "units" / unit.id).is_dir()]
    seen = {p.key for unit in kept for p in pieces(unit, (), on, paths, train=unit in trained)}
    spent: dict[Kind, float] = {"search": 0.0, "train": 0.0, "attack": 0.0}
    left: dict[Unit, float] = {}
    for unit in plan.units:
        open_attacks = [
            one for one in plan.attacks[unit] if unit not in found or found[unit].attacked(one.name) is None
        ]
        if not open_attacks and (unit in trained or (unit in found and unit in plan.searches)):
            continue
        left[unit] = 0.0
        for piece in pieces(unit, open_attacks, on, paths, train=unit not in plan.searches):
            if piece.key not in seen:
                seen.add(piece.key)
                spent[piece.kind] += piece.seconds
                left[unit] += piece.seconds
    return Cost(**spent, units=left, done=tuple(unit for unit in plan.units if unit not in left))


def pieces(
    unit: Unit,
    attacks: Sequence[NamedAttack],
    on: Device,
    paths: Paths = NOWHERE,
    *,
    train: bool = True,
    ran: float | None = None,
) -> Iterator[Piece]:
    """The stages of a unit, with what each takes where nothing is shared. ``ran``: epochs after which its rule stopped the search."""
    recipe = _plain(tree(unit, settings(unit, cuda=False), ()))
    name = arm(unit.arm, unit.flavour).arm
    who = [unit.backbone, unit.seed, unit.repeat]
    share = share_of(paths, unit.backbone)
    for search, task in _searches(recipe, name, unit.task):
        if ran is not None and "share" in _numbers()["searches"].get(search.get("name"), {}):  # no arm has two of these
            search = {**search, "stop": "fixed", "at_epoch": ran}
        seconds = share * _search(search, _task(paths, task), on)
        yield Piece(
            kind="search", key=digest(["search", who, task, search]), seconds=seconds + on.start * (seconds > 0)
        )
    if train:
        training = _merged(recipe.get("train", {}), recipe["arms"][name].get("train", {}))
        epochs = float(training.get("run_epochs") or training.get("epochs", 3))
        seconds = on.start + share * epochs * _epoch(training, _task(paths, unit.task), on)
        yield Piece(kind="train", key=digest(["train", unit.id]), seconds=seconds)
    for one in attacks:
        seconds = on.asking + share * _attack(one, _task(paths, unit.task), on)
        yield Piece(kind="attack", key=digest(["attack", unit.id, one.name]), seconds=seconds)


def work(outcome: Outcome) -> float | None:
    """Search and training of a run in plain epochs of the whole model, reckoned by passes and tokens: what can be told of runs that shared
    their device. A search that its rule stops counts what it ran, or half an epoch, as planned, where the result does not say. A ticket's
    training counts as much of it as its FLOPs are of the whole model's. None: an arm or a task that is not known, or a ticket whose FLOPs
    are not.
    """
    unit, (kept, whole) = outcome.unit, (outcome.cost.get(f"{which}flops_per_example") for which in ("", "dense_"))
    if unit.arm not in arms() or unit.task not in _numbers()["tasks"] or (outcome.ticket and not (kept and whole)):
        return None
    share = float(kept) / float(whole) if kept and whole else 1.0
    tokens = {"search": 0.0, "train": 0.0}
    for piece in pieces(unit, (), TOKENS, ran=number(mapping(outcome.traces.get("distances")).get("stopped_at"))):
        tokens[piece.kind] += piece.seconds
    return (tokens["search"] + share * tokens["train"]) / _epoch({}, _task(NOWHERE, unit.task), TOKENS)


def passes(adversary: Any) -> float:
    """Forward-backward passes of a step under an adversary, as a recipe names it."""
    told: dict[str, Any] = {"name": adversary} if isinstance(adversary, str) else dict(adversary or {})
    name = told.get("name")
    if not name or name == "none":
        return 1.0
    if name == "synonymswap" and "mix" in told:
        return float((told["mix"] > 0) + (told["mix"] < 1))
    row = _numbers()["adversaries"].get(
        "pgd_naive" if name == "pgd" and told.get("naive") else name, {"fixed": 2, "each": 0, "steps": 0}
    )
    return float(row["fixed"] + row["each"] * told.get("steps", row["steps"]) + bool(told.get("extra_pass")))


def _searches(
    recipe: Mapping[str, Any], name: str, task: str, path: tuple[str, ...] = ()
) -> Iterator[tuple[dict[str, Any], str]]:
    """The searches behind an arm's ticket, its own and those of the arms it descends from."""
    table, top = recipe["arms"][name], recipe.get("search", {})
    for other in (table.get("ticket"), table.get("like")):
        if other in recipe["arms"] and other not in path:
            yield from _searches(recipe, other, task, (*path, name))
    own = table.get("search", "searched_on" in table)
    if own is False or own is None:
        return
    told = {"name": own} if isinstance(own, str) else dict(own) if isinstance(own, Mapping) else {}
    same = told.get("name", top.get("name")) == top.get("name")
    yield (_merged(top, told) if same else told), str(table.get("searched_on", {}).get("task", task))


def _search(search: Mapping[str, Any], task: Mapping[str, Any], on: Device) -> float:
    row = _numbers()["searches"].get(search.get("name"), {"epochs": 1})
    told = _merged({k: v for k, v in row.items() if k == "adversary"}, search)
    if "rows" in row:  # text of its own
        epoch = _rows(
            row["rows"], row["tokens"], told.get("batch_size", row["batch"]), passes(told.get("adversary")), on
        )
    else:
        epoch = _epoch({"batch_size": row.get("batch"), **told}, task, on)
    rounds = row.get("rounds_of", {}).get(task["name"], row.get("rounds", 1))
    epochs = rounds * (told.get("run_epochs") or told.get("epochs", row["epochs"])) * row.get("share", 1.0)
    if told.get("stop") == "fixed":
        epochs = told.get("at_epoch", row.get("fixed", epochs))
    before = row.get("before", 0) * _epoch({"batch_size": row.get("batch")}, task, on)
    return float(epochs) * epoch * on.searches.get(str(search.get("name")), 1.0) + before


def _epoch(training: Mapping[str, Any], task: Mapping[str, Any], on: Device) -> float:
    batch = training.get("batch_size") or task["batch"]
    return _rows(task["rows"], task["tokens"], int(batch), passes(training.get("adversary")), on)


def _rows(rows: float, tokens: float, batch: int, each: float, on: Device) -> float:
    return on.margin * (rows / batch * (on.update + each * on.each) + rows * tokens * each * on.token)


def _attack(attack: NamedAttack, task: Mapping[str, Any], on: Device) -> float:
    split = attack.table.get("split")
    count = int(attack.table.get("n", 0)) or task["splits"].get(split, task["attacked"])
    known, name = _numbers()["questions"], str(attack.table.get("name"))
    questions = (
        known.get(f"{name}-{attack.candidates}", known.get(name, QUESTIONS)) * task["words"] * task.get("asked", 1.0)
    )
    encoder = _numbers()["encoder"] if attack.table.get("encoder", "none") != "none" else 1.0
    seconds = encoder * count * questions * (on.text + task["long"] * on.query)
    return float(on.margin * seconds / on.half)


def _task(paths: Paths, name: str) -> dict[str, Any]:
    """The task's numbers, with the rows that its folder holds."""
    told, held = {**_numbers()["tasks"].get(name, UNKNOWN)}, rows_of(paths, name)
    official = rules(name) if name in _numbers()["tasks"] else None
    confirm = {official.confirm: official.confirm_rows} if official is not None and official.confirm else {}
    told |= {
        "name": name,
        "splits": {**confirm, **held},
        "batch": (TASKS[name].batch_size if name in TASKS else None) or BATCH,
    }
    if "train" in held:
        told["rows"] = min(told["rows"], held["train"])  # never more: some are carved or dropped
        told["attacked"] = min(told["attacked"], held.get(rules(name).attacked, told["attacked"]))
    return told


def _merged(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """As an arm's table is written over the recipe's: of the same adversary only what is named changes."""
    merged = {**top, **own}
    before, after = top.get("adversary"), own.get("adversary")
    before = {"name": before} if isinstance(before, str) else before
    if (
        isinstance(before, Mapping)
        and isinstance(after, Mapping)
        and after.get("name", before.get("name")) == before.get("name")
    ):
        merged["adversary"] = {**before, **after}
    return merged


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.plain() if isinstance(value, Said) else value


def _numbers() -> dict[str, Any]:
    return toml("cost.toml")
