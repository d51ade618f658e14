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

_NAMES = {  # by module
    "adversary.ascc": "ASCC",
    "adversary.freeat": "FreeAT",
    "adversary.freelb": "FreeLB",
    "adversary.infobert": "InfoBERT",
    "adversary.pgd": "PGD",
    "adversary.smart": "SMART",
    "adversary.synonymhotflip": "SynonymHotFlip",
    "adversary.synonymswap": "SynonymSwap",
    "adversary.tavat": "TAVAT",
    "adversary.yopo": "YOPO",
    "attack.recipes.a2t": "A2T",
    "attack.recipes.bertattack": "BertAttack",
    "attack.recipes.bertattack_papers": "BertAttackPapers",
    "attack.recipes.deepwordbug": "DeepWordBug",
    "attack.recipes.pwws": "PWWS",
    "attack.recipes.textbugger": "TextBugger",
    "attack.recipes.textfooler": "TextFooler",
    "attack.replay": "replay",
    "attack.result": "AttackResult",
    "classifier": "Classifier load_classifier",
    "data.load": "load_task",
    "data.registered_tasks": "tasks",
    "data.task": "Task",
    "deploy.export": "export",
    "deploy.predict": "predict",
    "errors": "TicketsError",
    "experiment.recipe": "recipes",
    "prune.compact": "apply compact expand",
    "registry": "methods adversaries attacks backbones",
    "report.html": "write_report",
    "search.base": "Found",
    "search.earlybert": "EarlyBERT",
    "search.earlyrobust": "EarlyRobust",
    "search.imp": "IMP",
    "search.omp": "OMP",
    "search.orticket": "ORTicket",
    "search.prasanna": "Prasanna",
    "search.random": "RandomTicket",
    "search.robustt": "RobustT",
    "stats.compare_runs": "RunSet TrainedRun compare_runs",
    "ticket.ticket": "Ticket",
    "train.finetune": "FineTune",
}
_WHERE = {name: f"robust_tickets.{module}" for module, names in _NAMES.items() for name in names.split()}

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
