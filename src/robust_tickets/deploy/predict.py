"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why.

Written are the line, the columns of the file under their own names, the texts first, then ``predicted``, ``p_<label>`` of every class
and ``problem``. Where the file already has a column of one of these names, the written one gets underscores behind it until it is free.
A row whose text the classifier cannot answer is a bad row too, unless it answers nothing any more. Answers are kept beside the file until
it is whole, so that the same call resumes after a kill, and then writes what an undisturbed one writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from robust_tickets.attack.scheduler import answers, fatal
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import TOKEN_BUDGET, as_classifier, in_halves, probabilities, reason_of
from robust_tickets.classifier.callable import PROBES, UNSTEADY
from robust_tickets.classifier.encode import clean
from robust_tickets.data.arrow_tables import text_problem
from robust_tickets.data.readers import BROKEN_UTF8, Rows, open_rows, to_utf8
from robust_tickets.data.schema import LABELS, text_columns
from robust_tickets.errors import BAD_INPUT, FAILED, TicketsError
from robust_tickets.files import check_writable, mapping
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.progress import Bar, say, track, warn
from robust_tickets.tabular import row_writer, writable_as

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = 2
AT_ONCE = 2048  # rows in memory
HOPELESS = 20  # texts that failed in a row: the cause may not be in them
MOST = 1000  # different reasons that are kept apart; an error message may hold the text itself


class Text(NamedTuple):
    """A row of a file: its text columns and its other ones, each None where it could not be read, and what is wrong with it."""

    line: int
    columns: tuple[Any, ...]
    rest: tuple[Any, ...]
    problem: str


class Answer(NamedTuple):
    """The number of the class, and the probability of every class as it is written."""

    label: int
    scores: list[float]


class Answers(Lines):
    """The answers to rows, kept in a file; ``key`` is what they depend on. A line holds a batch, lines lie in the order of their chunks."""

    def __init__(self, out: Path, key: Mapping[str, Any]) -> None:
        self.out, self.classes, self.header = out, len(key["labels"]), {"schema": SCHEMA, **key}
        self.count = self.batches = 0  # rows that are answered, and the lines that earlier calls left
        super().__init__(out.with_name(f"{out.name}.answers.part"), self.header)

    def busy(self) -> TicketsError:
        hint = "wait for it, or give another file"
        message = f"another process is predicting into {self.out}"
        return TicketsError(message, hint=hint, exit_code=FAILED, code="predict.busy")

    def other(self, found: Any, header: dict[str, Any]) -> None:
        differ = ", ".join(name for name, value in header.items() if mapping(found).get(name) != value)
        warn(f"the answers in {self.part} have another {differ}: starting over")

    def start_over(self) -> None:
        """Forget what earlier calls left."""
        self.count = self.batches = 0
        self._begin(self.header)

    def take(self, line: bytes, place: int) -> bool:
        found = self._parsed(line)
        self.count, self.batches = self.count + len(found), self.batches + bool(found)
        return bool(found)

    def _parsed(self, line: bytes) -> dict[int, Answer]:
        """The answers of a line by row; none where it is damaged."""
        try:
            found = {number: Answer(label, scores) for number, label, scores in zip(*loaded(line), strict=True)}
            fine = all(0 <= answer.label < self.classes == len(answer.scores) for answer in found.values())
        except (TypeError, ValueError):
            return {}
        return found if fine else {}

    def earlier(self) -> Iterator[dict[int, Answer]]:
        """What earlier calls answered, line by line."""
        with self.reader() as lines:
            for line in islice(lines, 1, 1 + self.batches):
                yield self._parsed(line)

    def chunks(self) -> Iterator[dict[int, Answer]]:
        """What earlier calls answered, chunk by chunk, without end."""
        end, found = AT_ONCE, dict[int, Answer]()
        for line in self.earlier():
            while min(line) >= end:
                yield found
                end, found = end + AT_ONCE, {}
            found |= line
        yield found
        while True:
            yield {}

    def add(self, answers: Mapping[int, Answer]) -> None:
        labels, scores = zip(*answers.values(), strict=True)
        self.append(to_line([list(answers), labels, scores]))
        self.count += len(answers)

    def leave(self) -> None:
        """Keep the answers: the call ends before the prediction does."""
        if not self.count:
            self.remove()
            return
        self.close()
        say(f"predict: {self.count} answers are kept in {self.part}: the same command resumes")


class Asker:
    """Asks a classifier about the texts of one chunk after another: where a call fails, in halves until the text at fault is found."""

    def __init__(self, clf: Classifier, kept: Answers, bar: Bar) -> None:
        # halved here alone: a prediction that is resumed asks in the same batches, whatever failed before
        self.clf, self.kept, self.bar = clf.fresh(), kept, bar
        self.failed = 0  # texts since the last answer
        self.problem: Exception | None = None  # the last one

    def __call__(self, texts: Mapping[int, tuple[str, ...]], found: dict[int, Answer]) -> dict[int, str]:
        """Add the answers to ``found`` that are not there; returns what went wrong with the others, by the number of the row."""
        problems: dict[int, str] = {}

        def ask(numbers: list[int]) -> list[None]:
            left = [number for number in numbers if number not in found]
            rows = self.clf.encode([texts[number] for number in left])
            for where in self.clf.batches([row.size for row in rows], TOKEN_BUDGET):
                p = probabilities(self.clf.forward([rows[i] for i in where]).numpy())
                scores = [[round(x, 6) for x in row] for row in p.tolist()]
                new = dict(zip([left[i] for i in where], map(Answer, p.argmax(axis=1).tolist(), scores), strict=True))
                self.kept.add(new)
                found.update(new)
                self.failed = 0
                self.bar.advance(len(new))
            return []

        def fail(number: int, problem: Exception) -> None:
            """Texts come by size, so those of one kind may fail together: then an ordinary text shows whether it still answers."""
            self.failed, self.problem = self.failed + 1, problem
            problems[number] = reason_of(problem)
            self.bar.advance()
            if self.failed % HOPELESS == 0 and not answers(self.clf, len(texts[number])):
                raise self.gone()

        in_halves(ask, list(texts), fail, ends=fatal)
        return problems

    def gone(self) -> TicketsError:
        """The error of a classifier that answers nothing any more."""
        assert self.problem is not None
        if isinstance(self.problem, TicketsError):
            return self.problem
        message = (
            f"{self.clf.identity} failed on text after text, at last with {' '.join(reason_of(self.problem).split())}"
        )
        hint = "see that it answers one of the texts, then give the same command again"
        error = TicketsError(message, hint=hint, exit_code=FAILED, code="predict.failed")
        error.__cause__ = self.problem
        return error


def open_texts(
    path: str | Path, text: str | Sequence[str] | None = None, like: Sequence[str] = ()
) -> tuple[Rows, tuple[str, ...]]:
    """The reader of ``path`` and its text columns: those given, else those called as in ``like``, else the only reading possible."""
    rows = open_rows(Path(path).expanduser())
    if text is None and like and all(name in rows.columns for name in like):
        text = tuple(like)
    return rows, text_columns(rows, text, but=LABELS)


def read_texts(rows: Rows, columns: tuple[str, ...], rest: tuple[str, ...] = ()) -> Iterator[Text]:
    """The rows of a file one by one."""
    for record in rows.records((*columns, *rest)):
        values = record.values or (None,) * len((*columns, *rest))
        texts, others = values[: len(columns)], values[len(columns) :]
        problem = record.problem or next(filter(None, map(text_problem, texts)), "")
        others = tuple(clean(value) if isinstance(value, str) else value for value in others)
        yield Text(record.line, (None,) * len(columns) if problem else texts, others, problem)


def predict(
    clf: Classifier, data: str | Path, out: str | Path, *, text: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """Label the texts of the file ``data``: write ``out`` and return counts, also of why rows got no label.

    The format follows the ending of ``out``. ``text`` names the text column, or the two of a pair.
    """
    as_classifier(clf, "asked")
    data, out = Path(data).expanduser(), Path(out).expanduser()
    rows, columns = open_texts(data, text, like=clf.columns)
    clf.check_columns(columns, data.name)
    writable_as(out)
    check_writable(out.parent)
    if out.exists() and out.samefile(data):
        raise TicketsError(f"{out} is the file to read from", hint="write to another file", code="predict.same_file")
    key = {
        "data": rows.key(),
        "columns": list(columns),
        "labels": list(clf.labels),
        "device": clf.device.type,
        "model": clf.digest,
        "batches": [AT_ONCE, TOKEN_BUDGET],
    }
    kept = Answers(out, key)
    try:
        if kept.count:
            _check_answers(clf, kept, rows, columns)
        result = _write(clf, rows, columns, out, kept)
    except BaseException:
        kept.leave()
        raise
    kept.remove()
    return result


def _check_answers(clf: Classifier, kept: Answers, rows: Rows, columns: tuple[str, ...]) -> None:
    """Ask a function about a few rows again: one that gives other answers is another, and all rows are asked about anew."""
    before = dict(islice((pair for line in kept.earlier() for pair in line.items()), PROBES))
    stream = enumerate(islice(read_texts(rows, columns), max(before) + 1))
    texts = {number: row.columns for number, row in stream if number in before}
    again = clf.probe(texts.values())[0]  # none of a model, None where it failed
    for number, new in zip(texts, again, strict=False):
        if new and any(abs(a - b) > UNSTEADY for a, b in zip(before[number].scores, new, strict=True)):
            warn(f"the answers in {kept.part} are not those that {clf.identity} gives now: starting over")
            kept.start_over()
            return
    say(f"predict: {kept.count} rows were answered before and are taken over")


def _write(clf: Classifier, rows: Rows, columns: tuple[str, ...], out: Path, kept: Answers) -> dict[str, Any]:
    rest = tuple(name for name in dict.fromkeys(rows.columns) if name not in columns)
    schema = _schema(columns, rest, clf.labels)
    none = (None,) * len(clf.labels)
    counts, reasons, total, unanswered = Counter(dict.fromkeys(clf.labels, 0)), Counter[str](), 0, 0
    with row_writer(out, schema) as write, track("predict", rows.count(), kept.count) as bar:
        ask, stream, known = Asker(clf, kept, bar), read_texts(rows, columns, rest), kept.chunks()
        while chunk := dict(enumerate(islice(stream, AT_ONCE), total)):
            total += len(chunk)
            readable = {number: row.columns for number, row in chunk.items() if not row.problem}
            bar.advance(len(chunk) - len(readable))
            found = next(known)
            problems = ask(readable, found)
            written = []
            for number, row in chunk.items():
                label = scores = problem = None
                if number in found:
                    label, scores = clf.labels[found[number].label], found[number].scores
                    counts[label] += 1
                else:
                    problem = row.problem or problems[number]
                    reasons[problem if problem in reasons or len(reasons) < MOST else "other reasons"] += 1
                    unanswered += not row.problem
                values = (row.line, *row.columns, *row.rest, label, *(scores or none), problem)
                written.append(dict(zip(schema.names, values, strict=True)))
            write(written)
        if ask.problem is not None and not counts.total():
            raise ask.gone()
    bad = reasons.total()
    hint = "see what is wrong with each row in the column of problems" if bad else ""
    return {
        "out": str(out),
        "rows": total,
        "labels": dict(counts),
        "columns": list(columns),
        "written": schema.names,
        "bad": bad,
        "unanswered": unanswered,  # rows that could be read
        "reasons": [{"problem": reason, "rows": count} for reason, count in reasons.most_common()],
        "hint": to_utf8(rows.path) if 2 * reasons[BROKEN_UTF8] > bad else hint,
        # a script must not take a file for a result in which more than half of the rows have no label
        "exit_code": 0 if 2 * bad <= total else FAILED if 2 * unanswered > bad else BAD_INPUT,
    }


def _schema(texts: tuple[str, ...], rest: tuple[str, ...], labels: Sequence[str]) -> pa.Schema:
    """The columns of the written file: a name of ours that the read one has gets underscores until it is free."""
    import pyarrow as pa

    ours = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
    taken = {*texts, *rest, *ours}
    for i, name in enumerate(ours):
        if name in (*texts, *rest):
            while name in taken:
                name += "_"
            taken.add(name)
            ours[i] = name
    line, predicted, *scores, problem = ours
    kinds = {line: pa.int64(), **dict.fromkeys(scores, pa.float64())}
    names = (line, *texts, *rest, predicted, *scores, problem)
    return pa.schema([(name, kinds.get(name, pa.string())) for name in names])
