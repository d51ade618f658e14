"""What arms, tasks, attacks and metrics are called where they are shown. A name that nobody explains is shown as it is."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from robust_tickets.reproduce.arms import arms

TASKS = {
    "sst2": "SST-2", "imdb": "IMDB", "ag_news": "AG News", "mrpc": "MRPC", "rte": "RTE", "qnli": "QNLI", "qqp": "QQP", "mnli": "MNLI",
    "mr": "MR",
}  # fmt: skip
ATTACKS = {
    "textfooler": "TextFooler", "textbugger": "TextBugger", "bertattack": "BERT-Attack", "bertattack_papers": "BERT-Attack of the papers",
    "pwws": "PWWS", "deepwordbug": "DeepWordBug",
}  # fmt: skip
METRICS = {
    "clean": "clean", "aua": "under attack", "suc": "attack wins", "queries": "queries", "speedup_vs_pgd": "× PGD",
    "speedup_vs_freelb": "× FreeLB", "speedup_lost_to_search": "× lost to search", "encoder_millions": "M, encoder",
    "total_millions": "M, all",
}  # fmt: skip
FRESH = "_ticket"  # ends the name under which a screened ticket is run again with other seeds than those that chose it
BACKBONES = {"bert-base-uncased": "BERT-base", "roberta-base": "RoBERTa-base"}
VARIANTS = {
    "real": "real lists", "substitute": "substitute lists", "confirm": "held out", "encoder50": "encoder that passes 50 %",
    "encoder75": "encoder that passes 75 %", "encoder90": "encoder that passes 90 %",
}  # fmt: skip


@cache
def arm_title(name: str) -> str:
    """As ``arms.toml`` calls it."""
    found = arms().get(name)
    return found.title if found is not None else name


def told_apart(name: str, others: Collection[str]) -> str:
    """Its title; where one recipe stands twice among ``others``, what chose it and what was run afresh, with which of them it is."""
    twin = name.removesuffix(FRESH) if name.endswith(FRESH) else name + FRESH
    known = arms()
    if twin not in others or twin not in known or name not in known or known[twin].settings != known[name].settings:
        return arm_title(name)
    return f"{arm_title(name)}, {'fresh runs' if name.endswith(FRESH) else 'runs that chose it'}"


def printed_as(metric: str, value: float) -> str:
    """A published number as the papers print it."""
    return f"{value:.0f}" if metric.endswith("_millions") else str(value)


def task_title(name: str) -> str:
    return TASKS.get(name, name)


def backbone_title(name: str) -> str:
    return BACKBONES.get(name, name)


def attack_title(name: str) -> str:
    """``textfooler-real-encoder50`` as “TextFooler, real lists, encoder that passes 50 %”."""
    first, *rest = name.split("-")
    return ", ".join([ATTACKS.get(first, first), *(VARIANTS.get(part, part) for part in rest)])


def attack_phrase(name: str) -> str:
    """The same inside a sentence: “TextFooler (real lists)”."""
    first, _, rest = attack_title(name).partition(", ")
    return f"{first} ({rest})" if rest else first


def variant(name: str, asked: str | None = None) -> str:
    """What tells an attack from others that stand for ``asked``: its candidates and constraints; all of its name if its kind differs."""
    _, _, rest = attack_title(name).partition(", ")
    return rest if rest and name.partition("-")[0] == (asked or name.partition("-")[0]) else attack_title(name)


def metric_title(metric: str, attack: str | None) -> str:
    return f"{ATTACKS.get(attack, attack)}, {METRICS.get(metric, metric)}" if attack else METRICS.get(metric, metric)
