"""A run folder as a run leaves it, made up: three arms, a search, an attack. For tests of whatever reads run folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from robust_tickets.attack.result import Tally
from robust_tickets.files import read_json, write_json, write_text
from robust_tickets.stats.intervals import wilson
from robust_tickets.ticket.ticket import Ticket

SENTENCES = (
    ("the film is a warm , funny and quietly moving portrait of two sisters", 1, "funny", "comical"),
    ("a dull script and wooden acting sink what could have been a decent thriller", 0, "dull", "slow"),
    ("it never quite finds its rhythm , but the performances are lovely", 1, "lovely", "adorable"),
    ("there is nothing here you have not seen done better , and shorter", 0, "nothing", "nix"),
    ("an inventive , generous comedy with real affection for its characters", 1, "generous", "liberal"),
    ("the ending feels rushed and the jokes are stale long before it comes", 0, "stale", "cold"),
    ("beautifully shot and played with great restraint by its young lead", 1, "great", "groovy"),
)
ARMS = (
    ("earlyrobust", "EarlyRobust ticket", 0.46, 81.4, True),
    ("finetune", "Plain fine-tuning", 0.27, 82.6, False),
    ("random", "Random ticket", 0.29, 78.9, True),
)


def make_run(
    folder: Path,
    *,
    n: int = 120,
    seed: int = 0,
    arms: Any = ARMS,
    texts: Any = SENTENCES,
    title: str = "Demo: MiniLM on review sentences",
) -> Path:
    """Write a whole run folder; ``arms`` are (name, title, share that holds, clean accuracy, is a ticket)."""
    generator = np.random.default_rng(seed)
    hardness = generator.random(n)  # shared by the arms, so that outcomes are paired as real ones are
    entries = []
    for k, (name, shown, held, clean, ticket) in enumerate(arms):
        entry = {
            "name": name,
            "title": shown,
            "search": None,
            "train": f"train/{k:08x}",
            "attacks": [f"attack/{k:08x}"],
        }
        if ticket:
            entry["search"] = f"search/{k:08x}"
            _search(folder / entry["search"], generator, name)
        _train(folder / entry["train"], clean, ticket)
        _attack(folder / entry["attacks"][0], generator, hardness, held, clean, n, texts)
        entries.append(entry)
    task = {"name": "reviews", "labels": ["negative", "positive"], "train_rows": 6800, "attacked_split": "test"}
    about = {
        "schema": 1,
        "title": title,
        "model": "minilm",
        "arms": entries,
        "baseline": arms[min(1, len(arms) - 1)][0],
        "task": task,
        "command": "tickets demo",
    }
    write_json(folder / "arms.json", about)
    write_json(folder / "config.json", {"schema": 1, "recipe": {"title": title, "seed": seed}, "model": "56" * 32})
    packages = {"torch": "2.13.0", "transformers": "5.22.2"}
    write_json(
        folder / "env.json",
        {
            "python": "3.11.7",
            "platform": "Linux x86_64",
            "device": "cpu",
            "cpu": "a CPU",
            "threads": 2,
            "packages": packages,
        },
    )
    write_json(folder / "manifest.json", {"schema": 1, "files": {"arms.json": {"bytes": 1, "sha256": "ab" * 32}}})
    return folder


def _search(folder: Path, generator: np.random.Generator, name: str) -> None:
    scores = {
        "heads": tuple(generator.random(12) for _ in range(6)),
        "neurons": tuple(generator.random(96) + 0.1 * i for i in range(6)),
    }
    weights = {"heads": 4 * 384 * 32, "neurons": 2 * 384}
    Ticket.from_scores(
        family="bert", scores=scores, unit_weights=weights, heads=1 / 6, neurons=0.3, provenance={"method": "made up"}
    ).save(folder)
    if name == "random":
        return  # a random ticket has no search to look at
    write_json(folder / "cost.json", {"search_seconds": 95.0})
    points = [round(0.05 * i, 2) for i in range(1, 13)]
    away = [[abs(np.exp(-i / 3) - np.exp(-j / 3)) for j in range(12)] for i in range(12)]
    groups = {"heads": [[0.3 * d for d in row] for row in away], "neurons": [[0.5 * d for d in row] for row in away]}
    write_json(
        folder / "distances.json",
        {"points": points, **groups, "stopped_at": 0.6, "drawn_at": 0.6, "converged": True, "rule": "paper"},
    )


def _train(folder: Path, clean: float, ticket: bool) -> None:
    low, high = wilson(round(clean * 8.5), 850)
    classes = [{"label": i, "n": 425, "precision": clean, "recall": clean - 1 + 2 * i, "f1": clean} for i in range(2)]
    interval = [100 * low, 100 * high]
    write_json(
        folder / "evaluation.json",
        {
            "split": "test",
            "n": 850,
            "accuracy": clean,
            "macro_f1": clean - 0.2,
            "per_class": classes,
            "interval": interval,
        },
    )
    cost: dict[str, Any] = {
        "parameters": 20_300_000 if ticket else 22_700_000,
        "dense_parameters": 22_700_000,
        "tokens": 26,
        "train_seconds": 118.4,
    }
    cost |= {"encoder_parameters": 8_100_000 if ticket else 10_650_000, "peak_memory_bytes": 1_400_000_000}
    cost |= {"flops_per_example": 420_000_000 if ticket else 560_000_000, "dense_flops_per_example": 560_000_000}
    write_json(folder / "cost.json", cost)


def _attack(
    folder: Path, generator: np.random.Generator, hardness: np.ndarray, held: float, clean: float, n: int, texts: Any
) -> None:
    rows: list[dict[str, Any]] = []
    for i in range(n):
        text, label, old, new = texts[i % len(texts)]
        level = hardness[i] + 0.12 * generator.standard_normal()
        status = "failed" if level < held else "success" if level < clean / 100 else "skipped"
        done = status == "success"
        rows.append(
            {
                "id": f"test:{7 * i}", "label": label, "status": status, "original": [text], "words": len(text.split()),
                "perturbed": [text.replace(old, new, 1)] if done else None, 
                "queries": 1 if status == "skipped" else int(40 + 60 * generator.random()),
                "score_before": 0.9, "score_after": 0.4, 
                "changed": [],
                "predicted_before": label if status != "skipped" else 1 - label,
                "predicted_after": 1 - label if status != "failed" else label,
                "words_changed": int(done), "confidence": 0.9, "forward_passes": 40,
            }
        )  # fmt: skip
    result = {
        "schema": 2, "attack": "pwws", "digest": "56" * 32, "semantics": "textattack-0.3.11", "compat": None,
        "constraints": ["no stop words", "no word twice"], "resources": {"synonyms": {"name": "WordNet 3.0"}},
        "model": {"identity": "minilm", "digest": "12" * 32, "labels": ["negative", "positive"]},
        "task": {"split": "test", "digest": "34" * 32, "columns": ["text"], "labels": ["negative", "positive"], "rows": 872,
                 "asked": n, "by_class": [n - n // 2, n // 2]},
        "ids": [r["id"] for r in rows], "subset": "balanced", "seed": 0, "scoring": "probability", "query_budget": None,
        "temperature": 1.0, "calibration": None, "seen": None, "precision": None, "unconfirmed": None, "flags": [], "flag_codes": [],
        "clean_full": clean, "seconds": 31.5, "env": {"device": "cpu"}, **Tally(rows).metrics(),
    }  # fmt: skip
    write_json(folder / "result.json", result)
    write_text(folder / "examples.jsonl", "".join(json.dumps(r) + "\n" for r in rows))


def set_outcomes(folder: Path, arm: int, statuses: str, *, start: int = 0) -> None:
    """Give an arm these outcomes (h: held, t: turned, s: skipped, e: error), on examples numbered from ``start``."""
    stage = folder / f"attack/{arm:08x}"
    words = {"h": "failed", "t": "success", "s": "skipped", "e": "error"}
    row = json.loads((stage / "examples.jsonl").read_text().splitlines()[0])
    rows = [
        row | {"id": f"test:{start + i}", "status": words[c], "perturbed": row["original"]}
        for i, c in enumerate(statuses)
    ]
    result = read_json(stage / "result.json") | {"ids": [r["id"] for r in rows], **Tally(rows).metrics()}
    write_json(stage / "result.json", result)
    write_text(stage / "examples.jsonl", "".join(json.dumps(r) + "\n" for r in rows))


def add_plan(folder: Path, **settings: Any) -> None:
    """Attack every arm once more, with these settings in its result."""
    about = read_json(folder / "arms.json")
    for arm in about["arms"]:
        first = arm["attacks"][0]
        second = first.replace("attack/0", "attack/f")
        shutil.copytree(folder / first, folder / second)
        result = read_json(folder / second / "result.json")
        result["task"] |= settings.get("task", {})
        write_json(folder / second / "result.json", {**result, **settings, "task": result["task"], "queries": 50.0})
        arm["attacks"].append(second)
    write_json(folder / "arms.json", about)
