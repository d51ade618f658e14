"""Which resources an attack needs, read from its file: nothing is imported for it, so that ``tickets doctor`` is quick."""

from __future__ import annotations

import ast
from importlib.resources import files

from robust_tickets.registry import ATTACKS


def needs_of(attack: str) -> tuple[str, ...] | None:
    """The kinds in the recipe's ``NEEDS``, what it needs by default; none for a plug-in, whose file is its own business."""
    file = files(ATTACKS.package) / f"{attack}.py"
    if not file.is_file():
        return None
    for owner in ast.parse(file.read_text("utf-8")).body:
        for line in owner.body if isinstance(owner, ast.ClassDef) else []:
            if (
                isinstance(line, ast.AnnAssign)
                and isinstance(line.target, ast.Name)
                and line.target.id == "NEEDS"
                and line.value
            ):
                return tuple(ast.literal_eval(line.value))
    return ()
