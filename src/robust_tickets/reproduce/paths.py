"""Paths of data, models and resources on this machine. Recipes and attacks name them by role (``@real``), results by content.

A folder of data has one folder a task, a folder of models one a backbone; where none is given, the Hub is asked. A folder of resources has
``counterfit-substitute/``, ``counterfitted_neighbors.json`` and ``nltk_data/``; encoder and tagger are looked for elsewhere too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import FlagText
from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.reproduce.job import BERT, Job
from robust_tickets.reproduce.protocol import ROLES, rules

if TYPE_CHECKING:
    from robust_tickets.reproduce.protocol import NamedAttack


DATA = "@data/"  # and a task's name
ELSEWHERE = ("encoder", "tagger", "masked")  # looked for where none is given
USUAL = {"real": "counterfitted_neighbors.json", "substitute": "counterfit-substitute", "tagger": "nltk_data"}
CORPORA = ("wikitext-2-raw-v1", "wikitext", "wiki_en")  # the paper's texts without labels, then stand-ins
CALLED = {
    "encoder": "sentence encoder", "tagger": "part-of-speech tagger", "masked": "masked language model",
    "real": f"lists of near words: give --resources FOLDER with {USUAL['real']}, a JSON table of each word's neighbours",
    "substitute": f"substitute word vectors: give --resources FOLDER with {USUAL['substitute']}/: words.txt and vectors.npy",
    "corpus": f"texts without labels: give --data FOLDER with {CORPORA[0]}/ (the paper's) or {CORPORA[-1]}/",
}  # fmt: skip
BASE = 12 * (4 * 768**2 + 2 * 768 * 3072)  # weights of BERT-base's layers
LEAST = 0.05  # of its time that a step of the smallest model takes


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Folders and files by role. ``subset``: the data are a part of the official ones on purpose; results note it.

    ``counted``: the plan is only counted, so nothing is reported as missing.
    """

    data: Path | None = None
    models: Path | None = None
    real: Path | None = None
    substitute: Path | None = None
    encoder: Path | None = None
    tagger: Path | None = None
    masked: Path | None = None
    corpus: Path | None = None
    subset: bool = False
    counted: bool = False

    @classmethod
    def find(
        cls,
        *,
        data: str | Path | None = None,
        models: str | Path | None = None,
        resources: str | Path | None = None,
        encoder: str | Path | None = None,
        subset: bool = False,
    ) -> Paths:
        """Paths from folders; one that is not there is refused."""
        given = {"data": data, "models": models, "resources": resources}
        folders = {name: _folder(name, path) for name, path in given.items() if path is not None}
        inside = {name: folders["resources"] / usual for name, usual in USUAL.items() if "resources" in folders}
        if "models" in folders:
            inside["masked"] = folders["models"] / BERT
        for name in reversed(CORPORA if "data" in folders else ()):
            if (folders["data"] / name).is_dir():
                inside["corpus"] = folders["data"] / name
        found: dict[str, Any] = {name: path for name, path in inside.items() if path.exists()}
        if encoder is not None:
            found["encoder"] = _there("encoder", encoder)
        return cls(data=folders.get("data"), models=folders.get("models"), subset=subset, **found)

    def settings(self, unit: Job) -> tuple[str, ...]:
        """The paths of the job's model and data, as ``key=value`` for its recipe; a backbone without a folder is the Hub's."""
        model = self.models / unit.backbone if self.models is not None else unit.backbone
        return (f"model={model}", *([f"data={self.data / unit.task}"] if self.data is not None else []))

    def placed(self, value: Any) -> Any:
        """``value``, perhaps a table of tables, with paths for roles. A role that is looked for elsewhere leaves its key out."""
        if isinstance(value, Mapping):
            return {name: self.placed(inner) for name, inner in value.items() if not self._left_out(inner)}
        if isinstance(value, list | tuple):
            return [self.placed(inner) for inner in value]
        if not _role(value):
            return value
        path = self._path(value)
        if path is None:
            hint = CALLED.get(value[1:], "name its folder")
            raise TicketsError(f"{value} is not there", hint=hint, code="paths.no_resource")
        return FlagText(path) if isinstance(value, FlagText) else str(path)

    def _left_out(self, value: Any) -> bool:
        return _role(value) and self._path(value) is None and (value[1:] in ELSEWHERE or value.startswith(DATA))

    def _path(self, role: str) -> Path | None:
        if role.startswith(DATA):
            return None if self.data is None else self.data / role.removeprefix(DATA)
        found: Path | None = getattr(self, role[1:])
        return found


def missing(paths: Paths, unit: Job, attacks: Sequence[NamedAttack] = ()) -> tuple[str, ...]:
    """What the job lacks here, each with how to supply it. A model or a task of the Hub counts as there."""
    from robust_tickets.reproduce.arms import arm

    if paths.counted:
        return ()
    lacking = [*(_no_data(paths, unit.task) or _short(paths, unit.task)), *_no_model(paths, unit.backbone)]
    for split in dict.fromkeys(attack.table.get("split") for attack in attacks):
        if split is not None and paths.data is None:  # it confirms; GLUE's tests are without labels on the Hub
            lacking.append(
                f"{unit.task}: the Hub's {split} has no labels: give --data FOLDER with {unit.task}/ and a labelled {split} file"
            )
        elif split is not None and not _no_data(paths, unit.task):
            lacking += _no_data(paths, unit.task, (split,))
    own = [f"@{role}" for role in arm(unit.arm, unit.flavour, unit.task).roles]
    for role in dict.fromkeys([*own, *(role for attack in attacks for role in attack.roles)]):
        if role.startswith(DATA):
            lacking += _no_data(paths, role.removeprefix(DATA), ("train",))
        elif paths._path(role) is None:
            kind = role[1:]
            lacking += _not_elsewhere(kind) if kind in ELSEWHERE else (f"no {CALLED[kind]}",)
    return tuple(lacking)


def _role(value: Any) -> bool:
    return isinstance(value, str) and (value in ROLES or value.startswith(DATA))


def _no_data(paths: Paths, task: str, needs: Sequence[str] = ()) -> list[str]:
    if paths.data is None:
        return []
    needs, folder = needs or rules(task).needs, paths.data / task
    if not folder.is_dir():
        if paths.data.name == task and _splits(paths.data):
            return [f"--data {paths.data} is the folder of {task} itself: give {paths.data.parent}"]
        files = " and ".join(needs)
        return [f"no folder {task} in {paths.data}: put its {files} files there, or leave --data out for the Hub's"]
    lacking = [split for split in needs if split not in _splits(folder)]
    files = " and ".join(f"{split}.parquet" for split in lacking)
    return [f"{task}: no {' and no '.join(lacking)} rows in {folder}: add {files}"] if lacking else []


def _short(paths: Paths, task: str) -> list[str]:
    """The message on a folder with fewer rows than the protocol's, where ``subset`` does not allow it."""
    rows, official = rows_of(paths, task).get("train"), rules(task).train
    if paths.subset or rows is None or rows in official:
        return []
    found = f"{task}: {rows:,} of {official[0]:,} training rows in {paths.data}"
    return [f"{found}: add the others, or give --subset: results then note it"]


def _no_model(paths: Paths, backbone: str) -> list[str]:
    if paths.models is None or (paths.models / backbone / "config.json").is_file():
        return []
    if paths.models.name == backbone and (paths.models / "config.json").is_file():
        return [f"--models {paths.models} is the folder of {backbone} itself: give {paths.models.parent}"]
    return [f"no weights of {backbone} in {paths.models}: put its folder there, or leave --models out for the Hub's"]


@cache
def _splits(folder: Path) -> tuple[str, ...]:
    from robust_tickets.data.source import from_path

    try:
        return tuple(from_path(folder).splits)
    except TicketsError:
        return ()


@cache
def _not_elsewhere(kind: str) -> tuple[str, ...]:
    from robust_tickets.resources.kinds import status

    (line,) = status(kind)
    return () if line.found else (f"no {CALLED[kind]}: {line.get}",)


def _folder(name: str, given: str | Path) -> Path:
    path = _there(name, given)
    if not path.is_dir():
        hint = "give the folder that holds it"
        raise TicketsError(f"--{name} is a folder, got {given}", hint=hint, code="paths.not_a_folder")
    return path


def _there(name: str, given: str | Path) -> Path:
    path = Path(given).expanduser().absolute()  # processes may start elsewhere
    if not path.exists():
        message = f"no such file or folder: {given} ({name})"
        raise TicketsError(message, hint="check the path", code="paths.not_found")
    return path


def rows_of(paths: Paths, task: str) -> Mapping[str, int]:
    """Rows of each split in the task's folder; empty where there is none, or where they cannot be counted at a glance."""
    return _rows(paths.data / task) if paths.data is not None else {}


def share_of(paths: Paths, backbone: str) -> float:
    """The cost of a step of the backbone as a multiple of BERT-base's."""
    return max(LEAST, (weights_of(paths, backbone) or BASE) / BASE)


def weights_of(paths: Paths, backbone: str) -> int | None:
    """Weights of the matrices of its layers, by the config in its folder, if it has them."""
    return _weights(paths.models / backbone / "config.json") if paths.models is not None else None


@cache
def _rows(folder: Path) -> dict[str, int]:
    from robust_tickets.data.source import from_path

    try:
        return {split: sum(_count(one.path) for one in readers) for split, readers in from_path(folder).splits.items()}
    except (TicketsError, OSError):
        return {}


def _count(path: Path) -> int:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as stream:
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    return lines - (path.suffix != ".jsonl")  # the header


@cache
def _weights(config: Path) -> int | None:
    try:
        config_values = read_json(config)
        layers, hidden, wide = (
            int(config_values[key]) for key in ("num_hidden_layers", "hidden_size", "intermediate_size")
        )
    except (TicketsError, OSError, KeyError, TypeError, ValueError):
        return None
    return layers * (4 * hidden**2 + 2 * hidden * wide)
