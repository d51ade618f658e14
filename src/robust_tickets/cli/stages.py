"""The verbs of one stage each: ``search``, ``draw``, ``train``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.cli.options import Answer, Common, Settings, Source, is_folder, typed
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import TicketsError
from robust_tickets.progress import say
from robust_tickets.ticket.settings import Draw

if TYPE_CHECKING:
    from robust_tickets.ticket.ticket import Ticket


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class StageOptions:
    """What a search and a training share.

    Parameters
    ----------
    out
        The folder for what is made: the ticket and trace.jsonl, or model/, metrics.jsonl and evaluation.json.
    max_length
        Tokens of a text; 128 by default, 256 for IMDB and AG News.
    seed
        The one seed.
    """

    out: Path
    max_length: int | None = None
    seed: int = 0
    set: Settings = ()

    def execute(self, model: str, source: TaskSource, note: str, *, reads: bool = True, **work: Any) -> None:
        """Run the stage of ``work``; ``note`` is logged before. ``reads``: a search may take the encoder and the tokenizer alone."""
        from robust_tickets.config import to_plain
        from robust_tickets.experiment.arms import length_for
        from robust_tickets.experiment.execute import Basis, execute

        length, long = length_for(source.task, self.max_length)
        for line in filter(None, (note, long)):
            say(line)
        basis = Basis(model=model, max_length=length, seed=self.seed, source=source if reads else None)
        execute({"out": str(self.out), "basis": to_plain(basis), **work})


def search(
    method: str = "earlyrobust",
    *,
    source: Source = TaskSource(),  # noqa: B008
    model: str = "minilm",
    like: Path | None = None,
    options: StageOptions,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Search a ticket and save it; the same command again resumes or finds it done.

    Parameters
    ----------
    method
        `tickets ls methods`.
    model
        A folder, a Hub id, or the embedded minilm.
    like
        A folder with the ticket whose counts a random one matches.
    """
    is_folder(options.out)
    source = typed(source)
    source.look()
    say(f"loading {method} and {model}")
    from robust_tickets.config import build_component, describe, tree_of
    from robust_tickets.experiment.arms import check_like, with_row
    from robust_tickets.ticket.ticket import Ticket

    filled, note = with_row({"name": method, **tree_of(options.set)}, source.task)
    chosen = build_component("methods", {"seed": options.seed, **filled}, method)
    check_like(chosen, like is not None, Ticket.load(like).kind if like else None, method)
    work = {"stage": "search", "method": describe(chosen), "needs": {"like": str(like.absolute())} if like else {}}
    options.execute(model, source, note, reads=getattr(chosen, "needs_task", True), **work)
    return _ticket(Ticket.load(options.out), options.out)


def draw(
    ticket: Path,
    *,
    out: Path,
    drawn: Annotated[Draw, Parameter(name="*")] = Draw(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Draw another sparsity from a saved ticket's scores; no new search.

    Parameters
    ----------
    ticket
        A folder that a search wrote.
    out
        The folder for the new ticket.
    """
    from robust_tickets.ticket.ticket import Ticket

    found = Ticket.load(ticket).draw(**drawn.asked())
    # or a search would be found done with a ticket that it did not find
    if is_folder(out) and (out / "stage.json").exists():
        hint = "give another --out"
        raise TicketsError(f"{out} holds finished work (see its stage.json)", hint=hint, code="stage.other_work")
    found.save(out)
    return _ticket(found, out)


def train(
    model: str = "minilm",
    *,
    source: Source = TaskSource(),  # noqa: B008
    ticket: Path | None = None,
    without: Literal["initialisation", "structure"] | None = None,
    options: StageOptions,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Fine-tune a model, or the ticket of one; the same command again resumes or finds it done.

    Parameters
    ----------
    model
        A folder, a Hub id, or the embedded minilm.
    ticket
        Cut the model to this ticket first; an unstructured one masks its weights.
    without
        Draw the ticket's weights again (initialisation), or train the whole model with all other weights drawn again (structure).
    """
    if without and not ticket:
        message = f"--without {without} takes something from a ticket, and none is given"
        raise TicketsError(message, hint="--ticket FOLDER", code="usage.flag")
    is_folder(options.out)
    source = typed(source)
    source.look()
    say(f"loading {model}")
    from robust_tickets.config import build, to_plain, tree_of
    from robust_tickets.experiment.arms import for_training
    from robust_tickets.files import read_json
    from robust_tickets.train.finetune import FineTune

    filled, note = for_training({"seed": options.seed, **tree_of(options.set)}, source.task)
    trainer = build(FineTune, filled, "train")
    needs = {"ticket": str(ticket.absolute())} if ticket else {}
    options.execute(model, source, note, stage="train", train=to_plain(trainer), without=without, needs=needs)
    evaluation = read_json(options.out / "evaluation.json")
    document = {"model": str(options.out / "model"), "evaluation": evaluation}

    def show(console: Any) -> None:
        accuracy, (low, high) = evaluation["accuracy"], evaluation["interval"]
        print(f"{accuracy:.1f} % [{low:.1f}, {high:.1f}] on {evaluation['n']} rows of {evaluation['split']}")
        print(f"model: {document['model']}")

    return Answer(data=document, show=show)


def _ticket(ticket: Ticket, out: Path) -> Answer:
    document: dict[str, Any] = {name: getattr(ticket, name) for name in ("kind", "removed", "sparsity", "digest")}
    document["ticket"] = str(out)
    if ticket.rounding:
        document["rounded"] = dict(ticket.provenance["rounded"])
    words = ", ".join(f"{fraction:.1%} of the {group}" for group, fraction in ticket.removed.items())
    more = f"{ticket.sparsity:.1%} of the prunable weights" if ticket.kind == "structured" else "a mask brings no speed"

    def show(console: Any) -> None:
        print(f"ticket without {words} ({more})")
        if ticket.rounding:
            print(ticket.rounding)
        print(f"ticket: {out}")

    return Answer(data=document, show=show)
