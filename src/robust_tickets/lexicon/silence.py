"""Loading a model without transformers' talk on the terminal."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silence() -> Iterator[None]:
    """Keeps transformers' progress bars and its report on new weights from the user: what matters in it, we say ourselves."""
    logger = logging.getLogger("transformers.modeling_utils")
    hide = _hide_report
    logger.addFilter(hide)
    try:
        with _no_bars():
            yield
    finally:
        logger.removeFilter(hide)


def _hide_report(record: logging.LogRecord) -> bool:
    said = record.getMessage()
    return not any(part in said for part in ("LOAD REPORT", "newly initialized", "checkpoint seem corrupted"))


@contextmanager
def _no_bars() -> Iterator[None]:
    from transformers.utils import logging as bars

    if not bars.is_progress_bar_enabled():
        yield
        return
    with warnings.catch_warnings(action="ignore"):  # both warn where an environment variable has the last word
        bars.disable_progress_bar()
    try:
        yield
    finally:
        with warnings.catch_warnings(action="ignore"):
            bars.enable_progress_bar()
