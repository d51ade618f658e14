"""Which tables of words an arm was searched or trained on, and whether an attack drew from the same one.

A model trained on the attacker's own table is tested on the ground it was trained on: its accuracy under that attack says little about
others. The digests of what both used decide it, not their names.
"""

from __future__ import annotations

from robust_tickets.files import mapping
from robust_tickets.report import format as numbers
from robust_tickets.report.run_data import Arm, Run, WordTable

SHOWN = 8  # characters of a digest


def said(run: Run) -> list[str]:
    """A sentence for every table of every arm, and one where an attack drew from it."""
    return [sentence for arm in run.arms for table in arm.tables for sentence in _said(run, arm, table)]


def _said(run: Run, arm: Arm, table: WordTable) -> list[str]:
    what = f"{arm.title} was {table.what} under {table.adversary} with words from {table.name} (sha256 {table.digest[:SHOWN]}…)"
    if table.swappable is not None:
        what += f", which can swap {numbers.percent(100 * table.swappable)} of the words of its training texts"
    sentences = [f"{what}."]
    for key, title in run.attack_titles.items():
        found = arm.attack(key)
        used = mapping(found.about.get("resources")).values() if found else ()
        digests = {digest for resource in used if (digest := mapping(resource).get("digest"))}
        if table.digest and table.digest in digests:
            ground = "what it shows there need not hold for words from elsewhere"
            sentences.append(
                f"{title} on {arm.title}: the attack draws from the same table as the training, so {ground}."
            )
        elif digests:
            sentences.append(f"{title} on {arm.title}: the attack does not draw from the table of the training.")
    return sentences
