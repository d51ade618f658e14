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
from robust_tickets.files import look_again, read_json
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
    def find(cls, *, subset: bool = False, **given: str | Path | None) -> Paths:
        """Paths from the folders ``data``, ``models``, ``resources`` and ``encoder``; one that is not there is refused."""
        there: dict[str, Any] = {
            name: Path(path).expanduser().absolute() for name, path in given.items() if path is not None
        }
        for name, path in there.items():  # absolute: processes may start elsewhere
            if not path.is_dir():
                raise TicketsError(f"--{name}: no folder {path}", hint=look_again(path), code="paths.not_found")
        inside = {}
        if resources := there.pop("resources", None):
            inside = {name: resources / usual for name, usual in USUAL.items()}
        if "models" in there:
            inside["masked"] = there["models"] / BERT
        for name in reversed(CORPORA if "data" in there else ()):
            if (there["data"] / name).is_dir():
                inside["corpus"] = there["data"] / name
        return cls(subset=subset, **there, **{name: path for name, path in inside.items() if path.exists()})

    def settings(self, unit: Job) -> tuple[str, ...]:
        """The paths of the job's model and data, as ``key=value`` for its recipe; a backbone without a folder is the Hub's."""
        model = self.models / unit.backbone if self.models is not None else unit.backbone
        return (f"model={model}", *([f"data={self.data / unit.task}"] if self.data is not None else []))

    def placed(self, value: Any) -> Any:
        """``value``, perhaps a table of tables, with paths for roles. A role that is looked for elsewhere leaves its key out."""
        if isinstance(value, Mapping):
            placed = {name: self.placed(inner) for name, inner in value.items()}
            return {name: inner for name, inner in placed.items() if inner is not None or value[name] is None}
        if isinstance(value, list | tuple):
            return [self.placed(inner) for inner in value]
        if not isinstance(value, str) or not (value in ROLES or value.startswith(DATA)):
            return value
        path = self.path(value[1:])
        if path is None and not value.startswith(DATA) and value[1:] not in ELSEWHERE:
            raise TicketsError(f"{value} is not there", hint=CALLED[value[1:]], code="paths.no_resource")
        return None if path is None else FlagText(path) if isinstance(value, FlagText) else str(path)

    def path(self, role: str) -> Path | None:
        """The path of ``real``, ``data/sst2``, …"""
        kind, _, task = role.partition("/")
        found: Path | None = getattr(self, kind)
        return found / task if found is not None and task else found


def missing(paths: Paths, unit: Job, attacks: Sequence[NamedAttack] = ()) -> tuple[str, ...]:
    """What the job lacks here, each with how to supply it. A model or a task of the Hub counts as there."""
    from robust_tickets.reproduce.arms import arm

    if paths.counted:
        return ()
    lacking, needs = list[str](), {unit.task: list(rules(unit.task).needs)}
    for split in dict.fromkeys(attack.table["split"] for attack in attacks if "split" in attack.table):
        needs[unit.task].append(split)
        if paths.data is None:  # GLUE's tests have no labels on the Hub
            lacking.append(
                f"{unit.task}: the Hub's {split} has no labels: give --data FOLDER with a labelled {split} file"
            )
    kinds = []
    for role in (*arm(unit.arm, unit.flavour, unit.task).roles, *(role[1:] for one in attacks for role in one.roles)):
        kind, _, task = role.partition("/")
        if kind == "data":
            needs.setdefault(task, ["train"])
        elif paths.path(role) is None:
            kinds.append(kind)
    for task, splits in needs.items() if paths.data is not None else ():
        rows, folder = rows_of(paths, task), paths.path(f"data/{task}")
        if lost := [split for split in splits if split not in rows]:
            files = " and ".join(f"{split}.parquet" for split in lost)
            lacking.append(f"{task}: no {' and no '.join(lost)} rows in {folder}: add {files}, or leave --data out")
        elif task == unit.task and not paths.subset and rows["train"] not in rules(task).train:
            found = f"{task}: {rows['train']:,} of {rules(task).train[0]:,} training rows in {paths.data}"
            lacking.append(f"{found}: add the others, or give --subset: results then note it")
    if paths.models is not None and not (paths.models / unit.backbone / "config.json").is_file():
        lacking.append(
            f"no folder {unit.backbone} in {paths.models}: put it there, or leave --models out for the Hub's"
        )
    for kind in dict.fromkeys(kinds):
        lacking += _not_elsewhere(kind) if kind in ELSEWHERE else (f"no {CALLED[kind]}",)
    return tuple(lacking)


@cache
def _not_elsewhere(kind: str) -> tuple[str, ...]:
    from robust_tickets.resources.kinds import status

    (line,) = status(kind)
    return () if line.found else (f"no {CALLED[kind]}: {line.get}",)


def rows_of(paths: Paths, task: str) -> Mapping[str, int]:
    """Rows of each split in the task's folder; empty where there is none."""
    return _rows(paths.data / task) if paths.data is not None else {}


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


def share_of(paths: Paths, backbone: str) -> float:
    """The cost of a step of the backbone as a multiple of BERT-base's."""
    return max(LEAST, (weights_of(paths, backbone) or BASE) / BASE)


def weights_of(paths: Paths, backbone: str) -> int | None:
    """Weights of the matrices of its layers, by the config in its folder, if it has them."""
    return _weights(paths.models / backbone / "config.json") if paths.models is not None else None


@cache
def _weights(config: Path) -> int | None:
    try:
        values = read_json(config)
        layers, hidden, wide = (int(values[key]) for key in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    except (TicketsError, KeyError, TypeError, ValueError):
        return None
    return layers * (4 * hidden**2 + 2 * hidden * wide)
