"""`tickets reproduce TABLE`: what it costs and what is missing is said without torch; a smoke budget on a CPU runs and fills a table."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calling import tickets
from jobs import jobs_here as jobs_here
from robust_tickets.cli.main import main
from robust_tickets.reproduce.outcome import read_all, ticket_of
from robust_tickets.reproduce.published import cells
from robust_tickets.ticket.ticket import Ticket
from small_world import World, small_world

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


def kept(folder: Path) -> list[str]:
    return ["--results", str(folder / "results"), "--out", str(folder / "store")]


def asked(world: World, folder: Path) -> list[str]:
    """ER-T1 in small: two arms, one with a search, one run, one attack."""
    only = "--only task=sst2 --only method=finetune,EarlyRobust --only attack=textbugger-real"
    return [*f"ER-T1 {only} --seeds 1 --budget 30m".split(), *world.flags, *kept(folder)]


def dry(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, code: int = 0) -> dict:
    return tickets(capsys, "reproduce", *arguments, "--dry-run", "--results", str(folder / "results"), code=code)


def test_a_clone_without_data_says_the_cost_and_what_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = dry(capsys, tmp_path, "ER-T1", "--only", "task=sst2")
    asked = cells("ER-T1", task="sst2")
    assert {(c["row"], c["metric"], c["attack"]): c["published"] for c in told["cells"]} == {
        (c.row, c.metric, c.attack): c.value for c in asked
    }
    assert told["seconds"]["train"] > 60
    assert told["elsewhere"] is None or 60 < told["elsewhere"]["seconds"] < told["seconds"]["total"]
    assert "H200" in (told["elsewhere"] or told)["device"]
    assert not told["done"]
    assert len(told["units"]) == 5 * len({row["arm"] for row in told["arms"]})
    under = [c for c in told["cells"] if c["attack"] == "textfooler"]
    assert under
    assert all("--resources" in c["why"] for c in under)
    assert not any(c["why"] for c in told["cells"] if c["metric"] == "clean")


@pytest.mark.parametrize(
    "wrong",
    [
        "--only taks=sst2",
        "--only task=sst",
        "--only attack=textfoler",
        "--only seed=9",
        "--only sst2",
        "--only task=sst2,method=finetune",
        "--attacks main,confirm",
        f"--out {__file__}",
        "--seeds 0",
        "--processes 0",
        "--budget 20",
        "--attacks mian",
        "--data nowhere",
    ],
)
def test_what_is_asked_wrongly_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: str) -> None:
    assert dry(capsys, tmp_path, "ER-T1", *wrong.split(), code=2)["error"]["hint"]


def test_a_page_that_cannot_be_written_is_told_before_anything_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = str(Path(__file__) / "below" / "index.html")
    tickets(capsys, "reproduce", "ER-T1", "--only", "task=sst2", "--page", place, *kept(tmp_path), code=2)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["A", "b", "C", "D", "E"])
def test_campaigns_are_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    told = dry(capsys, tmp_path, "--campaign", name)
    assert told["units"]
    assert len(set(told["units"])) == len(told["units"])
    if name == "A":  # five runs of each of three arms, and seed 0 twice more
        assert len(told["units"]) == 3 * (5 + 2)


@pytest.mark.shared
@pytest.mark.parametrize("id", ["ER-T1", "RT-T1", "OR-T1"])
def test_with_everything_at_hand_nothing_of_sst2_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shared: Path, id: str
) -> None:
    folders = [f for name in ("data", "models", "resources") for f in (f"--{name}", str(shared / name))]
    told = dry(capsys, tmp_path, id, "--only", "task=sst2", *folders)
    assert told["missing"] == []
    assert not [c for c in told["cells"] if c["why"]]


def test_a_smoke_budget_runs_and_fills_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World
) -> None:
    """Two arms, one with a search, one attack; the second call finds all done; another attack is added to what is there."""
    told = tickets(capsys, "reproduce", *asked(world, tmp_path))
    assert told["work"]["failed"] == []
    found = read_all(tmp_path / "results")
    assert {(o.unit.arm, *[a.name for a in o.attacks]) for o in found} == {
        ("finetune", "textbugger-real"),
        ("earlyrobust_first", "textbugger-real"),
    }
    (table,) = told["tables"]
    filled = {(c["row"], c["metric"]): c for c in table["cells"]}
    assert filled["EarlyRobust", "clean"]["ours"]["n"] == 1
    assert (
        filled["EarlyRobust", "aua"]["published"]
        == cells("ER-T1", task="sst2", row="EarlyRobust", metric="aua", attack="textbugger")[0].value
    )
    assert all(Path(path).is_file() for path in told["written"])
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")}
    again = tickets(capsys, "reproduce", *asked(world, tmp_path))
    assert len(again["done"]) == 2
    assert again["seconds"]["total"] == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "results").rglob("*.json")} == before
    assert again["tables"] == told["tables"]


@pytest.fixture(scope="module")
def ran(world: World, jobs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of one run of two arms."""
    folder = tmp_path_factory.mktemp("ran")
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *asked(world, folder), "--quiet"])
    assert end.value.code == 0
    return folder


def test_a_campaign_runs_with_what_is_there(capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World) -> None:
    """Without a tagger TextFooler is missing: the runs are trained all the same, repeats of a seed too, and the rest says why."""
    asked = ["--campaign", "A", "--attacks", "main", "--only", "method=finetune", "--seeds", "1"]
    told = tickets(capsys, "reproduce", *asked, *world.flags, *kept(tmp_path))
    assert sorted(told["work"]["done"]) == [
        f"bert-base-uncased/sst2/finetune/corrected/seed-0{end}" for end in ("", "-repeat-1", "-repeat-2")
    ]
    (table,) = told["tables"]
    by_metric = {cell["metric"]: cell for cell in table["cells"]}
    assert by_metric["clean"]["ours"]["n"] == 1  # repeats are no further runs
    assert "tagger" in by_metric["aua"]["why"]
    assert by_metric["aua"]["published"] is None


def test_a_figure_of_searches_trains_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World) -> None:
    told = tickets(capsys, "reproduce", "ER-F2", "--only", "task=sst2", "--seeds", "1", *world.flags, *kept(tmp_path))
    assert told["seconds"]["train"] == 0
    assert told["seconds"]["search"] > 0
    (outcome,) = read_all(tmp_path / "results")
    assert outcome.clean == {}
    assert outcome.traces["distances"]["points"][-1] == 1.0  # goes on where the rule would stop
    assert told["tables"] == []
    assert [one["id"] for one in told["figures"]] == ["ER-F2"]
    (path,) = told["written"]
    assert "<svg" in Path(path).read_text("utf-8")
    again = dry(capsys, tmp_path, "ER-F2", "--only", "task=sst2", "--seeds", "1", *world.flags)
    assert again["seconds"]["total"] == 0
    tickets(capsys, "reproduce", "ER-F5", "--only", "task=sst2", "--seeds", "1", *world.flags, *kept(tmp_path))
    ask = ("ER-T1", "--only", "task=sst2", "--only", "method=earlyrobust", "--seeds", "1", *world.flags)
    trained = dry(capsys, tmp_path, *ask, "--out", str(tmp_path / "store"))
    assert trained["seconds"]["search"] == 0  # it is found done
    assert trained["seconds"]["train"] > 0
    elsewhere = dry(capsys, tmp_path, *ask, "--out", str(tmp_path / "other"))
    assert elsewhere["seconds"]["search"] > 0


def test_a_failed_run_is_passed_over_and_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World) -> None:
    """Weights that cannot be read."""
    models = shutil.copytree(world.models, tmp_path / "models")
    (models / "bert-base-uncased" / "model.safetensors").write_bytes(b"torn")
    broken = replace(world, models=models)
    ask = [
        "reproduce",
        "ER-T1",
        "--only",
        "task=sst2",
        "--only",
        "method=finetune,freelb",
        "--only",
        "metric=clean",
        "--seeds",
        "1",
    ]
    told = tickets(capsys, *ask, *broken.flags, *kept(tmp_path), code=3)
    assert len(told["work"]["failed"]) == 2
    assert all(told["work"]["why"].values())


def test_a_result_of_another_model_is_not_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World, ran: Path
) -> None:
    """Neither for done nor into the table."""
    shutil.copytree(ran / "results", tmp_path / "results")
    models = shutil.copytree(world.models, tmp_path / "models")
    config = models / "bert-base-uncased" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 24}))
    same, other = asked(world, tmp_path), asked(replace(world, models=models), tmp_path)
    assert not tickets(capsys, "reproduce", *same, "--dry-run")["refused"]
    planned = tickets(capsys, "reproduce", *other, "--dry-run")
    assert (planned["done"], len(planned["refused"])) == ([], 2)
    told = tickets(capsys, "reproduce", *other, code=3)
    assert len(told["work"]["failed"]) == 2
    assert not any(cell["ours"] for table in told["tables"] for cell in table["cells"])


def test_a_rehearsal_is_not_taken_without_its_flag(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World, ran: Path
) -> None:
    """Nor where these data make no run: the table was filled with results of 160 rows."""
    shutil.copytree(ran / "results", tmp_path / "results")
    given = asked(world, tmp_path)
    assert any(cell["ours"] for table in tickets(capsys, "reproduce", *given)["tables"] for cell in table["cells"])
    given.remove("--subset")
    planned = tickets(capsys, "reproduce", *given, "--dry-run")
    assert len(planned["refused"]) == 2
    told = tickets(capsys, "reproduce", *given)
    assert not any(cell["ours"] for table in told["tables"] for cell in table["cells"])


def test_the_page_is_made_of_results_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path, ran: Path) -> None:
    for name in ("one.html", "two.html"):
        assert tickets(capsys, "reproduce", "--page", str(tmp_path / name), "--results", str(ran / "results"))[
            "written"
        ]
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    tickets(capsys, "reproduce", "--page", str(tmp_path / "x.html"), "--results", str(tmp_path / "none"), code=2)
    assert not (tmp_path / "x.html").exists()
    tickets(capsys, "reproduce", "--page", str(tmp_path), "--results", str(ran / "results"), code=2)


def test_a_ticket_of_single_weights_keeps_its_counts_by_head(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """RT-F3 shows heads (q, k, v) and MLPs (o, up, down): counted from the masks themselves."""
    world = small_world(tmp_path / "world", train=32)
    told = tickets(capsys, "reproduce", "RT-F3", "--only", "task=sst2", "--seeds", "1", *world.flags, *kept(tmp_path))
    assert told["work"]["failed"] == []
    (outcome,) = read_all(tmp_path / "results")
    (path,) = (tmp_path / "store" / "search").glob("*/ticket.json")
    ticket = Ticket.load(path.parent)
    masks = dict(zip(ticket.names, ticket.masks["weights"], strict=True))
    rows = [masks[f"encoder.layer.1.attention.self.{part}.weight"] for part in ("query", "key", "value")]
    wide = len(rows[0]) // 4
    by_hand = [
        [int(sum(row[wide * k : wide * (k + 1)].sum() for row in rows)), sum(row.size for row in rows) // 4]
        for k in range(4)
    ]
    assert outcome.ticket["by_head"][1] == by_hand
    assert ticket_of(tmp_path / "results", outcome) is None
    command = outcome.ticket["again"].replace("NEW", str(tmp_path / "new")).split()
    assert command[0] == "tickets"
    assert tickets(capsys, *command[1:], *world.flags)["work"]["failed"] == []
    (again,) = read_all(tmp_path / "new")
    assert again.ticket == outcome.ticket
    rest = [mask for name, mask in masks.items() if name.startswith("encoder.layer.1.") and ".self." not in name]
    assert outcome.ticket["by_mlp"][1] == [int(sum(mask.sum() for mask in rest)), sum(mask.size for mask in rest)]


ARMS = ("robustt", "finetune_rt", "freelb", "infobert", "pgd")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"), train=32, rows=8)


@pytest.fixture(scope="module")
def released(small: World, jobs_here: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of some arms as released."""
    folder = tmp_path_factory.mktemp("released")
    units = [f"bert-base-uncased/sst2/{arm}/as-released/seed-0" for arm in ARMS]
    given = [*(word for id in units for word in ("--job", id)), "--attacks", "", "--out", str(folder / "store")]
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *given, "--results", str(folder / "results"), "--quiet", *small.flags])
    assert end.value.code == 0
    return folder / "results"


def outcome(results: Path, arm: str, flavour: str = "as-released") -> dict[str, Any]:
    return json.loads(
        (results / "units" / "bert-base-uncased" / "sst2" / arm / flavour / "seed-0.json").read_text("utf-8")
    )


def test_as_released_trains_as_the_scripts_do(released: Path) -> None:
    """Lengths, clipping, weight decay, warm-up and step size; 500 warm-up steps are no share of training and left out."""
    trained = {arm: outcome(released, arm)["config"]["recipe"]["arms"][0]["train"] for arm in ARMS}
    found = {arm: (one["epochs"], one["clip"], one["weight_decay"], one["warmup"]) for arm, one in trained.items()}
    assert found == {
        "robustt": (19, 0, 1e-2, 0.1),
        "finetune_rt": (3, 0, 1e-2, 0.1),
        "freelb": (10, 1, 1e-2, 0.1),
        "infobert": (10, 1, 1e-2, 0),
        "pgd": (10, 1, 1e-6, 0),
    }
    assert [trained[arm]["adversary"]["step_size"] for arm in ("freelb", "infobert", "pgd")] == [0.03, 0.04, 0.03]
