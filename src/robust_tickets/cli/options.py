"""Options that several verbs share, the ``Answer`` of a verb, and the classifier that a command names.

``module:function`` imports the module of that name, from the working directory or from what is installed, and thereby runs it: it is the
user's own code, named by the user. Nothing that comes with a model is ever run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from robust_tickets.config import FlagText, at_least, build
from robust_tickets.data.source import TaskSource
from robust_tickets.data.source import look_for as look_for
from robust_tickets.errors import TicketsError
from robust_tickets.registry import FUNCTION, imported

if TYPE_CHECKING:
    from robust_tickets.classifier import Classifier

Settings = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative="", consume_multiple=False, help="key=value, any number of times."),
]

MaxFailed = Annotated[
    float,
    Parameter(
        help="Percent of the examples, and never fewer than three, above which failed ones end the command with exit code 3."
    ),
]

Strict = Annotated[bool, Parameter(negative="", help="Any bad row stops the run.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags of every verb."""

    json: Annotated[bool, Parameter(negative="", help="One JSON document on standard output, nothing else there.")] = (
        False
    )
    quiet: Annotated[bool, Parameter(negative="", help="No progress on standard error.")] = False
    debug: Annotated[bool, Parameter(negative="", help="Show tracebacks.")] = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a verb: ``data`` for ``--json``, ``show`` (called with a rich console) for people."""

    data: Mapping[str, Any]
    show: Callable[[Any], None] = field(default=lambda console: None)
    exit_code: int = 0


T = TypeVar("T")
FILE = re.compile(r"([^:]*\.py)(:(.*))?$")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Opening:
    """How a classifier is opened, where its files do not say it."""

    labels: Annotated[
        str | None,
        Parameter(
            help="The classes in the order of the outputs: bad,good; of an ONNX file, a function, or a model with LABEL_0."
        ),
    ] = None
    tokenizer: Annotated[str | None, Parameter(help="The tokenizer's folder, for an ONNX file.")] = None
    max_length: Annotated[
        int | None, Parameter(help="Tokens at which texts are cut; by default what the model's files say, at most 512.")
    ] = None
    device: Annotated[str | None, Parameter(help="cpu, cuda, cuda:1, …; a GPU if there is one.")] = None
    batch_size: Annotated[int | None, Parameter(help="Texts in one call of a function.")] = None
    retries: Annotated[
        int, Parameter(help="How often a function's failed call is tried again, after 0.5, 1, 2, … seconds.")
    ] = 0
    rate_limit: Annotated[float | None, Parameter(help="Calls of a function in a second, at most.")] = None
    timeout: Annotated[float | None, Parameter(help="Seconds to wait for a function's answer.")] = None

    def open(self, model: str, columns: Sequence[str] | str | None = None) -> Classifier:
        """The classifier; ``columns`` are the text columns that the user named.

        Numbers are checked first: ``CallOptions`` refuses them too, by names that no flag has, after a user's module was imported.
        """
        from robust_tickets.classifier.callable import MOST
        from robust_tickets.classifier.loading import graph_beside, graph_of, model_path

        names = (columns,) if isinstance(columns, str) else columns
        at_least("--batch-size", self.batch_size, 1, "leave it out for the default")
        at_least("--retries", self.retries, 0, "0 tries nothing again")
        for flag, value in (("--rate-limit", self.rate_limit), ("--timeout", self.timeout)):
            if value is not None and not 0 < value < MOST:
                raise TicketsError(
                    f"{flag} must be above 0 and below {MOST:.0e}, got {value}",
                    hint="leave it out for none",
                    code="settings.limit",
                )
        if (file := FILE.match(model)) is not None:
            raise TicketsError(
                f"{model} is a Python file, expected a function",
                hint=f"write {_function_in(Path(file[1]), file[3] or '')}",
                code="usage.function",
            )
        if is_function(model):
            return self._function(model, names)
        self._refuse(
            "a Python function",
            batch_size=self.batch_size,
            retries=self.retries or None,
            rate_limit=self.rate_limit,
            timeout=self.timeout,
        )
        path = model_path(model)
        if (graph := graph_of(path)) is not None:
            return self._graph(graph, names)
        if self.tokenizer is not None and (beside := graph_beside(path)) is not None:
            raise TicketsError(
                f"--tokenizer is for an ONNX file, and {path} opens as weights",
                hint=f"leave it out, or give {beside}",
                code="usage.flag",
            )
        self._refuse("an ONNX file", tokenizer=self.tokenizer)
        return self._folder(path if path.exists() else model)

    def _folder(self, name: Path | str) -> Classifier:
        from robust_tickets.classifier import Classifier

        clf = Classifier.from_pretrained(name, max_length=self.max_length, device=_device(self.device))
        labels = split(self.labels)
        return clf if labels is None else clf.named(labels)

    def _graph(self, path: Path, columns: Sequence[str] | None) -> Classifier:
        from robust_tickets.classifier.onnx import open_onnx

        if self.device not in (None, "cpu"):
            raise TicketsError(
                f"--device {self.device}: an ONNX file runs on the CPU", hint="leave it out", code="usage.device"
            )
        return open_onnx(
            path, tokenizer=self.tokenizer, labels=split(self.labels), max_length=self.max_length, columns=columns
        )

    def _function(self, name: str, columns: Sequence[str] | None) -> Classifier:
        from robust_tickets.classifier import Classifier

        self._refuse(
            "a model with a tokenizer", tokenizer=self.tokenizer, max_length=self.max_length, device=self.device
        )
        labels = split(self.labels)
        if labels is None:
            raise TicketsError(
                f"{name}: what are its classes called?",
                hint="--labels bad,good in the order of its columns",
                code="usage.labels",
            )
        found = imported(name, "; a run's arm is RUN:ARM, and RUN must be a folder")
        if not callable(found):
            raise TicketsError(
                f"{name} is {found!r:.60} ({type(found).__name__}), expected a callable",
                hint="name a function from a list of texts to their probabilities",
                code="usage.function",
            )
        calls: dict[str, Any] = {k: getattr(self, k) for k in ("batch_size", "retries", "rate_limit", "timeout")}
        return Classifier.wrap(found, labels=labels, columns=columns, name=name, **calls)

    def _refuse(self, what: str, **given: Any) -> None:
        for flag, value in given.items():
            if value is not None:
                raise TicketsError(f"--{flag.replace('_', '-')} is for {what}", hint="leave it out", code="usage.flag")


def split(names: str | None) -> tuple[str, ...] | None:
    """``bad,good`` as names."""
    if names is None:
        return None
    found = tuple(part.strip() for part in names.split(","))
    if not all(found):
        raise TicketsError(
            f"--labels {names!r}: a name is empty", hint="for example --labels bad,good", code="usage.labels"
        )
    return found


def mapped(given: str | None) -> dict[str, int | str] | None:
    """``bad=0,good=1`` as a mapping."""
    if given is None:
        return None
    found: dict[str, int | str] = {}
    for part in given.split(","):
        name, equals, value = (piece.strip() for piece in part.rpartition("="))
        if not equals or not name or not value or name in found:
            raise TicketsError(
                f"--label-map: {part!r} is not LABEL=CLASS, or comes twice",
                hint="for example bad=0,good=1",
                code="usage.label_map",
            )
        found[name] = int(value) if value.isdecimal() else value
    return found


def is_function(model: str) -> bool:
    """Whether ``model`` is package.module:function and no run of that name lies here."""
    if FUNCTION.fullmatch(model) is None or Path(model).exists():
        return False
    run = Path(model.partition(":")[0])
    begun = any((run / name).is_file() for name in ("arms.json", "config.json"))
    # a package, or a module and a folder beside it
    code = (run / "__init__.py").is_file() or run.with_name(run.name + ".py").is_file()
    return not run.is_dir() or (code and not begun)


def _function_in(path: Path, name: str) -> str:
    """How a function of a file is written: as module:function, seen from here, or else from its folder; the first one, without a name."""
    try:
        inside = path.absolute().relative_to(Path.cwd())
    except ValueError:
        inside = Path(path.name)
    if not name:
        try:
            body = ast.parse(path.read_bytes()).body
        except (OSError, ValueError, SyntaxError, RecursionError):
            body = []
        name = next(
            (one.name for one in body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")), "FUNCTION"
        )
    elsewhere = "" if path.absolute() == Path.cwd() / inside else f" in {path.absolute().parent}"
    return ".".join(inside.with_suffix("").parts) + f":{name}{elsewhere}"


def _device(name: str | None) -> str | None:
    import torch

    if name is None:
        return None
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as problem:
        raise TicketsError(
            f"--device {name}: {str(problem).splitlines()[0]}", hint="cpu, cuda, cuda:0, mps", code="usage.device"
        ) from None
    return name


DATA = ("task", "data", "test", "validation")  # keys of a recipe that may name a file


def files_in(settings: Iterable[str]) -> Iterator[str]:
    """The values of those ``key=value`` settings that may name a data file."""
    for setting in settings:
        key, equals, value = setting.partition("=")
        if equals and key.strip() in DATA:
            yield value.strip()


def flag(name: str) -> str:
    """The flag that sets a parameter of this name."""
    return f"--{name.replace('_', '-')}"


Source = Annotated[TaskSource, Parameter(name="*", negative="")]


def typed(given: T) -> T:
    """Options with their texts read as their fields want them, as ``--set`` reads them: ``a,b`` is a pair where pairs go."""
    words = {
        name: FlagText(",".join(value) if isinstance(value, tuple) else value)
        if isinstance(value, str | tuple)
        else value
        for name, value in vars(given).items()
    }
    return build(type(given), words, "the flags")  # type: ignore[no-any-return]


def columns(text: str | None) -> str | tuple[str, ...] | None:
    """``premise,hypothesis`` as a pair."""
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def is_folder(out: Path) -> bool:
    """Whether ``out`` is there already; a file is refused."""
    if out.exists() and not out.is_dir():
        raise TicketsError(f"--out {out} is a file", hint="give a folder", code="usage.out")
    return out.exists()
