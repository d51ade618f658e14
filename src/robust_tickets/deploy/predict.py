"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why.

Written are the line, the columns of the file under their own names, the texts first, then ``predicted``, ``p_<label>`` of every class
and ``problem``. Where the file already has a column of one of these names, the written one gets underscores behind it until it is free.
Values keep their types in jsonl; elsewhere what is no text is written as JSON. A row whose text the classifier cannot answer is a bad
row too, unless so many fail one after another that the cause is not in the texts. Answers are kept beside the file until it is whole, so
that the same call goes on after a kill, and then writes what an undisturbed one writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from robust_tickets.classifier.core import TOKEN_BUDGET
from robust_tickets.classifier.given import a_classifier
from robust_tickets.classifier.probing import PROBES, UNSTEADY, probed
from robust_tickets.classifier.texts import clean
from robust_tickets.data.readers import Rows
from robust_tickets.deploy.answers import Answers
from robust_tickets.deploy.asking import Asking, GoneError
from robust_tickets.deploy.data_unlabelled import Unlabelled, open_texts, read_texts
from robust_tickets.deploy.ship_unlabelled import Reasons
from robust_tickets.deploy.written import Named, Row
from robust_tickets.errors import TicketsError
from robust_tickets.progress import say, track
from robust_tickets.tabular import row_writer, writable_as

AT_ONCE = 2048  # rows in memory


def predict(clf: Any, data: str | Path, out: str | Path, *, text: str | Sequence[str] | None = None) -> dict[str, Any]:
    """Label the texts of the file ``data``: write ``out`` and return counts, also of why rows got no label.

    The format follows the ending of ``out``. ``text`` names the text column, or the two of a pair.
    """
    a_classifier(clf, "to ask")
    for what, path in (("to read", data), ("to write", out)):
        if not isinstance(path, str | PathLike):
            hint = "texts in memory are asked about by clf.predict(texts), which returns labels and probabilities"
            raise TicketsError(f"expected the path of a file {what}, got a {type(path).__name__}", hint=hint)
    data, out = Path(data), Path(out)
    rows, columns = open_texts(data, text, like=clf.columns)
    clf.check_columns(columns, data.name)
    writable_as(out)
    if out.exists() and data.exists() and out.samefile(data):
        raise TicketsError(f"{out} is the file to read from", hint="write to another file")
    rest = tuple(name for name in dict.fromkeys(rows.columns) if name not in columns)
    named = Named.beside(columns, rest, clf.labels)
    _make_folder(out)
    kept = _kept(clf, rows, columns, out)
    try:
        if kept.count:
            _known_again(clf, kept, open_texts(data, text, like=clf.columns)[0], columns)
        told = _predict(clf, rows, columns, named, out, kept)
    except BaseException as problem:
        kept.leave()
        if isinstance(problem, GoneError):
            raise problem.problem from None
        raise
    kept.remove()
    return told | told.pop("reasons").told(data)


def _make_folder(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TicketsError(
            f"cannot make the folder {out.parent} for {out.name}: {problem.strerror}", hint="write elsewhere"
        ) from None


def _kept(clf: Any, rows: Rows, columns: tuple[str, ...], out: Path) -> Answers:
    """The answers of an earlier call. How a function is called (batches, retries, …) does not bind them: that one may want to change."""
    key = {
        "data": rows.key(),
        "columns": list(columns),
        "labels": list(clf.labels),
        "device": clf.device.type,
        "model": clf.digest,
    }
    return Answers(out, {**key, "batches": [AT_ONCE, TOKEN_BUDGET]}, rows.count())


def _known_again(clf: Any, kept: Answers, rows: Rows, columns: tuple[str, ...]) -> None:
    """Ask a callable about a few rows again: one that gives other answers is another. An undisturbed call is spared that."""
    stream = (
        (n, row.texts)
        for n, row in enumerate(read_texts(rows, columns))
        if n < len(kept.places) and kept.places[n] >= 0
    )
    asked = dict(islice(stream, PROBES))
    before = kept.of(list(asked))
    pairs = zip(before.values(), probed(clf, asked.values())[0], strict=False)  # none of a model, None where it failed
    if any(abs(a - b) > UNSTEADY for old, new in pairs if new for a, b in zip(old.scores, new, strict=True)):
        kept.begin_anew(f"a function that gave other answers than {clf.identity.partition(':')[2]} does now")
    else:
        say(f"predict: {kept.count} of {len(kept.places)} rows were answered before and are taken over")


def _predict(clf: Any, rows: Rows, columns: tuple[str, ...], named: Named, out: Path, kept: Answers) -> dict[str, Any]:
    counts: Counter[str] = Counter(dict.fromkeys(clf.labels, 0))
    total, reasons = 0, Reasons()
    with row_writer(out, named.schema()) as write, track("predict", len(kept.places), kept.count) as bar:
        ask = Asking(clf, kept, bar)
        stream = read_texts(rows, columns, named.rest)
        while chunk := list(islice(stream, AT_ONCE)):
            bar.advance(sum(1 for row in chunk if row.problem))
            answers = _label(ask, total, chunk, named)
            write(answers)
            counts.update(row[named.predicted] for row in answers if row[named.predicted] is not None)
            for given, row in zip(chunk, answers, strict=True):
                if row[named.predicted] is None:
                    reasons.add(str(row[named.problem]), readable=not given.problem)
            total += len(answers)
        if ask.problem is not None and not sum(counts.values()):  # not one answer
            raise GoneError(ask.problem)
    told = {"out": str(out), "rows": total, "labels": dict(counts), "columns": list(columns), "written": named.all}
    return {**told, "reasons": reasons, "exit_code": reasons.exit_code(total)}


def _label(ask: Asking, first: int, chunk: Sequence[Unlabelled], named: Named) -> list[Row]:
    asked = {number: row.texts for number, row in enumerate(chunk, first) if not row.problem}
    found, problems = ask(list(asked), list(asked.values()))
    answers = []
    for number, row in enumerate(chunk, first):
        texts = dict(zip(named.texts, row.texts or [None] * len(named.texts), strict=True))
        others = [clean(value) if isinstance(value, str) else value for value in row.rest]
        rest = dict(zip(named.rest, others or [None] * len(named.rest), strict=True))
        told = found.get(number)
        scores = dict(zip(named.scores, told.scores if told else [None] * len(named.scores), strict=True))
        label = ask.clf.labels[told.label] if told else None
        problem = None if told else row.problem or problems[number]
        answers.append(
            {named.line: row.line, **texts, **rest, named.predicted: label, **scores, named.problem: problem}
        )
    return answers
