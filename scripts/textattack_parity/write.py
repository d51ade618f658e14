"""Run TextAttack on the made-up corpus and write its results: a golden file a recipe and version.

Run with the Python of the environment that ``environment.py`` makes, one version's folder first on the path::

    PYTHONPATH=ENV/src-0.3.11 ENV/bin/python scripts/textattack_parity/write.py --recipe textfooler --version 0.3.11

``python scripts/textattack_parity/environment.py ENV --write`` makes the environment and writes all files. Before each example both
of TextAttack's random streams are seeded with the number this package's attack gives that example.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import sys
import tempfile
import time
import traceback
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "src")]

import made  # noqa: E402
import made_models  # noqa: E402
import made_texts  # noqa: E402
import recipes  # noqa: E402
import stand_ins  # noqa: E402

ROOT = HERE.parents[1]
GOLDEN = ROOT / "tests" / "golden" / "textattack"
NEAREST = 60  # neighbours kept a word; recipes ask for up to 50


def seed_of(name: str) -> int:
    """``robust_tickets.seeds.derive(0, "attack", name)``, cut to what numpy's older generator takes."""
    said = "\x1f".join(["0", "attack", name])
    return (int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "big") >> 1) % 2**32


def stopwords(version: str) -> list[str]:
    """NLTK's English list as a fresh installation of the version had it: of 198 words since February 2025, of 179 before."""
    from robust_tickets.resources.words import STOPWORDS

    return sorted(STOPWORDS["nltk-198" if version == "0.3.11" else "nltk-179"])


def parts(version: str) -> stand_ins.Parts:
    words, matrix = made.vectors()
    return stand_ins.Parts(
        words=words,
        matrix=matrix,
        nearest=made.neighbour_table(words, matrix, NEAREST),
        encode=made.encode,
        tags=made.tags,
        stopwords=stopwords(version),
        masked=lambda: (made_models.masked_model(), made_models.tokenizer()),
    )


def wrapper(recipe: str, classes: int) -> Any:
    """The victim: a pure function, or where gradients are asked for a tiny BERT in TextAttack's own wrapper."""
    from textattack.models.wrappers import HuggingFaceModelWrapper, ModelWrapper

    if recipe == "a2t":
        return HuggingFaceModelWrapper(made_models.victim(classes), made_models.tokenizer())

    class Made(ModelWrapper):
        model = object()

        def __call__(self, inputs: list[Any], **options: Any) -> Any:
            import torch

            rows = [(text,) if isinstance(text, str) else tuple(text) for text in inputs]
            return torch.from_numpy(made.logits(rows, classes))

    return Made()


def predicted(attack: Any, sample: made_texts.Sample) -> int:
    return int(attack.goal_function.model([sample.texts if len(sample.texts) > 1 else sample.texts[0]])[0].argmax())


def attacked(attack: Any, name: str, columns: OrderedDict[str, str], label: int) -> dict[str, Any]:
    """TextAttack's result on one example, or the error it ended with."""
    from textattack.shared import AttackedText

    seed = seed_of(name)
    np.random.seed(seed)
    random.seed(seed)
    line: dict[str, Any] = {"id": name, "seed": seed, "label": label}
    try:
        original = AttackedText(columns)
        result = attack.attack(original, label)
    except Exception as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        attack.clear_cache()
        return {**line, "status": "error", "error": f"{type(problem).__name__} in {where.name}: {str(problem)[:80]}"}
    final = result.perturbed_result.attacked_text
    status = {"SuccessfulAttackResult": "success", "FailedAttackResult": "failed", "SkippedAttackResult": "skipped"}[
        type(result).__name__
    ]
    line |= {
        "status": status,
        "queries": int(result.perturbed_result.num_queries if status == "skipped" else result.num_queries),
    }
    if status != "skipped":
        given = final.tokenizer_input
        line["final"] = [given] if isinstance(given, str) else list(given)
        line["modified"] = sorted(int(i) for i in final.attack_attrs["modified_indices"])
        line["differ"] = sorted(int(i) for i in original.all_words_diff(final))
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", nargs="+", required=True, choices=recipes.RECIPES)
    parser.add_argument("--version", required=True)
    parser.add_argument(
        "--uncut", action="store_true", help="let BERT-Attack make the combinations whose result it throws away"
    )
    parser.add_argument(
        "--add", action="store_true", help="attack only what the file lacks, after the corpus has grown at its end"
    )
    parser.add_argument("--only", nargs="*", help="ids to run; nothing is written")
    chosen = parser.parse_args()
    stand_ins.install(parts(chosen.version), Path(tempfile.mkdtemp(prefix="textattack")))
    checked_version(chosen.version)
    for recipe in chosen.recipe:
        write(recipe, chosen)


def write(recipe: str, chosen: argparse.Namespace) -> None:
    """Attack the corpus and write the file."""
    attacks = {classes: recipes.build(recipe, wrapper(recipe, classes), chosen.uncut) for classes in (2, 3)}
    file = GOLDEN / f"{recipe}-{chosen.version}.jsonl.gz"
    known = {}
    if chosen.add:
        known = {
            line["id"]: line for line in map(json.loads, gzip.decompress(file.read_bytes()).decode().splitlines()[1:])
        }
    lines: list[dict[str, Any]] = []
    begin = time.monotonic()
    named = [
        (f"{group}:{row}", sample)
        for group, samples in made_texts.groups().items()
        for row, sample in enumerate(samples)
    ]
    for name, sample in named:
        if chosen.only and name not in chosen.only:
            continue
        if name in known:
            lines.append(known[name])
            continue
        label = (predicted(attacks[sample.classes], sample) + sample.shift) % sample.classes
        start = time.monotonic()
        columns = OrderedDict(zip(made_texts.COLUMNS[sample.kind], sample.texts, strict=True))
        lines.append(attacked(attacks[sample.classes], name, columns, label))
        if chosen.only or time.monotonic() - start > 20 or lines[-1]["status"] == "error":
            print(lines[-1], round(time.monotonic() - start, 1), flush=True)
    counts = {
        status: sum(line["status"] == status for line in lines) for status in ("success", "failed", "skipped", "error")
    }
    print(recipe, chosen.version, len(lines), counts, f"{time.monotonic() - begin:.0f} s", flush=True)
    if chosen.only:
        return
    header = {
        "recipe": recipe,
        "textattack": chosen.version,
        **stand_ins.versions(),
        "corpus": made_texts.digest(),
        "made": made.digest(),
        "models": made_models.digest(),
        "written": time.strftime("%Y-%m-%d"),
        "examples": len(lines),
        **counts,
    }
    GOLDEN.mkdir(parents=True, exist_ok=True)
    body = "".join(stand_ins.dumps(line) + "\n" for line in [header, *lines]).encode()
    file.write_bytes(gzip.compress(body, mtime=0))


def checked_version(wanted: str) -> None:
    """Import textattack, and see that it is the version to compare with."""
    import textattack

    files = sorted(Path(textattack.__file__).parents[1].glob("textattack-*.dist-info/METADATA"))
    lines = files[0].read_text(encoding="utf-8").splitlines() if files else []
    if f"Version: {wanted}" not in lines:
        raise SystemExit(f"{textattack.__file__} is on the path, not version {wanted}")


if __name__ == "__main__":
    main()
