"""Configs are frozen dataclasses: TOML in, canonical JSON and a hash out.

``build`` turns a mapping (a TOML table, say) into a dataclass and refuses unknown keys and wrong types with the place and a hint.
``to_plain`` turns it back; ``digest`` hashes the canonical JSON, so that equal configs have equal hashes on every machine.
``Settings`` checks what its fields declare: their types, and the limits that ``setting`` and ``fraction`` give; a class adds the rules
between fields. A field that holds a component says where to look its name up (``component``, ``components``); in TOML such a field is a name
(``adversary = "freelb"``) or a table (``adversary = {name = "freelb", steps = 5}``). ``resource`` is a field that names a file or folder.
``counts=False`` marks a setting that does not change the result. A field that is no setting is left out of both ways by
``field(metadata={"unsaid": True})``; one whose default depends on other fields names the attribute that has its value by
``setting("auto", resolved="…")``, and is described by that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import numbers
import operator
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.registry import REGISTRIES, name_of


class FlagText(str):
    """A value from the command line: text, until the type of its field is known."""

    __slots__ = ()

    def plain(self) -> Any:
        """What TOML reads in it, else the text itself."""
        if self in ("", "none", "None"):
            return None
        try:
            return tomllib.loads(f"value = {self}")["value"]
        except (ValueError, RecursionError):
            return str(self)


# --- fields


# how a value is compared with each of its limits; each comparison is false for NaN
LIMITS = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}


def setting(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    hint: str = "change the value",
    **marks: Any,
) -> Any:
    """A field of ``Settings`` with its limits; ``counts=False``: it does not change the result."""
    given = zip(LIMITS, (at_least, above, at_most, below), strict=True)
    if limits := {name: limit for name, limit in given if limit is not None}:
        marks |= {"limits": limits, "hint": hint}
    return dataclasses.field(default=default, metadata=marks)


def fraction(default: Any = dataclasses.MISSING, *, hint: str = "0.3 removes 30 %") -> Any:
    """A fraction to remove."""
    return setting(default, at_least=0, below=1, hint=hint)


def component(registry: str, default: Any = None) -> Any:
    """A registered component, or none."""
    return dataclasses.field(default=default, metadata={"registry": registry})


def components(registry: str) -> Any:
    """Registered components, any number; where there is none, a description leaves the field out."""
    return dataclasses.field(default=(), metadata={"registry": registry, "many": True})


def resource(*, required: bool = False) -> Any:
    """A resource of the field's name, by path or name: left out, it is looked for; "none" drops it unless it is ``required``."""
    return dataclasses.field(default=None, metadata={"resource": True, "none_is_a_word": True, "required": required})


def resources_in(settings: Any) -> tuple[str, ...]:
    """The fields of a class or an instance that are resources."""
    fields = dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ()
    return tuple(f.name for f in fields if f.metadata.get("resource"))


def mark(cls: Any, name: str, key: str, usual: Any) -> Any:
    """What a field is marked with, in the class or in the nearest one above it that says so."""
    fields = (vars(base).get("__dataclass_fields__", {}).get(name) for base in cls.__mro__)
    return next((field.metadata[key] for field in fields if field is not None and key in field.metadata), usual)


def uncounted(cls: Any) -> tuple[str, ...]:
    """The settings that do not change the result."""
    return tuple(f.name for f in dataclasses.fields(cls) if not mark(cls, f.name, "counts", True))


# --- checks


class Settings:
    """A frozen dataclass whose fields are checked when it is made; a subclass that gives a field another default keeps its limits."""

    def __post_init__(self) -> None:
        for name, check in _checks(type(self)):  # type: ignore[arg-type]
            check(self.shown(name), getattr(self, name))

    def shown(self, name: str) -> str:
        """How an error names a field."""
        return f"{type(self).__name__}.{name}"


def refuse(broken: Any, message: str, hint: str) -> None:
    """Refuse settings that do not go together."""
    if broken:
        raise TicketsError(message, hint=hint, code="settings.rule")


def one_of(what: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a ``value`` that is not among ``known``: a typo must not choose the other branch."""
    known = tuple(known)
    if value not in known:
        words = list(map(str, known))
        message = f"{what} is {value!r}, expected one of {', '.join(words)}"
        raise TicketsError(message, hint=did_you_mean(str(value), words), code="settings.choice")


@cache
def _checks(cls: Any) -> tuple[tuple[str, Callable[[str, Any], None]], ...]:
    hints = typing.get_type_hints(cls)
    found = ((f.name, _check_of(cls, f.name, hints[f.name])) for f in dataclasses.fields(cls))
    return tuple((name, check) for name, check in found if check is not None)


def _check_of(cls: Any, name: str, hint: Any) -> Callable[[str, Any], None] | None:
    """What a field's type and limits allow; a seed without limits has a check of its own (``seeds.py``)."""
    if typing.get_origin(hint) is typing.Literal:
        return lambda what, value: one_of(what, value, typing.get_args(hint))
    if mark(cls, name, "resource", False):
        return _refuse_none if mark(cls, name, "required", False) else None
    kinds = set(typing.get_args(hint) or (hint,))
    limits: Mapping[str, float] = mark(cls, name, "limits", {})
    if not kinds & {int, float} or not kinds <= {int, float, type(None)} or (name == "seed" and not limits):
        return None

    def check(what: str, value: Any) -> None:
        if value is None and type(None) in kinds:
            return
        if not isinstance(value, numbers.Real):
            hint = "give a number, without quotes"
            raise TicketsError(f"{what} must be a number, got {value!r}", hint=hint, code="settings.number")
        if limits:
            advice = mark(cls, name, "hint", "")
            if float not in kinds and (not isinstance(value, numbers.Integral) or isinstance(value, bool)):
                message = f"{what} must be a whole number, got {value!r}"
                raise TicketsError(message, hint=advice, code="settings.whole_number")
            if not all(LIMITS[name](value, limit) for name, limit in limits.items()):
                words = " and ".join(f"{name} {limit:g}" for name, limit in limits.items())
                raise TicketsError(f"{what} must be {words}, got {value!r}", hint=advice, code="settings.limit")

    return check


def _refuse_none(what: str, value: Any) -> None:
    if value == "none":
        message = f"{what} cannot be dropped: the candidates come from there"
        raise TicketsError(message, hint="give a path", code="settings.required")


# --- to JSON


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, finite numbers only."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def counted(settings: Any) -> Any:
    """``to_plain`` without the settings that do not change the result, at every depth."""
    return to_plain(settings, all_fields=False)


def describe(component: Any) -> dict[str, Any]:
    """A component's config with its registered name."""
    return {"name": name_of(component), **to_plain(component)}


def to_plain(value: Any, *, all_fields: bool = True) -> Any:
    """``value`` as JSON types; a component inside a config carries its registered name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for f in dataclasses.fields(value):
            inner, many = getattr(value, f.metadata.get("resolved", f.name)), f.metadata.get("many")
            left_out = not f.init or f.metadata.get("unsaid") or (many and not inner)
            if left_out or not (all_fields or mark(type(value), f.name, "counts", True)):
                continue
            plain[f.name] = to_plain(inner, all_fields=all_fields)
            if f.metadata.get("registry") and inner is not None:
                pairs = zip(inner, plain[f.name], strict=True) if many else [(inner, plain[f.name])]
                named = [{"name": name_of(each), **settings} for each, settings in pairs]
                plain[f.name] = named if many else named[0]
        return plain
    if isinstance(value, Mapping):
        return {str(k): to_plain(v, all_fields=all_fields) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v, all_fields=all_fields) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            hint = "leave the field out or give a number"
            raise TicketsError(f"a config number must be finite, got {value}", hint=hint, code="config.not_finite")
        return value + 0.0  # -0.0 is 0.0, and hashes as it
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"not a config value: {type(value).__name__}")


# --- from TOML and the command line


def tree_of(settings: Sequence[str], tree: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write ``key=value`` settings (dotted keys go deeper) into ``tree``, a new one by default."""
    tree = {} if tree is None else tree
    for given in settings:
        key, equals, value = given.partition("=")
        if not equals:
            hint = "for example --set train.epochs=3"
            raise TicketsError(f"--set {given}: expected key=value", hint=hint, code="settings.key_value")
        table, (*parents, last) = tree, key.strip().split(".")
        for parent in parents:
            inner = table.setdefault(parent, {})
            if isinstance(inner, str):  # adversary = "freelb", then --set search.adversary.steps=3
                inner = table[parent] = {"name": inner}
            elif inner is True:  # search = true, then --set arms.ticket.search.gamma=0.2
                inner = table[parent] = {}
            if not isinstance(inner, dict):
                hint = "set the whole value instead"
                raise TicketsError(f"--set {given}: {parent!r} is not a table", hint=hint, code="settings.table")
            table = inner
        table[last] = FlagText(value.strip())
    return tree


def build(cls: type, values: Mapping[str, Any], where: str = "config") -> Any:
    """An instance of the dataclass ``cls`` from ``values``."""
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}
    for key in values:
        if key not in known:
            hint = did_you_mean(key, known) if known else f"{where} has no settings: leave it out"
            raise TicketsError(f"{where}: unknown key {key!r}", hint=hint, code="config.unknown_key")
    none = dataclasses.MISSING
    missing = [name for name, f in known.items() if name not in values and f.default is none is f.default_factory]
    if missing:
        raise TicketsError(f"{where}: missing {', '.join(missing)}", hint="add the key", code="config.missing_key")
    hints = typing.get_type_hints(cls)
    return cls(**{key: _field(known[key], hints[key], value, f"{where}.{key}") for key, value in values.items()})


def _field(f: dataclasses.Field[Any], hint: Any, value: Any, where: str) -> Any:
    """``value`` as a field takes it."""
    registry: Any = f.metadata.get("registry")
    default = f.default if dataclasses.is_dataclass(f.default) and not isinstance(f.default, type) else None
    if default is not None and isinstance(value, Mapping) and not (registry and "name" in value):
        value = {**(describe(default) if registry else to_plain(default)), **value}  # {steps = 3} changes one setting
    if f.metadata.get("many"):
        if isinstance(value, FlagText):  # names with commas between them
            value = plain.split(",") if isinstance(plain := value.plain(), str) else plain
        several = [] if value is None else value if isinstance(value, list | tuple) else [value]
        names = (each.strip() if isinstance(each, str) else each for each in several)
        return tuple(build_component(registry, each, where) for each in names)
    if registry:
        return build_component(registry, value, where)
    if f.metadata.get("none_is_a_word") and value == "none":
        value = "none"  # not none
    return _typed(
        str | None if f.metadata.get("resource") else hint, value, where
    )  # a resource is a name until it is loaded


def build_component(kind: str, value: Any, where: str) -> Any:
    """A registered component from its name or from a table with ``name``; ``None`` and ``"none"`` give none."""
    if value is None or value is False or value == "none":
        return None
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        message = f"{where}: expected a name or a table with a name, got {value!r}"
        raise TicketsError(message, hint=f'for example {where} = "…"', code="config.component")
    settings = {k: v for k, v in value.items() if k != "name"}
    return build(REGISTRIES[kind].get(value["name"]), settings, where)


WORDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}


def _typed(hint: Any, value: Any, where: str) -> Any:
    """``value`` as the type ``hint`` holds it; a word of the command line is read as that type wants it."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(args, value, where)
    if isinstance(value, FlagText):
        if hint is str or (origin is typing.Literal and str(value) in args):
            return str(value)
        listed = origin is tuple and not value.lstrip().startswith("[")
        value = [FlagText(part.strip()) for part in value.split(",")] if listed else value.plain()
    if hint is Any or (dataclasses.is_dataclass(hint) and isinstance(value, hint)):  # type: ignore[arg-type]
        return value
    if origin is typing.Literal:
        if value not in args:
            raise _wrong(where, " or ".join(map(repr, args)), value)
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(where, "a list", value)
        kinds = args[:1] * len(value) if args[1:] == (Ellipsis,) else args
        if len(kinds) != len(value):
            raise _wrong(where, f"a list of {len(kinds)}", value)
        return tuple(_typed(kind, v, f"{where}[{i}]") for i, (kind, v) in enumerate(zip(kinds, value, strict=True)))
    if dataclasses.is_dataclass(hint) or origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(where, "a table", value)
        if origin is None:
            return build(hint, value, where)  # type: ignore[arg-type]
        return {str(k): _typed(args[1], v, f"{where}.{k}") for k, v in value.items()}
    if hint is float and type(value) is int:
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise _wrong(where, WORDS.get(hint, str(hint)), value)
    if isinstance(value, float) and not math.isfinite(value):
        raise _wrong(where, WORDS[float], value)
    return value


def _one_of(kinds: Sequence[Any], value: Any, where: str) -> Any:
    """``value`` as the first of several types that takes it."""
    if type(None) in kinds and (value.plain() if isinstance(value, FlagText) else value) is None:
        return None
    kinds = [kind for kind in kinds if kind is not type(None)]
    if isinstance(value, FlagText):  # a path with commas stays a path, ``a,b`` is a pair where pairs go
        pairs = "," in value
        kinds.sort(key=lambda kind: 0 if pairs and typing.get_origin(kind) is tuple else 1 if kind is str else 2)
    problems = []
    for kind in kinds:
        try:
            return _typed(kind, value, where)
        except TicketsError as problem:
            problems.append(problem)
    raise problems[0]


def _wrong(where: str, expected: str, value: Any) -> TicketsError:
    return TicketsError(f"{where}: expected {expected}, got {value!r}", hint="change the value", code="config.type")
