"""Registers our model classes with transformers the moment transformers' auto classes are imported, and not before.

A finder on ``sys.meta_path`` waits for the two modules that own the auto mappings and runs our registration right after each. It must
never keep transformers from being imported: whatever goes wrong in our registration is a warning.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# transformers' module -> our module whose register() is called after it
_AFTER = {
    "transformers.models.auto.configuration_auto": "robust_tickets.prune.configuration",
    "transformers.models.auto.modeling_auto": "robust_tickets.prune.modeling",
}


class _Loader(importlib.abc.Loader):
    """Transformers' own loader, with one call after it."""

    def __init__(self, inner: Any, then: Callable[[], None]) -> None:
        self._inner, self._then = inner, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        """Sources, resources and the like, as the loader itself gives them."""
        if name == "_inner":  # not there yet: asked while being copied
            raise AttributeError(name)
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in _AFTER:
            return None
        # asks the others without touching the list, which other threads are walking too
        others = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
        spec = next(
            (found for finder in others if (found := finder.find_spec(fullname, path, target)) is not None), None
        )
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, lambda: _register(fullname))
        return spec


def _register(fullname: str) -> None:
    try:
        importlib.import_module(_AFTER[fullname]).register()
    except Exception as problem:
        from robust_tickets.progress import warn

        warn(f"pruned models could not be registered with transformers, which will not know them: {problem}")


def install() -> None:
    """Register at once what is loaded already, and wait for the rest; safe to call twice."""
    for fullname in _AFTER:
        if fullname in sys.modules:
            _register(fullname)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
