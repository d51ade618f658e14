"""A hostile file through the command line, on every kind of victim: a right answer or one clear error for each row, and no stop."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from calling import tickets
from tiny import tiny_classifier
from victims import MODULE, foreign_folder, foreign_tokenizer, onnx_file

LONG = 10_000  # words
HUGE = 2_000_000  # characters of one token
HOSTILE = {
    "empty": "",
    "blank": " \n\t ",
    "long": " ".join(["good film bad plot"] * (LONG // 4)),
    "control": "good\x00film\x01\x02\x1b[31m \x7f\x85 bad",
    "surrogates": "lone \ud800 surrogate \udfff good",
    "right to left": "\u202egood film\u202c שלום עולם فيلم جيد",
    "stop words": "the of and is was not",
    "huge": "x" * HUGE,
    "markup": "<script>alert('good')</script> [UNK] [MASK] [SEP] <SPLIT> \\n good",
    "emoji": "😀😀 👩‍👩‍👧 good 🎬 中文电影很好",
    "plain": "a good film",
}
BUDGET = 40  # queries; the long text has 17,000 candidates


def write(path: Path) -> Path:
    rows = [
        {"text": text, "label": label} for text in HOSTILE.values() for label in ("bad", "good")
    ]  # one of the two is attacked
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))  # surrogates as \\ud800, as json writes them
    return path


@pytest.mark.parametrize("kind", ["folder", "foreign", "bytes", "onnx", "function"])
def test_every_row_gets_its_answer(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("my_hostile_judge", None)
    model, *flags = _victim(kind, tmp_path)
    out = tmp_path / "a"
    result: Any = tickets(
        capsys, "attack", model, "--data", str(write(tmp_path / "d.jsonl")), "--n", "0", "--subset", "first",
        "--query-budget", str(BUDGET), "--out", str(out), *flags,
    )  # fmt: skip
    found = [json.loads(line) for line in (out / "examples.jsonl").read_text().split("\n")[:-1]]
    assert len(found) == 2 * len(HOSTILE)
    assert result["n"] + result["errors"] == len(found)
    for name, pair in zip(HOSTILE, zip(found[::2], found[1::2], strict=True), strict=True):
        statuses = [row["status"] for row in pair]
        if kind == "bytes" and not HOSTILE[name]:
            assert statuses == ["error", "error"]  # this tokenizer gives an empty text no token
            assert "no token" in pair[0]["error"]
            continue
        assert statuses.count("skipped") == 1, (name, statuses)  # of two labels one is wrong from the start
        assert {"failed", "success"} & set(statuses), (name, statuses)
        attacked = next(row for row in pair if row["status"] != "skipped")
        assert 1 <= attacked["queries"] <= BUDGET
        if name in ("empty", "blank", "stop words"):
            assert (attacked["status"], attacked["queries"]) == ("failed", 1)  # nothing to change
        assert attacked["words"] == (LONG if name == "long" else attacked["words"])
    assert result["errors"] == (2 if kind == "bytes" else 0)
    assert [row["original"][0] for row in found[::2]] == [
        t.replace("\ud800", "\ufffd").replace("\udfff", "\ufffd") for t in HOSTILE.values()
    ]


def _victim(kind: str, folder: Path) -> list[str]:
    if kind == "folder":
        return [str(tiny_classifier(labels=("bad", "good"), max_length=16).save_pretrained(folder / "ours"))]
    if kind == "foreign":
        return [str(foreign_folder(folder / "albert")), "--max-length", "16"]
    if kind == "bytes":  # a byte-level tokenizer without special tokens, as GPT-2 has it
        return [
            str(foreign_folder(folder / "gpt2", "gpt2", tokenizer=_bytes(), vocab_size=257, pad_token_id=256)),
            "--max-length",
            "16",
        ]
    if kind == "onnx":
        foreign_tokenizer().save_pretrained(folder / "words")
        path = str(onnx_file(folder / "m.onnx"))
        return [path, "--tokenizer", str(folder / "words"), "--labels", "bad,good", "--max-length", "16"]
    (folder / "my_hostile_judge.py").write_text(MODULE)
    return ["my_hostile_judge:judge", "--labels", "bad,good", "--batch-size", "16", "--retries", "1"]


def _bytes() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(BPE({c: i for i, c in enumerate([*sorted(ByteLevel.alphabet()), "<pad>"])}, []))
    backend.pre_tokenizer, backend.decoder = ByteLevel(add_prefix_space=False), Decoder()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", model_max_length=64)
