"""Classifiers that this package never made: folders saved by plain transformers, ONNX graphs written by hand, a module to import."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tiny import _vocabulary, tiny_tokenizer

WORDS = len(_vocabulary(0))
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
WIDE = {"initializer_range": 0.3}  # so that every token moves the answer
FOREIGN: dict[str, dict[str, Any]] = {
    "albert": {**SIZES, **WIDE, "embedding_size": 16, "max_position_embeddings": 64},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 24, "pad_token_id": 0, **WIDE},
    "longformer": {
        **SIZES,
        **WIDE,
        "max_position_embeddings": 66,
        "attention_window": [8, 8],
        "pad_token_id": 0,
        "type_vocab_size": 2,
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 1, **WIDE},
    "funnel": {
        "block_sizes": [1, 1],
        "d_model": 32,
        "n_head": 4,
        "d_head": 8,
        "d_inner": 24,
        "pad_token_id": 0,
        "initializer_std": 0.3,
    },
    "fnet": {**{k: v for k, v in SIZES.items() if k != "num_attention_heads"}, **WIDE, "max_position_embeddings": 64},
    "xlm": {
        "emb_dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "max_position_embeddings": 64,
        "pad_index": 0,
        "n_langs": 1,
        "init_std": 0.3,
    },
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "max_position_embeddings": 64, **WIDE},
}


def foreign_tokenizer(pad: bool = True, typed: bool = True) -> Any:
    tokenizer = tiny_tokenizer(SimpleNamespace(pad_token_id=0, type_vocab_size=2 if typed else 0))
    if not pad:
        tokenizer.pad_token = None
    return tokenizer


def foreign_folder(
    folder: Path,
    family: str = "albert",
    labels: Sequence[str] = ("bad", "good"),
    *,
    tokenizer: Any = None,
    dtype: Any = None,
    **extra: Any,
) -> Path:
    """What ``save_pretrained`` of transformers writes: a random classifier and a tokenizer, and nothing of ours."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    names = dict(enumerate(labels))
    settings = {
        "vocab_size": WORDS,
        "id2label": names,
        "label2id": {v: k for k, v in names.items()},
        **FOREIGN[family],
        **extra,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(family, **settings))
    saving = {"max_shard_size": "20KB"} if family == "distilbert" else {}
    model.to(dtype or torch.float32).save_pretrained(folder, **saving)
    (tokenizer or foreign_tokenizer(typed=family not in ("gpt2", "distilbert"))).save_pretrained(folder)
    return folder


def onnx_file(
    path: Path,
    *,
    names: Sequence[str] = ("input_ids", "attention_mask"),
    batch: int | str = "batch",
    length: int | str = "length",
    softmax: bool = False,
    output: str = "logits",
    int32: bool = False,
    positions: int = 0,
) -> Path:
    """A graph that averages word vectors over the mask (all tokens without one), times a matrix; ``positions``: its position table."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    dice = np.random.default_rng(0)
    kind = TensorProto.INT32 if int32 else TensorProto.INT64
    given = [helper.make_tensor_value_info(name, kind, [batch, length]) for name in names]
    weights = {
        "table": dice.normal(size=(WORDS, 8)),
        "types": dice.normal(size=(2, 8)),
        "matrix": 3 * dice.normal(size=(8, 2)),
    }
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    constants += [numpy_helper.from_array(np.array([x], dtype=np.int64), f"axis{x}") for x in (1, 2)]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["words"])]
    last = "words"
    if "token_type_ids" in names:
        nodes += [
            helper.make_node("Gather", ["types", "token_type_ids"], ["kinds"]),
            helper.make_node("Add", [last, "kinds"], ["typed"]),
        ]
        last = "typed"
    if positions:
        constants.append(numpy_helper.from_array(np.zeros((positions, 8), dtype=np.float32), "positions"))
        constants.append(numpy_helper.from_array(np.array(1, dtype=np.int64), "one"))
        constants.append(numpy_helper.from_array(np.array(0, dtype=np.int64), "zero"))
        nodes += [
            helper.make_node("Shape", ["input_ids"], ["shape"]),
            helper.make_node("Gather", ["shape", "one"], ["tokens"]),
            helper.make_node("Range", ["zero", "tokens", "one"], ["places"]),
            helper.make_node("Gather", ["positions", "places"], ["placed"]),
            helper.make_node("Add", [last, "placed"], ["there"]),
        ]
        last = "there"
    if "attention_mask" in names:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "axis2"], ["wide"]),
            helper.make_node("Mul", [last, "wide"], ["masked"]),
            helper.make_node("ReduceSum", ["masked", "axis1"], ["sum"], keepdims=0),
            helper.make_node("ReduceSum", ["wide", "axis1"], ["count"], keepdims=0),
            helper.make_node("Div", ["sum", "count"], ["mean"]),
        ]
    else:
        nodes.append(helper.make_node("ReduceMean", [last, "axis1"], ["mean"], keepdims=0))
    nodes.append(helper.make_node("MatMul", ["mean", "matrix"], ["raw"]))
    nodes.append(
        helper.make_node("Softmax", ["raw"], [output], axis=1)
        if softmax
        else helper.make_node("Identity", ["raw"], [output])
    )
    out = helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, 2])
    graph = helper.make_graph(nodes, "g", given, [out], constants)
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


MODULE = '''
calls = []

def judge(texts):
    """Good where "good" is in the text; pairs come as tuples."""
    calls.append(len(texts))
    rows = []
    for text in texts:
        said = text if isinstance(text, str) else " ".join(text)
        p = 0.9 if "good" in said else 0.2 if "fine" in said else 0.05
        rows.append([1 - p, p])
    return rows

def gone(texts):
    raise ConnectionError("no route")

def loud(texts):
    print("so many texts:", len(texts))
    return judge(texts)

def leaves(texts):
    raise SystemExit(5)

class Model:
    def __call__(self, texts):
        return judge(texts)

model = Model()
number = 3
'''


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
