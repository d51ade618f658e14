"""Longer proofs, run by `make test-slow`: a killed walk ends as if nothing had happened, and a large file stays out of memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny import tiny_classifier

pytestmark = pytest.mark.slow
EXACT = (".safetensors", "ticket.json", "trace.jsonl", "evaluation.json", "arms.json")
RAW = (
    "score_before",
    "score_after",
    "confidence",
    "forward_passes",
)  # rounding, and which texts shared a pass, follow the batch


def walk(data: Path, model: Path, out: Path) -> list[str]:
    settings = [
        f"task={data}",
        f"model={model}",
        "max_length=32",
        "train.epochs=10",
        "train.checkpoint_steps=5",
        "attack.n=100",
    ]
    return [
        sys.executable, "-c", "from robust_tickets.cli.main import main; main()", "run", "earlyrobust",
        *(part for setting in settings for part in ("--set", setting)), "--out", str(out),
    ]  # fmt: skip


def essence(run: Path) -> dict[str, Any]:
    """Hashes of what is bitwise the same, and the attacked examples without their raw scores."""
    files = json.loads((run / "manifest.json").read_text())["files"]
    told: dict[str, Any] = {name: entry["sha256"] for name, entry in files.items() if name.endswith(EXACT)}
    for name in files:
        if name.endswith("examples.jsonl"):
            lines = map(json.loads, (run / name).read_text().splitlines())
            told[name] = [{key: value for key, value in line.items() if key not in RAW} for line in lines]
    return told


def test_a_walk_killed_again_and_again_gives_the_same_files(tmp_path: Path) -> None:
    model = tiny_classifier(labels=("bad", "good")).save_pretrained(tmp_path / "model")
    data = tmp_path / "data.csv"
    words = {"good": "good great fine", "bad": "bad awful poor"}
    rows = [f"the film {i} was {words[label].split()[i % 3]},{label}" for i in range(600) for label in ("good", "bad")]
    data.write_text("text,label\n" + "\n".join(rows) + "\n")
    subprocess.run(walk(data, model, tmp_path / "whole"), check=True, capture_output=True)
    kills, moments = 0, np.random.default_rng(0).uniform(5, 9, size=60)
    for moment in moments:
        process = subprocess.Popen(
            walk(data, model, tmp_path / "cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            process.wait(timeout=float(moment))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        assert process.returncode == 0
        break
    assert kills >= 2, "the walk was too short to be killed"
    assert essence(tmp_path / "cut") == essence(tmp_path / "whole")


def test_two_million_rows_stay_out_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    with open(path, "w", encoding="utf-8") as out:
        out.write("text,label\n")
        for i in range(2_000_000):
            out.write(
                f"sentence {i} with some more words in it to make it as long as sentences are,{'yes' if i % 3 else 'no'}\n"
            )
    code = (
        "import sys; from robust_tickets.data.load import load_task\n"
        "from robust_tickets.backbone.cost import peak_memory\n"
        "import pyarrow\n"
        "before = peak_memory(); task = load_task(sys.argv[1]); task.train.take(range(0, len(task.train), 5000))\n"
        "print(len(task.train), peak_memory() - before)\n"
    )
    begun = time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True, env=dict(os.environ)
    )
    rows, grown = map(int, told.stdout.split())
    assert rows > 1_500_000
    # 200 MB of text as Python strings would be above 600 MB; mapped pages that were touched count here too
    assert grown < 500 * 2**20, f"{grown / 2**20:.0f} MiB in {time.monotonic() - begun:.0f} s"
