"""Paths: folders found, roles filled in, and what is missing told with how to supply it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from judging import made
from robust_tickets.config import FlagText
from robust_tickets.errors import TicketsError
from robust_tickets.reproduce.job import Job
from robust_tickets.reproduce.outcome import foreign
from robust_tickets.reproduce.paths import Paths, _weights, missing
from robust_tickets.reproduce.protocol import attack, attacks

UNIT = Job(task="sst2", arm="finetune")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Folders as a user would have them, files without their content."""
    for name in ("data/sst2/train.csv", "data/sst2/validation.csv", "data/wiki_en/train.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text,label\na,1\n")
    for name in ("models/bert-base-uncased/config.json", "resources/counterfitted_neighbors.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "resources/counterfit-substitute").mkdir()
    (tmp_path / "resources/nltk_data").mkdir()
    return tmp_path


def found(home: Path) -> Paths:
    return Paths.find(data=home / "data", models=home / "models", resources=home / "resources")


def test_what_lies_where_it_usually_does_is_found(home: Path) -> None:
    places = found(home)
    assert places.real == home / "resources/counterfitted_neighbors.json"
    assert places.substitute == home / "resources/counterfit-substitute"
    assert (places.tagger, places.encoder) == (home / "resources/nltk_data", None)
    assert places.masked == home / "models/bert-base-uncased"
    assert places.corpus == home / "data/wiki_en"
    assert places.settings(UNIT) == (f"model={home / 'models/bert-base-uncased'}", f"data={home / 'data/sst2'}")
    assert Paths.find().settings(UNIT) == ("model=bert-base-uncased",)


def test_the_paper_s_own_text_comes_before_what_stands_in_for_it(home: Path) -> None:
    (home / "data/wikitext-2-raw-v1").mkdir()
    assert found(home).corpus == home / "data/wikitext-2-raw-v1"
    assert missing(Paths.find(data=home / "models"), Job(task="sst2", arm="orticket"))


def test_a_folder_that_is_given_has_to_be_there(home: Path) -> None:
    (home / "file").touch()
    assert Paths.find(encoder=home / "models", subset=True).encoder == home / "models"
    for wrong in ({"data": "nowhere"}, {"encoder": "nowhere"}, {"data": home / "file"}):
        with pytest.raises(TicketsError):
            Paths.find(**wrong)


def test_roles_become_paths_anywhere_in_a_tree(home: Path) -> None:
    places = found(home)
    tree = {
        "search": {"corpus": FlagText("@corpus")},
        "arms": {"on": {"data": "@data/imdb"}},
        "attack": [{"encoder": "@encoder", "n": 3}],
    }
    placed = places.placed(tree)
    assert placed == {
        "search": {"corpus": str(home / "data/wiki_en")},
        "arms": {"on": {"data": str(home / "data/imdb")}},
        "attack": [{"n": 3}],
    }
    assert isinstance(placed["search"]["corpus"], FlagText)  # it is still to be read as what the field is
    assert Paths().placed({"data": "@data/imdb"}) == {}  # the Hub's
    with pytest.raises(TicketsError, match="@real is not there"):
        attack("sst2", "textfooler-real").placed(Paths())
    assert attack("sst2", "textfooler-real").placed(places)["vectors"] == str(places.real)


def test_nothing_is_missing_where_all_is_there(home: Path) -> None:
    places = replace(found(home), subset=True)
    assert missing(places, UNIT, attacks("sst2", ("main", "more"))) == ()
    (told,) = missing(replace(places, subset=False), UNIT)  # rows that are a part without being meant to
    assert "--subset" in told


def test_what_is_missing_is_told_with_how_to_supply_it(home: Path) -> None:
    places = replace(found(home), subset=True)
    (told,) = missing(places, Job(task="sst2", arm="finetune", backbone="roberta-base"))
    assert "roberta-base" in told
    (told,) = missing(places, Job(task="imdb", arm="finetune"))
    (home / "data/mrpc").mkdir()
    (home / "data/mrpc/validation.csv").write_text("text,label\na,1\n")
    (told,) = missing(places, Job(task="mrpc", arm="finetune"))
    (told,) = missing(Paths(), UNIT, [attack("sst2", "textbugger-real")])
    (told,) = missing(Paths(), Job(task="sst2", arm="orticket"))
    assert "--data" in told


def test_neither_places_nor_the_protocol_import_torch() -> None:
    code = (
        "import sys; from robust_tickets.reproduce import paths as places, protocol; from robust_tickets.reproduce.job import Job;"
        "unit = Job(task='sst2', arm='robustt'); protocol.settings(unit, cuda=False); found = protocol.attacks('sst2', protocol.GROUPS);"
        "places.missing(places.Paths(), unit, found); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_result_that_cannot_be_of_what_lies_here_is_known(home: Path) -> None:
    places = replace(found(home), subset=True)  # one row of SST-2
    part = replace(made("finetune"), notes=("sst2: 1 of the 67,349 rows of train",))
    assert foreign(part, places) == ""
    assert foreign(made("finetune"), replace(places, data=None)) == ""  # the Hub's
    config = home / "models" / "bert-base-uncased" / "config.json"
    config.write_text('{"num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072}')
    _weights.cache_clear()
    for parameters, known in ((85_054_464, True), (None, True), (40e6, False), (300e6, False)):
        why = foreign(replace(part, cost={"dense_encoder_parameters": parameters}), places)
        assert (why == "") == known
        assert known or "million parameters; the one in" in str(why)
