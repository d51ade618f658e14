"""What replayed texts say of one model: accuracies with Wilson's intervals, and the change from original to adversarial, in pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from robust_tickets.attack.failures import Reasons, too_many
from robust_tickets.attack.flags import Answers, Flag, failed
from robust_tickets.attack.sets import TextSet
from robust_tickets.classifier import Classifier
from robust_tickets.stats.metrics import FEW, paired_interval, wilson

DIGITS = 4  # decimals of percentages
LOST = "lost"  # of an adversarial text that was not answered, though its original was: fallen in ``replayed``, in no other number of it


@dataclass
class Count:
    """How often (original right, adversarial right); None where there is no such text, and LOST where it was not answered."""

    seen: Counter[tuple[bool | None, bool | str | None]] = field(default_factory=Counter)
    given: Counter[tuple[int, int | None]] = field(default_factory=Counter)  # label, and that given to the original
    labels: set[int] = field(default_factory=set)
    errors: int = 0
    reasons: Reasons = field(default_factory=Reasons)

    def add(self, row: Mapping[str, Any]) -> None:
        if "error" in row:
            self.errors += 1
            self.reasons.add(str(row["error"]))
            if row.get("original_right") is None:
                return
        self.labels.add(row["label"])
        if row["original_right"] is not None:
            self.given[row["label"], row["original_predicted"]] += 1
        self.seen[row["original_right"], LOST if "error" in row else row["adversarial_right"]] += 1

    def numbers(self, texts: TextSet, clf: Classifier, classes: Sequence[int], max_failed: float) -> dict[str, Any]:
        both = {(b, a): self.seen[b, a] for b in (True, False) for a in (True, False)}
        pairs, before = sum(both.values()), both[True, True] + both[True, False]
        known, after = (
            {b: sum(c for key, c in self.seen.items() if key[side] is b) for b in (True, False)} for side in (0, 1)
        )
        n, count = sum(known.values()), sum(after.values())
        # every text that was turned in the place of its original
        instead = both[True, True] + both[False, True] + self.seen[True, None]
        shares = {
            "clean": (known[True], n),
            "originals": (before, pairs),
            "adversarials": (after[True], count),
            "transfer": (both[True, False], before),
            "replayed": (instead, n if texts.kind == "attack" else 0),
        }
        values: dict[str, Any] = {name: round(100 * x / of, DIGITS) if of else None for name, (x, of) in shares.items()}
        intervals = {
            name: [round(100 * end, DIGITS) for end in wilson(x, of)] for name, (x, of) in shares.items() if of
        }
        values["drop"] = round(100 * (both[True, False] - both[False, True]) / pairs, DIGITS) if pairs else None
        if pairs:
            times = list(both.values())
            first, second = (np.repeat([key[side] for key in both], times) for side in (0, 1))
            intervals["drop"] = [round(100 * end, DIGITS) for end in paired_interval(first, second)]
        counts = {
            "n": n or count,
            "texts": count,
            "turned": both[True, False],
            "mended": both[False, True],
            "errors": self.errors,
        }
        called = {name: label for label, name in enumerate(texts.labels)}
        below = Answers(self.given, known[True], clf.labels, classes, called).below_chance()
        flags = [*filter(None, [below]), *self._failed(max_failed), *self._flags(texts, clf, count, pairs)]
        return {
            **counts,
            **values,
            "intervals": intervals,
            "flags": [flag.text for flag in flags],
            "flag_codes": [flag.code for flag in flags],
        }

    def _flags(self, texts: TextSet, clf: Classifier, count: int, pairs: int) -> list[Flag]:
        found = []
        if count < FEW:
            found.append(
                Flag(
                    "few-examples", f"few examples: {count} adversarial texts, fewer than {FEW}; look at the intervals"
                )
            )
        if len(self.labels) < 2:
            found.append(
                Flag(
                    "one-class", "one class: all texts have the same label, so a model that always says it looks robust"
                )
            )
        if texts.kind == "attack" and clf.model is not None and texts.about["model"]["digest"] == clf.digest:
            found.append(Flag("same-model", "same model: the texts were found on this very model"))
        if not pairs and count:
            found.append(
                Flag(
                    "no-originals",
                    "no originals: without the clean texts a mistake cannot be told from one the attack did not cause",
                )
            )
        return found

    def _failed(self, most: float) -> Iterator[Flag]:
        of = self.errors + sum(count for (_, after), count in self.seen.items() if after != LOST)
        return failed(self.errors, most if too_many(self.errors, of, most) else None, self.reasons.often)
