"""Outcomes: a file holds all of a job, reads back as written, and is refused when it was changed. Job ids, paths, what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import made
from refusing import refused
from robust_tickets.config import FlagText, digest
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Attacked, Outcome, foreign, ids_of, place, read, read_all, write
from robust_tickets.reproduce.paths import Paths, _weights, missing
from robust_tickets.reproduce.protocol import attack, attacks
from robust_tickets.reproduce.published import toml

IDS = ("a", "b", "c", "d")
UNIT = Job(task="sst2", arm="finetune")


def outcome(unit: Job = UNIT, statuses: str = "ffsk") -> Outcome:
    attacked = Attacked(
        name="textfooler-real", recipe="TextFooler", digest="0" * 64, split="validation", examples=digest(list(IDS)), statuses=statuses,
        queries=(10, 20, 30, 1), resources={"vectors": {"name": "real", "substitute": False}}, substitutes=(), flags=("small",),
        texts=({"id": "c", "label": 1, "original": ["good"], "perturbed": ["fine"]},),
    )  # fmt: skip
    return Outcome(
        unit=unit, config={"epochs": 10, "lr": 2e-5}, inputs={"task": "t"}, env={"device": "cpu"}, clean={"accuracy": 75.0, "n": 4},
        cost={"train_seconds": 1.5}, attacks=(attacked,), traces={"distances": [[0.0, 0.5], [0.5, 0.0]]},
    )  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, outcome(), {digest(list(IDS)): IDS})
    assert path == tmp_path / "units/bert-base-uncased/sst2/finetune/corrected/seed-0.json"
    assert read(path) == outcome()
    assert read_all(tmp_path) == (outcome(),)
    assert ids_of(tmp_path, outcome().attacks[0].examples) == IDS
    before = path.read_bytes()
    write(tmp_path, read(path), {})
    assert path.read_bytes() == before


def test_what_an_attack_used_has_its_own_name_wherever_it_lay(tmp_path: Path) -> None:
    """A folder may be called anything; the digest tells what lies in it. The file stays as it is."""
    known = next(d for d, n in toml("attacks.toml")["called"].items() if "MiniLM" in n)
    resources = {"encoder": {"name": "enc", "digest": known}, "tagger": {"name": "enc", "digest": "0" * 64}}
    words = ("the Universal Sentence Encoder: enc instead", "the part-of-speech tagger: enc instead")
    flags = ("substitute encoder: enc; numbers do not compare", "substitute tagger: enc; numbers do not compare")
    used = replace(outcome().attacks[0], resources=resources, substitutes=words, flags=flags)
    path = write(tmp_path, replace(outcome(), attacks=(used,)), {})
    before = path.read_bytes()
    (found,) = read(path).attacks
    names = {kind: one["name"] for kind, one in found.resources.items()}
    assert names == {"encoder": "all-MiniLM-L6-v2", "tagger": "enc"}
    assert found.substitutes == ("the Universal Sentence Encoder: all-MiniLM-L6-v2 instead", words[1])
    assert found.flags == ("substitute encoder: all-MiniLM-L6-v2; numbers do not compare", flags[1])
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("config", "epochs"), 3),
        (("unit", "seed"), "one"),
        (("attacks", 0, "queries"), [1]),
        (("attacks", 0, "statuses"), "ffsx"),
        (("more",), 1),
        (("schema",), 2),
    ],
)
def test_a_file_that_was_changed_is_refused_by_its_path(tmp_path: Path, keys: tuple[Any, ...], value: Any) -> None:
    path = write(tmp_path, outcome(), {})
    whole = inner = json.loads(path.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(whole))
    with refused("outcome.damaged") as caught:
        read_all(tmp_path)
    assert str(path) in caught.value.message


def test_one_model_is_no_run_of_two_seeds(tmp_path: Path) -> None:
    """A repeat may end with the same weights, and another arm is another run."""
    for unit in (UNIT, replace(UNIT, repeat=1), replace(UNIT, arm="random")):
        write(tmp_path, replace(outcome(unit), inputs={"trained": "0" * 64}), {})
    assert len(read_all(tmp_path)) == 3
    write(tmp_path, replace(outcome(replace(UNIT, seed=7)), inputs={"trained": "0" * 64}), {})
    with refused("outcome.damaged"):
        read_all(tmp_path)


def test_a_file_lies_where_its_unit_says(tmp_path: Path) -> None:
    path = write(tmp_path, outcome(), {digest(list(IDS)): IDS})
    path.rename(path.with_name("seed-1.json"))
    with refused("outcome.damaged"):
        read_all(tmp_path)


def test_measures_are_counted_as_attacks_count() -> None:
    attacked = outcome().attacks[0]
    assert [attacked.share(name) for name in ("aua", "clean", "suc")] == [50.0, 75.0, pytest.approx(100 / 3)]
    assert attacked.mean_queries == 20.0
    run = attacked.run(replace(UNIT, seed=3, repeat=1), IDS)
    assert (run.value, run.seed, run.repeat) == (50.0, 3, 1)
    assert dict(run.outcomes or {}) == {"a": True, "b": True, "c": False, "d": False}
    with refused("outcome.damaged"):
        attacked.run(UNIT, IDS[:3])


flavours = st.sampled_from(["corrected", "as-published", "as-released"])


@given(st.integers(0, 99), st.integers(0, 9), flavours, st.sampled_from(["a", "b-1.0_x"]))
def test_an_id_names_one_job(seed: int, repeat: int, flavour: Any, arm: str) -> None:
    unit = Job(task="ag_news", arm=arm, flavour=flavour, seed=seed, repeat=repeat)
    assert Job.of_id(unit.id) == unit
    assert place(Path("r"), unit) == Path(f"r/units/{unit.id}.json")


@pytest.mark.parametrize("last", ["finetune", "x/corrected/seed-0-repeat-0", "../corrected/seed-0", "x/wrong/seed-0"])
def test_what_is_no_job_is_refused(last: str) -> None:
    with refused("job.id"):
        Job.of_id(f"b/sst2/{last}")


# --- paths


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Folders as a user would have them, files without their content."""
    files = dict.fromkeys(
        ("data/sst2/train.csv", "data/sst2/validation.csv", "data/wiki_en/train.txt"), "text,label\na,1\n"
    )
    files |= dict.fromkeys(("models/bert-base-uncased/config.json", "resources/counterfitted_neighbors.json"), "{}")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "resources/counterfit-substitute").mkdir()
    (tmp_path / "resources/nltk_data").mkdir()
    return tmp_path


def found(home: Path, *, subset: bool = True) -> Paths:
    folders = {name: home / name for name in ("data", "models", "resources")}
    return Paths.find(**folders, subset=subset)


def test_what_lies_where_it_usually_does_is_found(home: Path) -> None:
    paths = found(home)
    assert paths.real == home / "resources/counterfitted_neighbors.json"
    assert paths.substitute == home / "resources/counterfit-substitute"
    assert (paths.tagger, paths.encoder) == (home / "resources/nltk_data", None)
    assert paths.masked == home / "models/bert-base-uncased"
    assert paths.corpus == home / "data/wiki_en"
    assert paths.settings(UNIT) == (f"model={home / 'models/bert-base-uncased'}", f"data={home / 'data/sst2'}")
    assert Paths.find().settings(UNIT) == ("model=bert-base-uncased",)
    (home / "data/wikitext-2-raw-v1").mkdir()
    assert found(home).corpus == home / "data/wikitext-2-raw-v1", "the paper's own text comes first"
    for wrong in ({"data": "nowhere"}, {"encoder": "nowhere"}, {"data": home / "data/sst2/train.csv"}):
        with refused("paths.not_found"):
            Paths.find(**wrong)


def test_roles_become_paths_anywhere_in_a_tree(home: Path) -> None:
    paths = found(home)
    tree = {
        "search": {"corpus": FlagText("@corpus"), "like": None},
        "arms": {"on": {"data": "@data/imdb"}},
        "attack": [{"encoder": "@encoder", "n": 3}],
    }
    placed = paths.placed(tree)
    assert placed == {
        "search": {"corpus": str(home / "data/wiki_en"), "like": None},
        "arms": {"on": {"data": str(home / "data/imdb")}},
        "attack": [{"n": 3}],
    }
    assert isinstance(placed["search"]["corpus"], FlagText)  # it is still to be read as what the field is
    assert Paths().placed({"data": "@data/imdb"}) == {}  # the Hub's
    with refused("paths.no_resource"):
        attack("sst2", "textfooler-real").placed(Paths())
    assert attack("sst2", "textfooler-real").placed(paths)["vectors"] == str(paths.real)


def test_what_is_missing_is_said_with_how_to_supply_it(home: Path) -> None:
    paths = found(home)
    assert missing(paths, UNIT, attacks("sst2", ("main", "more"))) == ()
    (rows,) = missing(replace(paths, subset=False), UNIT)  # rows that are a part without being meant to
    assert "--subset" in rows
    (model,) = missing(paths, replace(UNIT, backbone="roberta-base"))
    assert "roberta-base" in model
    (data,) = missing(paths, replace(UNIT, task="imdb"))
    assert "test.parquet" in data
    (words,) = missing(Paths(), UNIT, [attack("sst2", "textbugger-real")])
    assert "--resources" in words
    (corpus,) = missing(Paths(), replace(UNIT, arm="orticket"))
    assert "--data" in corpus


def test_neither_paths_nor_the_protocol_import_torch() -> None:
    code = (
        "import sys; from robust_tickets.reproduce import paths, protocol; from robust_tickets.reproduce.job import Job;"
        "unit = Job(task='sst2', arm='robustt'); protocol.settings(unit, cuda=False); found = protocol.attacks('sst2', protocol.GROUPS);"
        "paths.missing(paths.Paths(), unit, found); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_result_that_cannot_be_of_what_lies_here_is_known(home: Path) -> None:
    paths = found(home)  # one row of SST-2
    part = replace(made("finetune"), notes=("sst2: 1 of the 67,349 rows of train",))
    assert foreign(part, paths) == ""
    assert foreign(made("finetune"), replace(paths, data=None)) == ""  # the Hub's
    assert foreign(made("finetune"), paths)
    config = home / "models" / "bert-base-uncased" / "config.json"
    config.write_text('{"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072}')
    _weights.cache_clear()
    for parameters, known in ((85_054_464, True), (None, True), (40e6, False), (300e6, False)):
        assert (foreign(replace(part, cost={"dense_encoder_parameters": parameters}), paths) == "") == known
