"""Walk every recipe for a short budget on SST-2: does each go from the search to the report with a real model?

    python scripts/short_walks.py --model FOLDER --data FOLDER --corpus FILE --out DIR [--only NAME ...] [--keep]

``--model`` is a model folder (a BERT with its masked-language head, for ORTicket), ``--data`` a folder with SST-2's train and validation
files, ``--corpus`` texts for ORTicket, of which the first 2,500 characters are used. Searches on other tasks look for folders of their
names beside ``--data``; those without a train file are left out.

Numbers from these walks mean nothing: sixteen rows, two updates, two attacked sentences. A recipe that went through is noted in
DIR/done.json and not walked again; its run folder is removed unless ``--keep``. The log of each is DIR/RECIPE.log. One that failed keeps
its folder, and the same command goes on from there. The exit code is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.experiment.recipe import read_recipe, recipes

COMMON = [
    "task=sst2", "max_length=32", "max_rows=16", "max_test_rows=8", "train.epochs=1", "train.max_steps=2", "train.batch_size=8",
    "train.evaluate=never", "attack.n=2", "attack.query_budget=30",
]  # fmt: skip
BY_SEARCH = {
    "earlyrobust": ["batch_size=8", "adversary.steps=2"],
    "earlybert": ["batch_size=8"],
    "orticket": ["batch_size=4", "block=32", "adversary.steps=2", "epochs=1", "mini=0.1"],
    "robustt": ["batch_size=8", "epochs=1", "adversary.steps=2", "evaluate=never", "tuning.epochs=1", "tuning.max_steps=1",
                "tuning.batch_size=8", "tuning.evaluate=never"],
    "imp": ["batch_size=8", "epochs=1", "sparsity=0.3", "step=0.15", "evaluation_rows=8"],
    "prasanna": ["batch_size=8", "head_step=0.5", "mlp_step=6", "rows=8", "tuning.epochs=1", "tuning.max_steps=1", "tuning.batch_size=8"],
}  # fmt: skip


def settings(name: str, options: argparse.Namespace) -> list[str]:
    """What makes a recipe short; each search is told by its own keys, wherever the recipe names it."""
    found = [f"model={options.model}", f"data={options.data}", *COMMON]
    recipe = read_recipe(name)
    first = _name(next((arm.search for arm in recipe.arms if arm.search is not None and arm.branch_of is None), None))
    for arm in recipe.arms:
        own = _name(arm.search)
        if own in BY_SEARCH and not arm.branch_of:
            plain = getattr(arm.search, "adversary", None) is None
            short = [s for s in BY_SEARCH[own] if not (plain and s.startswith("adversary."))]
            found += [f"search.{s}" if own == first else f"arms.{arm.name}.search.{s}" for s in short]
    if first == "orticket":
        found.append(f"search.corpus={options.out / 'corpus.txt'}")
    if name == "orticket_search_tasks":
        found += _elsewhere(recipe, options)
    return list(dict.fromkeys(found))


def _name(search: object) -> str:
    return type(search).__module__.rpartition(".")[2] if search is not None else ""


def _elsewhere(recipe: object, options: argparse.Namespace) -> list[str]:
    """Local files of the tasks that arms search on; arms whose task has none are left out."""
    found, arms = [], []
    for arm in recipe.arms:  # type: ignore[attr-defined]
        source = arm.origin.searched_on if arm.origin else None
        if source is not None:
            folder = options.data if source.task == "sst2" else options.data.parent / source.task
            if not any(folder.glob("train*")):
                continue
            found += [f"arms.{arm.name}.searched_on.data={folder}", f"arms.{arm.name}.searched_on.max_rows=16"]
        arms.append(arm.name)
    return [*found, f"arms={','.join(arms)}"]


def walk(name: str, options: argparse.Namespace) -> tuple[int, float]:
    """Run one recipe as its user would, and tell its exit code and seconds."""
    try:
        sets = [part for setting in settings(name, options) for part in ("--set", setting)]
    except TicketsError as problem:  # the others are walked all the same
        (options.out / f"{name}.log").write_text(f"error: {problem}\n", encoding="utf-8")
        return problem.exit_code, 0.0
    command = [sys.executable, "-c", "from robust_tickets.cli.main import main; main()", "run", name, *sets]
    begun = time.monotonic()
    with open(options.out / f"{name}.log", "w", encoding="utf-8") as log:
        code = subprocess.run(
            [*command, "--out", str(options.out / name), "--debug"], stdout=log, stderr=subprocess.STDOUT
        ).returncode
    return code, time.monotonic() - begun


def write_corpus(source: Path, target: Path, characters: int = 2_500) -> None:
    """The beginning of a corpus."""
    from robust_tickets.data.mlm import find_corpus

    text = ""
    for part, _ in find_corpus(str(source)).texts():
        text += part + "\n"
        if len(text) > characters:
            break
    target.write_text(text[:characters] + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--model", "--data", "--out"):
        parser.add_argument(flag, type=Path, required=True)
    parser.add_argument("--corpus", type=Path, help="needed by the ORTicket recipes alone")
    parser.add_argument("--only", nargs="+", default=[], choices=recipes())
    parser.add_argument("--keep", action="store_true", help="keep the run folders")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = options.only or [
        name for name in recipes() if name != "demo" and (options.corpus or not name.startswith("orticket"))
    ]
    if options.corpus:
        write_corpus(options.corpus, options.out / "corpus.txt")
    noted = options.out / "done.json"
    done = json.loads(noted.read_text()) if noted.is_file() else {}
    print(f"{'recipe':<24}{'seconds':>9}{'exit':>6}", flush=True)
    failed = 0
    for name in chosen:
        if name not in done:
            code, seconds = walk(name, options)
            failed += code != 0
            print(
                f"{name:<24}{seconds:>9.1f}{code:>6}" + ("" if code == 0 else f"  see {options.out / name}.log"),
                flush=True,
            )
            if code:
                continue
            done[name] = round(seconds, 1)
            noted.write_text(json.dumps(done, indent=2) + "\n")
            if not options.keep:
                shutil.rmtree(options.out / name, ignore_errors=True)
        else:
            print(f"{name:<24}{done[name]:>9.1f}{0:>6}  before", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
