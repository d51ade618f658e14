"""Outcomes: a file holds all of a unit, reads back as written, and does not let itself be changed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_tickets.config import digest
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Attacked, Outcome, ids_of, place, read, read_all, write
from robust_tickets.reproduce.published import toml

IDS = ("a", "b", "c", "d")


def outcome(unit: Job | None = None, statuses: str = "ffsk") -> Outcome:
    attacked = Attacked(
        name="textfooler-real", recipe="TextFooler", digest="0" * 64, split="validation", examples=digest(list(IDS)), statuses=statuses,
        queries=(10, 20, 30, 1), resources={"vectors": {"name": "real", "substitute": False}}, substitutes=(), flags=("small",),
        texts=({"id": "c", "label": 1, "original": ["good"], "perturbed": ["fine"]},),
    )  # fmt: skip
    return Outcome(
        unit=unit or Job(task="sst2", arm="finetune"), config={"epochs": 10, "lr": 2e-5}, inputs={"task": "t"}, env={"device": "cpu"},
        clean={"accuracy": 75.0, "n": 4}, cost={"train_seconds": 1.5}, attacks=(attacked,), traces={"distances": [[0.0, 0.5], [0.5, 0.0]]},
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
    encoder = {
        "name": "enc",
        "origin": "given path",
        "digest": next(d for d, n in toml("attacks.toml")["called"].items() if "MiniLM" in n),
    }
    about = {
        "resources": {"encoder": encoder, "tagger": {"name": "enc", "digest": "0" * 64}},
        "substitutes": ("the Universal Sentence Encoder: enc instead", "the part-of-speech tagger: enc instead"),
        "flags": ("substitute encoder: enc; numbers do not compare", "substitute tagger: enc; numbers do not compare"),
    }
    told = outcome()
    path = write(tmp_path, replace(told, attacks=(replace(told.attacks[0], **about),)), {})
    before = path.read_bytes()
    (found,) = read(path).attacks
    assert {kind: one["name"] for kind, one in found.resources.items()} == {
        "encoder": "all-MiniLM-L6-v2",
        "tagger": "enc",
    }
    assert found.substitutes == ("the Universal Sentence Encoder: all-MiniLM-L6-v2 instead", about["substitutes"][1])
    assert found.flags == ("substitute encoder: all-MiniLM-L6-v2; numbers do not compare", about["flags"][1])
    assert path.read_bytes() == before


def test_a_config_changed_by_hand_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, outcome(), {digest(list(IDS)): IDS})
    told = json.loads(path.read_text())
    told["config"]["epochs"] = 3
    path.write_text(json.dumps(told))
    with pytest.raises(TicketsError, match="hash"):
        read(path)


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("unit", "seed"), "one", "unit.seed: expected a whole number"),
        (("attacks", 0, "queries"), [1], "textfooler-real: 4 statuses and 1 numbers of queries"),
        (("more",), 1, "unknown key 'more'"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_by_its_path(
    tmp_path: Path, keys: tuple[Any, ...], value: Any, told: str
) -> None:
    path = write(tmp_path, outcome(), {})
    whole = inner = json.loads(path.read_text())
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(whole))
    with pytest.raises(TicketsError) as caught:
        read_all(tmp_path)
    assert str(path) in caught.value.message
    assert told in caught.value.message


def test_one_model_is_no_run_of_two_seeds(tmp_path: Path) -> None:
    """A repeat may end with the same weights, and another arm is another run."""
    units = [
        Job(task="sst2", arm=arm, seed=0, repeat=repeat)
        for arm, repeat in (("finetune", 0), ("finetune", 1), ("random", 0))
    ]
    for unit in units:
        write(tmp_path, replace(outcome(unit), inputs={"trained": "0" * 64}), {})
    assert len(read_all(tmp_path)) == 3
    write(tmp_path, replace(outcome(Job(task="sst2", arm="finetune", seed=7)), inputs={"trained": "0" * 64}), {})
    with pytest.raises(TicketsError, match=r"seed-0 and .*seed-7 hold one trained model"):
        read_all(tmp_path)


def test_statuses_of_fewer_examples_are_told_with_the_unit() -> None:
    told = outcome()
    with pytest.raises(TicketsError, match="finetune/corrected/seed-0, textfooler-real: 4 statuses of 3 examples"):
        told.attacks[0].run(told.unit, IDS[:3])


def test_a_file_lies_where_its_unit_says(tmp_path: Path) -> None:
    path = write(tmp_path, outcome(), {digest(list(IDS)): IDS})
    path.rename(path.with_name("seed-1.json"))
    with pytest.raises(TicketsError, match="holds the job"):
        read_all(tmp_path)


def test_measures_are_counted_as_attacks_count() -> None:
    attacked = outcome().attacks[0]
    assert (attacked.share("aua"), attacked.share("clean"), attacked.share("suc")) == (
        50.0,
        75.0,
        pytest.approx(100 / 3),
    )
    assert attacked.mean_queries == 20.0
    run = attacked.run(Job(task="sst2", arm="x", seed=3, repeat=1), IDS)
    assert (run.value, run.seed, run.repeat, dict(run.outcomes or {})) == (
        50.0,
        3,
        1,
        {"a": True, "b": True, "c": False, "d": False},
    )
    with pytest.raises(TicketsError, match="statuses"):
        Attacked(**{**vars(attacked), "queries": (1,)})


@given(
    st.integers(0, 99),
    st.integers(0, 9),
    st.sampled_from(["corrected", "as-published", "as-released"]),
    st.sampled_from(["a", "b-1.0_x"]),
)
def test_an_id_names_one_unit(seed: int, repeat: int, flavour: str, arm: str) -> None:
    unit = Job(task="ag_news", arm=arm, flavour=flavour, seed=seed, repeat=repeat)  # type: ignore[arg-type]
    assert Job.of_id(unit.id) == unit
    assert (
        place(Path("r"), unit)
        .relative_to("r/units")
        .with_suffix("")
        .as_posix()
        .startswith("bert-base-uncased/ag_news/")
    )


@pytest.mark.parametrize(
    "bad",
    [
        "sst2/finetune",
        "b/sst2/finetune/corrected/seed-0-repeat-0",
        "b/sst2/../corrected/seed-0",
        "b/sst2/x/wrong/seed-0",
    ],
)
def test_what_is_no_unit_is_refused(bad: str) -> None:
    with pytest.raises(TicketsError):
        Job.of_id(bad)
