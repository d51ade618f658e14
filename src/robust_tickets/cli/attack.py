"""The verb that puts given adversarial texts to models: ``replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.attack.attack import check_failed, check_numbers
from robust_tickets.attack.scheduler import MAX_FAILED
from robust_tickets.cli.answer import Answer, Common, MaxFailed, Settings, Strict
from robust_tickets.cli.options import Opening, columns, flag, is_folder, look_for, mapped, number_or_word
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import say, warn


def attack(
    model: str,
    *,
    out: Path,
    data: str | None = None,
    task: str | None = None,
    attack: str = "pwws",
    n: int = 200,
    subset: Literal["balanced", "random", "first", "first-of-each"] = "balanced",
    seed: int = 0,
    text: str | None = None,
    label: str | None = None,
    label_map: str | None = None,
    split: str | None = None,
    query_budget: int | None = None,
    compat: str | None = None,
    scoring: Literal["probability", "log-odds"] | None = None,
    temperature: str = "1",
    calibration: str | None = None,
    seen: str | None = None,
    precision: Literal["bfloat16", "float16"] | None = None,
    token_budget: int | None = None,
    live: int | None = None,
    workers: int | None = None,
    max_failed: MaxFailed = MAX_FAILED,
    csv: Path | None = None,
    parquet: Path | None = None,
    opening: Opening = Opening(),  # noqa: B008
    strict: Strict = False,
    set: Settings = (),
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Attack a classifier on labelled texts; the same command again resumes or finds it done.

    Parameters
    ----------
    model
        A folder or a Hub id of any transformers sequence classifier, RUN:ARM of a run, an ONNX file or folder, or package.module:function
        for a Python function from a list of texts to probabilities.
    out
        The folder for result.json and examples.jsonl.
    data
        A file of texts and labels, all of whose rows may be attacked; or the local files of --task.
    task
        A registered task instead of a file: its attacked split.
    attack
        `tickets ls attacks`.
    n
        How many examples; 0 for all.
    subset
        Which: as even over the classes as the rows allow, random, the first as the papers' code takes them, or the
        first-of-each class.
    seed
        Which balanced or random examples.
    text
        The text column; a pair as premise,hypothesis.
    label
        The label column.
    label_map
        Which class of the model each label of the data is, where the names differ: bad=0,good=1.
    split
        Another split than the one the task attacks.
    query_budget
        At most so many queries an example.
    compat
        A version of TextAttack to agree with, example by example.
    scoring
        What a candidate is judged by: TextAttack's probability, or log-odds, which an over-confident model cannot hide.
    temperature
        What the logits are divided by: a number, or calibrated.
    calibration
        A file of labelled texts to fit the temperature on; by default the rows that are not attacked.
    seen
        A file of what the model was trained on: the result says how many attacked texts are in it.
    precision
        Attack a copy of the model in fewer bits, which a GPU is faster with; the result says how many outcomes the model itself does not
        confirm.
    token_budget
        Padded tokens in one forward pass; changes speed and memory, not results.
    live
        Examples under attack at the same time; changes speed and memory, not results.
    workers
        Processes that look words up for a model on a GPU; 0 for none besides this one. Changes speed and memory, not results.
    csv
        Write the examples as a table too: a .csv or .tsv file.
    parquet
        The same as a .parquet file.
    """
    if data is None and task is None:
        raise TicketsError(
            "attack: which texts? neither --data nor --task is given", hint="--data FILE with a text and a label column"
        )
    check_numbers(
        {"n": n, "query_budget": query_budget, "token_budget": token_budget, "live": live, "workers": workers}, flag
    )
    check_failed(max_failed, "--max-failed")
    is_folder(out)
    look_for(data, calibration, seen)
    say(f"loading {attack} and {model}")
    from robust_tickets.attack.examples import short_of
    from robust_tickets.attack.tables import checked
    from robust_tickets.config import build_component
    from robust_tickets.data.diagnostics import announce
    from robust_tickets.data.load import load_task
    from robust_tickets.experiment.recipe import tree_of

    tables = [
        checked(path, *endings)
        for path, endings in ((csv, (".csv", ".tsv")), (parquet, (".parquet",)))
        if path is not None
    ]
    for path in tables:
        if any(given is not None and path.resolve() == Path(given).resolve() for given in (data, calibration, seen)):
            raise TicketsError(f"{path} is a file to read from", hint="write the table to another file")
    named = {"compat": compat, "scoring": scoring}
    settings = {"name": attack, **{k: v for k, v in named.items() if v is not None}, **tree_of(set)}
    configured = build_component("attacks", settings, attack)
    heat, mapping = number_or_word(temperature), mapped(label_map)
    victim = opening.open(model, columns(text))

    def read(source: str, **options: Any) -> Any:
        if Path(source).is_file():
            options["splits"] = {"test": "all"}
        reading: dict[str, Any] = {
            "labels": victim.labels,
            "label_map": mapping,
            "by_id": False,
            "any_text": True,
            "strict": strict,
        }
        return announce(load_task(source, text=columns(text), label=label, **reading, **options))

    loaded = read(task, data=data) if task else read(str(data))
    victim.check_columns(loaded.columns, loaded.name)
    attacked = loaded.split(split) if split else loaded.test
    if short := short_of(n, len(attacked)):
        say(f"attack: {short}")
    result = configured(
        victim,
        attacked,
        n=n,
        subset=subset,
        seed=seed,
        labels=loaded.labels,
        temperature=heat,
        calibration=read(calibration).test if calibration else None,
        seen=read(seen).test if seen else None,
        folder=out,
        token_budget=token_budget,
        live=live,
        workers=workers,
        precision=precision,
        query_budget=query_budget,
        max_failed=max_failed,
        called=_called(mapping or {}, loaded.labels),
    )
    failed = result.failed(max_failed)
    told = result.to_json() | ({"tables": [str(result.table(path)) for path in tables]} if tables else {})

    def show(console: Any) -> None:
        from robust_tickets.report.terminal import attack_table

        console.print(attack_table(told))
        print(f"result: {out / 'result.json'}", *(f"table: {path}" for path in tables), sep="\n")

    if failed:
        warn(
            f"attack: {result.errors} of {len(result.ids)} examples failed: the numbers do not hold; the same command attacks them again"
        )
    return Answer(data=told, show=show, exit_code=FAILED if failed else 0)


def _called(label_map: dict[str, int | str], labels: tuple[str, ...]) -> dict[str, int]:
    """What the data calls each class: by the label map, else by name, or by number where nobody named it."""
    from robust_tickets.classifier.checkpoint import unnamed
    from robust_tickets.data.schema import match

    mapped_to = dict(match(tuple(label_map), labels, "the label map", label_map=label_map).ids)
    names = map(str, range(len(labels))) if unnamed(labels) else labels
    return mapped_to | {name: i for i, name in enumerate(names) if i not in mapped_to.values()}


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
    from robust_tickets.attack.replay import open_set
    from robust_tickets.attack.replay import replay as put

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
