"""The verb that puts given adversarial texts to models: ``replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from robust_tickets.attack.failures import MAX_FAILED
from robust_tickets.attack.limits import check_failed
from robust_tickets.cli.answer import Answer, Common, MaxFailed
from robust_tickets.cli.early import look_for
from robust_tickets.cli.making import columns, is_folder
from robust_tickets.cli.opening import Opening, mapped
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import say, warn

Also = Annotated[tuple[str, ...], Parameter(name="--also", negative="", consume_multiple=False)]
Maps = Annotated[tuple[str, ...], Parameter(name="--label-map", negative="", consume_multiple=False)]


def replay(
    source: str,
    *models: str,
    out: Path,
    also: Also = (),
    task: str | None = None,
    text: str | None = None,
    label: str | None = None,
    original: str | None = None,
    label_map: Maps = (),
    token_budget: int | None = None,
    max_failed: MaxFailed = MAX_FAILED,
    opening: Opening = Opening(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Put adversarial texts to other models: attack once, replay on all.

    Parameters
    ----------
    source
        An attack's folder, whose successes are replayed; or a csv, tsv, jsonl or parquet file of adversarial texts and their labels; or
        AdvGLUE's dev.json.
    models
        As `tickets attack` takes them: folders, Hub ids, RUN:ARM of a run, ONNX files, functions; opened one after another.
    out
        The folder for replay.json and rows.jsonl.
    also
        Another source, any number of times: the table then has a row for every pair.
    task
        The registered task of a file: the names of its labels 0, 1, …; of AdvGLUE's file, which of its tasks.
    text
        A file's column of adversarial text; a pair as premise,hypothesis.
    label
        A file's label column.
    original
        A file's column of original text, if it has one.
    label_map
        Which class of the models each label is, where the names differ: bad=0,good=1. Once for all models, or once for
        each, in their order.
    token_budget
        Padded tokens in one forward pass; changes speed and memory, not results.
    """
    if not models:
        raise TicketsError(
            "replay: on which models? none is given", hint="tickets replay ATTACK_FOLDER MODEL MODEL --out FOLDER"
        )
    if len(label_map) > 1 and len(label_map) != len(models):
        raise TicketsError(
            f"replay: {len(label_map)} label maps for {len(models)} models",
            hint="--label-map once for all of them, or once for each, in their order",
        )
    check_failed(max_failed, "--max-failed")
    is_folder(out)
    look_for(source, *also)
    say(f"loading {', '.join(models)}")
    from robust_tickets.attack.sets import open_set
    from robust_tickets.attack.transfer import replay as put

    reading: dict[str, Any] = {"task": task, "text": columns(text), "label": label, "original": columns(original)}
    sets = [open_set(one, **reading) for one in (source, *also)]
    opened = (opening.open(model, columns(text)) for model in models)
    found = put(
        sets,
        opened,
        label_map=[mapped(one) or {} for one in label_map] or None,
        folder=out,
        token_budget=token_budget,
        max_failed=max_failed,
    )
    told = found.to_json()

    def show(console: Any) -> None:
        console.print(table(told, models))
        print(f"result: {out / 'replay.json'}")

    if found.failed:
        warn("replay: too many examples failed: the numbers do not hold; the same command makes it again")
    return Answer(data=told, show=show, exit_code=FAILED if found.failed else 0)


def table(told: Mapping[str, Any], models: Sequence[str]) -> Any:
    """A row for every set and model: accuracy on originals, on the adversarial texts, and how many turned."""
    from rich.table import Table
    from rich.text import Text

    from robust_tickets.report import format as numbers
    from robust_tickets.report.terminal import first

    heads = ("texts of", "on", "clean", "adversarial", "transfer", "turned")
    before = [f"{models[cell['model']]}: {flag}" for cell in told["cells"] for flag in first(cell)]
    title = "accuracy in %, 95 % intervals below; transfer: turned, of those right before"
    grid = Table(*heads, title=Text("\n".join([*dict.fromkeys(before), title])), title_justify="left")
    flags: dict[str, None] = {}
    for cell in told["cells"]:
        where, model = told["sources"][cell["source"]], models[cell["model"]]
        shown = []
        for name in ("clean", "adversarials", "transfer"):
            value, ends = cell[name], cell["intervals"].get(name)
            shown.append("–" if value is None else numbers.percent(value) + (f"\n{numbers.span(ends)}" if ends else ""))
        turned = "–" if cell["originals"] is None else f"{cell['turned']} of {cell['texts']}"
        grid.add_row(*(Text(one) for one in (str(where["name"]), model, *shown, turned)))
        flags.update(dict.fromkeys(f"{model}: {flag}" for flag in cell["flags"] if flag not in first(cell)))
    if flags:
        grid.caption, grid.caption_justify = Text("flags: " + "; ".join(flags)), "left"
    return grid
