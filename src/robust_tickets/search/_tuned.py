"""A fine-tuned copy of a model, for searches that begin with one: trained in ``folder/tuned``, saved there, found again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from robust_tickets.config import uncounted
from robust_tickets.errors import TicketsError
from robust_tickets.files import write_json
from robust_tickets.run import record
from robust_tickets.train.finetune import FineTune, identity_of


def tuned(tuning: FineTune, clf: Any, task: Any, folder: Path | None) -> Any:
    """A copy of ``clf`` fine-tuned on ``task``. In ``folder`` an interrupted training goes on, and a finished one is read back.

    Read back are the weights alone, into a copy of ``clf``: how it attends, say, is in no file, and the search must go on in the same way.
    """
    from robust_tickets.classifier import Classifier
    from robust_tickets.train.step import full_precision

    if folder is None:
        return tuning(clf.copy(), task)
    at = folder / "tuned"
    identity = identity_of(tuning, clf, task)
    if told := record(at / "done.json"):
        if told.get("identity") != identity:
            raise TicketsError(
                f"{at} holds a model of another run (other settings, data or starting weights)",
                hint="give another folder, or remove this one to start anew",
            )
        if (
            at / "model" / "tickets.json"
        ).is_file():  # else it was removed, as from a finished stage, and is trained again
            shutil.rmtree(at / "checkpoint", ignore_errors=True)
            ready = clf.copy()
            full_precision(ready.model)
            ready.model.load_state_dict(Classifier.from_pretrained(at / "model", device="cpu").model.state_dict())
            return ready
    ready = tuning(clf.copy(), task, folder=at)
    ready.save_pretrained(at / "model")
    write_json(at / "done.json", {"identity": identity})
    shutil.rmtree(at / "checkpoint", ignore_errors=True)  # three times the model, and needed no more
    return ready


def determining(tuning: FineTune, seed: int) -> FineTune:
    """``tuning`` as the search runs it, without what does not change the model: when checkpoints are taken, and the engine."""
    usual = FineTune()
    return replace(tuning, seed=seed, **{name: getattr(usual, name) for name in uncounted(FineTune)})
