"""The one registry: a component's name is its file's name.

Listing names looks at the folder and imports nothing; getting one imports its file and returns what the file calls ``REGISTERED``.
A component is a file with a line that begins with ``REGISTERED``; other files of the folder are shared parts. Where the components of a
kind are small they stand in one module, whose ``REGISTERED`` is a table of them by name. Other packages add components through the
entry-point group ``robust_tickets.<kind>`` (``robust_tickets.backbones``, say).
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from robust_tickets.errors import TicketsError, did_you_mean

FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")  # package.module:function


class Registry:
    """The components of one kind, found lazily in one package folder and in entry points."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package

    def names(self) -> tuple[str, ...]:
        """The components of this kind."""
        own, plugged = _components(self.package), self._plugged()
        if twice := own & plugged.keys():
            message = f"the plug-in name(s) {', '.join(sorted(twice))} already belong to built-in {self.kind}"
            hint = f"rename the entry point in the group robust_tickets.{self.kind}"
            raise TicketsError(message, hint=hint, code="registry.name_taken")
        return tuple(sorted(own | plugged.keys()))

    def get(self, name: str) -> Any:
        """Import the component called ``name``."""
        if name not in self.names():
            hint = did_you_mean(name, self.names())
            raise TicketsError(f"{name!r} is none of the {self.kind}", hint=hint, code="registry.unknown")
        point = self._plugged().get(name)
        if point is None:
            table = _table(self.package)
            return importlib.import_module(f"{self.package}.{name}").REGISTERED if table is None else table[name]
        try:
            return point.load()
        except Exception as problem:  # another package's code: anything
            message = f"the plug-in {name!r} ({point.value}) could not be imported: {problem}"
            hint = f"mend or uninstall the package with this entry point in the group robust_tickets.{self.kind}"
            raise TicketsError(message, hint=hint, code="registry.plug_in") from problem

    def is_plug_in(self, name: str) -> bool:
        return name in self._plugged()

    def about(self, name: str) -> str:
        """What the component called ``name`` says of itself, on one line. Only a plug-in is imported for it."""
        if self.is_plug_in(name):
            try:
                found = self.get(name)
                text = found.__doc__ or sys.modules[found.__module__].__doc__ or ""
            except TicketsError:  # listing names works without it
                return ""
        elif (table := _table(self.package)) is not None:
            text = table[name].__doc__ or ""
        else:
            text = files(self.package).joinpath(f"{name}.py").read_text("utf-8").partition('"""')[2].partition('"""')[0]
        return " ".join(text.partition("\n\n")[0].split())

    def spelled(self, name: str) -> str:
        """The name as its own description spells it (FreeLB), where that begins with it."""
        first = (self.about(name).split() or [""])[0].strip(":,.")
        return first if first.lower() == name else name

    def code(self, name: str) -> dict[str, str]:
        """``code_of`` the component called ``name``, where that is a value and not a class: also of the file its entry point names."""
        if name not in self._plugged():
            return {}
        return code_of(self.get(name)) | _hashed(self._plugged()[name].module)

    def _plugged(self) -> dict[str, Any]:
        return _entry_points(f"robust_tickets.{self.kind}")


def _components(package: str) -> frozenset[str]:
    """The files of a package folder that have a line beginning with ``REGISTERED``, none of which is imported; of a module its table."""
    if (table := _table(package)) is not None:
        return frozenset(table)
    return frozenset(
        entry.name[:-3]
        for entry in files(package).iterdir()
        if entry.name.endswith(".py") and re.search(r"^REGISTERED\b", entry.read_text("utf-8"), re.MULTILINE)
    )


def _table(package: str) -> Mapping[str, Any] | None:
    """The components of a kind that stand in one module; none where they are the files of a folder."""
    return getattr(importlib.import_module(package), "REGISTERED", None)


@cache
def _entry_points(group: str) -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=group)}


METHODS = Registry("methods", "robust_tickets.search")
ADVERSARIES = Registry("adversaries", "robust_tickets.adversary")
ATTACKS = Registry("attacks", "robust_tickets.attack.recipes")
CONSTRAINTS = Registry("constraints", "robust_tickets.attack.constraints")
TRANSFORMS = Registry("transforms", "robust_tickets.attack.transforms")
BACKBONES = Registry("backbones", "robust_tickets.backbone")
REGISTRIES = {r.kind: r for r in (METHODS, ADVERSARIES, ATTACKS, CONSTRAINTS, TRANSFORMS, BACKBONES)}


def name_of(component: object) -> str:
    """The registered name of a component: its entry point's, its name in its file's table, its file's; ``module:Class`` of one
    that is not registered.
    """
    owner = component if isinstance(component, type) else type(component)
    if not _ours(owner):  # ours are never plug-ins: nothing is loaded for them
        for registry in REGISTRIES.values():
            for name, point in registry._plugged().items():
                with suppress(Exception):  # a broken plug-in is not this one, whose class exists
                    if (plugged := point.load()) is owner or plugged is component:
                        return name
        return f"{owner.__module__}:{owner.__qualname__}"
    table = getattr(sys.modules.get(owner.__module__), "REGISTERED", None)
    among = table.items() if isinstance(table, dict) else ()
    return next((name for name, each in among if each is owner), owner.__module__.rpartition(".")[2])


def code_of(component: object) -> dict[str, str]:
    """Of a component and of those inside it that another package brings: the hash of the file that holds each, by module.

    A stage has it in its key: whoever writes a method changes its file and not its settings, and must not be given the result from before.
    Other files that this one imports are not looked at. Ours have the version.
    """
    found: dict[str, str] = {}
    owner = type(component)
    if isinstance(component, tuple):
        for each in component:
            found |= code_of(each)
    if dataclasses.is_dataclass(owner):
        if not _ours(owner):
            found |= _hashed(owner.__module__) or {f"{owner.__module__}:{owner.__qualname__}": _hash_of_class(owner)}
        for f in dataclasses.fields(owner):
            found |= code_of(getattr(component, f.name))
    return found


def imported(name: str, hint: str = "") -> Any:
    """Import what ``package.module:function`` names, from the working directory or from what is installed.

    It is the user's own code, named by the user: importing the module runs it.
    """
    module, _, path = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        found: Any = importlib.import_module(module)
    except Exception as problem:  # a module may raise anything while it is imported
        message = f"{module} could not be imported: {type(problem).__name__}: {problem}"
        hint = f"see that `python -c 'import {module}'` works here ({here}){hint}"
        raise TicketsError(message, hint=hint, code="import.failed") from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise TicketsError(f"{module} has no {path}", hint="package.module:function", code="import.no_such_name")
        found = getattr(found, part)
    return found


def code_files(name: str, function: object) -> list[Path]:
    """The file of the module in ``package.module:function``, and the one that defines the function where that is another."""
    modules = (name.partition(":")[0], getattr(function, "__module__", None))
    paths = [getattr(sys.modules.get(str(module)), "__file__", None) for module in modules]
    return [Path(path) for path in dict.fromkeys(paths) if path and Path(path).is_file()]


def _hashed(module: str) -> dict[str, str]:
    path = getattr(sys.modules.get(module), "__file__", None)
    return {module: hashlib.sha256(Path(path).read_bytes()).hexdigest()} if path and Path(path).is_file() else {}


def _hash_of_class(owner: type) -> str:
    """Of the methods of a class that no file holds (a notebook's), without their file and lines."""
    hasher = hashlib.sha256()

    def take(code: CodeType) -> None:
        hasher.update(code.co_code + repr((code.co_name, code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                take(constant)
            else:  # the order of a set is another one in every process
                fixed = sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant
                hasher.update(repr(fixed).encode())

    for value in vars(owner).values():
        if isinstance(method := getattr(value, "fget", value), FunctionType):
            take(method.__code__)
    return hasher.hexdigest()


def plug_ins() -> dict[str, str]:
    """The installed packages that bring components, and their versions."""
    points = [point for registry in REGISTRIES.values() for point in registry._plugged().values()]
    brought = [dist for point in points if (dist := getattr(point, "dist", None)) is not None]
    return {dist.name: dist.version for dist in sorted(brought, key=lambda dist: dist.name)}


def _ours(owner: type) -> bool:
    return owner.__module__.partition(".")[0] == __name__.partition(".")[0]


methods = METHODS.names  # searches that find a ticket
adversaries = ADVERSARIES.names  # inner maximisations that plug into training and into the searches
attacks = ATTACKS.names
backbones = BACKBONES.names  # families of encoders with a layout
