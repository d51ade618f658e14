"""Verbs that use a model or a run: ``attack``, ``predict``, ``report``, ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from robust_tickets.cli.answer import Answer, Common, Settings, Strict
from robust_tickets.cli.making import columns, is_folder
from robust_tickets.errors import TicketsError


def attack(
    model: str,
    *,
    out: Path,
    data: str | None = None,
    task: str | None = None,
    attack: str = "pwws",
    n: int = 200,
    seed: int = 0,
    text: str | None = None,
    label: str | None = None,
    split: str | None = None,
    token_budget: int | None = None,
    query_budget: int | None = None,
    strict: Strict = False,
    set: Settings = (),
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Attack a classifier on labelled texts; the same command again resumes or finds it done.

    Parameters
    ----------
    model
        A folder or a Hub id of a sequence classifier (`tickets ls backbones`), RUN:ARM of a run, or an exported ONNX file or folder.
    out
        The folder for result.json and examples.jsonl.
    data
        A file of texts and labels, all of whose rows may be attacked; or the local files of --task.
    task
        A registered task instead of a file: its attacked split.
    attack
        `tickets ls attacks`.
    n
        How many examples, class-balanced; 0 for all.
    seed
        Which examples.
    text
        The text column; a pair as premise,hypothesis.
    label
        The label column.
    split
        Another split than the one the task attacks.
    token_budget
        Padded tokens in one forward pass; changes speed and memory, not results.
    query_budget
        At most so many queries an example.
    """
    from robust_tickets.config import build_component
    from robust_tickets.data.load import load_task
    from robust_tickets.walk.recipe import tree_of
    from robust_tickets.walk.stages import announce

    if data is None and task is None:
        raise TicketsError("attack: which texts? neither --data nor --task is given", hint="--data FILE with a text and a label column")
    is_folder(out)
    configured = build_component("attacks", {"name": attack, **tree_of(set)}, attack)
    victim = _open(model)
    options: dict[str, Any] = {"labels": victim.labels} | ({"data": data} if task else {})
    if not task and Path(str(data)).is_file():
        options["splits"] = {"test": "all"}
    loaded = announce(load_task(task or str(data), text=columns(text), label=label, strict=strict, **options))
    rows = loaded.split(split) if split else loaded.test
    result = configured(
        victim, rows, n=n, seed=seed, labels=loaded.labels, folder=out, token_budget=token_budget, query_budget=query_budget
    )  # fmt: skip
    told = result.to_json()

    def show(console: Any) -> None:
        from robust_tickets.report.terminal import attack_table

        console.print(attack_table(told))
        print(f"result: {out / 'result.json'}")

    return Answer(data=told, show=show)


def predict(
    model: str,
    *,
    data: Path,
    out: Path,
    text: str | None = None,
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Label a file of texts: one row out for every row in.

    Parameters
    ----------
    model
        A folder or a Hub id of a sequence classifier (`tickets ls backbones`), RUN:ARM of a run, or an exported ONNX file or folder.
    data
        A csv, tsv, jsonl or parquet file.
    out
        A csv, tsv, jsonl or parquet file with the texts, the label and every class's probability.
    text
        The text column; a pair as premise,hypothesis.
    """
    from robust_tickets.ship.predict import predict_file

    told = predict_file(_open(model), data, out, text=columns(text))

    def show(console: Any) -> None:
        counts = ", ".join(f"{label} {count}" for label, count in told["labels"].items())
        console.print(
            f"{told['rows']} rows: {counts}" + (f"; {told['bad']} bad rows left without a label" if told["bad"] else ""), markup=False
        )
        print(f"predictions: {out}")

    return Answer(data=told, show=show)


def report(*runs: Path, out: Path | None = None, common: Common = Common()) -> Answer:  # noqa: B008
    """Write the page of one or more runs.

    Parameters
    ----------
    runs
        Run folders (`tickets ls runs`).
    out
        The HTML file; by default report.html in the first run's folder.
    """
    from robust_tickets.report.page import write_report

    if not runs:
        raise TicketsError("report: no run folder given", hint="`tickets ls runs` lists them")
    if out is None and len(runs) > 1:
        raise TicketsError("report: where should the page of several runs go?", hint="--out report.html")
    page = out or runs[0] / "report.html"
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
    from robust_tickets.classifier import Classifier
    from robust_tickets.ship.evidence import evidence_of
    from robust_tickets.ship.export import export as write

    path = _model(model)
    folder = write(Classifier.from_pretrained(path if path.exists() else model), out, format=format, evidence=evidence_of(path))
    return Answer(data={"model": str(folder), "format": format}, show=lambda console: print(f"model: {folder}"))


def _open(model: str) -> Any:
    """A classifier from a folder, a Hub id or an exported ONNX file."""
    from robust_tickets.classifier import Classifier
    from robust_tickets.ship.onnx import open_onnx

    path = _model(model)
    if path.suffix == ".onnx" or (path / "model.onnx").is_file():
        return open_onnx(path)
    return Classifier.from_pretrained(path if path.exists() else model)


def _model(model: str) -> Path:
    """A run folder stands for its model, ``RUN:ARM`` for that of one arm."""
    from robust_tickets.walk.runner import model_folder

    run, _, arm = model.rpartition(":")
    if run and not Path(model).exists() and (Path(run) / "arms.json").is_file():
        return model_folder(Path(run), arm)
    if run and len(run) > 1 and not Path(model).exists():  # C: is no run; no Hub id has a colon
        what = "is not finished" if (Path(run) / "config.json").is_file() else "is no run folder"
        raise TicketsError(
            f"{model}: {run} {what}", hint="`tickets ls runs` lists them; an unfinished one goes on with the command that began it"
        )
    return model_folder(Path(model)) if (Path(model) / "arms.json").is_file() else Path(model)
