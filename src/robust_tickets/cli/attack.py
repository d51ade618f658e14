"""The verbs ``attack`` and ``replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from robust_tickets.attack.options import AttackOptions, Speed
from robust_tickets.cli.options import (
    Answer,
    Common,
    MaxFailed,
    Opening,
    Settings,
    Strict,
    columns,
    flag,
    is_folder,
    look_for,
    mapped,
)
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import say, warn

if TYPE_CHECKING:
    from robust_tickets.attack.attack import Attack
    from robust_tickets.classifier import Classifier
    from robust_tickets.data.task import Task

Several = Parameter(negative="", consume_multiple=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackedTexts:
    """Which texts are attacked, and what else of the data matters.

    Parameters
    ----------
    data
        A file of texts and labels, all of whose rows may be attacked; or the local files of --task.
    task
        A registered task instead of a file: its attacked split.
    text
        The text column; a pair as premise,hypothesis.
    label
        The label column.
    label_map
        Which class of the model each label of the data is, where the names differ: bad=0,good=1.
    calibration
        A file of labelled texts to fit the temperature on; by default the rows that are not attacked.
    seen
        A file of what the model was trained on: the result says how many attacked texts are in it.
    """

    data: str | None = None
    task: str | None = None
    text: str | None = None
    label: str | None = None
    label_map: str | None = None
    calibration: str | None = None
    seen: str | None = None
    strict: Strict = False

    def look(self) -> None:
        """Refuse what is not there, before anything heavy is loaded."""
        if self.data is None and self.task is None:
            hint = "--data FILE with a text and a label column"
            raise TicketsError("attack: neither --data nor --task is given", hint=hint, code="usage.data")
        look_for(self.data, self.calibration, self.seen)

    def attacked(self, victim: Classifier) -> Task:
        return self.read(victim, self.task, self.data) if self.task else self.read(victim, str(self.data))

    def read(self, victim: Classifier, source: str, data: str | None = None) -> Task:
        from robust_tickets.data.diagnostics import announce
        from robust_tickets.data.load import load_task

        return announce(
            load_task(
                source,
                text=columns(self.text),
                label=self.label,
                labels=victim.labels,
                label_map=mapped(self.label_map),
                by_id=False,
                any_text=True,
                strict=self.strict,
                data=data,
                splits={"test": "all"} if Path(source).is_file() else None,
            )
        )


class Flags:
    """Settings whose errors name the flag."""

    def shown(self, name: str) -> str:
        return flag(name)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SpeedFlags(Flags, Speed):
    __doc__ = Speed.__doc__  # the command line's help


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackChoice(Flags, AttackOptions):
    __doc__ = AttackOptions.__doc__  # the command line's help

    attack: Annotated[str, Parameter(help="`tickets ls attacks`.")] = "pwws"
    compat: Annotated[str | None, Parameter(help="A version of TextAttack to agree with, example by example.")] = None
    scoring: Annotated[
        Literal["probability", "log-odds"] | None,
        Parameter(help="Judge candidates by probability, as TextAttack, or by log-odds, which no sure model hides."),
    ] = None

    def recipe(self, settings: Settings) -> Attack:
        from robust_tickets.config import build_component, tree_of

        named = {name: value for name in ("compat", "scoring") if (value := getattr(self, name)) is not None}
        return build_component("attacks", {"name": self.attack, **named, **tree_of(settings)}, self.attack)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOutput:
    """Where the result goes.

    Parameters
    ----------
    out
        The folder for result.json and examples.jsonl.
    csv
        Write the examples as a table too: a .csv or .tsv file.
    parquet
        The same as a .parquet file.
    """

    out: Path
    csv: Path | None = None
    parquet: Path | None = None

    def tables(self, *read: str | None) -> list[Path]:
        """The tables to write, none of them a file to ``read`` from."""
        from robust_tickets.attack.tables import checked

        given = ((self.csv, (".csv", ".tsv")), (self.parquet, (".parquet",)))
        found = [checked(path, *endings) for path, endings in given if path is not None]
        sources = {Path(one).resolve() for one in read if one is not None}
        for path in found:
            if path.resolve() in sources:
                message, hint = f"{path} is a file to read from", "write the table to another file"
                raise TicketsError(message, hint=hint, code="usage.out")
        return found


def attack(
    model: str,
    *,
    texts: AttackedTexts = AttackedTexts(),  # noqa: B008
    choice: AttackChoice = AttackChoice(),  # noqa: B008
    speed: SpeedFlags = SpeedFlags(),  # noqa: B008
    output: AttackOutput,
    opening: Opening = Opening(),  # noqa: B008
    set: Settings = (),
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Attack a classifier on labelled texts; the same command again resumes or finds it done.

    Parameters
    ----------
    model
        A folder or a Hub id of any transformers sequence classifier, RUN:ARM of a run, an ONNX file or folder, or package.module:function
        for a Python function from a list of texts to probabilities.
    """
    texts.look()
    is_folder(output.out)
    say(f"loading {choice.attack} and {model}")
    from robust_tickets.attack.attack import AttackData, AttackRun
    from robust_tickets.attack.engine import run
    from robust_tickets.attack.examples import short_of

    tables = output.tables(texts.data, texts.calibration, texts.seen)
    recipe = choice.recipe(set)
    victim = opening.open(model, columns(texts.text))
    task = texts.attacked(victim)
    victim.check_columns(task.columns, task.name)
    split = task.split(choice.split) if choice.split else task.test
    if short := short_of(choice.n, len(split)):
        say(f"attack: {short}")
    data = AttackData(
        labels=task.labels,
        calibration=texts.read(victim, texts.calibration).test if texts.calibration else None,
        seen=texts.read(victim, texts.seen).test if texts.seen else None,
    )
    result = run(AttackRun(recipe=recipe, victim=victim, split=split, options=choice, data=data), output.out, speed)
    document = result.to_json() | ({"tables": [str(result.table(path)) for path in tables]} if tables else {})

    def show(console: Any) -> None:
        from robust_tickets.report.terminal import attack_table

        console.print(attack_table(result))
        print(f"result: {output.out / 'result.json'}", *(f"table: {path}" for path in tables), sep="\n")

    failed = result.failed(choice.max_failed)
    if failed:
        warn(f"attack: {result.errors} examples failed: the numbers do not hold; the same command attacks them again")
    return Answer(data=document, show=show, exit_code=FAILED if failed else 0)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReplayedTexts:
    """How the sources of a replay are read.

    Parameters
    ----------
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
        Which class of the models each label is, where the names differ: bad=0,good=1. Once for all models, or once for each, in their
        order.
    """

    also: Annotated[tuple[str, ...], Several] = ()
    task: str | None = None
    text: str | None = None
    label: str | None = None
    original: str | None = None
    label_map: Annotated[tuple[str, ...], Several] = ()


def replay(
    source: str,
    *models: str,
    out: Path,
    texts: ReplayedTexts = ReplayedTexts(),  # noqa: B008
    token_budget: int | None = None,
    max_failed: MaxFailed = 1.0,
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
    token_budget
        Padded tokens in one forward pass; changes speed and memory, not results.
    """
    if not models or 1 < len(texts.label_map) != len(models):
        raise TicketsError(
            f"replay: {len(models)} models and {len(texts.label_map)} label maps",
            hint="tickets replay SOURCE MODEL MODEL --out FOLDER, with --label-map once for all models, or once for each",
            code="usage.models",
        )
    AttackChoice(max_failed=max_failed)  # refused before a model is loaded
    is_folder(out)
    look_for(source, *texts.also)
    say(f"loading {', '.join(models)}")
    from robust_tickets.attack import replay as library

    text, original = columns(texts.text), columns(texts.original)
    sets = [
        library.open_set(one, task=texts.task, text=text, label=texts.label, original=original)
        for one in (source, *texts.also)
    ]
    found = library.replay(
        sets,
        (opening.open(model, columns(texts.text)) for model in models),
        label_map=[mapped(one) or {} for one in texts.label_map],
        folder=out,
        token_budget=token_budget,
        max_failed=max_failed,
    )
    document = found.to_json()

    def show(console: Any) -> None:
        flags = [f"flag: {models[cell['model']]}: {text}" for cell in document["cells"] for text in cell["flags"]]
        print(*dict.fromkeys(flags), sep="\n")
        console.print(table(document, models))
        print(f"result: {out / 'replay.json'}")

    if found.failed:
        warn("replay: too many examples failed: the numbers do not hold; the same command makes it again")
    return Answer(data=document, show=show, exit_code=FAILED if found.failed else 0)


def table(document: Mapping[str, Any], models: Sequence[str]) -> Any:
    """A row for every set and model: accuracy on originals, on the adversarial texts, and how many turned."""
    from robust_tickets.report import format as numbers
    from robust_tickets.report.tables import Cell, Row, plain_table, rich_table

    rows = []
    for cell in document["cells"]:
        measured = [
            Cell(text=numbers.percent(cell[name]), below=numbers.brief(cell["intervals"].get(name)))
            for name in ("clean", "adversarials", "transfer")
        ]
        turned = Cell(text=f"{cell['turned']} of {cell['texts']}" if cell["originals"] is not None else numbers.NONE)
        cells = (Cell(text=models[cell["model"]]), *measured, turned)
        rows.append(Row(name=str(document["sources"][cell["source"]]["name"]), cells=cells))
    plain = plain_table("", ("texts of", "on", "clean", "adversarial", "transfer", "turned"), ())
    return rich_table(replace(plain, rows=tuple(rows)), [row.name for row in rows])
