"""`tickets reproduce TABLE`: what it costs and what is missing is said without torch; a smoke budget on a CPU runs and fills a table."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from calling import tickets
from jobs import jobs_here as jobs_here
from robust_tickets.cli.main import main
from robust_tickets.cli.reproduce import _failed
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import read_all, ticket_of
from robust_tickets.reproduce.published import cells
from robust_tickets.reproduce.runner import Summary
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
    only = ("task=sst2", "method=finetune,EarlyRobust", "attack=textbugger-real")
    return [
        "ER-T1",
        *(word for one in only for word in ("--only", one)),
        "--seeds",
        "1",
        "--budget",
        "30m",
        *world.flags,
        *kept(folder),
    ]


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
    assert any("--resources FOLDER" in words for words in told["missing"])
    assert told["seconds"]["train"] > 60
    assert told["elsewhere"] is None or 60 < told["elsewhere"]["seconds"] < told["seconds"]["total"]
    assert "H200" in (told["elsewhere"] or told)["device"]
    assert not told["done"]
    assert len(told["units"]) == 5 * len({row["arm"] for row in told["arms"]})
    under = [c for c in told["cells"] if c["attack"] == "textfooler"]
    assert under
    assert all("--resources" in c["why"] for c in under)
    assert not any(c["why"] for c in told["cells"] if c["metric"] == "clean")


def test_the_dry_run_reads_well_and_loads_no_torch(tmp_path: Path) -> None:
    arguments = [
        "reproduce",
        "ER-T1",
        "--only",
        "task=sst2",
        "--dry-run",
        "--budget",
        "20m",
        "--results",
        str(tmp_path / "none"),
    ]
    code = (
        "import sys\nfrom robust_tickets.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules), 'imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = " ".join(done.stdout.split())
    for words in ("35 training runs, none done", "cost: about", "budget 20 min 00 s", "data: from the Hub", "missing"):
        assert words in out, words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ER-T1", "--only", "taks=sst2"], "did you mean 'task'"),
        (["ER-T1", "--only", "task=sst"], "did you mean 'sst2'"),
        (["ER-T1", "--only", "method=EarlyRobustt"], "did you mean 'EarlyRobust'"),
        (["ER-T1", "--only", "attack=textfoler"], "did you mean 'textfooler'"),
        (["ER-T1", "--only", "metric=auas"], "did you mean 'aua'"),
        (["ER-T1", "--only", "seed=9"], "known: 0, 1, 2, 3, 4"),
        (["ER-T1", "--only", "sst2"], "--only task=sst2"),
        (["ER-T1", "--only", "task=sst2,method=finetune"], "--only task=sst2 --only method="),
        (["ER-T1", "--only", "task=sst2", "--only", "method=FreeLB", "--only", "attack=none"], "known:"),
        (["ER-T1", "--attacks", "main,confirm"], "--campaign B"),
        (["ER-T1", "--campaign", "A"], "two commands"),
        (["ER-T1", "--out", __file__], "give a folder"),
        (["ER-T1", "--seeds", "0"], "5 runs"),
        (["ER-T1", "--processes", "0"], "one after the other"),
        (["ER-T1", "--budget", "20"], "1h30m"),
        (["ER-T1", "--attacks", "mian"], "did you mean 'main'"),
        (["ER-T1", "--data", "nowhere"], "check the path"),
        (["--campaign", "Z"], "known: A"),
        (["ER-F1"], "a drawing of the method"),
        ([], "--list"),
    ],
)
def test_what_is_asked_wrongly_says_what_is_right(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    told = dry(capsys, tmp_path, *arguments, code=2)["error"]
    assert words in told["hint"]
    if "--budget" in arguments:
        assert told["message"].startswith("--budget is a time")


def test_a_page_that_cannot_be_written_is_told_before_anything_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = str(Path(__file__) / "below" / "index.html")
    told = tickets(capsys, "reproduce", "ER-T1", "--only", "task=sst2", "--page", place, *kept(tmp_path), code=2)[
        "error"
    ]
    assert told["message"].startswith("nothing can be written to")


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


def test_searches_are_not_called_training(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for asked, words in (
        (["ER-F2"], "1 cell; 5 searches without training, none done"),
        (["ER-F2", "ER-T7"], "20 training runs"),
    ):
        with pytest.raises(SystemExit):
            main(["reproduce", *asked, "--only", "task=sst2", "--dry-run", "--results", str(tmp_path)])
        assert words in capsys.readouterr().out


def test_what_counts_as_done_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder that is not there, and results of what cannot be run here, would both leave a reader guessing."""
    said = {}
    for folder in (tmp_path / "none", Path(__file__).parents[2] / "results"):
        with pytest.raises(SystemExit):
            main(
                [
                    "reproduce",
                    "ER-T1",
                    "--only",
                    "task=sst2",
                    "--only",
                    "method=finetune",
                    "--dry-run",
                    "--results",
                    str(folder),
                ]
            )
        said[folder.name] = " ".join(capsys.readouterr().out.split())
    assert (
        "9 cells, of which 6 cannot be run here; 5 training runs, none done results: there is no folder" in said["none"]
    )
    assert "9 cells, of which 6 cannot be run here (6 of them with results); 5 training runs, 5 done" in said["results"]
    assert "there is no folder" not in said["results"]


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
    """Weights that cannot be read; what to do stands in the terminal too."""
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
    with pytest.raises(SystemExit):
        main([*ask, *broken.flags, *kept(tmp_path)])
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("failed: ")]
    assert len(said) == 2
    for line, message in zip(said, told["work"]["why"].values(), strict=True):
        what, _, to_do = message.partition("\n  hint: ")
        assert to_do
        assert line.endswith(f"{what}; {to_do}")


def test_many_runs_that_failed_for_one_reason_are_one_line() -> None:
    units = [Job(task="sst2", arm="finetune", seed=seed) for seed in range(5)]
    why = {unit.id: "no rows\n  hint: give --data" for unit in units[:3]} | {unit.id: "no memory" for unit in units[3:]}
    assert _failed(Summary(failed=tuple(units), why=why)) == [
        f"failed: {units[0].id} and 2 others: no rows; give --data",
        f"failed: {units[3].id}: no memory",
        f"failed: {units[4].id}: no memory",
    ]


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
    assert all("there is a result of a model with" in words for words in planned["refused"])
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
    assert all("a result of a part of the data: sst2: 160 of" in words for words in planned["refused"])
    told = tickets(capsys, "reproduce", *given)
    assert not any(cell["ours"] for table in told["tables"] for cell in table["cells"])


def test_the_page_is_made_of_results_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path, ran: Path) -> None:
    for name in ("one.html", "two.html"):
        assert tickets(capsys, "reproduce", "--page", str(tmp_path / name), "--results", str(ran / "results"))[
            "written"
        ]
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    none = tickets(capsys, "reproduce", "--page", str(tmp_path / "x.html"), "--results", str(tmp_path / "none"), code=2)
    assert "holds no results" in none["error"]["message"]
    assert not (tmp_path / "x.html").exists()
    folder = tickets(capsys, "reproduce", "--page", str(tmp_path), "--results", str(ran / "results"), code=2)
    assert "is a folder" in folder["error"]["message"]


def test_a_run_reads_well(capsys: pytest.CaptureFixture[str], world: World, ran: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main(["reproduce", *asked(world, ran), "--page", str(ran / "page.html")])
    out, err = capsys.readouterr()
    assert end.value.code == 0
    assert "cost: nothing is left to run" in err
    assert "clean accuracy" in out
    assert "page.html" in out


def test_how_many_runs_fit_is_estimated(capsys: pytest.CaptureFixture[str], tmp_path: Path, world: World) -> None:
    only = [
        "ER-T1",
        "--only",
        "task=sst2",
        "--only",
        "method=finetune",
        "--only",
        "metric=clean",
        "--seeds",
        "2",
        *world.flags,
    ]
    told = dry(capsys, tmp_path, *only, "--budget", "1s")
    assert told["fit"] == 0
    one = told["seconds"]["total"] / 2
    assert dry(capsys, tmp_path, *only, "--budget", f"{1.5 * one:.0f}s")["fit"] == 1
    assert dry(capsys, tmp_path, *only, "--budget", f"{2.5 * one:.0f}s")["fit"] == 2


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
    assert outcome.ticket is not None
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
