"""The verbs that write a model, its answers or a page: ``export``, ``predict``, ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from robust_tickets.cli.options import Answer, Common, Opening, columns, look_for
from robust_tickets.errors import TicketsError
from robust_tickets.progress import say, warn

REASONS = 5  # for which rows got no label, in the terminal; the JSON has them all


def predict(
    model: str,
    *,
    data: Path,
    out: Path,
    text: str | None = None,
    opening: Opening = Opening(),  # noqa: B008
    common: Common = Common(),  # noqa: B008
) -> Answer:
    """Label a file of texts: one row out for every row in; the same command again resumes where it was stopped.

    Exits with 2 where more than half of the rows could not be read, with 3 where the model failed on them. The file is written all the
    same, unless the model answers nothing, or no ordinary text any more. Until the file is whole, answers are kept in OUT.answers.part
    beside it; the same command takes them over, unless the data, the model, the labels or the columns changed.

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
    look_for(data)
    say(f"loading {model}")
    from robust_tickets.deploy.predict import predict as label_file

    result = label_file(opening.open(model, columns(text)), data, out, text=columns(text))

    def show(console: Any) -> None:
        counts = ", ".join(f"{label} {count}" for label, count in result["labels"].items())
        print(f"rows: {result['rows']} ({counts}; without a label {result['bad']})")
        for reason in result["reasons"][:REASONS]:
            print(f"  {reason['rows']}: {' '.join(reason['problem'].split())}")  # which may have several lines
        if result["hint"]:
            print(f"  what to do: {result['hint']}")
        print(f"predictions: {out}")

    if result["exit_code"]:
        warn(f"predict: more than half of the rows got no label ({result['bad']} of {result['rows']})")
    return Answer(data=result, show=show, exit_code=result["exit_code"])


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
    from robust_tickets.classifier.loading import model_path
    from robust_tickets.deploy.card import evidence_of
    from robust_tickets.deploy.export import export as write

    path = model_path(model)
    clf = Classifier.from_pretrained(path if path.exists() else model)
    say(f"writing {out}")
    folder = write(clf, out, format=format, evidence=evidence_of(path))
    return Answer(data={"model": str(folder), "format": format}, show=lambda console: print(f"model: {folder}"))


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
        hint = "`tickets ls runs` lists them"
        raise TicketsError("report: no run or attack folder given", hint=hint, code="usage.missing")
    if out is None and len(runs) > 1:
        message = "report: where should the page of several folders go?"
        raise TicketsError(message, hint="--out report.html", code="usage.missing")
    page = out or runs[0] / "report.html"
    if page.is_dir():
        hint = f"give the file to write: --out {page / 'report.html'}"
        raise TicketsError(f"report: --out {page} is a folder", hint=hint, code="usage.out")
    write_report(page, list(runs))
    return Answer(data={"report": str(page)}, show=lambda console: print(f"report: {page}"))
