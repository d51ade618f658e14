"""A user's own backbones, as docs/guides/backbones.md tells: the page's files, installed with entry points, in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugging import block, install
from robust_tickets.backbone.layout import REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "backbones.md"
# what the page's own example does not show: gates, masks and training on a plug-in
MORE = """
import torch, robust_tickets as rt
from transformers import AutoConfig, AutoModelForMaskedLM
from robust_tickets.backbone.layout import layout_of
from robust_tickets.prune.gates import Gates
torch.manual_seed(0)
config = AutoConfig.for_model("nomic_bert", hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
                              vocab_size=50, max_position_embeddings=40, initializer_range=0.3)
model = AutoModelForMaskedLM.from_config(config).eval()
ticket = rt.Ticket.from_kept(model, heads=[[0, 3], [2]], neurons=[list(range(12)), [1, 5, 23]])
ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
whole = model(ids).logits
with Gates(model) as gates:
    gates.set_masks(ticket.masks)
    gated = model(ids).logits
small = rt.compact(model, ticket)
torch.testing.assert_close(small(ids).logits, gated, atol=1e-5, rtol=0)
assert not torch.allclose(whole, gated, atol=1e-2)
assert layout_of(model).unit_weights(model) == {"heads": 4 * 32 * 8, "neurons": 3 * 32}
assert len(layout_of(model).matrices_of(model)) == 2 * 7  # its masked-language model has no pooler
small(ids).logits.sum().backward()
print("agreed")
"""

# what names the results of a model, for a plug-in's family and for one of ours
KEYS = """
import json, robust_tickets as rt
from robust_tickets.classifier.mlm import digest_of_model
from robust_tickets.config import digest
from robust_tickets.stages import identity_of
from robust_tickets.experiment import execute as stages
from robust_tickets.experiment.recipe import AttackPlan
from tiny import tiny_classifier, tiny_model
from toy import toy_task
task, told = toy_task(), {}
for family in ("xlm-roberta", "nomic_bert", "bert"):
    clf = tiny_classifier(family)
    given = {"version": rt.__version__, "model": clf.digest, "task": task.digest}
    ticket = rt.Ticket.from_kept(clf.model, heads=[[0], [0], [0]], neurons=[[0], [0], [0]])
    told[family] = {
        "search": digest(stages.search_key(rt.RandomTicket(), given)),
        "train": digest(stages.train_key(rt.FineTune(), given, ticket)),
        "attack": digest(stages.attack_key(AttackPlan(attack=rt.PWWS()), rt.compact(clf, ticket), task.test)),
        "resumed": identity_of(rt.FineTune(), clf, task),
        "masked words": digest_of_model(tiny_model(family, "AutoModelForMaskedLM")),
    }
print(json.dumps(told))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The page's module and its entry points, as pip would lay them down."""
    install(tmp_path, PAGE, "my_backbones")
    return tmp_path


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(PAGE.parents[2] / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_works_as_it_is_written(installed: Path) -> None:
    done = run(installed, block(PAGE, 'python title="try_it.py"'))
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "TicketNomicBertForSequenceClassification",
        "TicketXLMRobertaForSequenceClassification",
    ]


def test_a_plug_in_has_gates_masks_and_gradients(installed: Path) -> None:
    done = run(installed, MORE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "agreed"


def test_results_are_named_by_the_file_of_the_backbone(installed: Path) -> None:
    """After a change to the file every stage was given its result from before. Ours have the version."""
    file = installed / "my_backbones.py"
    text = file.read_text(encoding="utf-8")
    keys = []
    for more in ("", "# another method behind the same names\n", ""):
        file.write_text(text + more, encoding="utf-8")
        done = run(installed, KEYS)
        assert done.returncode == 0, done.stderr[-2000:]
        keys.append(json.loads(done.stdout))
    before, changed, after = keys
    assert before == after
    assert before.pop("bert") == changed.pop("bert")
    assert [name for family, told in before.items() for name in told if told[name] == changed[family][name]] == []


def test_a_broken_plug_in_breaks_nothing_else(installed: Path) -> None:
    """One that cannot be imported, one that is no Layout, one under another family's name: each is named when it is used, not before."""
    entries = (installed / "my_backbones-1.0.dist-info" / "entry_points.txt").read_text()
    wrong = entries + "\nesm = nowhere:LAYOUT\ncamembert = json:dumps\nernie = my_backbones:NOMIC\n"
    (installed / "my_backbones-1.0.dist-info" / "entry_points.txt").write_text(wrong)
    code = """
import robust_tickets as rt
from transformers import AutoConfig
from robust_tickets.backbone.layout import layout_of
print(type(layout_of(AutoConfig.for_model("nomic_bert"))).__name__)
for family in ("esm", "camembert", "ernie"):
    try:
        layout_of(AutoConfig.for_model(family))
    except rt.TicketsError as problem:
        print(problem)
"""
    done = run(installed, code)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if "hint:" not in line]
    assert lines[0] == "Layout"
    assert "the plug-in 'esm' (nowhere:LAYOUT) could not be imported: No module named 'nowhere'" in lines[1]
    assert "'camembert' must be a Layout of the family 'camembert', its entry point gives a function" in lines[2]
    assert "'ernie' must be a Layout of the family 'ernie', its entry point gives one of 'nomic_bert'" in lines[3]


def test_the_page_says_what_is_refused_in_the_words_of_the_refusal() -> None:
    assert REFUSED["albert"] in PAGE.read_text(encoding="utf-8")
