"""Ask a version of TextAttack how it reads, cuts and changes odd texts, and compare with this package's profile of that version.

With the Python of the environment that ``environment.py`` makes, which needs neither a model nor data::

    ENV/bin/python scripts/textattack_parity/fuzz_text.py ask ENV/src-0.3.4 0.3.4 --count 5000 --out answers.json

and then with this package's own::

    python scripts/textattack_parity/fuzz_text.py compare answers.json

``tests/golden/textattack/text-VERSION.json`` is a small run of the first; a test replays it. How jieba cut a Chinese text is kept with
the answers, so that comparing does not need it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import sys
import types
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLAIN = [
    "a",
    "an",
    "ana",
    "banana",
    "Film",
    "film",
    "the",
    "in",
    "interesting",
    "ring",
    "I",
    "S",
    "T",
    "IT",
    "LIT",
    "SPLIT",
    "x-y",
    "don't",
]
MARKS = [
    "-",
    "'",
    "_",
    "*",
    "@",
    ".",
    ",",
    "!",
    "(",
    ")",
    "<",
    ">",
    "--",
    "''",
    "…",
    "“",
    "<SPLIT>",
    "<I>",
    "[UNK]",
    "U.S.",
    "a@b.c",
]
OTHER = [
    "é",
    "naïve",
    "😀",
    "👩‍👩‍👧",
    "мир",
    "е",
    "о",
    "×",
    "`",
    "l",
    "O",
    "˗",
    "𝚏ilm",
    "ɑn",
    "İ",
    "ΟΔΟΣ",
    "Σ",
    "ß",
    "ﬁ",
    "\u202e",
    "שלום",
]
HAN = ["中", "中国人", "我来到北京", "今天天气很好"]
SPACES = [" ", " ", " ", " ", "  ", "\n", "\t", "\u00a0", "", ""]
NEW = [
    "",
    "",
    "x",
    "film",
    "Two words",
    "three little words",
    "I",
    "it",
    "IT",
    "-",
    "'",
    "--",
    "a-",
    "-a",
    "*a*",
    "ɑn",
    "мир",
    "é",
    "[UNK]",
]
NEW += ["new.", "a b", "an", "ana", "SPLIT", "...", "_", "İ", "ΣΑΣ", "Σ", "😀"]


def texts(dice: random.Random, han: bool) -> list[str]:
    """One to three columns; some empty."""
    pools = [PLAIN] * 6 + [MARKS] * 3 + [OTHER] * 2 + ([HAN] if han else [])
    columns = []
    for _ in range(dice.choice([1, 1, 1, 2, 2, 3])):
        pieces = [dice.choice(dice.choice(pools)) + dice.choice(SPACES) for _ in range(dice.choice([0, 1, 3, 6, 12]))]
        columns.append("".join(pieces))
    return columns


def ask(attacked_text: Any, count: int, seed: int, han: bool) -> Iterator[dict[str, Any]]:
    """For every text its words, itself without each word, windows, and a chain of replacements."""
    dice = random.Random(seed)
    for number in range(count):
        columns = texts(dice, han and number % 4 == 0)
        text = attacked_text(OrderedDict(zip("abc", columns, strict=False)))
        words = list(text.words)
        case: dict[str, Any] = {
            "columns": columns,
            "words": words,
            "per_column": [len(part) for part in text.words_per_input],
        }
        case["deleted"] = [_columns(changed) if (changed := _changed(text, i, "")) else None for i in range(len(words))]
        case["windows"] = [_window(text, dice) for _ in range(2)] if words else []
        case["chain"] = chain = []
        for _ in range(dice.choice([1, 2, 3]) if words else 0):
            if not text.words:
                break
            index, new = dice.randrange(len(text.words)), dice.choice(NEW + (HAN if han else []))
            if (changed := _changed(text, index, new)) is None:
                break
            text = changed
            step = {"index": index, "new": new, "columns": _columns(text), "words": list(text.words)}
            step["modified"] = sorted(text.attack_attrs["modified_indices"])
            step["newly"] = sorted(text.attack_attrs["newly_modified_indices"])
            step["window"] = _window(text, dice) if text.words else None
            chain.append(step)
        yield case


def _changed(text: Any, index: int, new: str) -> Any:
    try:
        return text.replace_word_at_index(index, new)
    except ValueError:  # 0.3.11 cannot find a word "SPLIT" that stands in angle brackets
        return None


def _columns(text: Any) -> list[str]:
    return list(text._text_input.values())


def _window(text: Any, dice: random.Random) -> list[Any]:
    index, size = dice.randrange(len(text.words)), dice.choice([1, 2, 3, 4, 15, math.inf])
    return [index, 0 if size == math.inf else size, text.text_window_around_index(index, size)]


def compare(case: dict[str, Any], rules: Any) -> str | None:
    """What this package makes differently of a case, if anything."""
    from robust_tickets.attack.text import Text
    from robust_tickets.errors import TicketsError

    text = Text.of(case["columns"], rules)

    def window(index: int, size: int, expected: str) -> bool:
        return text.window(index, size or math.inf) == expected

    if list(text.words) != case["words"] or text.per_column() != case["per_column"]:
        return f"words {text.words} {text.per_column()}"
    for index, columns in enumerate(case["deleted"]):
        if columns is None:
            try:
                return f"without word {index}: {text.swapped(index, '')}, not an error"
            except TicketsError:
                continue
        if list(text.swapped(index, "")) != columns:
            return f"without word {index}: {text.swapped(index, '')}, not {columns}"
    for asked in case["windows"]:
        if not window(*asked):
            return f"window {asked}: {text.window(asked[0], asked[1] or math.inf)!r}"
    for step in case["chain"]:
        index, new = step["index"], step["new"]
        cut, placed = text.swapped(index, new), text.placed(index, new)
        count = text.count(index, new)
        changes = new != text.words[index]  # what is replaced by itself never becomes a candidate
        text = text.replace(index, new)
        if (
            not list(text.columns) == list(cut) == step["columns"]
            or list(text.words) != step["words"]
            or not count == len(text) == len(text.sources)
        ):
            return f"{index} by {new!r}: {text.columns} {cut} {text.words}, not {step}"
        if not changes:
            return None
        if sorted(text.modified) != step["modified"] or [i for i, _ in placed] != [
            i for i in step["newly"] if i < len(text)
        ]:
            return f"{index} by {new!r}: modified {sorted(text.modified)} {placed}, not {step}"
        if any(text.words[i] != word for i, word in placed) or (step["window"] and not window(*step["window"])):
            return f"{index} by {new!r}: placed {placed}, or another window than {step}"
    return None


def attacked_text(source: Path, cuts: dict[str, list[str]]) -> Any:
    """AttackedText out of an unpacked wheel, without the packages its siblings import; what it lets jieba cut goes into ``cuts``."""
    empty = {"Sentence": object, "Tokenizer": object, "words_from_text": None, "device": "cpu"}
    for name, folder in [("flair", None), ("flair.data", None), ("textattack", "."), ("textattack.shared", "shared")]:
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(empty, __path__=[str(source / "textattack" / folder)] if folder else [])
        if "." in name:
            setattr(sys.modules[name.partition(".")[0]], name.rpartition(".")[2], module)
    utils = sys.modules["textattack.shared.utils"] = types.ModuleType("textattack.shared.utils")
    utils.__dict__.update(empty, __path__=[str(source / "textattack" / "shared" / "utils")])
    strings: Any = importlib.import_module("textattack.shared.utils.strings")
    if hasattr(strings, "jieba"):
        cut = strings.jieba.cut
        strings.jieba = types.SimpleNamespace(
            cut=lambda text, cut_all: cuts.setdefault(text, list(cut(text, cut_all=cut_all)))
        )
    utils.words_from_text = strings.words_from_text  # type: ignore[attr-defined]
    sys.modules["textattack"].models = types.SimpleNamespace(wrappers=types.SimpleNamespace(ModelWrapper=object))  # type: ignore[attr-defined]
    return importlib.import_module("textattack.shared.attacked_text").AttackedText


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    asking = verbs.add_parser("ask")
    asking.add_argument("source", type=Path)
    asking.add_argument("version")
    asking.add_argument("--count", type=int, default=36)
    asking.add_argument("--seed", type=int, default=1)
    asking.add_argument("--han", action="store_true", help="Chinese characters too")
    asking.add_argument("--out", type=Path, required=True)
    verbs.add_parser("compare").add_argument("answers", type=Path)
    said = parser.parse_args()
    if said.verb == "ask":
        cuts: dict[str, list[str]] = {}
        cases = list(ask(attacked_text(said.source, cuts), said.count, said.seed, said.han))
        made = {
            "by": f"AttackedText of textattack {said.version}",
            "script": "scripts/textattack_parity/fuzz_text.py",
            "seed": said.seed,
        }
        body = ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases)
        head = json.dumps({"made": made, "version": said.version, "cuts": cuts}, separators=(",", ":"))[:-1]
        said.out.write_text(f'{head}, "cases": [\n{body}\n]}}\n', encoding="utf-8")
        return
    from robust_tickets.attack import textattack_compat
    from robust_tickets.attack.textattack_compat import PROFILES

    answers = json.loads(said.answers.read_text(encoding="utf-8"))
    rules = PROFILES[f"ta-{answers['version']}"]
    textattack_compat.cut = answers["cuts"].__getitem__  # type: ignore[assignment]
    wrong = [(case, problem) for case in answers["cases"] if (problem := compare(case, rules))]
    for case, problem in wrong[:10]:
        print(json.dumps(case["columns"], ensure_ascii=False), problem, sep="\n  ")
    sys.exit(f"{len(wrong)} of {len(answers['cases'])} texts differ") if wrong else print(
        f"{len(answers['cases'])} texts agree"
    )


if __name__ == "__main__":
    main()
