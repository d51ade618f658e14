"""Arms: the models a recipe compares, and where the ticket of each comes from.

An arm trains the whole model, or a ticket. The ticket comes from a search (``search``; on another task: ``searched_on``), or it is a
branch: that of another arm or of a folder (``ticket``), perhaps drawn again from the same scores (``draw``). ``without`` takes one thing
away from the ticket: its weights (``"initialisation"``) or its shape (``"structure"``). A branch is resolved to the search it descends
from, so that the same search in two arms is one stage, whatever the order of the arms.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from robust_tickets.config import build, build_component, component, setting
from robust_tickets.data.registered_tasks import TASKS, task_named
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.registry import METHODS, name_of
from robust_tickets.ticket.settings import Draw

if TYPE_CHECKING:
    from robust_tickets.experiment.recipe import Recipe, Tables

# what an arm's other search takes over from [search], so that arms stay comparable
SPARSITY = ("heads", "neurons", "sparsity")
DRAWN_BY = {
    "structured": ("heads", "neurons", "head_scope", "neuron_scope", "round_to"),
    "unstructured": ("sparsity", "scope"),
}
HOW = 'search = true, or ticket = "ANOTHER_ARM"'
WITHOUT = {"initialisation": "its weights drawn again", "structure": "whole, what it removes drawn again"}
Without = Literal["initialisation", "structure"]


def _key(usual: str) -> Any:
    """The field that says under which key of the recipe another one was given, for the errors; it is no part of an arm's identity."""
    return field(default=usual, metadata={"unsaid": True}, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a ticket comes from: a search or a folder, and the draw made since."""

    search: Any = component("methods")
    searched_on: TaskSource | None = setting(None, counts=False)  # another task than the recipe's; its rows count
    like: Origin | None = None  # whose counts a random ticket matches
    folder: str | None = setting(None, counts=False)
    draw: Draw | None = None
    key: str = _key("search")  # of ``search``


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One model to compare: searched or not, trained, attacked."""

    name: str
    title: str = setting(counts=False)
    origin: Origin | None = None
    branch_of: str | None = setting(None, counts=False)  # the arm or the folder whose ticket this is
    like: str | None = None
    without: Without | None = None
    train: Any = None  # FineTune
    key: str = _key("train")  # of ``train``, as far as its adversary goes

    @property
    def search(self) -> Any:
        return self.origin.search if self.origin else None

    def branch(self) -> dict[str, Any]:
        """What sets this arm's ticket apart, for the report; empty for a plain search."""
        draw, elsewhere = (self.origin.draw, self.origin.searched_on) if self.origin else (None, None)
        own = {"of": self.branch_of, "draw": draw.asked() if draw else None, "without": self.without, "like": self.like}
        own["searched_on"] = elsewhere.task if elsewhere else None
        return {key: value for key, value in own.items() if value}

    def story(self) -> str:
        """The same in words: ``the ticket of robustt, drawn with sparsity 0.5``; empty where the whole model is trained."""
        if self.origin is None:
            return ""
        branch = self.branch()
        story = f"the ticket of {self.branch_of}" if self.branch_of else f"searched by {type(self.search).__name__}"
        if "searched_on" in branch:
            story += f" on {branch['searched_on']}"
        if "like" in branch:
            story += f", with the counts of {branch['like']}"
        if "draw" in branch:
            drawn = {
                key.replace("_", " "): f"{n:.4g}" if isinstance(n, float) else n for key, n in branch["draw"].items()
            }
            story += f", drawn with {', '.join(f'{key} {n}' for key, n in drawn.items())}"
        return f"{story}, {WITHOUT[self.without]}" if self.without else story


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The keys of an [arms.NAME] table."""

    title: str | None = None
    search: Any = None
    searched_on: TaskSource | None = None
    ticket: str | None = None
    draw: Draw | None = None
    without: Without | None = None
    like: str | None = None
    train: dict[str, Any] = field(default_factory=dict)

    @property
    def searches(self) -> bool:
        if self.search is None:
            return self.searched_on is not None
        return bool(self.search) or self.search == {}  # an empty table: the recipe's [search], nothing changed


class Arms:
    """The arms of the recipe ``name``, whose tables are ``top``; ``notes`` collects what was filled in from the papers' tables."""

    def __init__(self, name: str, top: Tables) -> None:
        self.name, self.top = name, top
        self.tables = {arm: build(_Table, table, f"{name}.arms.{arm}") for arm, table in top.arms.items()}
        self.notes: dict[str, None] = {}  # an ordered set
        if top.search and not any(table.searches or table.ticket for table in self.tables.values()):
            hint = "search = true in an [arms.NAME] table, or leave it out"
            raise TicketsError(f"{name}: [search] is given, but no arm searches", hint=hint, code="arms.no_search")

    def arm(self, name: str) -> Arm:
        from robust_tickets.train.finetune import FineTune

        table, where = self.tables[name], f"{self.name}.arms.{name}"
        origin = self._origin(name, ())
        if table.without and origin is None:
            message = f"{where}: without = {table.without!r} takes something from a ticket, and this arm has none"
            raise TicketsError(message, hint=HOW, code="arms.without")
        train, note = for_training({"seed": self.top.seed, **_changed(self.top.train, table.train)}, self.top.task)
        self.notes[note] = None
        return Arm(
            name=name, title=name if table.title is None else table.title, origin=origin, branch_of=table.ticket,
            like=table.like, without=table.without, train=build(FineTune, train, f"{where}.train"),
            key=f"arms.{name}.train" if "adversary" in table.train else "train",
        )  # fmt: skip

    def _origin(self, name: str, path: tuple[str, ...]) -> Origin | None:
        """The ticket of an arm; ``path`` are the arms that asked for it."""
        table, where = self.tables[name], f"{self.name}.arms.{name}"
        if name in path:
            message = f"{where}: the ticket depends on itself: {' → '.join((*path, name))}"
            raise TicketsError(message, hint="one of them has to search", code="arms.cycle")
        if table.ticket and table.searches:
            message = f"{where}: a ticket is searched or taken from elsewhere, not both"
            raise TicketsError(message, hint="leave search or ticket out", code="arms.two_tickets")
        for key, needed in (("like", "search"), ("searched_on", "search"), ("draw", "search or ticket")):
            if getattr(table, key) is not None and not (table.searches or (table.ticket and key == "draw")):
                raise TicketsError(f"{where}: {key} needs {needed} in the same arm", hint=HOW, code="arms.needs")
        if table.ticket:
            origin = self._of(table.ticket, f"{where}.ticket", (*path, name))
        elif table.searches:
            like = self._of(table.like, f"{where}.like", (*path, name)) if table.like else None
            key = "search" if table.search in (None, True, {}) else f"arms.{name}.search"
            search = self._search(table, f"{where}.search")
            origin = Origin(search=search, searched_on=table.searched_on, like=like, key=key)
        else:
            return None
        if table.draw is None:
            return origin
        before = origin.draw.asked() if origin.draw else {}
        return replace(origin, draw=Draw(**{**before, **table.draw.asked()}))

    def _of(self, wanted: str, where: str, path: tuple[str, ...]) -> Origin:
        """The ticket of the arm or the folder called ``wanted``."""
        if wanted in self.tables:
            origin = self._origin(wanted, path)
            if origin is None:
                raise TicketsError(f"{where}: the arm {wanted!r} has no ticket", hint=HOW, code="arms.no_ticket")
            return origin
        if "/" in wanted or "\\" in wanted or Path(wanted).is_dir():
            return Origin(folder=wanted)
        hint = did_you_mean(wanted, self.tables)
        raise TicketsError(f"{where}: {wanted!r} is no arm and no folder", hint=hint, code="arms.unknown_ticket")

    def _search(self, table: _Table, where: str) -> Any:
        own: Any = {} if table.search is None or table.search is True else table.search
        own = {"name": own} if isinstance(own, str) else own
        if not isinstance(own, Mapping):
            message = f"{where}: expected true, false, a name or a table, got {own!r}"
            raise TicketsError(message, hint='search = "random", say', code="arms.search")
        top = self.top.search
        if own.get("name", top.get("name")) == top.get("name"):
            return self._build(_changed(top, own), table.searched_on, where)
        shared = {}
        if top.get("name"):  # the same sparsity as [search], wherever that came from
            first = self._build(top, None, f"{self.name}.search")
            known = {f.name for f in fields(METHODS.get(own["name"])) if f.init}
            shared = {key: n for key in SPARSITY if key in known and (n := getattr(first, key, None)) is not None}
            # a matched ticket's counts are rounded, and weights have no widths
            if "round_to" in known and getattr(first, "round_to", 1) > 1 and table.like is None:
                made = self._build({**shared, **own}, table.searched_on, where)
                shared |= {"round_to": first.round_to} if kind_of(Origin(search=made)) != "unstructured" else {}
        return self._build({**shared, **own}, table.searched_on, where)

    def _build(self, settings: Mapping[str, Any], elsewhere: TaskSource | None, where: str) -> Any:
        filled, note = with_row(settings, self.top.task, elsewhere.task if elsewhere else None)
        self.notes[note] = None
        return build_component("methods", {"seed": self.top.seed, **filled}, where)


def _changed(top: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """``own`` written over ``top``; of the same component (an adversary, say) only what is named changes."""
    changed = {**top, **own}
    for key, after in own.items():
        if isinstance(after, Mapping) and (before := _table(top.get(key))):
            same = after.get("name", before.get("name")) == before.get("name")
            changed[key] = {**before, **after} if same else after
    return changed


def _table(given: Any) -> dict[str, Any]:
    """A component that is given by name or by table, as a table; empty for none."""
    if isinstance(given, str):
        return {} if given in ("", "none") else {"name": given}
    return dict(given) if isinstance(given, Mapping) else {}


def with_row(settings: Mapping[str, Any], task: str, searched: str | None = None) -> tuple[dict[str, Any], str]:
    """``settings`` of a search with the row of its task, and a line that says so, or nothing.

    ``searched`` is the task searched on where it is another one: the row is its, but the sparsity is that of ``task``.
    """
    if settings.get("name") not in METHODS.names():
        return dict(settings), ""  # the builder says what is wrong with it
    method = METHODS.get(settings["name"])
    table: Mapping[str, Mapping[str, Any]] = getattr(method, "PER_TASK", {})
    task, searched = task_named(task, table), task_named(searched, table) if searched else None
    row = dict(table.get(searched or task, {}))
    if searched:
        row |= {key: value for key, value in table.get(task, {}).items() if key in SPARSITY}
    if settings.get("sparsity") is not None:  # single weights are drawn: no neurons
        row.pop("neurons", None)
    added = _missing(row, settings, {f.name: f.default for f in fields(method)})
    if not added:
        return dict(settings), ""
    tables = {key: {**_table(settings.get(key)), **value} for key, value in added.items() if isinstance(value, Mapping)}
    note = f"{settings['name']}: {_listed(added)}, as in its table for {searched or task}"
    return {**settings, **added, **tables}, note


def _missing(row: Mapping[str, Any], settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``row`` the settings do not say; of a component only where it is of the default's kind."""
    added: dict[str, Any] = {}
    for key, value in row.items():
        if not isinstance(value, Mapping):
            added |= {} if key in settings else {key: value}
            continue
        own, usual = _table(settings.get(key)), name_of(defaults[key])
        if key not in settings or (own and own.get("name", usual) == usual):
            inner = {k: v for k, v in value.items() if k not in own}
            added |= {key: inner} if inner else {}
    return added


def _listed(added: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} ({_listed(v)})" if isinstance(v, Mapping) else f"{k} {v}" for k, v in added.items())


def for_training(settings: Mapping[str, Any], task: str) -> tuple[dict[str, Any], str]:
    """``settings`` of the training with the batch size of a registered task."""
    spec = TASKS.get(task := task_named(task))
    if spec is None or spec.batch_size is None or "batch_size" in settings:
        return dict(settings), ""
    note = f"train: batch_size {spec.batch_size}, as the papers have it for {task}"
    return {**settings, "batch_size": spec.batch_size}, note


def length_for(task: str, given: int | None) -> tuple[int, str]:
    """Tokens of a text: what the recipe says, else the registered task's, else 128."""
    spec = TASKS.get(task := task_named(task))
    if given is not None or spec is None or spec.max_length is None:
        return given or 128, ""
    return spec.max_length, f"max_length {spec.max_length}, as the papers have it for {task}"


def check(recipe: Recipe) -> None:
    """Refuse draws and matches that the tickets of a recipe do not allow; reads folders, loads no model."""
    for arm in recipe.arms:
        if arm.origin is not None:
            _check(arm.origin, f"{recipe.name}.arms.{arm.name}")


def _check(origin: Origin, where: str) -> None:
    if origin.like is not None:
        _check(origin.like, f"{where}.like")
    if origin.search is not None:
        check_like(origin.search, origin.like is not None, kind_of(origin.like) if origin.like else None, where)
    if origin.draw is None:
        return
    if not getattr(origin.search, "drawable", True):
        message = f"{where}.draw: the ticket of {type(origin.search).__name__} has no scores to draw from"
        raise TicketsError(message, hint="how much goes is the method's own answer; leave draw out", code="arms.draw")
    kind = kind_of(origin)
    for name in origin.draw.asked():
        if kind and name not in DRAWN_BY[kind]:
            message = f"{where}.draw: {name} is not for the ticket here, which is {kind}"
            raise TicketsError(message, hint=f"draw it by {', '.join(DRAWN_BY[kind])}", code="arms.draw")


def check_like(method: Any, matched: bool, kind: str | None, where: str) -> None:
    """Refuse a search that cannot match another ticket, or lacks the one it needs; ``kind`` is that of the other, where known."""
    if "like" not in inspect.signature(type(method).__call__).parameters:
        if matched:
            message = f"{where}: {type(method).__name__} matches no other ticket, got like"
            hint = "leave like out; the method random matches others, with match layer or matrix"
            raise TicketsError(message, hint=hint, code="arms.like")
    elif hasattr(method, "matches") and (kind or not matched):
        method.matches(kind)


def kind_of(origin: Origin) -> str | None:
    """Structured or unstructured, as far as it is known before the search."""
    if origin.search is None:
        from robust_tickets.ticket.ticket import Ticket

        return Ticket.load(str(origin.folder)).kind
    if hasattr(origin.search, "finds"):
        return str(origin.search.finds)
    if getattr(origin.search, "sparsity", None) is not None or (origin.like and kind_of(origin.like) == "unstructured"):
        return "unstructured"
    return "structured" if hasattr(origin.search, "neurons") else None
