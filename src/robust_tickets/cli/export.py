"""The verbs ``predict`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from robust_tickets.cli.options import Answer, Common, Opening, columns, is_function, look_for
from robust_tickets.errors import FAILED, TicketsError
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
    from robust_tickets.classifier.base import reason_of
    from robust_tickets.deploy.predict import predict as label_file

    look_for(data)
    say(f"loading {model}")
    victim = opening.open(model, columns(text))
    try:
        result = label_file(victim, data, out, text=columns(text))
    except TicketsError:
        raise
    except Exception as problem:  # a function's own; of a few texts it would have cost their rows
        if not is_function(model):
            raise
        raise TicketsError(
            f"predict: {model} failed on text after text, the last time with {' '.join(reason_of(problem).split())}; {out} is not written",
            hint="see that it answers one of the texts, then give the same command again; --retries tries a call again",
            exit_code=FAILED,
            code="predict.failed",
        ) from problem

    def show(console: Any) -> None:
        counts = ", ".join(f"{label} {count}" for label, count in result["labels"].items())
        print(
            f"{result['rows']} rows: {counts}"
            + (f"; {_rows(result['bad'], 'bad ')} left without a label:" if result["bad"] else "")
        )
        for reason in result["reasons"][:REASONS]:
            # an error message may have several lines
            print(f"  {' '.join(reason['problem'].split())} ({_rows(reason['rows'])})")
        if len(result["reasons"]) > REASONS:
            print(f"  … and {len(result['reasons']) - REASONS} other reasons")
        if result["hint"]:
            print(f"  what to do: {result['hint']}")
        print(f"predictions: {out}")

    if result["exit_code"]:
        warn(f"predict: more than half of the rows got no label ({result['bad']} of {result['rows']})")
    return Answer(data=result, show=show, exit_code=result["exit_code"])


def _rows(count: int, kind: str = "") -> str:
    return f"{count} {kind}row{'s' * (count != 1)}"


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
    say(
        f"writing {out}"
        + (": the graph is traced, then its answers are compared with the model's" if format == "onnx" else "")
    )
    folder = write(clf, out, format=format, evidence=evidence_of(path))
    return Answer(data={"model": str(folder), "format": format}, show=lambda console: print(f"model: {folder}"))
