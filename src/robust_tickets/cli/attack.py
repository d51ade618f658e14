"""The verbs ``attack`` and ``replay``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    from robust_tickets.attack.attack import Attack, AttackData
    from robust_tickets.attack.replay import TextSet
    from robust_tickets.classifier import Classifier
    from robust_tickets.data.task import Task


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackedTexts:
    """Which texts are attacked, and what else of the data matters."""

    data: Annotated[
        str | None,
        Parameter(help="A file of texts and labels, all of whose rows may be attacked; or the local files of --task."),
    ] = None
    task: Annotated[str | None, Parameter(help="A registered task instead of a file: its attacked split.")] = None
    text: Annotated[str | None, Parameter(help="The text column; a pair as premise,hypothesis.")] = None
    label: Annotated[str | None, Parameter(help="The label column.")] = None
    label_map: Annotated[
        str | None,
        Parameter(help="Which class of the model each label of the data is, where the names differ: bad=0,good=1."),
    ] = None
    calibration: Annotated[
        str | None,
        Parameter(
            help="A file of labelled texts to fit the temperature on; by default the rows that are not attacked."
        ),
    ] = None
    seen: Annotated[
        str | None,
        Parameter(help="A file of what the model was trained on: the result says how many attacked texts are in it."),
    ] = None
    strict: Strict = False

    def look(self) -> None:
        """Refuse what is not there, before anything heavy is loaded."""
        if self.data is None and self.task is None:
            raise TicketsError(
                "attack: which texts? neither --data nor --task is given",
                hint="--data FILE with a text and a label column",
            )
        look_for(self.data, self.calibration, self.seen)

    def attacked(self, victim: Classifier) -> Task:
        return self._read(victim, self.task, self.data) if self.task else self._read(victim, str(self.data))

    def beside(self, victim: Classifier, task: Task) -> AttackData:
        """What the data say beside the texts to attack."""
        from robust_tickets.attack.attack import AttackData

        return AttackData(
            labels=task.labels,
            called=_called(mapped(self.label_map) or {}, task.labels),
            calibration=self._read(victim, self.calibration).test if self.calibration else None,
            seen=self._read(victim, self.seen).test if self.seen else None,
        )

    def _read(self, victim: Classifier, source: str, data: str | None = None) -> Task:
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
        Parameter(
            help="What a candidate is judged by: TextAttack's probability, or log-odds, which an over-confident model cannot hide."
        ),
    ] = None

    def recipe(self, settings: Settings) -> Attack:
        from robust_tickets.config import build_component, tree_of

        named = {name: value for name in ("compat", "scoring") if (value := getattr(self, name)) is not None}
        return build_component("attacks", {"name": self.attack, **named, **tree_of(settings)}, self.attack)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AttackOutput:
    """Where the result goes."""

    out: Annotated[Path, Parameter(help="The folder for result.json and examples.jsonl.")]
    csv: Annotated[Path | None, Parameter(help="Write the examples as a table too: a .csv or .tsv file.")] = None
    parquet: Annotated[Path | None, Parameter(help="The same as a .parquet file.")] = None

    def tables(self, *read: str | None) -> list[Path]:
        """The tables to write, none of them a file to ``read`` from."""
        from robust_tickets.attack.tables import checked

        given = ((self.csv, (".csv", ".tsv")), (self.parquet, (".parquet",)))
        found = [checked(path, *endings) for path, endings in given if path is not None]
        for path in found:
            if any(one is not None and path.resolve() == Path(one).resolve() for one in read):
                raise TicketsError(f"{path} is a file to read from", hint="write the table to another file")
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
    from robust_tickets.attack.attack import AttackRun
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
    job = AttackRun(recipe=recipe, victim=victim, split=split, options=choice, data=texts.beside(victim, task))
    result = run(job, output.out, speed)
    failed = result.failed(choice.max_failed)
    document = result.to_json() | ({"tables": [str(result.table(path)) for path in tables]} if tables else {})

    def show(console: Any) -> None:
        from robust_tickets.report.terminal import attack_table

        console.print(attack_table(document))
        print(f"result: {output.out / 'result.json'}", *(f"table: {path}" for path in tables), sep="\n")

    if failed:
        warn(
            f"attack: {result.errors} of {len(result.ids)} examples failed: the numbers do not hold; the same command attacks them again"
        )
    return Answer(data=document, show=show, exit_code=FAILED if failed else 0)


def _called(label_map: dict[str, int | str], labels: tuple[str, ...]) -> dict[str, int]:
    """What the data calls each class: by the label map, else by name, or by number where it has no name."""
    from robust_tickets.classifier.base import unnamed
    from robust_tickets.data.schema import match

    mapped_to = dict(match(tuple(label_map), labels, "the label map", label_map=label_map).ids)
    names = map(str, range(len(labels))) if unnamed(labels) else labels
    return mapped_to | {name: i for i, name in enumerate(names) if i not in mapped_to.values()}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReplayedTexts:
    """How the sources of a replay are read."""

    also: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            consume_multiple=False,
            help="Another source, any number of times: the table then has a row for every pair.",
        ),
    ] = ()
    task: Annotated[
        str | None,
        Parameter(
            help="The registered task of a file: the names of its labels 0, 1, …; of AdvGLUE's file, which of its tasks."
        ),
    ] = None
    text: Annotated[
        str | None, Parameter(help="A file's column of adversarial text; a pair as premise,hypothesis.")
    ] = None
    label: Annotated[str | None, Parameter(help="A file's label column.")] = None
    original: Annotated[str | None, Parameter(help="A file's column of original text, if it has one.")] = None
    label_map: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            consume_multiple=False,
            help="Which class of the models each label is, where the names differ: bad=0,good=1. Once for all models, or once for "
            "each, in their order.",
        ),
    ] = ()

    def sets(self, source: str) -> list[TextSet]:
        from robust_tickets.attack.replay import open_set

        text, original = columns(self.text), columns(self.original)
        return [
            open_set(one, task=self.task, text=text, label=self.label, original=original)
            for one in (source, *self.also)
        ]


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
    if not models:
        raise TicketsError(
            "replay: on which models? none is given", hint="tickets replay ATTACK_FOLDER MODEL MODEL --out FOLDER"
        )
    if 1 < len(texts.label_map) != len(models):
        raise TicketsError(
            f"replay: {len(texts.label_map)} label maps for {len(models)} models",
            hint="--label-map once for all of them, or once for each, in their order",
        )
    AttackChoice(max_failed=max_failed)  # refused before a model is loaded
    is_folder(out)
    look_for(source, *texts.also)
    say(f"loading {', '.join(models)}")
    from robust_tickets.attack.replay import replay as put

    found = put(
        texts.sets(source),
        (opening.open(model, columns(texts.text)) for model in models),
        label_map=[mapped(one) or {} for one in texts.label_map] or None,
        folder=out,
        token_budget=token_budget,
        max_failed=max_failed,
    )
    document = found.to_json()

    def show(console: Any) -> None:
        console.print(table(document, models))
        print(f"result: {out / 'replay.json'}")

    if found.failed:
        warn("replay: too many examples failed: the numbers do not hold; the same command makes it again")
    return Answer(data=document, show=show, exit_code=FAILED if found.failed else 0)


def table(document: Mapping[str, Any], models: Sequence[str]) -> Any:
    """A row for every set and model: accuracy on originals, on the adversarial texts, and how many turned."""
    from rich.table import Table
    from rich.text import Text

    from robust_tickets.report import format as numbers
    from robust_tickets.report.terminal import first

    heads = ("texts of", "on", "clean", "adversarial", "transfer", "turned")
    before = [f"{models[cell['model']]}: {flag}" for cell in document["cells"] for flag in first(cell)]
    title = "accuracy in %, 95 % intervals below; transfer: turned, of those right before"
    grid = Table(*heads, title=Text("\n".join([*dict.fromkeys(before), title])), title_justify="left")
    flags: dict[str, None] = {}
    for cell in document["cells"]:
        where, model = document["sources"][cell["source"]], models[cell["model"]]
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
