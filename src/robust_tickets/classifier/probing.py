"""A callable's name says little of what it computes: its answers to a few texts do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from robust_tickets.classifier import Classifier

UNSTEADY = 0.01  # by which a callable's answers to one text may differ: services round, and batch
PROBES = 8  # texts a callable is asked about, to tell it from others of the same name


def probed(clf: Classifier, texts: Iterable[tuple[str, ...]]) -> tuple[list[list[float] | None], Exception | None]:
    """The probabilities of each text, None where it failed, and the last problem. A model is known by its weights and is not asked.

    What is kept of a callable's answers is neither asked nor added to, so that a later answer to the same text is one of its own.
    """
    found: list[list[float] | None] = []
    problem: Exception | None = None
    if clf.identity.startswith("callable:"):
        now = clf.afresh()
        for text in texts:
            try:
                found.append(np.exp(now.logits([text])[0].astype(np.float64)).round(4).tolist())
            except Exception as failure:  # this text's own, unless all fail
                problem = failure
                found.append(None)
    return found, problem
