"""What feeding a training costs: tokenising once and reading a table beside tokenising on the way, and the padding of each way to batch.

No model runs. It needs a folder with the data sets and one with a tokenizer:

    python benchmarks/feeding.py --data data/ --tokenizer bert-base-uncased/

Padding is all tokens of an epoch's batches over those that are not padding, by exact count: rows in random order, padded to the longest of
a batch (and to the limit, as released code does); the pools sorted by length that this package batches from; these with the few widths.
The time that a consumer waits for a batch is measured with one that sleeps for as long as a fast step takes.
Costs are CPU seconds, of all threads, for others may use the machine too; waiting is by the clock, and the load is told with it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _measure import interleaved, ratio, save, spread

from robust_tickets.classifier.tokenizer import read_tokenizer
from robust_tickets.data.arrow_tables import TokenTable, token_table
from robust_tickets.data.batching import MOST, Batches, prefetched, steps, widths_of
from robust_tickets.data.load import load_task
from robust_tickets.seeds import numpy_generator

QUESTION = "seconds to tokenise a training split once, seconds an epoch of batches from the table and on the way, and padded over real tokens"
CASES = (("sst2", 128), ("imdb", 128), ("imdb", 256))  # data set, tokens at most
SIZE, REPEATS, SOME = 32, 20, 50  # rows a batch; repeats; batches of a repeat where a whole epoch takes too long
STEP = 0.005  # seconds


def read(batches: Iterable[Any]) -> None:
    for _ in batches:
        pass


def waits(batches: Iterable[Any]) -> list[float]:
    """Milliseconds that a consumer waits for each batch, the first left out."""
    found: list[float] = []
    source = iter(batches)
    while True:
        begun = time.perf_counter()
        if next(source, None) is None:
            return found[1:]
        found.append(1000 * (time.perf_counter() - begun))
        time.sleep(STEP)


def padding(
    table: TokenTable, order: Iterable[np.ndarray], longest: int, widths: tuple[int, ...] = ()
) -> dict[str, Any]:
    padded, shapes = 0, set()
    for rows in order:
        width = int(table.lengths[rows].max())
        width = next((w for w in widths if w >= width), longest) if widths else width
        padded += width * len(rows)
        shapes.add(width)
    return {"padded over real": padded / int(table.lengths.sum()), "lengths": len(shapes)}


def measured(folder: Path, tokenizer: Any, longest: int, repeats: int) -> dict[str, Any]:
    split = load_task(str(folder)).train
    begun, computed = time.perf_counter(), time.process_time()
    table = token_table(split, tokenizer, longest, True)
    once = {"by the clock": time.perf_counter() - begun, "CPU": time.process_time() - computed}
    assert table is not None
    on_the_way = Batches(split=split, tokenizer=tokenizer, batch_size=SIZE, max_length=longest, token_types=True)
    kept = replace(on_the_way, tokens=table)
    computed = time.process_time()
    known = widths_of(table.lengths, kept.order(0), longest)
    choosing = time.process_time() - computed
    seconds = interleaved(
        {
            "open": lambda: token_table(split, tokenizer, longest, True),
            "epoch": lambda: read(kept.epoch(0)),
            "some kept": lambda: read(islice(kept.epoch(0), SOME)),
            "some on the way": lambda: read(islice(on_the_way.epoch(0), SOME)),
            "order": lambda: read(islice(kept.order(0), SOME)),
        },
        repeats,
        time.process_time,
    )
    share = len(kept) / SOME
    whole = [
        order + share * (some - order) for some, order in zip(seconds["some on the way"], seconds["order"], strict=True)
    ]
    generator = numpy_generator(0, "random")
    shuffled = generator.permutation(len(split))
    at_random = [shuffled[i : i + SIZE] for i in range(0, len(split), SIZE)]
    with closing(prefetched(islice(kept.epoch(0), 400))) as ahead:
        waited = {"table, ahead": spread(waits(ahead)), "table": spread(waits(islice(kept.epoch(0), 400)))}
    with closing(prefetched(islice(on_the_way.epoch(0), 100))) as ahead:
        waited |= {
            "on the way, ahead": spread(waits(ahead)),
            "on the way": spread(waits(islice(on_the_way.epoch(0), 100))),
        }
    return {
        "rows": len(split),
        "tokens": len(table.ids),
        "bytes": table.tokens.nbytes + table.starts.nbytes,
        "seconds to tokenise once": once,
        "CPU seconds to open": spread(seconds["open"]),
        "CPU seconds to choose widths": choosing,
        "CPU seconds an epoch from the table": spread(seconds["epoch"]),
        f"CPU seconds an epoch on the way (from {SOME} batches)": spread(whole),
        "on the way over table": ratio(whole, seconds["epoch"]),
        "widths": known,
        "milliseconds that a consumer waits": waited,
        "processes that wanted a core then": os.getloadavg()[0],
        "padding": {
            "random order, to the limit": {
                "padded over real": len(split) * longest / int(table.lengths.sum()),
                "lengths": 1,
            },
            "random order, to the longest": padding(table, at_random, longest),
            "sorted pools, to the longest": padding(table, kept.order(0), longest),
            "sorted pools, widths of the data": padding(table, kept.order(0), longest, known),
            "sorted pools, widths of the data, another epoch": padding(table, kept.order(1), longest, known),
            "sorted pools, fixed steps": padding(table, kept.order(0), longest, steps(longest)),
        }
        | {
            f"sorted pools, at most {most} widths": padding(
                table, kept.order(0), longest, widths_of(table.lengths, kept.order(0), longest, most)
            )
            for most in (1, 2, 3, 4, 8, 12)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help=f"folder with {', '.join(dict.fromkeys(name for name, _ in CASES))}"
    )
    parser.add_argument("--tokenizer", type=Path, required=True, help="folder of a model")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    tokenizer = read_tokenizer(asked.tokenizer)
    answer = {}
    for name, longest in CASES:
        with tempfile.TemporaryDirectory() as cache:  # nothing is kept from before
            os.environ["ROBUST_TICKETS_CACHE"] = cache
            answer[f"{name}, {longest} tokens"] = measured(asked.data / name, tokenizer, longest, asked.repeats)
    settings = {
        "tokenizer": asked.tokenizer.name,
        "batch": SIZE,
        "repeats": asked.repeats,
        "widths at most": MOST,
        "step": STEP,
    }
    save("feeding", QUESTION, settings, answer)


if __name__ == "__main__":
    main()
