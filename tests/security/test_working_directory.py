"""Code that lies in the working directory is never imported: a stranger's folder of results may hold a ``numpy.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from small_world import small_world

CODE = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\nraise SystemExit(9)\n"


def test_workers_do_not_import_from_the_working_directory(tmp_path: Path) -> None:
    """``tickets reproduce --processes 2``, started as the console script is: without the working directory in its own path."""
    world, here = small_world(tmp_path / "world", train=32, rows=8), tmp_path / "here"
    (here / "robust_tickets").mkdir(parents=True)
    for planted in ("numpy.py", "json.py", "robust_tickets/__init__.py"):
        (here / planted).write_text(CODE)
    only = "--only task=sst2 --only method=finetune --only metric=clean"
    asked = f"ER-T1 {only} --seeds 2 --processes 2".split()
    done = subprocess.run(
        [sys.executable, "-P", "-c", "from robust_tickets.cli.main import main; main()", "reproduce", *asked, *world.flags],
        cwd=here, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(here.rglob("*.ran"))
    assert len(list((here / "results").rglob("seed-*.json"))) == 2
