"""Places: where data, models and resources lie on this machine. Recipes and attacks name them by role (``@real``), results by content.

A folder of data has one folder a task, a folder of models one a backbone; where none is given, the Hub is asked. A folder of resources has
``counterfit-substitute/``, ``counterfitted_neighbors.json`` and ``nltk_data/``; encoder and tagger are looked for elsewhere too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.config import Said
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.files import read_json
from robust_tickets.reproduce.job import BERT, Unit
from robust_tickets.reproduce.rules import rules

if TYPE_CHECKING:
    from robust_tickets.reproduce.attacks import NamedAttack


DATA = "@data/"  # and a task's name
ROLES = {
    "@real": "vectors_real", "@substitute": "vectors_substitute", "@encoder": "encoder", "@tagger": "tagger", "@masked": "masked",
    "@corpus": "corpus",
}  # fmt: skip
ELSEWHERE = {
    "@encoder": "encoder",
    "@tagger": "tagger",
    "@masked": "masked",
}  # looked for where none is given: role -> kind
USUAL = {
    "vectors_real": "counterfitted_neighbors.json",
    "vectors_substitute": "counterfit-substitute",
    "tagger": "nltk_data",
}
CORPORA = (
    "wikitext-2-raw-v1",
    "wikitext",
    "wiki_en",
)  # folders that a search without labels may read: the paper's, then stand-ins
CALLED = {
    "@real": "lists of near words", "@substitute": "substitute word vectors", "@encoder": "sentence encoder",
    "@tagger": "part-of-speech tagger", "@masked": "masked language model", "@corpus": "texts without labels",
}  # fmt: skip
HOW = {
    "@real": "--resources FOLDER with counterfitted_neighbors.json, a JSON table of each word's neighbours (Jia et al., 2019)",
    "@substitute": "--resources FOLDER with counterfit-substitute/: words.txt and vectors.npy, or the published counter-fitted vectors",
    "@corpus": f"--data FOLDER with {CORPORA[0]}/ (the paper's) or {CORPORA[-1]}/: text files, or a Parquet file with a column of texts",
}


@dataclass(frozen=True, kw_only=True)
class Places:
    """``subset`` says that the data are meant to be a part of the official ones; results then say so too.

    ``counted``: nothing is missing, wherever it may lie, since the plan is only counted.
    """

    data: Path | None = None
    models: Path | None = None
    vectors_real: Path | None = None
    vectors_substitute: Path | None = None
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
        **given: Any,
    ) -> Places:
        """Places from folders; what is ``given`` by its own name comes first. A folder that is not there is refused."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise TicketsError(f"no place is called {name!r}", hint=did_you_mean(name, [*known, "resources"]))
        found: dict[str, Any] = {"data": _folder("data", data), "models": _folder("models", models)}
        inside = _folder("resources", resources)
        for name, usual in USUAL.items():
            if inside is not None and (inside / usual).exists():
                found[name] = inside / usual
        if found["models"] is not None and (found["models"] / BERT).is_dir():
            found["masked"] = found["models"] / BERT
        if found["data"] is not None:
            found["corpus"] = next((found["data"] / name for name in CORPORA if (found["data"] / name).is_dir()), None)
        for name, value in given.items():
            if value is not None:
                found[name] = value if name == "subset" else _there(name, value)
        return cls(**found)

    def settings(self, unit: Unit) -> tuple[str, ...]:
        """Where the unit's model and data lie, as ``key=value`` for its recipe; a backbone without a folder is the Hub's."""
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
            raise TicketsError(f"{value} is not there", hint=HOW.get(value, "name its folder"))
        return Said(path) if isinstance(value, Said) else str(path)

    def _left_out(self, value: Any) -> bool:
        return _role(value) and self._path(value) is None and (value in ELSEWHERE or value.startswith(DATA))

    def _path(self, role: str) -> Path | None:
        if role.startswith(DATA):
            return None if self.data is None else self.data / role.removeprefix(DATA)
        found: Path | None = getattr(self, ROLES[role])
        return found


def missing(places: Places, unit: Unit, attacks: Sequence[NamedAttack] = ()) -> tuple[str, ...]:
    """What the unit cannot have here, each with how to supply it. A model or a task of the Hub counts as there."""
    from robust_tickets.reproduce.arms import arm

    if places.counted:
        return ()
    told = [*(_no_data(places, unit.task) or _short(places, unit.task)), *_no_model(places, unit.backbone)]
    for split in dict.fromkeys(attack.table.get("split") for attack in attacks):
        told += _no_split(places, unit.task, split)
    own = [f"@{role}" for role in arm(unit.arm, unit.flavour, unit.task).roles]
    for role in dict.fromkeys([*own, *(role for attack in attacks for role in attack.roles)]):
        if role.startswith(DATA):
            told += _no_data(places, role.removeprefix(DATA), ("train",))
        elif getattr(places, ROLES[role]) is None:
            kind = ELSEWHERE.get(role)
            if kind is None:
                told.append(f"no {CALLED[role]}: give {HOW[role]}")
            else:
                told += _not_elsewhere(kind, CALLED[role])
    return tuple(told)


def _role(value: Any) -> bool:
    return isinstance(value, str) and (value in ROLES or value.startswith(DATA))


def _no_data(places: Places, task: str, needs: Sequence[str] = ()) -> list[str]:
    if places.data is None:
        return []
    folder = places.data / task
    if not folder.is_dir():
        if places.data.name == task and _splits(places.data):
            return [
                f"--data {places.data} is the folder of {task} itself: give the one that holds it, {places.data.parent}"
            ]
        files = " and ".join(needs or rules(task).needs)
        return [
            f"no folder {task} in {places.data}: put {task}'s {files} files there, or leave --data out for the Hub's"
        ]
    lacking = [split for split in needs or rules(task).needs if split not in _splits(folder)]
    files = " and ".join(f"{split}.parquet" for split in lacking)
    return (
        [f"{task}: no {' and no '.join(lacking)} rows in {folder}: add {files}, or csv, tsv or jsonl files"]
        if lacking
        else []
    )


def _short(places: Places, task: str) -> list[str]:
    """What is said of a folder that holds fewer rows than the protocol's, where that is not meant."""

    rows, official = rows_of(places, task).get("train"), rules(task).train
    if places.subset or rows is None or rows in official:
        return []
    return [
        f"{task}: {rows:,} of {official[0]:,} training rows in {places.data}: add the others, or say --subset: results then say so too"
    ]


def _no_split(places: Places, task: str, split: str | None) -> list[str]:
    """What another split than the one that the task attacks lacks; such a split confirms (GLUE's tests are without labels on the Hub)."""
    if split is None or _no_data(places, task):
        return []
    if places.data is None:
        return [
            f"{task}: the Hub's {split} has no labels: give --data FOLDER with {task}/ and a {split} file that has them"
        ]
    return _no_data(places, task, (split,))


@cache
def _splits(folder: Path) -> tuple[str, ...]:
    from robust_tickets.data.source import from_path

    try:
        return tuple(from_path(folder).splits)
    except TicketsError:
        return ()


def _no_model(places: Places, backbone: str) -> list[str]:
    if places.models is None or (places.models / backbone / "config.json").is_file():
        return []
    if places.models.name == backbone and (places.models / "config.json").is_file():
        return [
            f"--models {places.models} is the folder of {backbone} itself: give the one that holds it, {places.models.parent}"
        ]
    return [f"no weights of {backbone} in {places.models}: put its folder there, or leave --models out for the Hub's"]


@cache
def _not_elsewhere(kind: str, called: str) -> tuple[str, ...]:
    from robust_tickets.resources.kinds import status

    (line,) = status(kind)
    return () if line.found else (f"no {called}: {line.get}",)


def _folder(name: str, given: str | Path | None) -> Path | None:
    if given is None:
        return None
    path = _there(name, given)
    if not path.is_dir():
        raise TicketsError(f"--{name} is a folder, got {given}", hint="give the folder that holds it")
    return path


def _there(name: str, given: str | Path) -> Path:
    path = Path(given).expanduser().absolute()  # processes may start elsewhere
    if not path.exists():
        raise TicketsError(f"no such file or folder: {given} ({name})", hint="check the path")
    return path


BASE = 12 * (4 * 768**2 + 2 * 768 * 3072)  # weights of BERT-base's layers
LEAST = 0.05  # of its time that a step of the smallest model takes


def rows_of(places: Places, task: str) -> Mapping[str, int]:
    """Rows of each split in the task's folder; empty where there is none, or where they cannot be counted at a glance."""
    return _rows(places.data / task) if places.data is not None else {}


def share_of(places: Places, backbone: str) -> float:
    """What a step of the backbone costs beside one of BERT-base."""
    return max(LEAST, (weights_of(places, backbone) or BASE) / BASE)


def weights_of(places: Places, backbone: str) -> int | None:
    """Weights of the matrices of its layers, by the config in its folder; none where that cannot be told."""
    return _weights(places.models / backbone / "config.json") if places.models is not None else None


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
        told = read_json(config)
        layers, hidden, neurons = (
            int(told[name]) for name in ("num_hidden_layers", "hidden_size", "intermediate_size")
        )
    except (TicketsError, OSError, KeyError, TypeError, ValueError):
        return None
    return layers * (4 * hidden**2 + 2 * hidden * neurons)
