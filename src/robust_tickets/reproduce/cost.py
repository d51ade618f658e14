"""What a plan will cost, before anything is loaded: rows × epochs × passes × seconds, from the numbers of ``cost.toml``.

A search or a training that several jobs share is counted once. Epochs, steps and batches are read from each job's own recipe; where
a recipe leaves them to the method ``cost.toml`` repeats them, since the method would load torch. A test compares the
two. Estimates are upper bounds: a ticket is taken to cost as much as the whole model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from robust_tickets.config import FlagText, build, digest
from robust_tickets.data.registered_tasks import TASKS
from robust_tickets.files import mapping
from robust_tickets.report.run_data import number
from robust_tickets.reproduce.arms import arm, arms, tree
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.paths import Paths, rows_of, share_of
from robust_tickets.reproduce.plan import Plan
from robust_tickets.reproduce.protocol import NamedAttack, rules, settings
from robust_tickets.reproduce.published import toml

Kind = Literal["search", "train", "attack"]
DRIVER = ("/proc/driver/nvidia/version", "/dev/nvidiactl")  # there is a GPU
NOWHERE = Paths()
NUMBERS = toml("cost.toml")
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
    searches: Mapping[str, float] = field(default_factory=dict)  # times as long a method's update takes

    def epoch(self, rows: float, tokens: float, batch: float, adversary: Any = None) -> float:
        """An epoch of some rows of so many tokens."""
        count = passes(adversary)
        return self.margin * (rows / batch * (self.update + count * self.each) + rows * tokens * count * self.token)


TOKENS = Device(name="tokens", about="passes by their tokens", update=0, each=0, token=1, text=0, query=0, margin=1)


@dataclass(frozen=True, kw_only=True)
class Size:
    """The rows of a task, and the words and tokens of a text; ``tokens`` as padded in training, ``long`` of an attacked one."""

    name: str = ""
    rows: float = 10_000
    tokens: float = 40
    attacked: int = 500
    words: float = 30
    long: float = 40
    asked: float = 1.0  # questions a word beside SST-2
    batch: int = 32
    splits: Mapping[str, int | None] = field(default_factory=dict)


class Piece(NamedTuple):
    """One stage of work; jobs with the same ``key`` share it."""

    kind: Kind
    key: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds that are left to do, by kind of stage, and for each job: what it adds after those before it."""

    search: float
    train: float
    attack: float
    units: Mapping[Job, float]  # done ones are not in it
    done: tuple[Job, ...]

    @property
    def total(self) -> float:
        return self.search + self.train + self.attack


def device(name: str | None = None) -> Device:
    """A device of ``cost.toml``; by default what this machine seems to have, found without torch."""
    if name is None:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
        name = OURS if any(Path(one).exists() for one in DRIVER) and not hidden else "cpu"
    return build(Device, {"name": name, **NUMBERS["devices"][name]}, "cost.toml")  # type: ignore[no-any-return]


def cost(
    plan: Plan,
    outcomes: Sequence[Outcome] = (),
    on: Device | None = None,
    paths: Paths = NOWHERE,
    store: Path | None = None,
) -> Cost:
    """What is left of a plan after ``outcomes``; folders of ``paths`` are looked at for their sizes.

    Outcomes outlive stores: what was not made in this ``store`` and lacks an attack is trained again, its search too.
    """
    on = on or device()
    found = {outcome.unit: outcome for outcome in outcomes}
    trained = {unit for unit, outcome in found.items() if outcome.clean}  # of the others there is the search alone
    kept = [unit for unit in plan.units if unit in found and store is not None and (store / "units" / unit.id).is_dir()]
    seen = {piece.key for unit in kept for piece in pieces(unit, (), on, paths, train=unit in trained)}
    spent: dict[Kind, float] = {"search": 0.0, "train": 0.0, "attack": 0.0}
    left: dict[Job, float] = {}
    for unit in plan.units:
        lacking = [one for one in plan.attacks[unit] if unit not in found or found[unit].attacked(one.name) is None]
        if not lacking and (unit in trained or (unit in found and unit in plan.searches)):
            continue
        left[unit] = 0.0
        for kind, key, seconds in pieces(unit, lacking, on, paths, train=unit not in plan.searches):
            if key not in seen:
                seen.add(key)
                spent[kind] += seconds
                left[unit] += seconds
    return Cost(**spent, units=left, done=tuple(unit for unit in plan.units if unit not in left))


def pieces(
    unit: Job,
    attacks: Sequence[NamedAttack],
    on: Device,
    paths: Paths = NOWHERE,
    *,
    train: bool = True,
    ran: float | None = None,
) -> Iterator[Piece]:
    """The stages of a job, with what each takes where nothing is shared. ``ran``: epochs after which its rule stopped the search."""
    recipe = _plain(tree(unit, settings(unit, cuda=False)))
    name, share, size = arm(unit.arm, unit.flavour).arm, share_of(paths, unit.backbone), size_of(unit.task, paths)
    for search, task in _searches(recipe, name, unit.task):
        if ran is not None and "share" in NUMBERS["searches"].get(search.get("name"), {}):  # one at most
            search = {**search, "stop": "fixed", "at_epoch": ran}
        seconds = share * search_seconds(search, size_of(task, paths), on)
        key = digest(["search", [unit.backbone, unit.seed, unit.repeat], task, search])
        yield Piece("search", key, seconds + on.start * (seconds > 0))
    if train:
        given = _merged(recipe.get("train", {}), recipe["arms"][name].get("train", {}))
        epochs = float(given.get("run_epochs") or given.get("epochs", 3))
        epoch = on.epoch(size.rows, size.tokens, given.get("batch_size") or size.batch, given.get("adversary"))
        yield Piece("train", f"train {unit.id}", on.start + share * epochs * epoch)
    for one in attacks:
        yield Piece("attack", f"attack {unit.id} {one.name}", on.asking + share * _attack(one, size, on))


def work(outcome: Outcome) -> float | None:
    """Search and training of a run in plain epochs of the whole model, by passes and tokens: what is known of runs that shared
    their device. A search that its rule stops counts what it ran, or half an epoch, as planned, where the result does not say. A ticket's
    training counts as much of it as its FLOPs are of the whole model's. None: an arm or a task that is not known, or a ticket whose FLOPs
    are not.
    """
    unit, stopped_at = outcome.unit, number(mapping(outcome.traces.get("distances")).get("stopped_at"))
    kept, whole = (outcome.cost.get(f"{which}flops_per_example") for which in ("", "dense_"))
    known = unit.arm in arms() and unit.task in NUMBERS["tasks"]
    if not known or (outcome.ticket and not (kept and whole)):
        return None
    share, size = float(kept) / float(whole) if kept and whole else 1.0, size_of(unit.task)
    stages = pieces(unit, (), TOKENS, ran=stopped_at)
    tokens = sum(seconds * (share if kind == "train" else 1.0) for kind, _, seconds in stages)
    return tokens / TOKENS.epoch(size.rows, size.tokens, size.batch)


def passes(adversary: Any) -> float:
    """Forward-backward passes of a step under an adversary, as a recipe names it."""
    given: dict[str, Any] = {"name": adversary} if isinstance(adversary, str) else dict(adversary or {})
    name = given.get("name")
    if not name or name == "none":
        return 1.0
    if name == "synonymswap" and "mix" in given:
        return float((given["mix"] > 0) + (given["mix"] < 1))
    row = {"fixed": 2} | NUMBERS["adversaries"].get("pgd_naive" if name == "pgd" and given.get("naive") else name, {})
    steps = given.get("steps", row.get("steps", 0))
    return float(row["fixed"] + row.get("each", 0) * steps + bool(given.get("extra_pass")))


def _searches(recipe: Mapping[str, Any], name: str, task: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The searches behind an arm's ticket, its own and those of the arms it descends from, each with its task."""
    table, top = recipe["arms"][name], recipe.get("search", {})
    for other in (table.get("ticket"), table.get("like")):
        if other in recipe["arms"]:
            yield from _searches(recipe, other, task)
    own = table.get("search", "searched_on" in table)
    if own is False or own is None:
        return
    given = {"name": own} if isinstance(own, str) else dict(own) if isinstance(own, Mapping) else {}
    same = given.get("name", top.get("name")) == top.get("name")
    yield (_merged(top, given) if same else given), str(table.get("searched_on", {}).get("task", task))


def search_seconds(search: Mapping[str, Any], size: Size, on: Device) -> float:
    """Seconds of a search with the settings of its table."""
    name = str(search.get("name"))
    known = NUMBERS["searches"].get(name, {})
    given = _merged({key: known[key] for key in ("adversary",) if key in known}, search)
    rows, tokens = known.get("rows", size.rows), known.get("tokens", size.tokens)
    batch = known.get("batch", size.batch)
    epochs = given.get("run_epochs") or given.get("epochs", known.get("epochs", 1))
    epochs *= known.get("rounds_of", {}).get(size.name, known.get("rounds", 1)) * known.get("share", 1.0)
    if given.get("stop") == "fixed":
        epochs = given.get("at_epoch", known.get("fixed", epochs))
    seconds = float(epochs) * on.epoch(rows, tokens, given.get("batch_size") or batch, given.get("adversary"))
    before = known.get("before", 0) * on.epoch(size.rows, size.tokens, batch)
    return seconds * on.searches.get(name, 1.0) + before


def _attack(attack: NamedAttack, size: Size, on: Device) -> float:
    count = int(attack.table.get("n", 0)) or size.splits.get(attack.table.get("split", "")) or size.attacked
    known, name = NUMBERS["questions"], str(attack.table.get("name"))
    questions = known.get(f"{name}-{attack.candidates}", known.get(name, QUESTIONS)) * size.words * size.asked
    encoder = NUMBERS["encoder"] if attack.table.get("encoder", "none") != "none" else 1.0
    return on.margin * encoder * count * questions * (on.text + size.long * on.query) / on.half  # type: ignore[no-any-return]


def size_of(task: str, paths: Paths = NOWHERE) -> Size:
    """The task's numbers, with the rows that its folder holds."""
    known, held = NUMBERS["tasks"].get(task), dict(rows_of(paths, task))
    size: Size = build(Size, {"name": task, **(known or {})}, "cost.toml")
    size = replace(size, batch=(TASKS[task].batch_size if task in TASKS else None) or size.batch)
    if known is not None and (official := rules(task)).confirm:
        size = replace(size, splits={official.confirm: official.confirm_rows})
    if "train" in held:  # never more rows: some are carved or dropped
        attacked = min(size.attacked, held.get(rules(task).attacked, size.attacked))
        size = replace(size, rows=min(size.rows, held["train"]), attacked=attacked)
    return replace(size, splits={**size.splits, **held})


def _merged(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """As an arm's table is written over the recipe's: of the same adversary only what is named changes."""
    before, after = top.get("adversary"), own.get("adversary")
    before = {"name": before} if isinstance(before, str) else before
    if isinstance(before, Mapping) and isinstance(after, Mapping) and after.get("name") in (None, before.get("name")):
        return {**top, **own, "adversary": {**before, **after}}
    return {**top, **own}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return value.plain() if isinstance(value, FlagText) else value
