"""TextAttack's half of ``attack_textattack``: runs in its own environment, reads the job from a file, writes outcomes and seconds.

TextAttack attacks one example at a time, as it does by itself; the wrapper is its own, and the padding is what ``pad`` says: "512" is its
default for BERT, "128" a tokenizer told so, "dynamic" a wrapper of ours that pads each request to its longest text.
"""

from __future__ import annotations

import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "textattack_parity"))

# imported by TextAttack, not used by TextFooler, and not on every machine
UNUSED = [
    "langdetect",
    "Levenshtein",
    "OpenHowNet",
    "requests",
    "matplotlib",
    "matplotlib.pyplot",
    "bert_score",
    "datasets",
    "jieba",
    "jieba.posseg",
    "pinyin",
    "language_tool_python",
    "lemminflect",
    "pandas",
    "word2number",
    "docopt",
    "num2words",
    "IPython",
    "IPython.core",
    "IPython.core.display",
    "scipy",
    "editdistance",
    "terminaltables",
]


class _Anything(types.ModuleType):
    """A module that TextAttack imports and TextFooler does not use."""

    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def main(job_file: Path, out: Path) -> None:
    job = json.loads(job_file.read_text())
    for name in UNUSED:
        try:
            __import__(name)
        except Exception:  # absent, or its own needs are
            sys.modules[name] = _Anything(name)
    import torch

    if job["threads"]:
        torch.set_num_threads(job["threads"])
    import recipes
    import stand_ins

    words = Path(job["vectors"], "words.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    matrix = np.load(next(Path(job["vectors"]).glob("vectors*.npy"))).astype(np.float32)
    rows = {int(row): near for row, near in job["nearest"].items()}
    nearest = np.zeros((len(words), 51), dtype=np.int64)
    for row, near in rows.items():
        nearest[row, : len(near) + 1] = [row, *near]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parts = stand_ins.Parts(
        words=words,
        matrix=matrix,
        nearest=nearest,
        encode=_encoder(job["encoder"], device),
        tags=_tagger(job["tagger"]),
        stopwords=["the"],
    )
    stand_ins.install(parts, Path(job["cache"]))
    import textattack
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(job["victim"], dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(job["victim"])
    tokenizer.model_max_length = 512
    ways: dict[str, Any] = {}
    for pad in job["pads"]:
        wrapper = textattack.models.wrappers.HuggingFaceModelWrapper(model.to(device), tokenizer)
        if pad == "dynamic":
            wrapper = _dynamic(textattack)(model, tokenizer)
        elif pad != "512":
            wrapper.tokenizer = AutoTokenizer.from_pretrained(job["victim"], model_max_length=int(pad))
        attack = recipes.build(job["recipe"], wrapper)
        found = []
        wall, cpu = time.perf_counter(), time.process_time()
        for text, label in zip(job["texts"], job["labels"], strict=True):
            result = attack.attack(text, label)
            status = type(result).__name__.removesuffix("AttackResult").lower().replace("successful", "success")
            found.append([status, result.perturbed_result.attacked_text.text, int(result.num_queries)])
            if job["seconds"] and time.perf_counter() - wall > job["seconds"]:
                break
        ways[pad] = {"outcomes": found, "seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        out.write_text(
            json.dumps(
                {
                    "versions": stand_ins.versions() | {"textattack": textattack_version()},
                    "device": device,
                    "ways": ways,
                }
            )
        )


def textattack_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("textattack")
    except PackageNotFoundError:
        return "0.3.11 (unpacked wheel)"


def _dynamic(textattack: Any) -> Any:
    import torch

    class Dynamic(textattack.models.wrappers.HuggingFaceModelWrapper):  # type: ignore[misc]
        def __call__(self, texts: Any) -> Any:
            told = self.tokenizer(list(texts), padding=True, truncation=True, max_length=512, return_tensors="pt")
            with torch.no_grad():
                return self.model(**told.to(next(self.model.parameters()).device)).logits

    return Dynamic


def _encoder(folder: str, device: str) -> Any:
    import torch
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval().to(device)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(texts: list[str]) -> np.ndarray:
        told = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt").to(device)
        with torch.no_grad():
            states = model(**told).last_hidden_state
        mask = told["attention_mask"].unsqueeze(-1).float()
        pooled = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        return torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()

    return encode


def _tagger(folder: str) -> Any:
    from nltk.tag.perceptron import PerceptronTagger

    name = "averaged_perceptron_tagger_eng"
    weights, tagdict, classes = (
        json.loads(Path(folder, "taggers", name, f"{name}.{part}.json").read_text())
        for part in ("weights", "tagdict", "classes")
    )
    model = PerceptronTagger(load=False)
    model.model.weights, model.tagdict = weights, tagdict
    model.classes = model.model.classes = set(classes)
    lines = Path(folder, "taggers", "universal_tagset", "en-ptb.map").read_text().splitlines()
    universal = dict(line.split() for line in lines if line.strip())
    return lambda said: [universal.get(tag, "X") for _, tag in model.tag(said)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
