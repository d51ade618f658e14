"""Reloading through transformers' own classes, in fresh interpreters: in each documented order of imports, without remote code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import robust_tickets as rt
from robust_tickets.registry import BACKBONES
from tiny import tiny_classifier

ORDERS = {
    "theirs first": "import transformers, robust_tickets",
    "auto": "import robust_tickets, transformers, robust_tickets.auto",
    "a public name": "import robust_tickets as rt; from transformers import BertConfig; rt.methods",
}
RELOAD = """
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
import torch
for folder in {folders!r}:
    config = AutoConfig.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        p = model(**tokenizer(["good film"], return_tensors="pt")).logits.softmax(-1)[0]
    if {piped}:
        from transformers import pipeline
        answer = pipeline("text-classification", model=folder, device="cpu")("good film")[0]
        assert abs(p.max().item() - answer["score"]) < 1e-6
        assert answer["label"] in ("bad", "good")
    print(config.model_type, type(model).__name__, [layer for layer in map(len, config.kept_heads)])
    tiny = dict(num_hidden_layers=1, hidden_size=8, num_attention_heads=2, intermediate_size=4)
    stock = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(config.model_type.removeprefix("ticket-"), **tiny))
    assert type(stock).__module__.startswith("transformers."), stock
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    strict = ["-W", "error", "-W", "ignore:`torch.jit.script` is deprecated:DeprecationWarning"]  # in their DeBERTa-v2
    command = [sys.executable, *strict, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folders = []
    for family in BACKBONES.names():
        clf = tiny_classifier(family, labels=("bad", "good"))
        ticket = rt.Ticket.from_kept(clf, heads=[[0], [1, 3], [0, 1, 2, 3]], neurons=[[5], [1, 2], list(range(24))])
        folders.append(str(rt.compact(clf, ticket).save_pretrained(tmp_path_factory.mktemp(family))))
    return folders


@pytest.mark.parametrize("order", ORDERS)
def test_reloads_in_any_order(order: str, saved: list[str]) -> None:
    count = len(saved) if order == "auto" else 1
    done = python(ORDERS[order] + RELOAD.format(folders=saved[:count], piped=order == "auto"))
    assert done.returncode == 0, done.stderr
    names = [f"ticket-{BACKBONES.get(name).family}" for name in BACKBONES.names()]
    assert [line.split()[0] for line in done.stdout.splitlines()] == names[:count]
    assert "[1, 2, 4]" in done.stdout
    for word in ("newly initialized", "LOAD REPORT", "warning", "trust_remote_code"):
        assert word.lower() not in done.stderr.lower()


def test_opening_a_model_registers(saved: list[str]) -> None:
    """Also where nothing had loaded transformers before, and a pruned model is opened by our own reader."""
    done = python(
        f"import robust_tickets as rt; clf = rt.Classifier.from_pretrained({saved[0]!r}); print(type(clf.model).__name__)\n"
        f"from transformers import AutoModel; print(type(AutoModel.from_pretrained({saved[0]!r})).__name__)"
    )
    assert done.returncode == 0, done.stderr
    assert all(name.startswith("Ticket") for name in done.stdout.split())


def test_the_config_names_the_line_that_loads_the_model(saved: list[str], tmp_path: Path) -> None:
    clf = rt.Classifier.from_pretrained(saved[0])
    assert json.loads(Path(saved[0], "config.json").read_text())["loaded_by"] == "import robust_tickets.auto"
    rt.expand(clf).save_pretrained(tmp_path)
    assert "loaded_by" not in json.loads((tmp_path / "config.json").read_text())


def test_a_broken_plugin_keeps_no_other_from_being_registered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from robust_tickets.prune import registration

    class Point:
        def load(self) -> None:
            raise ImportError("no such module")

    names, plugged = BACKBONES.names(), {"mine": Point()}
    monkeypatch.setattr(type(BACKBONES), "_plugged", lambda self: plugged)
    assert BACKBONES.names() == tuple(sorted([*names, "mine"]))
    registration.register()
    assert "'mine' could not be registered" in capsys.readouterr().err


def test_classes_have_names_and_registering_twice_is_harmless(saved: list[str]) -> None:
    import pickle

    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from robust_tickets.prune import modeling, registration

    assert modeling.TicketBertConfig.model_type == "ticket-bert"
    assert modeling.TicketMPNetForMaskedLM.config_class is modeling.TicketMPNetConfig
    assert pickle.dumps(modeling.TicketBertConfig.from_pretrained(Path(saved[0])))
    with pytest.raises(AttributeError, match="TicketNoneModel"):
        _ = modeling.TicketNoneModel
    registration.register()
    before = modeling.ticket_config("bert")
    registration.register()
    assert CONFIG_MAPPING["ticket-bert"] is before
