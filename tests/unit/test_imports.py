"""What is loaded only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import robust_tickets as rt
from robust_tickets.data.task import Split
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


MODELS = ("torch", "transformers")
HEAVY = (*MODELS, "sentence_transformers", "scipy", "nltk", "pyarrow", "datasets")
LIGHT = {
    "import robust_tickets as rt; rt.compare_runs; rt.RunSet": HEAVY,
    "import robust_tickets as rt; rt.methods(), rt.adversaries(), rt.attacks(), rt.backbones(), rt.recipes()": HEAVY,
    "from robust_tickets.resources.kinds import status; status()": HEAVY,
    "import robust_tickets.data.load, robust_tickets.data.batching, robust_tickets.attack.examples": HEAVY,
    "import robust_tickets.classifier, robust_tickets.backbone.layout": MODELS,
    **{
        f"from robust_tickets.cli.main import _run; assert _run({command.split()!r}) == 0": loaded
        for command, loaded in {
            "--help": (*MODELS, "numpy"),
            "ls methods": (*MODELS, "numpy"),
            "ls tasks": (*MODELS, "numpy"),
            "run --help": (*MODELS, "numpy"),
            "doctor --json": MODELS,
            "check attacked --min n=1": MODELS,
        }.items()
    },
}


@pytest.mark.parametrize("code", LIGHT)
def test_what_needs_no_model_loads_nothing_heavy(code: str, tmp_path: Path) -> None:
    if "attacked" in code:
        victim = rt.Classifier.wrap(lambda texts: [[0.2, 0.8]] * len(texts), labels=["bad", "good"])
        rt.PWWS()(victim, Split.of(["a good film"], [1]), n=0, folder=tmp_path / "attacked")
    code = f"{code}\nimport sys; assert not {set(LIGHT[code])} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
