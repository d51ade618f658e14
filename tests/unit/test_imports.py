"""What is loaded only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tiny import tiny_classifier

COMMAND = """
import sys
from robust_tickets.cli.main import main
try:
    main(["attack", {model!r}, "--data", {data!r}, *{flags!r}])
except SystemExit as end:
    assert end.code == 0, end.code
print([name for name in sys.modules if name.startswith({apart!r})], file=sys.stderr)
"""
APART = tuple(f"robust_tickets.{folder}" for folder in ("experiment", "search", "train", "adversary"))


def test_an_attack_loads_nothing_of_experiment_search_or_train(tmp_path: Path) -> None:
    tiny_classifier("bert", max_length=24).save_pretrained(tmp_path / "model")
    rows = "".join(f"a good film {i},{('neg', 'pos')[i % 2]}\n" for i in range(8))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    flags = ("--label-map", "neg=0,pos=1", "--n", "4", "--out", str(tmp_path / "out"), "--json")
    code = COMMAND.format(model=str(tmp_path / "model"), data=str(tmp_path / "rows.csv"), flags=flags, apart=APART)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.rstrip().endswith("[]"), done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import robust_tickets as rt; rt.compare_runs; rt.RunSet",
        "import robust_tickets as rt; rt.methods(), rt.adversaries(), rt.attacks(), rt.backbones(), rt.recipes()",
        "from robust_tickets.resources.kinds import status; status()",
        "import robust_tickets.data.load, robust_tickets.data.batching, robust_tickets.attack.examples",
    ],
)
def test_what_needs_no_model_loads_nothing_heavy(code: str) -> None:
    heavy = ["torch", "transformers", "sentence_transformers", "scipy", "nltk", "pyarrow", "datasets"]
    code = f"{code}\nimport sys; assert not set({heavy}) & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
