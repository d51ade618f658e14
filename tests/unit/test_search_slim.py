"""EarlyBERT, drawing points, horizons; tickets found under word swaps."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import robust_tickets as rt
from killing import killed
from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.config import build, describe
from robust_tickets.experiment.execute import search_key
from robust_tickets.search import stopping
from robust_tickets.search.earlybert import EarlyBERT
from robust_tickets.search.earlyrobust import TABLE6, EarlyRobust
from robust_tickets.search.orticket import ORTicket
from robust_tickets.stages import identity_of
from tiny import tiny_classifier, tiny_model, tiny_tokenizer
from toy import rates, toy_task

SMALL: dict[str, Any] = {"batch_size": 4, "lr": 1e-3}
FEW: dict[str, Any] = {**SMALL, "adversary": FreeLB(steps=2)}


# --- EarlyBERT -------------------------------------------------------------------------------------------------------------------


def test_earlybert_draws_at_a_fifth_of_an_epoch_of_a_schedule_for_three(tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(80)  # 20 updates an epoch
    before = clf.digest
    found = EarlyBERT(**SMALL, log_every=1)(clf, task, folder=tmp_path)
    assert clf.digest == before
    told = found.ticket.provenance
    assert (told["step"], told["epoch"], told["steps_run"], told["converged"]) == (4, 0.2, 4, None)
    assert [line["step"] for line in found.trace] == [1, 2, 3, 4]
    assert found.trace[-1]["drawn"]
    assert "note" not in found.trace[-1]
    assert rates(tmp_path) == pytest.approx([1e-3 * (60 - i) / 60 for i in range(4)])
    assert EarlyBERT(**SMALL).steps(task) == 4


def test_earlyberts_ticket_is_layer_wise_in_heads_and_global_in_neurons() -> None:
    ticket = EarlyBERT(**SMALL, heads=0.25, neuron_l1=0.0)(tiny_classifier(), toy_task(40)).ticket
    assert [int(mask.sum()) for mask in ticket.masks["heads"]] == [3, 3, 3]
    assert sum(int((~mask).sum()) for mask in ticket.masks["neurons"]) == int(0.4 * 72)
    assert len({int(mask.sum()) for mask in ticket.masks["neurons"]}) > 1


def test_earlybert_is_earlyrobust_without_adversary_but_for_its_numbers() -> None:
    """With the same numbers the two are the same search."""
    own = {k: v for k, v in describe(EarlyBERT(**SMALL)).items() if k != "name"}
    one = EarlyBERT(**SMALL)(tiny_classifier(), toy_task(40))
    other = build(EarlyRobust, own)(tiny_classifier(), toy_task(40))
    assert list(one.trace) == list(other.trace)
    assert one.ticket.digest == other.ticket.digest


def test_earlybert_defaults_and_the_baseline_of_earlyrobust() -> None:
    method = EarlyBERT()
    assert (method.heads, method.neurons, method.head_l1, method.neuron_l1) == (1 / 3, 0.4, 1e-4, 1e-4)
    assert (method.adversary, method.weight_decay, method.warmup) == (None, 0.0, 0.0)
    for name, row in TABLE6.items():
        same = EarlyRobust.for_task(name)
        assert (EarlyBERT.for_task(name).heads, EarlyBERT.for_task(name).neurons) == (same.heads, same.neurons)
        assert EarlyBERT.for_task(name).batch_size == row["batch_size"]


# --- where to draw ---------------------------------------------------------------------------------------------------------------


def test_a_fixed_point_stops_there_and_equals_the_same_point_of_a_whole_search() -> None:
    clf, task = tiny_classifier(), toy_task(80)
    fixed = EarlyRobust(**FEW, stop="fixed", at_epoch=0.23)(clf, task)  # 4.6 of 20 updates
    whole = EarlyRobust(**FEW, gamma=0.0, mini=0.25, stop="official")(clf, task)
    assert fixed.ticket.provenance["step"] == fixed.ticket.provenance["steps_run"] == 5
    assert whole.trace[0]["step"] == 5
    assert fixed.distances["rule"] == "fixed"
    at_five = EarlyRobust(**FEW, gamma=1.1, mini=0.25, stop="official", window=1)(clf, task).ticket
    for group in ("heads", "neurons"):
        assert all((a == b).all() for a, b in zip(fixed.ticket.scores[group], at_five.scores[group], strict=True))


def test_official_before_draws_one_update_before_the_masks_are_compared() -> None:
    clf, task = tiny_classifier(), toy_task(80)
    found = EarlyRobust(**FEW, stop="official", at="before", gamma=1.1, window=2, mini=0.2)(clf, task)
    assert [line["step"] for line in found.trace] == [4, 5, 8, 9, 12, 13]  # stops as soon as it can
    assert found.ticket.provenance["step"] == 4
    assert found.trace[0]["drawn"]


def test_the_papers_rule_draws_at_the_first_of_its_five_points_and_ends_at_the_last() -> None:
    clf, task = tiny_classifier(), toy_task(400)
    first, last = (rt.EarlyRobust(**FEW, gamma=1.1, mini=0.12, **said)(clf, task) for said in ({}, {"at": "current"}))
    assert [(f.ticket.provenance["step"], f.ticket.provenance["steps_run"]) for f in (first, last)] == [
        (24, 72),
        (72, 72),
    ]
    assert (first.distances["drawn_at"], first.distances["stopped_at"], first.ticket.provenance["method"]["at"]) == (
        0.24,
        0.72,
        "first",
    )
    assert [line["loss"] for line in first.trace] == [line["loss"] for line in last.trace]  # the same search


@pytest.mark.parametrize(
    ("method", "at"),
    [
        (rt.EarlyRobust(), "first"),
        (rt.ORTicket(corpus="task"), "first"),
        (rt.EarlyRobust(at="current"), "current"),
        (rt.EarlyBERT(), "current"),
        (replace(rt.EarlyRobust(), stop="official"), "current"),
        (rt.EarlyRobust.for_task("sst2", stop="early_bird"), "current"),
        (rt.EarlyRobust(stop="official", at="before"), "before"),
    ],
)
def test_where_a_rule_draws_depends_on_the_rule_and_is_in_the_settings(method: Any, at: str) -> None:
    assert describe(method)["at"] == at


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0),
        ([9.0, 0.0, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0], 0),  # where it draws is not compared
        ([0.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5], 2),
        ([0.0, 0.0, 0.0, 0.5, 0.0, 1.0, 0.0, 1.5], None),
    ],
)
def test_the_released_slip_on_synthetic_points(moves: list[float], expected: int | None) -> None:
    at = np.array(moves)
    far = np.abs(at[:, None] - at[None, :])
    drawn = next(
        (p for n in range(1, len(at) + 1) if (p := stopping.official(far[:n, :n], 0.1, 2, "before")) is not None), None
    )
    assert drawn == expected


def test_mini_epochs_of_one_update_leave_no_room_for_the_slip() -> None:
    with refused("settings.rule"):
        EarlyRobust(**FEW, stop="official", at="before")(tiny_classifier(), toy_task(80))
    with refused("settings.rule"):
        EarlyRobust(**FEW, stop="official", at="before", mini=1.0)(tiny_classifier(), toy_task(80))


@pytest.mark.parametrize(
    "wrong",
    [{"at": "before"}, {"at": "first", "stop": "fixed"}, {"stop": "early_bird", "at": "before"}, {"at_epoch": 1.5},
     {"horizon": 2, "epochs": 3}],
)  # fmt: skip
def test_bad_combinations_are_refused(wrong: dict[str, Any]) -> None:
    with refused("settings.rule"):
        EarlyRobust(**wrong)


def test_a_horizon_beyond_the_run_keeps_the_rate_up(tmp_path: Path) -> None:
    clf, task = tiny_classifier(), toy_task(40)
    for name, options in (("short", {}), ("long", {"horizon": 4})):
        EarlyRobust(
            **{**SMALL, "adversary": None, "gamma": 0.0, "stop": "official", "warmup": 0.0, "log_every": 1, **options}
        )(clf, task, folder=tmp_path / name)
    assert rates(tmp_path / "short") == pytest.approx([1e-3 * (10 - i) / 10 for i in range(10)])
    assert rates(tmp_path / "long") == pytest.approx([1e-3 * (40 - i) / 40 for i in range(10)])


# --- the mixin, and going on -----------------------------------------------------------------------------------------------------


NAMES = {
    "IMDB": "imdb",
    "SST2": "sst2",
    "SST-2": "sst2",
    "AGNEWS": "ag_news",
    "AG NEWS": "ag_news",
    "QNLI": "qnli",
    "QQP": "qqp",
}


@pytest.mark.shared
def test_rows_are_the_papers(shared: Path) -> None:
    """L1 weights and steps from Table 6; shares of neurons from the parameters that both papers tell, in millions."""
    told = json.loads((shared / "papers" / "paper_tables.json").read_text())
    for name, row in told["hyperparameters"]["EarlyRobust_table6"].items():
        ours = EarlyRobust.for_task(NAMES[name])
        assert (ours.head_l1, ours.neuron_l1, ours.lr) == (row["lambda_H"], row["lambda_F"], row["lr"])
        assert (ours.adversary.init, ours.adversary.steps, ours.adversary.step_size) == (
            row["adv_init_mag"], row["adv_steps"], row["adv_lr"])  # fmt: skip
    seen = set()
    for entry in told["entries"]:
        for key, whole in (("params_M_no_embeddings", 85_054_464), ("params_M_total", 109_483_778)):
            if key in entry["metrics"] and entry["method"] == entry["paper"] in ("EarlyRobust", "ORTicket"):
                drawn = (EarlyRobust if entry["paper"] == "EarlyRobust" else ORTicket).for_task(NAMES[entry["dataset"]])
                heads, neurons = int(drawn.heads * 144 + 1e-9), int(drawn.neurons * 36_864 + 1e-9)
                left = (whole - heads * (4 * 64 * 768 + 3 * 64) - neurons * (2 * 768 + 1)) / 1e6
                assert (
                    abs(left - entry["metrics"][key]) < 0.8
                )  # rounded or cut to millions; a tenth of the neurons is 5.7
                seen.add((entry["paper"], entry["dataset"]))
    assert len(seen) == 10


@pytest.mark.parametrize("at", [1, 3, 5])
@pytest.mark.parametrize(
    "method",
    [
        EarlyRobust(**FEW, gamma=0.0, mini=0.1, checkpoint_steps=1),
        EarlyRobust(**FEW, stop="official", at="before", gamma=1.1, window=2, mini=0.2, checkpoint_steps=2),
        EarlyBERT(**SMALL, at_epoch=0.6, checkpoint_steps=1),
    ],
    ids=["earlyrobust", "before", "earlybert"],
)
def test_a_search_that_is_killed_goes_on_to_the_same_ticket(tmp_path: Path, method: Any, at: int) -> None:
    clf, task = tiny_classifier(), toy_task(40 if method.at != "before" else 80)
    whole = method(clf, task)
    with killed(at):
        method(clf, task, folder=tmp_path)
    again = method(clf, task, folder=tmp_path)
    assert list(again.trace) == list(whole.trace)
    assert again.ticket == whole.ticket
    for group in ("heads", "neurons"):
        assert all((a == b).all() for a, b in zip(again.ticket.scores[group], whole.ticket.scores[group], strict=True))


LISTS = {
    "good": ["great", "fine"],
    "bad": ["awful", "poor"],
    "film": ["movie"],
    "movie": ["film", "story"],
    "story": ["plot"],
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A classifier whose folder has a head for masked words too."""
    folder = tmp_path_factory.mktemp("masked")
    model = tiny_model("bert", "AutoModelForMaskedLM")
    model.save_pretrained(folder)
    tiny_tokenizer(model.config).save_pretrained(folder)
    return rt.load_classifier(folder, toy_task(8), max_length=32, device="cpu")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "lists.json").write_text(json.dumps(LISTS))
    return tmp_path / "lists.json"


def _search(method: str, adversary: Any) -> Any:
    if method == "earlyrobust":
        return rt.EarlyRobust(adversary=adversary, batch_size=8, lr=1e-2)
    return rt.ORTicket(adversary=adversary, corpus="task", block=16, batch_size=4, lr=1e-2, epochs=1)


@pytest.mark.parametrize("kind", [rt.RobustT, rt.Prasanna])
def test_the_words_of_the_first_stage_decide_too(kind: Any, start: Any, source: Path) -> None:
    """Else a walk would find the search done that was tuned on other words."""
    method = kind(tuning=rt.FineTune(adversary=rt.SynonymSwap(source=str(source))))
    before = [search_key(method, {}), identity_of(method, start, toy_task(8))]
    assert [search_key(method, {}), identity_of(method, start, toy_task(8))] == before
    source.write_text(json.dumps({**LISTS, "good": ["fine"]}))
    after = [search_key(method, {}), identity_of(method, start, toy_task(8))]
    assert all(a != b for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("method", ["earlyrobust", "orticket"])
def test_other_words_under_the_same_path_are_another_search(
    method: str, start: Any, source: Path, tmp_path: Path
) -> None:
    search = _search(method, rt.SynonymSwap(source=str(source)))
    folder = tmp_path / "search"
    search(start, toy_task(24), folder=folder)
    assert (folder / "checkpoint").is_dir()
    search(start, toy_task(24), folder=folder)  # the same again goes on from there
    source.write_text(json.dumps({**LISTS, "good": ["fine"]}))
    with refused("stage.other_work"):
        search(start, toy_task(24), folder=folder)
