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
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.registry import REGISTRIES, name_of


def one_of(what: str, value: Any, known: Iterable[Any]) -> None:
    """Refuse a ``value`` that is not among ``known``: a typo must not choose the other branch."""
    known = tuple(known)
    if value not in known:
        words = list(map(str, known))
        raise TicketsError(
            f"{what} is {value!r}, expected one of {', '.join(words)}",
            hint=did_you_mean(str(value), words),
            code="settings.choice",
        )


def at_least(what: str, value: int | None, least: int, hint: str) -> None:
    """Refuse what is no whole number, and a number below ``least``; none is left out."""
    if value is not None and not isinstance(value, numbers.Integral):
        raise TicketsError(f"{what} must be a whole number, got {value!r}", hint=hint, code="settings.whole_number")
    if value is not None and value < least:
        raise TicketsError(f"{what} must be at least {least}, got {value}", hint=hint, code="settings.limit")


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


class Limits(typing.NamedTuple):
    """The numbers that a field takes."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def hold(self, value: Any) -> bool:
        return (  # each comparison is false for NaN
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = ((self.at_least, "at least"), (self.above, "above"), (self.at_most, "at most"), (self.below, "below"))
        return " and ".join(f"{word} {limit:g}" for limit, word in words if limit is not None)


def setting(
    default: Any = dataclasses.MISSING,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    hint: str = "",
    counts: bool = True,
    **marks: Any,
) -> Any:
    """A field of ``Settings`` with its limits; ``counts=False``: it does not change the result."""
    limits = Limits(at_least, above, at_most, below)
    if limits != Limits():
        marks |= {"limits": limits, "hint": hint}
    if not counts:
        marks["counts"] = False
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


class Settings:
    """A frozen dataclass whose fields are checked when it is made; a subclass that gives a field another default keeps its limits."""

    def __post_init__(self) -> None:
        for name, check in _checks(type(self)):  # type: ignore[arg-type]
            check(self.shown(name), getattr(self, name))

    def shown(self, name: str) -> str:
        """How an error names a field."""
        return f"{type(self).__name__}.{name}"


def counted(settings: Any) -> Any:
    """``to_plain`` without the settings that do not change the result, at every depth."""
    return to_plain(settings, all_fields=False)


def uncounted(cls: Any) -> tuple[str, ...]:
    """The settings that do not change the result."""
    return tuple(f.name for f in dataclasses.fields(cls) if not _mark(cls, f.name, "counts", True))


def _mark(cls: Any, name: str, mark: str, usual: Any) -> Any:
    """What a field is marked with, in the class or in the nearest one above it that says so."""
    fields = (vars(base).get("__dataclass_fields__", {}).get(name) for base in cls.__mro__)
    return next((field.metadata[mark] for field in fields if field is not None and mark in field.metadata), usual)


@cache
def _checks(cls: Any) -> tuple[tuple[str, Callable[[str, Any], None]], ...]:
    hints = typing.get_type_hints(cls)
    found = ((f.name, _check_of(cls, f.name, hints[f.name])) for f in dataclasses.fields(cls))
    return tuple((name, check) for name, check in found if check is not None)


def _check_of(cls: Any, name: str, hint: Any) -> Callable[[str, Any], None] | None:
    """What a field's type and limits allow; a seed without limits has a check of its own (``seeds.py``)."""
    if typing.get_origin(hint) is typing.Literal:
        return lambda what, value: one_of(what, value, typing.get_args(hint))
    if _mark(cls, name, "resource", False):
        return _refuse_none if _mark(cls, name, "required", False) else None
    kinds = set(typing.get_args(hint) or (hint,))
    if not kinds & {int, float} or not kinds <= {int, float, type(None)}:
        return None
    limits: Limits = _mark(cls, name, "limits", Limits())
    if name == "seed" and limits == Limits():
        return None
    advice = _mark(cls, name, "hint", "") or "change the value"

    def check(what: str, value: Any) -> None:
        if value is None and type(None) in kinds:
            return
        if not isinstance(value, numbers.Real):
            raise TicketsError(
                f"{what} must be a number, got {value!r}", hint="give a number, without quotes", code="settings.number"
            )
        if limits != Limits():
            if float not in kinds and (not isinstance(value, numbers.Integral) or isinstance(value, bool)):
                raise TicketsError(
                    f"{what} must be a whole number, got {value!r}", hint=advice, code="settings.whole_number"
                )
            if not limits.hold(value):
                raise TicketsError(f"{what} must be {limits}, got {value!r}", hint=advice, code="settings.limit")

    return check


def _refuse_none(what: str, value: Any) -> None:
    if value == "none":
        raise TicketsError(
            f"{what} cannot be dropped: the candidates come from there", hint="give a path", code="settings.required"
        )


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, finite numbers only."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def to_plain(value: Any, *, all_fields: bool = True) -> Any:
    """``value`` as JSON types; a component inside a config carries its registered name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {}
        for f in dataclasses.fields(value):
            inner, many = getattr(value, f.metadata.get("resolved", f.name)), f.metadata.get("many")
            left_out = not f.init or f.metadata.get("unsaid") or (many and not inner)
            if left_out or not (all_fields or _mark(type(value), f.name, "counts", True)):
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
            raise TicketsError(
                f"a config number must be finite, got {value}",
                hint="leave the field out or give a number",
                code="config.not_finite",
            )
        return value + 0.0  # -0.0 is 0.0, and hashes as it
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"not a config value: {type(value).__name__}")


def describe(component: Any) -> dict[str, Any]:
    """A component's config with its registered name."""
    return {"name": name_of(component), **to_plain(component)}


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TicketsError(
            f"no such file: {path}", hint="give the path of a TOML file", code="file.not_found"
        ) from None
    except OSError as problem:  # a folder, or no right to read it
        raise TicketsError(
            f"could not read {path}: {problem.strerror}", hint="give the path of a TOML file", code="file.unreadable"
        ) from None
    except (ValueError, RecursionError) as problem:  # not TOML, not UTF-8, a number of thousands of digits
        raise TicketsError(
            f"{path} is not valid TOML: {problem}", hint="mend the line it names", code="config.toml"
        ) from None


def tree_of(settings: Sequence[str], tree: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write ``key=value`` settings (dotted keys go deeper) into ``tree``, a new one by default."""
    tree = {} if tree is None else tree
    for given in settings:
        key, equals, value = given.partition("=")
        if not equals:
            raise TicketsError(
                f"--set {given}: expected key=value", hint="for example --set train.epochs=3", code="settings.key_value"
            )
        _write(tree, key.strip(), FlagText(value.strip()), given)
    return tree


def _write(tree: dict[str, Any], key: str, value: Any, given: str) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        inner = tree.setdefault(parent, {})
        if isinstance(inner, str):  # adversary = "freelb", then --set search.adversary.steps=3
            inner = tree[parent] = {"name": inner}
        elif inner is True:  # search = true, then --set arms.ticket.search.gamma=0.2
            inner = tree[parent] = {}
        if not isinstance(inner, dict):
            raise TicketsError(
                f"--set {given}: {parent!r} is not a table", hint="set the whole value instead", code="settings.table"
            )
        tree = inner
    tree[last] = value


def build(cls: type, values: Mapping[str, Any], where: str = "config") -> Any:
    """An instance of the dataclass ``cls`` from ``values``."""
    known = {f.name: f for f in dataclasses.fields(cls) if f.init}
    for key in values:
        if key not in known:
            hint = did_you_mean(key, known) if known else f"{where} has no settings: leave it out"
            raise TicketsError(f"{where}: unknown key {key!r}", hint=hint, code="config.unknown_key")
    hints = typing.get_type_hints(cls)
    built = {}
    for key, value in values.items():
        registry: str = known[key].metadata.get("registry", "")
        place = f"{where}.{key}"
        default = known[key].default
        if registry and isinstance(value, Mapping) and "name" not in value and dataclasses.is_dataclass(default):
            value = {**describe(default), **value}  # {steps = 3} changes one setting of the default component
        elif (
            not registry
            and isinstance(value, Mapping)
            and dataclasses.is_dataclass(default)
            and not isinstance(default, type)
        ):
            value = {**to_plain(default), **value}  # and a table inside a config one of its settings
        elif known[key].metadata.get("none_is_a_word") and isinstance(value, FlagText) and value == "none":
            value = str(value)
        if known[key].metadata.get("many"):
            built[key] = tuple(build_component(registry, each, place) for each in _several(value))
        elif registry:
            built[key] = build_component(registry, value, place)
        else:  # a resource is a name until it is loaded
            built[key] = _coerce(str | None if known[key].metadata.get("resource") else hints[key], value, place)
    try:
        made = cls(**built)
    except TypeError as problem:  # a required field is missing
        missing = [n for n, f in known.items() if n not in built and _required(f)]
        if not missing:
            raise
        raise TicketsError(
            f"{where}: missing {', '.join(missing)}", hint="add the key", code="config.missing_key"
        ) from problem
    for key, value in built.items():  # after the component's own checks, which say more
        if isinstance(value, float) and not math.isfinite(value):
            raise _wrong(f"{where}.{key}", "a finite number", value)
    return made


def build_component(kind: str, value: Any, where: str) -> Any:
    """A registered component from its name or from a table with ``name``; ``None`` and ``"none"`` give none."""
    if value is None or value is False or value == "none":
        return None
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise TicketsError(
            f"{where}: expected a name or a table with a name, got {value!r}",
            hint=f'for example {where} = "…"',
            code="config.component",
        )
    settings = {k: v for k, v in value.items() if k != "name"}
    return build(REGISTRIES[kind].get(value["name"]), settings, where)


def _several(value: Any) -> list[Any]:
    """The components that a value names: a list, one of them, or on the command line names with commas between them."""
    if isinstance(value, FlagText):
        plain = value.plain()
        value = [name.strip() for name in plain.split(",")] if isinstance(plain, str) else plain
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _required(f: dataclasses.Field) -> bool:  # type: ignore[type-arg]
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _coerce(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, FlagText):
        return _coerce_flag(hint, value, where)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(args, value, where)
    if origin is typing.Literal:
        if value not in args:
            raise _wrong(where, " or ".join(map(repr, args)), value)
        return value
    if dataclasses.is_dataclass(hint):
        if dataclasses.is_dataclass(value) and isinstance(value, hint):  # type: ignore[arg-type]
            return value
        if not isinstance(value, Mapping):
            raise _wrong(where, "a table", value)
        return build(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple:
        return _coerce_tuple(args, value, where)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _wrong(where, "a table", value)
        return {str(k): _coerce(args[1], v, f"{where}.{k}") for k, v in value.items()}
    return _coerce_scalar(hint, value, where)


def _coerce_flag(hint: Any, value: FlagText, where: str) -> Any:
    """Read a word of the command line as the field wants it: a path with commas stays a path, ``a,b`` is a pair where pairs go."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if type(None) in args and value.plain() is None:
            return None
        lists = [a for a in args if typing.get_origin(a) is tuple] if "," in value else []
        texts = [a for a in args if a is str]
        return _coerce_union((*lists, *texts, *args), value, where)
    if hint is str or (origin is typing.Literal and str(value) in args):
        return str(value)
    if origin is tuple and not value.lstrip().startswith("["):
        return _coerce_tuple(args, [FlagText(part.strip()) for part in value.split(",")], where)
    return _coerce(hint, value.plain(), where)


def _coerce_union(args: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in args:
        return None
    problems = []
    for arg in (a for a in args if a is not type(None)):
        try:
            return _coerce(arg, value, where)
        except TicketsError as problem:
            problems.append(problem)
    raise problems[0]


def _coerce_tuple(args: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(where, "a list", value)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_coerce(args[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if len(args) != len(value):
        raise _wrong(where, f"a list of {len(args)}", value)
    return tuple(_coerce(a, v, f"{where}[{i}]") for i, (a, v) in enumerate(zip(args, value, strict=True)))


def _coerce_scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, bool):
        raise _wrong(where, "a whole number", value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if isinstance(value, hint):
        return value
    raise _wrong(
        where,
        {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}.get(hint, str(hint)),
        value,
    )


def _wrong(where: str, expected: str, value: Any) -> TicketsError:
    return TicketsError(f"{where}: expected {expected}, got {value!r}", hint="change the value", code="config.type")
