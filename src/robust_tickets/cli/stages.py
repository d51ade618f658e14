"""The verbs of one stage each: ``search``, ``draw``, ``train``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from robust_tickets.cli.options import Answer, Common, Settings, Source, is_folder, typed
from robust_tickets.data.source import TaskSource
from robust_tickets.errors import TicketsError
from robust_tickets.progress import say


def search(
    method: str = "earlyrobust",
    *,
    out: Path,
    source: Source = TaskSource(),  # noqa: B008
    model: str = "minilm",
    max_length: int | None = None,
    seed: int = 0,
    like: Path | None = None,
    set: Settings = (),
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Search a ticket and save it; the same command again resumes or finds it done.

    Parameters
    ----------
    method
        `tickets ls methods`.
    out
        The folder for ticket.safetensors, ticket.json and trace.jsonl.
    model
        A folder, a Hub id, or the embedded minilm.
    max_length
        Tokens of a text; 128 by default, 256 for IMDB and AG News.
    seed
        The one seed.
    like
        A folder with the ticket whose counts a random one matches.
    """
    is_folder(out)
    source = typed(source)
    source.look()
    say(f"loading {method} and {model}")
    from robust_tickets.classifier import load_classifier
    from robust_tickets.config import build_component, tree_of
    from robust_tickets.experiment import execute
    from robust_tickets.experiment.arms import SPARSITY, check_like, length_for, with_row
    from robust_tickets.files import locked
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket

    filled, note = with_row({"name": method, **tree_of(set)}, source.task, None, SPARSITY)
    chosen = build_component("methods", {"seed": seed, **filled}, method)
    matched = Ticket.load(like) if like else None
    check_like(chosen, matched is not None, matched.kind if matched else None, method)
    length, long = length_for(source.task, max_length)
    if getattr(chosen, "needs_task", True):
        task = source.load(seed)
        start = load_classifier(model, task, max_length=length, seed=seed).needs_model("searched")
    else:  # the classifier only carries the encoder and the tokenizer
        task, start = (
            None,
            load_classifier(model, labels=("0", "1"), max_length=length, seed=seed).needs_model("searched"),
        )
    for line in filter(None, (note, long)):
        say(line)
    given = execute.inputs(start, task)
    stage = Stage(folder=out, key=execute.search_key(chosen, given, matched))
    with locked(out):
        ticket = execute.search(stage, chosen, lambda: start, task, matched)
    return _ticket(ticket, out)


def draw(
    ticket: Path,
    *,
    out: Path,
    heads: float | None = None,
    neurons: float | None = None,
    head_scope: Literal["global", "layer"] | None = None,
    neuron_scope: Literal["global", "layer"] | None = None,
    round_to: Literal[1, 8, 16, 64] | None = None,
    sparsity: float | None = None,
    scope: Literal["global", "matrix"] | None = None,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Draw another sparsity from a saved ticket's scores; no new search.

    Parameters
    ----------
    ticket
        A folder that a search wrote.
    out
        The folder for the new ticket.
    heads
        The fraction of heads removed; as in the ticket given, where left out.
    neurons
        The fraction of feed-forward neurons removed, likewise.
    head_scope
        Compare heads of the whole model, or within each layer; likewise.
    neuron_scope
        The same for neurons.
    round_to
        Bring the neurons of every layer to the nearest multiple, which matrix kernels like; 1 leaves them as drawn.
    sparsity
        The fraction of single weights removed, for unstructured tickets.
    scope
        Compare weights of the whole model, or within each matrix, likewise.
    """
    from robust_tickets.experiment.arms import Draw
    from robust_tickets.ticket.ticket import Ticket

    units: dict[str, Any] = {
        "heads": heads,
        "neurons": neurons,
        "head_scope": head_scope,
        "neuron_scope": neuron_scope,
        "round_to": round_to,
    }
    drawn = Ticket.load(ticket).draw(**Draw(**units, sparsity=sparsity, scope=scope).asked())
    # or a search would be found done with a ticket that it did not find
    if is_folder(out) and (out / "stage.json").exists():
        raise TicketsError(
            f"{out} holds finished work (see its stage.json)", hint="give another --out", code="stage.other_work"
        )
    drawn.save(out)
    return _ticket(drawn, out)


def train(
    model: str = "minilm",
    *,
    out: Path,
    source: Source = TaskSource(),  # noqa: B008
    ticket: Path | None = None,
    without: Literal["initialisation", "structure"] | None = None,
    max_length: int | None = None,
    seed: int = 0,
    set: Settings = (),
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Fine-tune a model, or the ticket of one; the same command again resumes or finds it done.

    Parameters
    ----------
    model
        A folder, a Hub id, or the embedded minilm.
    out
        The folder for model/, metrics.jsonl and evaluation.json.
    ticket
        Cut the model to this ticket first; an unstructured one masks its weights.
    without
        Draw the ticket's weights again (initialisation), or train the whole model with all other weights drawn again (structure).
    max_length
        Tokens of a text; 128 by default, 256 for IMDB and AG News.
    seed
        The one seed.
    """
    if without and not ticket:
        raise TicketsError(
            f"--without {without} takes something from a ticket, and none is given",
            hint="--ticket FOLDER",
            code="usage.flag",
        )
    is_folder(out)
    source = typed(source)
    source.look()
    say(f"loading {model}")
    from robust_tickets.classifier import load_classifier
    from robust_tickets.config import build, tree_of
    from robust_tickets.experiment import execute
    from robust_tickets.experiment.arms import for_training, length_for
    from robust_tickets.files import locked
    from robust_tickets.stages import Stage
    from robust_tickets.ticket.ticket import Ticket
    from robust_tickets.train.finetune import FineTune

    filled, note = for_training({"seed": seed, **tree_of(set)}, source.task)
    trainer = build(FineTune, filled, "train")
    length, long = length_for(source.task, max_length)
    task = source.load(seed)
    for line in filter(None, (note, long)):
        say(line)
    start = load_classifier(model, task, max_length=length, seed=seed).needs_model("searched")
    cut = Ticket.load(ticket) if ticket else None
    stage = Stage(folder=out, key=execute.train_key(trainer, execute.inputs(start, task), cut, without))
    with locked(out):
        execute.train(stage, trainer, start, task, cut, without)
    evaluation = execute.evaluation_of(stage)
    document = {"model": str(out / "model"), "evaluation": evaluation}

    def show(console: Any) -> None:
        low, high = evaluation["interval"]
        console.print(
            f"{evaluation['accuracy']:.1f} % [{low:.1f}, {high:.1f}] on {evaluation['n']} rows of {evaluation['split']}",
            markup=False,
        )
        print(f"model: {document['model']}")

    return Answer(data=document, show=show)


def _ticket(ticket: Any, out: Path) -> Answer:
    document = {
        "ticket": str(out),
        "kind": ticket.kind,
        "removed": ticket.removed,
        "sparsity": ticket.sparsity,
        "digest": ticket.digest,
    }
    if ticket.rounding:
        document["rounded"] = dict(ticket.provenance["rounded"])
    words = ", ".join(f"{fraction:.1%} of the {group}" for group, fraction in ticket.removed.items())
    structured = ticket.kind == "structured"
    more = (
        f"{ticket.sparsity:.1%} of the prunable weights"
        if structured
        else f"of {len(ticket.names)} matrices; a mask brings no speed"
    )

    def show(console: Any) -> None:
        console.print(f"ticket without {words} ({more})", markup=False)
        if ticket.rounding:
            console.print(ticket.rounding, markup=False)
        print(f"ticket: {out}")

    return Answer(data=document, show=show)
