"""A recipe of each kind goes from its search to the page with the real BERT-base; `scripts/short_walks.py` walks all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "short_walks.py"
KINDS = (
    "synonymswap",
    "orticket",
    "robustt",
)  # trained in word space, searched on masked words, masked weight by weight


@pytest.mark.slow
@pytest.mark.shared
def test_recipes_walk_with_a_real_model(shared: Path, tmp_path: Path) -> None:
    data = shared / "data"
    options = [
        "--model",
        shared / "models" / "bert-base-uncased",
        "--data",
        data / "sst2",
        "--corpus",
        data / "wiki_en",
    ]
    done = subprocess.run(
        [sys.executable, SCRIPT, *options, "--out", tmp_path, "--only", *KINDS], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(json.loads((tmp_path / "done.json").read_text())) == set(KINDS)
