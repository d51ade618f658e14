"""What a run needs that no run of these results had: weights of another backbone, data of another task.

Told where something was not run, so that a reader knows whether its command will do by itself. It looks at the results alone, not at this
machine: a page says the same wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from robust_tickets.reproduce.arms import backbone_title, task_title
from robust_tickets.reproduce.outcome import Outcome
from robust_tickets.reproduce.rules import told


def needs(backbone: str, task: str, outcomes: Sequence[Outcome]) -> str:
    """In words, “weights of RoBERTa-base and data of QNLI (104,743 training rows)”; empty where some run had each of them."""
    parts = []
    if all(one.unit.backbone != backbone for one in outcomes):
        parts.append(f"weights of {backbone_title(backbone)}")
    if all(one.unit.task != task for one in outcomes):
        known = told()["tasks"].get(task)
        parts.append(f"data of {task_title(task)}" + (f" ({known['train'][0]:,} training rows)" if known else ""))
    return " and ".join(parts)
