"""Configs are frozen dataclasses: TOML in, canonical JSON and a hash out.

``build`` turns a mapping (a TOML table, say) into a dataclass and refuses unknown keys and wrong types with the place and a hint.
``to_plain`` turns it back; ``digest`` hashes the canonical JSON, so that equal configs have equal hashes on every machine.
A field that holds a component says where to look its name up: ``field(metadata={"registry": "adversaries"})``; in TOML such a field
is a name (``adversary = "freelb"``) or a table (``adversary = {name = "freelb", steps = 5}``). A field that is no setting (where another
one was given, say) is left out of both by ``field(metadata={"unsaid": True})``; one whose default depends on other fields names the
attribute that has its value by ``field(metadata={"resolved": "…"})``, and is described by that.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.registry import REGISTRIES, name_of


class Said(str):
    """A value as it was said on the command line: text, until the type of the field it is for is known."""

    __slots__ = ()

    def plain(self) -> Any:
        """What TOML reads in it, else the text itself."""
        if self in ("", "none", "None"):
            return None
        try:
            return tomllib.loads(f"value = {self}")["value"]
        except (ValueError, RecursionError):
            return str(self)


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, finite numbers only."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(value: Any) -> str:
    """sha256 (hex) of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def to_plain(value: Any) -> Any:
    """``value`` as JSON types; a component inside a config carries its registered name."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: describe(inner) if f.metadata.get("registry") and inner is not None else to_plain(inner)
            for f in dataclasses.fields(value)
            if f.init and not f.metadata.get("unsaid")
            for inner in [getattr(value, f.metadata.get("resolved", f.name))]
        }
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(v) for v in value]
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
        registry = known[key].metadata.get("registry")
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
        elif known[key].metadata.get("none_is_a_word") and isinstance(value, Said) and value == "none":
            value = str(value)
        built[key] = build_component(registry, value, place) if registry else _coerce(hints[key], value, place)
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


def _required(f: dataclasses.Field) -> bool:  # type: ignore[type-arg]
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def _coerce(hint: Any, value: Any, where: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(value, Said):
        return _coerce_said(hint, value, where)
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


def _coerce_said(hint: Any, value: Said, where: str) -> Any:
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
        return _coerce_tuple(args, [Said(part.strip()) for part in value.split(",")], where)
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
