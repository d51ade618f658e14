"""Costs against the published table, hand arithmetic, and torch's own FLOP counter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForSequenceClassification

from robust_tickets.backbone import cost
from robust_tickets.backbone.bert import REGISTERED as BERT
from robust_tickets.backbone.cost import encoder_parameters, flops, parameters, peak_memory, reset_peak_memory


def cut(model, heads, neurons):
    """Give every layer new, smaller matrices: what a compacted model looks like from outside."""
    hidden, size = model.config.hidden_size, BERT.head_size(model)
    for layer, h, f in zip(BERT.layers_of(model), heads, neurons, strict=True):
        for name, out, inside in (
            *((n, h * size, hidden) for n in (BERT.query, BERT.key, BERT.value)),
            (BERT.attention_output, hidden, h * size),
            (BERT.up, f, hidden),
            (BERT.down, hidden, f),
        ):
            layer.set_submodule(name, torch.nn.Linear(inside, out, device=next(layer.parameters()).device))
    return model


def bert_base():
    with torch.device("meta"):
        return BertForSequenceClassification(BertConfig(num_labels=2))


def spread(total, layers):
    """``total`` units over the layers, as unevenly as one unit allows: only the sum matters to the table."""
    return [total // layers + (i < total % layers) for i in range(layers)]


@pytest.mark.parametrize(
    ("removed", "encoder", "total", "ratio"),
    [(0.2, 69.00, 93.43, 1.23), (0.3, 63.33, 87.76, 1.34), (0.4, 57.67, 82.10, 1.47)],
)
def test_the_published_table_of_bert_base(removed, encoder, total, ratio):
    full = bert_base()
    neurons = 12 * 3072 - int(removed * 12 * 3072)
    small = cut(bert_base(), [10] * 12, spread(neurons, 12))
    assert round(encoder_parameters(full) / 1e6, 2) == 85.05
    assert round(parameters(full) / 1e6, 2) == 109.48
    assert encoder_parameters(small) / 1e6 == pytest.approx(encoder, abs=0.006)
    assert parameters(small) / 1e6 == pytest.approx(total, abs=0.006)
    assert flops(full, 128) / flops(small, 128) == pytest.approx(ratio, abs=0.006)


@pytest.mark.parametrize("tokens", [1, 7, 32])
def test_flops_are_what_torch_counts(tokens):
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=50, num_labels=3
    )
    config._attn_implementation = "eager"
    model = cut(BertForSequenceClassification(config).eval(), [1, 3], [5, 64])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.ones(1, tokens, dtype=torch.long))
    assert flops(model, tokens) == counter.get_total_flops()


def test_flops_by_hand_grow_with_the_square_of_the_text():
    model = bert_base()
    once, twice = flops(model, 100), flops(model, 200)
    head = 2 * 768 * 768 + 2 * 768 * 2
    assert twice - head == 2 * (once - head) + 12 * 2 * (4 * 100 * 100 * 768)


def test_a_classifier_counts_as_its_model():
    class Holder:
        model = bert_base()

    assert parameters(Holder()) == parameters(Holder.model)


def test_memory_is_in_bytes():
    assert 2**25 < peak_memory() < 2**40  # a Python with torch holds more than 32 MiB
    status = Path("/proc/self/status")
    if status.exists():
        kernel = int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024
        assert peak_memory() == pytest.approx(kernel, rel=0.05)


ANEW = """
from robust_tickets.backbone.cost import peak_memory, reset_peak_memory
block = bytearray(b"x") * 2**27
high = peak_memory()
del block
print(reset_peak_memory(), peak_memory() < high - 2**26)
"""


def test_the_peak_begins_anew(monkeypatch):
    # in a process of its own: what other tests hold and give back moves the peak of this one
    told = subprocess.run([sys.executable, "-c", ANEW], check=True, capture_output=True, text=True).stdout.split()
    if told[0] == "False":
        pytest.skip("this system cannot reset the peak")
    assert told == ["True", "True"]
    monkeypatch.setattr(cost, "CLEAR", Path("/nowhere/clear_refs"))
    monkeypatch.setattr(cost, "STATUS", Path("/nowhere/status"))
    assert not reset_peak_memory()
    assert 2**25 < peak_memory() < 2**40  # by the other way
