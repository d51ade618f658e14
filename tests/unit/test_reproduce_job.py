"""One unit: everything of it in one file without a path of this machine, nothing done twice, nothing lost when it is cut off."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from refusing import refused
from robust_tickets.classifier import Classifier
from robust_tickets.config import digest, to_plain
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.experiment import execute, runner
from robust_tickets.reproduce import gather, outcome
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import Outcome, place, read, read_all
from robust_tickets.reproduce.paths import Paths
from robust_tickets.reproduce.protocol import attack
from robust_tickets.reproduce.runner import run_jobs
from robust_tickets.reproduce.worker import Request, _flat, check_same, complete, recipe_of, run_job, workers
from robust_tickets.stages import Stage
from robust_tickets.train.evaluate import evaluate
from small_world import small_world

PLAIN, TICKET = Job(task="sst2", arm="finetune"), Job(task="sst2", arm="earlyrobust")
BUGS, SWAPS = (attack("sst2", name) for name in ("deepwordbug", "pwws"))


def asked(unit: Job, attacks: Any, paths: Paths, world: Path, **more: Any) -> Request:
    names = tuple(one.name for one in attacks)
    return Request(unit=unit, attacks=names, paths=paths, store=world / "store", results=world / "results", **more)


def one(*given: Any, **more: Any) -> Outcome:
    return run_job(asked(*given, **more))


def known_of(unit: Job, world: Path) -> Outcome:
    return read(place(world / "results", unit))


@contextmanager
def attacking(instead: Callable[[str, Callable[[], Any]], Any]) -> Iterator[None]:
    """Attacks call ``instead`` with their class and what they would do."""
    before = runner.Experiment.attacked

    def attacked(self: Any, made: Any, plan: Any, workers: Any = None) -> Any:
        return instead(type(plan.attack).__name__, lambda: before(self, made, plan, workers))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.Experiment, "attacked", attacked)
        yield


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    world = small_world(tmp_path_factory.mktemp("world"), train=64, rows=12)
    return Paths.find(data=world.data, models=world.models, resources=world.resources, subset=True)


@pytest.fixture(scope="module")
def made(places: Paths, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A unit with a search, attacked once; later tests add to copies of it."""
    folder = tmp_path_factory.mktemp("made")
    return folder, one(TICKET, [BUGS], places, folder, processes=3)


@pytest.fixture
def world(made: tuple[Path, Outcome], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The stages that were really run, by name."""
    ran: list[str] = []
    for name in ("search", "train", "attack"):
        before = getattr(execute, name)

        def watched(stage: Any, *given: Any, name: str = name, before: Any = before) -> Any:
            if not stage.done():
                ran.append(name)
            return before(stage, *given)

        monkeypatch.setattr(execute, name, watched)
    return ran


def test_an_outcome_has_all_of_its_unit(made: tuple[Path, Outcome], places: Paths) -> None:
    folder, told = made
    assert read(place(folder / "results", TICKET)) == told
    layers = 2
    assert [len(row) for row in told.ticket["heads"]] == [4] * layers
    assert sum(map(sum, told.ticket["heads"])) == round(4 * layers * (1 - told.ticket["removed"]["heads"]))
    assert all(kept <= of == 24 for kept, of in told.ticket["neurons"])
    points = told.traces["distances"]["points"]
    assert len(told.traces["distances"]["heads"]) == len(points)
    assert told.traces["loss"][-1][0] == 10, "epochs"
    assert {"search_seconds", "train_seconds", "parameters", "dense_parameters"} <= told.cost.keys()
    assert told.cost["processes"] == 3
    for kind in ("search", "train"):
        (metrics,) = (folder / "store" / kind).glob("*/metrics.jsonl")
        took = [json.loads(line).get("seconds", 0.0) for line in metrics.read_text().splitlines()]
        assert told.cost[f"{kind}_seconds"] == took[-1] == max(took) > 0
    (model,) = (folder / "store" / "train").glob("*/model")
    trained = Classifier.from_pretrained(model)
    rows = pq.read_table(places.data / "sst2" / "validation.parquet").to_pydict()
    again = evaluate(trained, Split.of(rows["text"], rows["label"]))
    assert (trained.digest, again.loss) == (told.inputs["trained"], pytest.approx(told.clean["loss"])), (
        "of the model that is attacked"
    )
    assert len(told.inputs["code"]) == len(told.inputs["trained"]) == 64
    assert told.inputs["rows"] == {"train": 64, "validation": 12, "test": 12}
    (attacked,) = told.attacks
    assert attacked.split == "validation"
    assert len(attacked.statuses) == told.clean["n"] == 12
    assert attacked.share("clean") == pytest.approx(told.clean["accuracy"])
    ids = outcome.ids_of(folder / "results", attacked.examples)
    assert digest(list(ids)) == attacked.examples
    assert told.config["attacks"].keys() == {"deepwordbug"}
    assert told.config["recipe"]["source"]["data"] == "@data/sst2"
    assert told.config["recipe"]["model"] == "@models/bert-base-uncased"
    text = place(folder / "results", TICKET).read_text()
    assert str(places.data) not in text
    assert str(Path.home()) not in text


def test_a_ticket_lies_beside_its_outcome_with_its_scores(world: Path, places: Paths) -> None:
    results = world / "results"
    (told,) = read_all(results)
    ticket = outcome.ticket_of(results, told)
    assert ticket.digest == told.ticket["digest"]
    assert sum(map(sum, ticket.draw(heads=0.5).masks["heads"])) == 4, "of 8, drawn from its scores"
    beside = place(results, TICKET).with_suffix(".ticket")
    about = (beside / "ticket.json").read_text()
    assert str(places.models) not in about
    assert str(places.data) not in about
    other = replace(told, ticket={**told.ticket, "digest": "0" * 64})
    with refused("outcome.damaged"):
        outcome.ticket_of(results, other)
    shutil.rmtree(beside)
    assert read_all(results) == (told,), "as the first outcomes are"
    assert outcome.ticket_of(results, told) is None


def test_what_is_there_is_not_made_again(
    world: Path, places: Paths, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place(world / "results", TICKET).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "prepare", None)  # nothing may even be loaded
        one(TICKET, [BUGS], places, world)
        one(TICKET, [], places, world, search_only=True)
    assert place(world / "results", TICKET).read_bytes() == before
    later = one(TICKET, [BUGS, SWAPS], places, world, processes=9)
    assert counted == ["attack"], "one attack was added, nothing else run"
    assert [one.name for one in later.attacks] == ["deepwordbug", "pwws"]
    assert later.config["attacks"].keys() == {"deepwordbug", "pwws"}
    assert later.cost["processes"] == 3, "as its times were taken"


def test_a_model_that_was_dropped_is_trained_anew_for_a_later_attack(
    world: Path, places: Paths, counted: list[str]
) -> None:
    first = one(PLAIN, [BUGS], places, world, drop_models=True)
    assert first.ticket is None
    assert len(list((world / "store" / "train").glob("*/model"))) == 1, "that of the other unit"
    shutil.rmtree(world / "store" / "attack")
    counted.clear()
    again = one(PLAIN, [BUGS, SWAPS], places, world, drop_models=True)
    assert counted == ["train", "attack"], "on a CPU the same model comes out: its first attack stands"
    assert again.attacks[0] == first.attacks[0]


def test_attacks_of_a_model_that_is_another_now_are_run_anew(world: Path, places: Paths, counted: list[str]) -> None:
    known = known_of(TICKET, world)
    gone = replace(
        known, inputs={**known.inputs, "trained": "0" * 64}, attacks=(replace(known.attacks[0], seconds=-1.0),)
    )
    outcome.write(world / "results", gone, {})
    told = one(TICKET, [SWAPS], places, world)
    assert {one.name for one in told.attacks} == {"deepwordbug", "pwws"}
    assert all(one.seconds is not None and one.seconds >= 0 for one in told.attacks), "both on the model that is there"
    assert told.inputs["trained"] == known.inputs["trained"]


def test_an_outcome_stays_until_another_model_is_attacked_as_much(world: Path, places: Paths) -> None:
    """Cut off before, it has the attacks that it had, on the model that it had."""
    known = known_of(TICKET, world)
    path = outcome.write(world / "results", replace(known, inputs={**known.inputs, "trained": "0" * 64}), {})
    before = path.read_bytes()

    def cut_off(name: str, attack: Callable[[], Any]) -> Any:
        if name == "DeepWordBug":
            raise KeyboardInterrupt
        return attack()

    with attacking(cut_off), pytest.raises(KeyboardInterrupt):
        one(TICKET, [SWAPS], places, world)
    assert path.read_bytes() == before
    told = one(TICKET, [SWAPS], places, world)
    assert read(path) == told
    assert ({one.name for one in told.attacks}, told.inputs) == ({"pwws", "deepwordbug"}, known.inputs)


def test_a_rehearsal_is_not_taken_for_the_real_thing(
    world: Path, places: Paths, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place(world / "results", TICKET)
    before = path.read_bytes()
    real = asked(TICKET, [BUGS], replace(places, subset=False), world)
    with refused("worker.other_data"):
        run_job(real)
    summary = run_jobs([real])
    assert "--results" in capsys.readouterr().err, "what to do is said"
    assert (summary.failed, summary.found) == ((TICKET,), ())
    assert path.read_bytes() == before
    assert run_jobs([asked(TICKET, [BUGS], places, world)]).found == (TICKET,)


def test_an_attack_of_other_settings_is_not_taken_for_this_one(world: Path, places: Paths) -> None:
    known = known_of(TICKET, world)
    tables = {"deepwordbug": {**known.config["attacks"]["deepwordbug"], "subset": "first"}}
    path = outcome.write(world / "results", replace(known, config={**known.config, "attacks": tables}), {})
    before = path.read_bytes()
    with pytest.raises(TicketsError, match=r"deepwordbug\.subset 'first' there, 'balanced' now"):
        one(TICKET, [BUGS], places, world)
    summary = run_jobs([asked(TICKET, [BUGS], places, world)])
    assert (summary.failed, summary.found) == ((TICKET,), ())
    assert path.read_bytes() == before


def test_statuses_are_in_the_order_of_the_ids(world: Path) -> None:
    (folder,) = (world / "store" / "attack").iterdir()
    lines = (folder / "examples.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "examples.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    with refused("gather.other_examples"):
        gather.attacked("deepwordbug", Stage(folder=folder, key={}))


def test_whatever_ends_it_leaves_whole_outcomes(world: Path, places: Paths, counted: list[str]) -> None:
    reached = []

    def cut_off(name: str, attack: Callable[[], Any]) -> Any:
        reached.append(name)
        if len(reached) == 2:
            raise KeyboardInterrupt
        trained = known_of(PLAIN, world)
        assert (trained.clean["n"], trained.attacks) == (12, ()), "written before it is attacked"
        return attack()

    with attacking(cut_off), pytest.raises(KeyboardInterrupt):
        one(PLAIN, [BUGS, SWAPS], places, world)
    left = known_of(PLAIN, world)
    assert [one.name for one in left.attacks] == ["deepwordbug"]
    assert complete(left, asked(PLAIN, [BUGS], places, world))
    assert not complete(left, asked(PLAIN, [BUGS, SWAPS], places, world))
    counted.clear()
    whole = one(PLAIN, [BUGS, SWAPS], places, world)
    assert counted == ["attack"]
    assert whole.attacks[0] == left.attacks[0]


def test_an_attack_that_fails_loses_no_other(world: Path, places: Paths) -> None:
    def fails(name: str, attack: Callable[[], Any]) -> Any:
        if name == "DeepWordBug":
            raise TicketsError("its letters are gone", code="a.code")
        return attack()

    with attacking(fails), refused("a.code"):
        one(PLAIN, [BUGS, SWAPS], places, world, drop_models=True)
    assert [one.name for one in known_of(PLAIN, world).attacks] == ["pwws"]
    whole = one(PLAIN, [BUGS, SWAPS], places, world)
    assert {one.name for one in whole.attacks} == {"pwws", "deepwordbug"}


def test_a_search_alone_is_an_outcome_that_training_completes(
    places: Paths, tmp_path: Path, counted: list[str]
) -> None:
    ticket = one(TICKET, [], places, tmp_path, search_only=True)
    assert counted == ["search"]
    assert ticket.ticket is not None
    assert ticket.clean == {}
    assert not complete(ticket, asked(TICKET, [], places, tmp_path))
    whole = one(TICKET, [], places, tmp_path)
    assert counted == ["search", "train"]
    assert whole.ticket == ticket.ticket
    assert whole.clean["n"] == 12
    with refused("worker.no_search"):
        one(PLAIN, [], places, tmp_path, search_only=True)


def test_results_of_other_settings_are_neither_taken_nor_overwritten(world: Path, places: Paths) -> None:
    known = known_of(TICKET, world)
    (arm,) = known.config["recipe"]["arms"]
    for change, other in (({"epochs": 3}, True), ({"precision": "bf16", "no_longer_there": 1}, False)):
        recipe = {**known.config["recipe"], "arms": [{**arm, "train": {**arm["train"], **change}}]}
        path = outcome.write(world / "results", replace(known, config={**known.config, "recipe": recipe}), {})
        before = path.read_bytes()
        if other:
            with pytest.raises(TicketsError, match=r"train\.epochs 3 there, 10 now"):
                one(TICKET, [BUGS], places, world)
        else:
            assert one(TICKET, [BUGS], places, world).config["recipe"] == recipe
        assert path.read_bytes() == before


def test_a_training_without_an_adversary_is_not_one_with_it() -> None:
    without, other = (_flat({"train": {"adversary": one}}) for one in (None, {"name": "pgd"}))
    assert any(without[name] != other[name] for name in without.keys() & other.keys())


def test_a_result_of_a_search_on_another_text_is_not_taken(world: Path, places: Paths) -> None:
    """A place may lie elsewhere; the paper's text and what stands in for it are two."""
    unit, known = Job(task="sst2", arm="orticket"), known_of(TICKET, world)
    assert known is not None
    assert places.data is not None
    now, before = (
        recipe_of(unit, replace(places, corpus=places.data / name)) for name in ("wikitext-2-raw-v1", "wiki_en")
    )
    kept = replace(known, config={"recipe": gather.without_paths(to_plain(before), {"data": places.data})})
    request = asked(unit, [], replace(places, subset=True), world)
    check_same(kept, before, request)
    with pytest.raises(TicketsError, match=r"search\.corpus 'wiki_en' there, 'wikitext-2-raw-v1' now"):
        check_same(kept, now, request)


def test_repeats_of_a_seed_share_no_stage(places: Paths, tmp_path: Path, counted: list[str]) -> None:
    for repeat in (0, 1):
        one(replace(TICKET, repeat=repeat), [], places, tmp_path, search_only=True)
    assert counted == ["search", "search"]


def test_a_task_that_is_searched_on_lies_beside_the_others(places: Paths) -> None:
    corpus = replace(places, corpus=places.data)
    other = Job(task="sst2", arm="searched_on_imdb")
    origin: Any = recipe_of(other, corpus).arms[0].origin
    assert origin.searched_on.data == f"{places.data}/imdb"
    assert (recipe_of(other, replace(corpus, data=None)).arms[0].origin or origin).searched_on.data is None  # the Hub's


def test_what_is_traced_of_a_training(tmp_path: Path) -> None:
    """Evaluations all, losses some, whatever their number; the last one always."""
    lines = [{"step": i, "epoch": i / 100, "loss": 1 / (i + 1)} for i in range(999)]
    lines += [{"step": 999, "epoch": 9.99, "evaluation": {"accuracy": 91.0}}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = gather.traces(None, Stage(folder=tmp_path, key={}))
    assert told["accuracy"] == [{"epoch": 9.99, "accuracy": 91.0, "loss": 1 / 999}]
    assert len(told["loss"]) == gather.LOSSES
    assert told["loss"][0] == [0.0, 1.0]
    assert told["loss"][-1] == pytest.approx([9.98, 1 / 999], rel=1e-4)
    (tmp_path / "trace.jsonl").write_text(
        "".join(json.dumps({"epoch": i, "R": 0.5, "exact": 0.1}) + "\n" for i in range(1000))
    )
    gates = gather.traces(Stage(folder=tmp_path, key={}), None)["gates"]
    assert len(gates) == gather.POINTS
    assert (gates[0]["epoch"], gates[-1]["epoch"]) == (0, 999)
    assert gather.traces(None, None) == {}


def test_paths_become_names() -> None:
    paths = {"models": Path("/a/models"), "masked": Path("/a/models/bert"), "real": Path("/a/words.json")}
    told = {"x": ["/a/models/bert", ("read /a/words.json",)], "y": 1}
    assert gather.without_paths(told, paths) == {"x": ["@models/bert", ("read @real",)], "y": 1}


def test_an_attack_on_a_shared_gpu_has_its_share_of_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert [workers(processes) for processes in (1, 2, 8, 100)] == [None, 12, 4, 2]
