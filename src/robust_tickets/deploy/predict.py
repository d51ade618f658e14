"""Label a file of texts, streamed: every row in gives one row out, in order; a bad row gets no label and says why.

Written are the line, the columns of the file under their own names, the texts first, then ``predicted``, ``p_<label>`` of every class
and ``problem``. Where the file already has a column of one of these names, the written one gets underscores behind it until it is free.
Values keep their types in jsonl; elsewhere what is no text is written as JSON. A row whose text the classifier cannot answer is a bad
row too, unless so many fail one after another that the cause is not in the texts. Answers are kept beside the file until it is whole, so
that the same call resumes after a kill, and then writes what an undisturbed one writes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from os import PathLike
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
from robust_tickets.jsonl_log import Lines, loaded, to_line
from robust_tickets.progress import Bar, say, track, warn
from robust_tickets.tabular import row_writer, writable_as

if TYPE_CHECKING:
    import pyarrow as pa


SCHEMA = 1
OF = {
    "data": "another data file",
    "columns": "other text columns",
    "labels": "other labels",
    "device": "another device",
    "model": "another model",
}


class Answer(NamedTuple):
    """The number of the class, and the probability of every class as it is written."""

    label: int
    scores: list[float]


class Answers(Lines):
    """``key`` is what the answers depend on, ``rows`` how many the data file has."""

    def __init__(self, out: Path, key: dict[str, Any], rows: int) -> None:
        self.out, self.classes, self.count = out, len(key["labels"]), 0
        self.offsets = array("q", [-1]) * rows  # where the line with a row's answer begins, of an earlier call
        self.header = {"schema": SCHEMA, **key}
        super().__init__(out.with_name(f"{out.name}.answers.part"), self.header)

    def busy(self) -> TicketsError:
        return TicketsError(
            f"another process is predicting into {self.out}",
            hint="wait for it, or give another file",
            exit_code=FAILED,
            code="predict.busy",
        )

    def other(self, found: Any, header: dict[str, Any]) -> None:
        before = found if isinstance(found, dict) else {}
        self._warn_of(
            next(
                (what for name, what in OF.items() if before.get(name) != header[name]),
                "another version of this program",
            )
        )

    def _warn_of(self, of: str) -> None:
        warn(f"the answers in {self.part} are of {of}: starting over")

    def start_over(self, of: str) -> None:
        """Forget what was taken up: it is ``of`` something else."""
        self._warn_of(of)
        self.offsets, self.count = array("q", [-1]) * len(self.offsets), 0
        with self._errors():
            self._begin(self.header)

    def take(self, line: bytes, place: int) -> bool:
        found = self._parts(line)
        for number in found:
            self.count += self.offsets[number] < 0
            self.offsets[number] = place
        return bool(found)

    def _parts(self, line: bytes) -> dict[int, Answer]:
        """The answers of a line by row; none where it is damaged."""
        try:
            found = {number: Answer(label, scores) for number, label, scores in zip(*loaded(line), strict=True)}
            fine = all(
                0 <= n < len(self.offsets) and 0 <= a.label < self.classes == len(a.scores) for n, a in found.items()
            )
        except (TypeError, ValueError):
            return {}
        return found if fine else {}

    def of(self, numbers: Sequence[int]) -> dict[int, Answer]:
        """What earlier calls answered of these rows."""
        known = [n for n in numbers if n < len(self.offsets) and self.offsets[n] >= 0] if self.count else []
        if not known:
            return {}
        found: dict[int, Answer] = {}
        with self._errors(), self.reader() as lines:
            for place in sorted({self.offsets[number] for number in known}):
                lines.seek(place)
                found |= self._parts(lines.readline())
        return {number: found[number] for number in known}

    def add(self, numbers: list[int], answers: Iterable[Answer]) -> None:
        labels, scores = zip(*answers, strict=True)
        with self._errors():
            self._write(to_line([numbers, labels, scores]))
        self.count += len(numbers)

    def leave(self) -> None:
        """The call ends before the prediction does."""
        if not self.count:
            self.remove()
            return
        self.close()
        say(f"predict: {self.count} answers are kept in {self.part}: the same command resumes")


HOPELESS = 20  # texts that failed in a row: the cause is not in them


class GoneError(Exception):
    """The classifier answers no more; the last of its errors, under a name that is not taken for an error of writing."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Asking:
    """A classifier that answers text by text: where a batch fails, the texts are halved until the one at fault is found."""

    def __init__(self, clf: Classifier, kept: Answers, bar: Bar) -> None:
        # halved here alone: a prediction that is resumed asks in the same batches, whatever failed before
        self.clf, self.kept, self.bar = clf.unhalved(), kept, bar
        self.found: dict[int, Answer] = {}  # of the texts asked about now
        self.problems: dict[int, str] = {}
        self.problem: Exception | None = None  # the last one
        self.failed = 0  # texts since the last answer
        self.run, self.last = 0, -1  # rows of the file that failed one after another, and the last that did

    def __call__(
        self, numbers: Sequence[int], texts: Sequence[tuple[str, ...]]
    ) -> tuple[dict[int, Answer], dict[int, str]]:
        """The answers, and what went wrong with the others, by row number."""
        self.found, self.problems = self.kept.of(numbers), {}
        in_halves(
            self._ask,
            list(zip(numbers, texts, strict=True)),
            lambda one, problem: self._fail(one[0], len(one[1]), problem),
            ends=fatal,
        )
        if numbers and numbers[-1] in self.found:
            self.run = 0
        return self.found, self.problems

    def _ask(self, asked: list[tuple[int, tuple[str, ...]]]) -> list[None]:
        """One batch after another of those that have no answer yet."""
        left = [(number, text) for number, text in asked if number not in self.found]
        rows = self.clf.encode([text for _, text in left]) if left else []
        for where in self.clf.batches([row.size for row in rows], TOKEN_BUDGET):
            p = probabilities(self.clf.forward([rows[i] for i in where]).numpy())
            scores = [[round(x, 6) for x in row] for row in p.tolist()]
            result = list(map(Answer, p.argmax(axis=1).tolist(), scores))
            numbers = [left[i][0] for i in where]
            self.kept.add(numbers, result)
            self.found.update(zip(numbers, result, strict=True))
            self.failed = 0
            self.bar.advance(len(where))
        return []

    def _fail(self, number: int, columns: int, problem: Exception) -> None:
        """Texts come by size, so those of one kind may fail together: then an ordinary text says whether the classifier is still there."""
        between = any(self.last < row < number for row in self.found)
        self.run, self.last = 1 if between else self.run + 1, number
        self.failed += 1
        self.problem = problem
        if self.failed >= HOPELESS:
            if self.run >= HOPELESS or not answers(self.clf, columns):
                raise GoneError(problem)
            self.failed = 0
        self.problems[number] = reason_of(problem)
        self.bar.advance()


MOST = 1000  # different reasons that are kept apart; an error message may hold the text itself
REST = "other reasons"


@dataclass
class Reasons:
    """Rows without a label, by reason; ``unanswered`` of them could be read, but the classifier gave no answer."""

    counts: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0

    def add(self, reason: str, *, readable: bool) -> None:
        self.counts[reason if reason in self.counts or len(self.counts) < MOST else REST] += 1
        self.unanswered += readable

    @property
    def bad(self) -> int:
        return self.counts.total()

    def exit_code(self, rows: int) -> int:
        """Not 0 where more than half of the rows got no label: a script must not take such a file for a result."""
        if 2 * self.bad <= rows:
            return 0
        return FAILED if 2 * self.unanswered > self.bad else BAD_INPUT

    def summary(self, data: Path) -> dict[str, Any]:
        """For the answer: all reasons, commonest first, and what to do."""
        reasons = [{"problem": reason, "rows": count} for reason, count in self.counts.most_common()]
        return {"bad": self.bad, "unanswered": self.unanswered, "reasons": reasons, "hint": self._hint(data)}

    def _hint(self, data: Path) -> str:
        if not self.bad:
            return ""
        if self.counts[BROKEN_UTF8] * 2 > self.bad:
            return to_utf8(data)
        return "see what is wrong with each row in the column of problems"


class Unlabelled(NamedTuple):
    """A row of a file: ``texts`` is empty where there is a ``problem``, ``rest`` (the other columns) where it could not be read at all."""

    line: int
    texts: tuple[str, ...]
    problem: str
    rest: tuple[Any, ...] = ()


def open_texts(
    path: str | Path, text: str | Sequence[str] | None = None, like: Sequence[str] = ()
) -> tuple[Rows, tuple[str, ...]]:
    """The reader of ``path`` and its text columns: those given, else those called as in ``like``, else the only reading possible."""
    rows = open_rows(Path(path).expanduser())
    if text is None and like and all(name in rows.columns for name in like):
        text = tuple(like)
    return rows, text_columns(rows, text, but=LABELS)


def read_texts(rows: Rows, columns: tuple[str, ...], rest: tuple[str, ...] = ()) -> Iterator[Unlabelled]:
    for record in rows.records((*columns, *rest)):
        texts, others = tuple(record.values[: len(columns)]), tuple(record.values[len(columns) :])
        problem = record.problem or next(filter(None, map(text_problem, texts)), "")
        yield Unlabelled(record.line, () if problem else texts, problem, others)


Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Named:
    """The columns of the written file."""

    texts: tuple[str, ...]
    rest: tuple[str, ...]  # the file's other columns
    line: str
    predicted: str
    scores: tuple[str, ...]  # one for each class, in id order
    problem: str

    @classmethod
    def beside(cls, texts: tuple[str, ...], rest: tuple[str, ...], labels: Sequence[str]) -> Named:
        wished = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
        taken, given = {*texts, *rest, *wished}, []
        for name in wished:
            if name in texts or name in rest:
                while name in taken:
                    name += "_"
                taken.add(name)
            given.append(name)
        return cls(
            texts=texts, rest=rest, line=given[0], predicted=given[1], scores=tuple(given[2:-1]), problem=given[-1]
        )

    @property
    def all(self) -> list[str]:
        return [self.line, *self.texts, *self.rest, self.predicted, *self.scores, self.problem]

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        kinds = {self.line: pa.int64(), **dict.fromkeys(self.scores, pa.float64())}
        return pa.schema([(name, kinds.get(name, pa.string())) for name in self.all])


AT_ONCE = 2048  # rows in memory


def predict(
    clf: Classifier, data: str | Path, out: str | Path, *, text: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """Label the texts of the file ``data``: write ``out`` and return counts, also of why rows got no label.

    The format follows the ending of ``out``. ``text`` names the text column, or the two of a pair.
    """
    as_classifier(clf, "asked")
    for what, path in (("to read", data), ("to write", out)):
        if not isinstance(path, str | PathLike):
            hint = "texts in memory are asked about by clf.predict(texts), which returns labels and probabilities"
            raise TicketsError(
                f"expected the path of a file {what}, got a {type(path).__name__}", hint=hint, code="predict.path"
            )
    data, out = Path(data), Path(out)
    rows, columns = open_texts(data, text, like=clf.columns)
    clf.check_columns(columns, data.name)
    writable_as(out)
    if out.exists() and data.exists() and out.samefile(data):
        raise TicketsError(f"{out} is the file to read from", hint="write to another file", code="predict.same_file")
    rest = tuple(name for name in dict.fromkeys(rows.columns) if name not in columns)
    named = Named.beside(columns, rest, clf.labels)
    _make_folder(out)
    kept = _kept(clf, rows, columns, out)
    try:
        if kept.count:
            _known_again(clf, kept, open_texts(data, text, like=clf.columns)[0], columns)
        result = _predict(clf, rows, columns, named, out, kept)
    except BaseException as problem:
        kept.leave()
        if isinstance(problem, GoneError):
            raise problem.problem from None
        raise
    kept.remove()
    return result | result.pop("reasons").summary(data)


def _make_folder(out: Path) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise TicketsError(
            f"cannot make the folder {out.parent} for {out.name}: {problem.strerror}",
            hint="write elsewhere",
            code="file.not_written",
        ) from None


def _kept(clf: Classifier, rows: Rows, columns: tuple[str, ...], out: Path) -> Answers:
    """The answers of an earlier call. How a function is called (batches, retries, …) does not bind them: that one may want to change."""
    key = {
        "data": rows.key(),
        "columns": list(columns),
        "labels": list(clf.labels),
        "device": clf.device.type,
        "model": clf.digest,
    }
    return Answers(out, {**key, "batches": [AT_ONCE, TOKEN_BUDGET]}, rows.count())


def _known_again(clf: Classifier, kept: Answers, rows: Rows, columns: tuple[str, ...]) -> None:
    """Ask a callable about a few rows again: one that gives other answers is another. An undisturbed call is spared that."""
    stream = (
        (n, row.texts)
        for n, row in enumerate(read_texts(rows, columns))
        if n < len(kept.offsets) and kept.offsets[n] >= 0
    )
    asked = dict(islice(stream, PROBES))
    before = kept.of(list(asked))
    pairs = zip(before.values(), clf.probe(asked.values())[0], strict=False)  # none of a model, None where it failed
    if any(abs(a - b) > UNSTEADY for old, new in pairs if new for a, b in zip(old.scores, new, strict=True)):
        kept.start_over(f"a function that gave other answers than {clf.identity.partition(':')[2]} does now")
    else:
        say(f"predict: {kept.count} of {len(kept.offsets)} rows were answered before and are taken over")


def _predict(
    clf: Classifier, rows: Rows, columns: tuple[str, ...], named: Named, out: Path, kept: Answers
) -> dict[str, Any]:
    counts: Counter[str] = Counter(dict.fromkeys(clf.labels, 0))
    total, reasons = 0, Reasons()
    with row_writer(out, named.schema()) as write, track("predict", len(kept.offsets), kept.count) as bar:
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
    result = {"out": str(out), "rows": total, "labels": dict(counts), "columns": list(columns), "written": named.all}
    return {**result, "reasons": reasons, "exit_code": reasons.exit_code(total)}


def _label(ask: Asking, first: int, chunk: Sequence[Unlabelled], named: Named) -> list[Row]:
    asked = {number: row.texts for number, row in enumerate(chunk, first) if not row.problem}
    found, problems = ask(list(asked), list(asked.values()))
    answers = []
    for number, row in enumerate(chunk, first):
        texts = dict(zip(named.texts, row.texts or [None] * len(named.texts), strict=True))
        others = [clean(value) if isinstance(value, str) else value for value in row.rest]
        rest = dict(zip(named.rest, others or [None] * len(named.rest), strict=True))
        result = found.get(number)
        scores = dict(zip(named.scores, result.scores if result else [None] * len(named.scores), strict=True))
        label = ask.clf.labels[result.label] if result else None
        problem = None if result else row.problem or problems[number]
        answers.append(
            {named.line: row.line, **texts, **rest, named.predicted: label, **scores, named.problem: problem}
        )
    return answers
