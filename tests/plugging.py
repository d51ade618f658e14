"""A plug-in as a page of the documentation has it, laid down as pip would install it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def block(page: Path, title: str) -> str:
    """The code block of a page that begins so."""
    found = re.search(rf"```{title}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    assert found, title
    return found[1]


def install(folder: Path, page: Path, module: str) -> Path:
    """The page's module and its entry points; the file of these."""
    (folder / f"{module}.py").write_text(block(page, f'python title="{module}.py"'), encoding="utf-8")
    points = tomllib.loads(block(page, "toml"))["project"]["entry-points"]
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n", encoding="utf-8"
    )
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return info / "entry_points.txt"
