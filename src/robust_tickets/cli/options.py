"""Options that several verbs share, the ``Answer`` of a verb, and the classifier that a command names.

``module:function`` imports the module of that name, from the working directory or from what is installed, and thereby runs it: it is the
user's own code, named by the user. Nothing that comes with a model is ever run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cyclopts import Parameter

from robust_tickets import config
from robust_tickets.config import FlagText, build, setting
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
Source = Annotated[TaskSource, Parameter(name="*", negative="")]
T = TypeVar("T")


@Parameter(name="*", negative="")
@dataclass(frozen=True, kw_only=True)
class Common:
    """Flags of every verb.

    Parameters
    ----------
    json
        One JSON document on standard output, nothing else there.
    quiet
        No progress on standard error.
    debug
        Show tracebacks.
    """

    json: bool = False
    quiet: bool = False
    debug: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The result of a verb: ``data`` for ``--json``, ``show`` (called with a rich console) for people."""

    data: Mapping[str, Any]
    show: Callable[[Any], None] = field(default=lambda console: None)
    exit_code: int = 0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Opening(config.Settings):
    """How a classifier is opened, where its files do not say it.

    Parameters
    ----------
    labels
        The classes in the order of the outputs: bad,good; of an ONNX file, a function, or a model with LABEL_0.
    tokenizer
        The tokenizer's folder, for an ONNX file.
    max_length
        Tokens at which texts are cut; by default what the model's files say, at most 512.
    device
        cpu, cuda, cuda:1, …; a GPU if there is one.
    batch_size
        Texts in one call of a function.
    retries
        How often a function's failed call is tried again, after 0.5, 1, 2, … seconds.
    rate_limit
        Calls of a function in a second, at most.
    timeout
        Seconds to wait for a function's answer.
    """

    labels: str | None = None
    tokenizer: str | None = None
    max_length: int | None = None
    device: str | None = None
    batch_size: int | None = setting(None, at_least=1, hint="leave it out for the default")
    retries: int = setting(0, at_least=0, hint="0 tries nothing again")
    rate_limit: float | None = setting(None, above=0, below=1e6, hint="leave it out for none")
    timeout: float | None = setting(None, above=0, below=1e6, hint="leave it out for none")

    def shown(self, name: str) -> str:
        return flag(name)

    def open(self, model: str, columns: Sequence[str] | str | None = None) -> Classifier:
        """The classifier; ``columns`` are the text columns that the user named."""
        from robust_tickets.classifier import Classifier
        from robust_tickets.classifier.loading import graph_of, model_path

        columns = (columns,) if isinstance(columns, str) else columns
        labels = None if self.labels is None else tuple(name.strip() for name in self.labels.split(","))
        calls: dict[str, Any] = {key: getattr(self, key) for key in ("batch_size", "retries", "rate_limit", "timeout")}
        if (file := model.partition(":")[0]).endswith(".py"):
            name = ".".join(Path(file).with_suffix("").parts)
            message = f"{file} is a Python file, expected a function"
            raise TicketsError(message, hint=f"write {name}:FUNCTION", code="usage.function")
        if is_function(model):
            self._refuse("a model with a tokenizer", "tokenizer", "max_length", "device")
            if labels is None:
                hint = "--labels bad,good in the order of its columns"
                raise TicketsError(f"{model}: what are its classes called?", hint=hint, code="usage.labels")
            function = imported(model, "; a run's arm is RUN:ARM, and RUN must be a folder")
            return Classifier.wrap(function, labels=labels, columns=columns, name=model, **calls)
        self._refuse("a Python function", *calls)
        path = model_path(model)
        if (graph := graph_of(path)) is not None:
            from robust_tickets.classifier.onnx import open_onnx

            self._refuse("a model that torch runs", *(["device"] if self.device != "cpu" else []))
            return open_onnx(
                graph, tokenizer=self.tokenizer, labels=labels, max_length=self.max_length, columns=columns
            )
        self._refuse("an ONNX file", "tokenizer")
        name_or_path = path if path.exists() else model
        clf = Classifier.from_pretrained(name_or_path, max_length=self.max_length, device=self.device)
        return clf if labels is None else clf.named(labels)

    def _refuse(self, what: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) not in (None, 0):
                raise TicketsError(f"{flag(name)} is for {what}", hint="leave it out", code="usage.flag")


def is_function(model: str) -> bool:
    """Whether ``model`` is package.module:function and no run of that name lies here."""
    if FUNCTION.fullmatch(model) is None or Path(model).exists():
        return False
    run = Path(model.partition(":")[0])
    begun = any((run / name).is_file() for name in ("arms.json", "config.json"))
    # a package, or a module and a folder beside it
    code = (run / "__init__.py").is_file() or run.with_name(run.name + ".py").is_file()
    return not run.is_dir() or (code and not begun)


def mapped(given: str | None) -> dict[str, int | str] | None:
    """``bad=0,good=1`` as a mapping."""
    if given is None:
        return None
    found: dict[str, int | str] = {}
    for part in given.split(","):
        name, _, value = (piece.strip() for piece in part.rpartition("="))
        if not name or not value or name in found:
            message = f"--label-map: {part!r} is not LABEL=CLASS, or comes twice"
            raise TicketsError(message, hint="for example bad=0,good=1", code="usage.label_map")
        found[name] = int(value) if value.isdecimal() else value
    return found


def columns(text: str | None) -> str | tuple[str, ...] | None:
    """``premise,hypothesis`` as a pair."""
    if text is None or "," not in text:
        return text
    return tuple(part.strip() for part in text.split(","))


def typed(given: T) -> T:
    """Options with their texts read as their fields want them, as ``--set`` reads them: ``a,b`` is a pair where pairs go."""
    words = {name: ",".join(value) if isinstance(value, tuple) else value for name, value in vars(given).items()}
    texts = {name: FlagText(value) if isinstance(value, str) else value for name, value in words.items()}
    return build(type(given), texts, "the flags")  # type: ignore[no-any-return]


def flag(name: str) -> str:
    """The flag that sets a parameter of this name."""
    return f"--{name.replace('_', '-')}"


def is_folder(out: Path) -> bool:
    """Whether ``out`` is there already; a file is refused."""
    if out.exists() and not out.is_dir():
        raise TicketsError(f"--out {out} is a file", hint="give a folder", code="usage.out")
    return out.exists()
