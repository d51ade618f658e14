"""Verbs that use a model or a run: ``attack``, ``predict``, ``report``, ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from robust_tickets.attack.failures import MAX_FAILED
from robust_tickets.attack.limits import check_failed, check_numbers
from robust_tickets.cli.answer import Answer, Common, MaxFailed, Settings, Strict
from robust_tickets.cli.early import flag, look_for
from robust_tickets.cli.making import columns, is_folder
from robust_tickets.cli.opening import Opening, is_function, mapped, number_or_word
from robust_tickets.errors import FAILED, TicketsError
from robust_tickets.progress import say, warn

REASONS = 5  # for which rows got no label, in the terminal; the JSON has them all


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
    from robust_tickets.attack.chosen import short_of
    from robust_tickets.attack.tables import checked
    from robust_tickets.config import build_component
    from robust_tickets.data.load import load_task
    from robust_tickets.experiment.execute import announce
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
    from robust_tickets.classifier.heads import unnamed
    from robust_tickets.data.schema import match

    mapped_to = dict(match(tuple(label_map), labels, "the label map", label_map=label_map).ids)
    names = map(str, range(len(labels))) if unnamed(labels) else labels
    return mapped_to | {name: i for i, name in enumerate(names) if i not in mapped_to.values()}


def predict(
    model: str,
    *,
    data: Path,
    out: Path,
    text: str | None = None,
    opening: Opening = Opening(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Label a file of texts: one row out for every row in; the same command again goes on where it was stopped.

    Exits with 2 where more than half of the rows could not be read, with 3 where the model failed on them. The file is written all the
    same, unless the model answers nothing, or fails on so many texts in a row that it must be gone. Until the file is whole, answers are
    kept in OUT.answers.part beside it; the same command takes them over, unless the data, the model, the labels or the columns changed.

    Parameters
    ----------
    model
        A folder or a Hub id of any transformers sequence classifier, RUN:ARM of a run, an ONNX file or folder, or package.module:function.
    data
        A csv, tsv, jsonl or parquet file.
    out
        A csv, tsv, jsonl or parquet file with the rows of the first, and the label and every class's probability of each.
    text
        The text column; a pair as premise,hypothesis.
    """
    from robust_tickets.attack.failures import said
    from robust_tickets.deploy.predict import predict as label_file

    look_for(data)
    say(f"loading {model}")
    victim = opening.open(model, columns(text))
    try:
        told = label_file(victim, data, out, text=columns(text))
    except TicketsError:
        raise
    except Exception as problem:  # a function's own; of a few texts it would have cost their rows
        if not is_function(model):
            raise
        raise TicketsError(
            f"predict: {model} failed on text after text, the last time with {' '.join(said(problem).split())}; {out} is not written",
            hint="see that it answers one of the texts, then give the same command again; --retries tries a call again",
            exit_code=FAILED,
        ) from problem

    def show(console: Any) -> None:
        counts = ", ".join(f"{label} {count}" for label, count in told["labels"].items())
        print(
            f"{told['rows']} rows: {counts}"
            + (f"; {_rows(told['bad'], 'bad ')} left without a label:" if told["bad"] else "")
        )
        for reason in told["reasons"][:REASONS]:
            print(
                f"  {' '.join(reason['problem'].split())} ({_rows(reason['rows'])})"
            )  # an error message may have several lines
        if len(told["reasons"]) > REASONS:
            print(f"  … and {len(told['reasons']) - REASONS} other reasons")
        if told["hint"]:
            print(f"  what to do: {told['hint']}")
        print(f"predictions: {out}")

    if told["exit_code"]:
        warn(f"predict: more than half of the rows got no label ({told['bad']} of {told['rows']})")
    return Answer(data=told, show=show, exit_code=told["exit_code"])


def _rows(count: int, kind: str = "") -> str:
    return f"{count} {kind}row{'s' * (count != 1)}"


def report(*runs: Path, out: Path | None = None, common: Common = Common()) -> Answer:  # noqa: B008
    """Write the page of one or more runs or attacks.

    Parameters
    ----------
    runs
        Run folders (`tickets ls runs`), and folders that `tickets attack` wrote; those share one comparison.
    out
        The HTML file; by default report.html in the folder.
    """
    from robust_tickets.report.html import write_report

    if not runs:
        raise TicketsError("report: no run or attack folder given", hint="`tickets ls runs` lists them")
    if out is None and len(runs) > 1:
        raise TicketsError("report: where should the page of several folders go?", hint="--out report.html")
    page = out or runs[0] / "report.html"
    if page.is_dir():
        raise TicketsError(
            f"report: --out {page} is a folder", hint=f"give the file to write: --out {page / 'report.html'}"
        )
    write_report(page, list(runs))
    return Answer(data={"report": str(page)}, show=lambda console: print(f"report: {page}"))


def export(
    model: str,
    *,
    out: Path,
    format: Literal["compact", "dense", "onnx"] = "compact",
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Write a model for others to load: compact (needs robust_tickets), dense (plain transformers, zeros) or ONNX.

    Parameters
    ----------
    model
        A folder of a trained model, or RUN:ARM of a run.
    out
        The folder to write.
    format
        compact, dense or onnx.
    """
    say(f"loading {model}")
    from robust_tickets.classifier import Classifier
    from robust_tickets.classifier.place import model_path
    from robust_tickets.deploy.evidence import evidence_of
    from robust_tickets.deploy.export import export as write

    path = model_path(model)
    clf = Classifier.from_pretrained(path if path.exists() else model)
    say(
        f"writing {out}"
        + (": the graph is traced, then its answers are compared with the model's" if format == "onnx" else "")
    )
    folder = write(clf, out, format=format, evidence=evidence_of(path))
    return Answer(data={"model": str(folder), "format": format}, show=lambda console: print(f"model: {folder}"))
