"""Write the recorded values: ``python tests/oracles/record.py [KIND…]``. Read README.md before a value is recorded anew."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SLOW = ("demo",)
KINDS = ("recipes", "training", "attacks", "attacks_shared", "bytes", "verbs", *SLOW)


def recorded(kind: str) -> dict[str, Any]:
    """The committed values of a kind, by case; none before it was first recorded."""
    file = HERE / f"{kind}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}  # type: ignore[no-any-return]


def differences(got: Any, wanted: Any, close: float = 0.0, where: str = "") -> list[str]:
    """Where two JSON values differ; numbers that are not whole may by ``close``, relative to 1 or to what was recorded."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        keys = sorted({*got, *wanted})
        inner = [(f"{where}.{k}", got.get(k, "nothing"), wanted.get(k, "nothing")) for k in keys]
    elif isinstance(wanted, list) and isinstance(got, list) and len(got) == len(wanted):
        inner = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(got, wanted, strict=True))]
    elif isinstance(wanted, list) and isinstance(got, list) and all(isinstance(v, str) for v in (*got, *wanted)):
        return [f"{where}: new {v!r}" for v in got if v not in wanted] + [
            f"{where}: no {v!r}" for v in wanted if v not in got
        ]
    elif isinstance(wanted, float) and isinstance(got, float):
        return [] if abs(got - wanted) <= close * max(1.0, abs(wanted)) else [f"{where}: {got!r}, was {wanted!r}"]
    else:
        return [] if type(got) is type(wanted) and got == wanted else [f"{where}: {got!r}, was {wanted!r}"]
    return [line for place, one, other in inner for line in differences(one, other, close, place)]


def written(values: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for every key of a case, so that a diff shows what moved."""
    text = partial(json.dumps, sort_keys=True, ensure_ascii=False)
    cases = (
        f" {text(case)}: {{\n" + ",\n".join(f"  {text(k)}: {text(v)}" for k, v in sorted(inner.items())) + "\n }"
        for case, inner in sorted(values.items())
    )
    return "{\n" + ",\n".join(cases) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; by default all but {', '.join(SLOW)}"
    )
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    for kind in parser.parse_args().kinds or [kind for kind in KINDS if kind not in SLOW]:
        if kind not in KINDS:
            parser.error(f"no kind is called {kind}")
        with tempfile.TemporaryDirectory() as folder:
            os.environ["ROBUST_TICKETS_CACHE"] = str(Path(folder) / "cache")
            values = importlib.import_module(f"test_oracle_{kind}").values(Path(folder))
        (HERE / f"{kind}.json").write_text(written(values), encoding="utf-8")
        print(f"{kind}: {len(values)} cases")


if __name__ == "__main__":
    main()
