"""robust-tickets: find, train, attack, prove and ship robust lottery tickets of pretrained text encoders.

The public API is the list below; each name is imported when it is first used, so ``import robust_tickets`` loads neither torch nor
transformers. The classes of pruned models register with transformers at once if it is loaded, else when a public name first loads it,
or by ``import robust_tickets.auto``.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from robust_tickets._version import __version__ as __version__

_WHERE = {
    "Classifier": "robust_tickets.classifier",
    "load_classifier": "robust_tickets.classifier",
    "Task": "robust_tickets.data.task",
    "load_task": "robust_tickets.data.load",
    "Ticket": "robust_tickets.ticket.ticket",
    "Found": "robust_tickets.search.base",
    "EarlyBERT": "robust_tickets.search.earlybert",
    "EarlyRobust": "robust_tickets.search.earlyrobust",
    "ORTicket": "robust_tickets.search.orticket",
    "Prasanna": "robust_tickets.search.prasanna",
    "IMP": "robust_tickets.search.imp",
    "OMP": "robust_tickets.search.omp",
    "RandomTicket": "robust_tickets.search.random",
    "RobustT": "robust_tickets.search.robustt",
    "FreeLB": "robust_tickets.adversary.freelb",
    "PGD": "robust_tickets.adversary.pgd",
    "FreeAT": "robust_tickets.adversary.freeat",
    "SMART": "robust_tickets.adversary.smart",
    "YOPO": "robust_tickets.adversary.yopo",
    "InfoBERT": "robust_tickets.adversary.infobert",
    "TAVAT": "robust_tickets.adversary.tavat",
    "SynonymSwap": "robust_tickets.adversary.synonymswap",
    "SynonymHotFlip": "robust_tickets.adversary.synonymhotflip",
    "ASCC": "robust_tickets.adversary.ascc",
    "FineTune": "robust_tickets.train.finetune",
    "apply": "robust_tickets.prune.compact",
    "compact": "robust_tickets.prune.compact",
    "expand": "robust_tickets.prune.compact",
    "PWWS": "robust_tickets.attack.recipes.pwws",
    "TextFooler": "robust_tickets.attack.recipes.textfooler",
    "TextBugger": "robust_tickets.attack.recipes.textbugger",
    "DeepWordBug": "robust_tickets.attack.recipes.deepwordbug",
    "BertAttack": "robust_tickets.attack.recipes.bertattack",
    "BertAttackPapers": "robust_tickets.attack.recipes.bertattack_papers",
    "A2T": "robust_tickets.attack.recipes.a2t",
    "AttackResult": "robust_tickets.attack.result",
    "replay": "robust_tickets.attack.replay",
    "export": "robust_tickets.deploy.export",
    "predict": "robust_tickets.deploy.predict",
    "RunSet": "robust_tickets.stats.compare_runs",
    "TrainedRun": "robust_tickets.stats.compare_runs",
    "compare_runs": "robust_tickets.stats.compare_runs",
    "write_report": "robust_tickets.report.html",
    "methods": "robust_tickets.registry",
    "adversaries": "robust_tickets.registry",
    "attacks": "robust_tickets.registry",
    "backbones": "robust_tickets.registry",
    "tasks": "robust_tickets.data.registered_tasks",
    "recipes": "robust_tickets.experiment.recipe",
    "TicketsError": "robust_tickets.errors",
}

__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'robust_tickets' has no attribute {name!r}")
    value = getattr(importlib.import_module(_WHERE[name]), name)
    globals()[name] = value
    _register()
    return value


def __dir__() -> list[str]:
    return __all__


def _register() -> None:
    """Let transformers load pruned models, if it is loaded itself."""
    if "transformers" in sys.modules:
        importlib.import_module("robust_tickets.auto")


_register()
