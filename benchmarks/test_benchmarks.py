"""The benchmarks of training run (a tiny model, a few steps), resume, and the speed page is what its results give."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a script of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_step_time_measures_and_goes_on(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step_time = script("step_time")
    asked = [
        "--tiny",
        "--device",
        "cpu",
        "--batch",
        "2",
        "--length",
        "8",
        "--repeats",
        "2",
        "--without",
        "trainer-bf16",
        "--out",
        str(tmp_path),
    ]
    step_time.main([*asked, "--kind", "freelb"])
    written = tmp_path / "step_time.json"
    entries = json.loads(written.read_text())["entries"]
    assert {"limit", "freelb/2x8/reference", "freelb/2x8/eager-bf16"} == set(entries)
    assert entries["freelb/2x8/eager-bf16"]["ms"]["n"] == 2
    monkeypatch.setattr(step_time, "in_turns", lambda *_: pytest.fail("measured again"))
    step_time.main([*asked, "--kind", "freelb"])
    assert json.loads(written.read_text())["entries"] == entries


def test_a_command_is_told_without_the_paths_of_a_machine(script: Any) -> None:
    called = [
        "benchmarks/x.py",
        "--data",
        "d",
        "--tokenizer",
        "t",
        "--out=o",
        "--part",
        "search-sst2",
        "--other=/home/me",
        "/home/me",
    ]
    told = (
        "python benchmarks/x.py --data FOLDER --tokenizer FOLDER --out=FOLDER --part search-sst2 --other=FOLDER FOLDER"
    )
    assert script("_store").command(called) == told


def test_what_cannot_be_left_out_is_refused(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script("step_time").main(["--tiny", "--device", "cpu", "--without", "trainer", "--out", str(tmp_path)])
    assert "graph-fp32 and trainer-bf16 can be left out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_reference_beyond_its_budget_is_said_to_be_not_run(script: Any, tmp_path: Path) -> None:
    asked = [
        "--tiny",
        "--device",
        "cpu",
        "--batch",
        "2",
        "--length",
        "8",
        "--repeats",
        "2",
        "--seconds",
        "0",
        "--out",
        str(tmp_path),
    ]
    script("step_time").main([*asked, "--kind", "synonymswap"])
    assert "not run" in json.loads((tmp_path / "step_time.json").read_text())["entries"]["synonymswap/2x8/reference"]


def test_processes_that_share_a_device_are_counted_together(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--tiny", "--seconds", "0.1", "--out", str(tmp_path)]
    script("sharing").main([*asked, "--cells", "2x50"])
    entry = json.loads((tmp_path / "sharing.json").read_text())["entries"]["finetune/2x50"]
    assert (entry["processes"], entry["share"], len(entry["each"])) == (2, 50, 2)
    assert entry["updates_per_second"] == pytest.approx(sum(entry["each"]), abs=0.1)
    for wrong in (["--cells", "4"], ["--cells", "2x0"], ["--kind", "nothing"]):
        with pytest.raises(SystemExit):
            script("sharing").main([*asked, *wrong])
        assert wrong[1] in capsys.readouterr().err


@pytest.mark.parametrize("name", ["finetune", "freelb", "pgd", "search", "gates", "synonymswap", "mlm", "orticket"])
def test_the_reference_makes_the_passes_that_it_says(script: Any, name: str) -> None:
    reference, ours = script("_reference"), script("_ours")
    config, device = ours.config_of(tiny=True), torch.device("cpu")
    kind = ours.KINDS[name]
    step = reference.Reference(name, reference.Shape(**ours.layers_of(config)), device, steps=kind.steps)
    backwards: list[None] = []
    step.model.norm.register_full_backward_hook(lambda *_: backwards.append(None))
    before = [p.detach().clone() for p in step.trained]
    step(ours.batch_of(2, 8, config.vocab_size, device, of_words=kind.of_words))
    assert len(backwards) == step.passes
    moved = [not torch.equal(a, b) for a, b in zip(before, step.trained, strict=True)]
    assert sum(moved) >= len(moved) - 4  # the class head's unused norm, the key biases: nothing depends on them
    coefficients = 2 * config.num_hidden_layers if kind.coefficients else 0
    assert len(step.record) == coefficients


# the reference's names in stock BERT's
STOCK = {
    "words": "bert.embeddings.word_embeddings",
    "places": "bert.embeddings.position_embeddings",
    "types": "bert.embeddings.token_type_embeddings",
    "norm": "bert.embeddings.LayerNorm",
    "pooler": "bert.pooler.dense",
    "classes": "classifier",
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}


def test_the_reference_computes_what_bert_computes(script: Any) -> None:
    reference, ours = script("_reference"), script("_ours")
    config, device = ours.config_of(tiny=True), torch.device("cpu")
    stock = ours.model_of(config, device).eval()
    model = reference.Bert(reference.Shape(**ours.layers_of(config)), of_words=False).eval()
    weights = {}
    for name in model.state_dict():
        *place, part, kind = name.split(".")
        if part != "head_norm":  # of the head of words
            layer = f"bert.encoder.layer.{place[1]}." if place else ""
            weights[name] = stock.state_dict()[f"{layer}{STOCK[part]}.{kind}"]
    model.load_state_dict(weights, strict=False)
    batch = ours.batch_of(3, 8, config.vocab_size, device)
    batch["attention_mask"][1, 5:] = 0
    with torch.no_grad():
        expected = stock(**batch).logits
        torch.testing.assert_close(model(batch["input_ids"], batch), expected, rtol=1e-5, atol=1e-6)


def test_the_headline_runs_whole_and_the_page_tells_it(script: Any, tmp_path: Path) -> None:
    asked = [
        "--tiny",
        "--device",
        "cpu",
        "--epochs",
        "1",
        "--steps",
        "8",
        "--out",
        str(tmp_path),
        "--work",
        str(tmp_path / "work"),
    ]
    script("headline").main([*asked, *(f"--part={part}-sst2" for part in ("search", "train", "steps"))])
    page, told = script("page"), script("_page_headline")
    entries = json.loads((tmp_path / "headline.json").read_text())["entries"]
    spent = told.times(entries, "sst2")
    product = 1.0
    for _, brought in told.waterfall(spent):
        product *= brought
    assert product == pytest.approx(
        spent["reference pgd"] / spent["earlyrobust"]
    )  # the waterfall explains the headline, all of it
    text = page.made(tmp_path)
    assert "EarlyRobust against PGD" in text
    assert "One step" not in text  # not measured: left out


def test_growth_tells_memory(script: Any, tmp_path: Path) -> None:
    growth = script("step_growth")
    told = growth.measured("gates/2x8x1/ours/head", torch.device("cpu"), 2, tiny=True)
    assert told["gates"] == 2
    assert told["peak_bytes"] > 0
    assert growth.growth(1.0, 4.0, 2.0, 4.0) == 2.0
    assert "gates/32x128x12/ours/weight" in growth.points(tiny=False)


def test_the_page_tells_steps_and_memory_and_nothing_that_was_not_measured(script: Any, tmp_path: Path) -> None:
    def ms(median: float) -> dict[str, Any]:
        return {"ms": {"median": median, "q1": median, "q3": median, "mean": median, "error": 0.0, "n": 20}}

    about = {
        "env": {"device": "a GPU", "python": "3", "cores": 2, "packages": {"torch": "2"}},
        "commands": ["python x"],
        "settings": {},
    }
    steps = {
        "limit": {"matmul_tflops": 800.0, "matmul": "large", "copy_gb_per_s": 4000.0, "copy_bytes": 2**30},
        "finetune/32x32/graph-bf16": ms(4.0) | {"tflops": 200.0, "engine": "graph"},
        "finetune/32x32/reference": ms(30.0) | {"tflops": 20.0},
        "freelb/128x256/graph-bf16": ms(300.0) | {"tflops": 300.0, "engine": "eager"},
        "freelb/128x256/reference": {"not run": "about 2 s a step"},
        "freelb/32x64/reference": {"not run": "about 1 s a step"},
    }
    grown = {
        f"finetune/32x{tokens}x12/ours": ms(tokens / 10)
        | {"peak_bytes": tokens * 2**20, "gates": 0, "reserved_bytes": 0}
        for tokens in (64, 128)
    }
    grown |= {
        f"gates/32x128x12/ours{more}": {"peak_bytes": peak} for more, peak in (("", 2**30), ("/weight", 3 * 2**30))
    }
    for name, entries in (("step_time", steps), ("step_growth", grown)):
        (tmp_path / f"{name}.json").write_text(json.dumps({**about, "entries": entries}))
    text = script("page").made(tmp_path)
    assert "| 32 × 32 | 4.00 | 30.0 | 7.50 × | 200 | 25 % |" in text
    assert "| fine-tune step, 32 texts × 32 tokens | 5.00 ms | 4.00 ms | yes |" in text
    assert "| 128 × 256 | 300 (not recorded) | not run | – | 300 | 38 % |" in text
    assert "| fine-tune | tokens | 64, 128 | 6.40, 12.8 | 1.00 | 0.06, 0.12 | 1.00 |" in text
    assert "the same point took 1.00 GiB among the first" in text
    assert "up to 2.00 GiB too high" in text
    assert "| 32 × 64 |" not in text  # nothing was measured there but that the reference is slow
    assert "- steps at batch 32 and 64 or 128 or 256 tokens" in text
    assert "### PGD-5" not in text
    assert "- the reference's steps on SST-2 and IMDB" in text  # said to be missing
    assert "peak memory, and how" not in text  # measured


def test_the_page_says_what_was_missed_and_what_a_cpu_does(script: Any, tmp_path: Path) -> None:
    about = {
        "env": {"device": "cpu", "cpu": "a CPU", "python": "3", "cores": 2, "packages": {"torch": "2"}},
        "commands": ["python x"],
    }
    times = {
        "milliseconds": {"median": 200.0},
        "speed over all threads, passive": {"median": 0.5},
        "speed over fp32": {"median": 1.5},
    }
    setting = {"threads": 2, "train, fp32": times, "infer, fp32": times, "train, autocast": times}
    compiled = {
        "eager": {"median": 10.0},
        "compiled": {"median": 11.0},
        "speed over eager": {"median": 0.9},
        "compile_seconds": 50.0,
    }
    entries = {
        "threads": {"all threads, passive": setting, "1 thread": {**setting, "threads": 1}},
        "compilation, train, fp32": {**compiled, "pays_after_calls": None},
    }
    settings = {"model": "tiny", "rows": 2, "tokens": 4, "rounds": 1, "repeats": 20}
    (tmp_path / "cpu_step.json").write_text(json.dumps({**about, "settings": settings, "entries": entries}))
    steps = {
        "freelb/32x128/graph-bf16": {
            "ms": {"median": 45.0, "q1": 45.0, "q3": 45.0, "n": 20},
            "tflops": 1.0,
            "engine": "graph",
        }
    }
    (tmp_path / "step_time.json").write_text(json.dumps({**about, "settings": {}, "entries": steps}))
    text = script("page").made(tmp_path)
    assert "| 1 thread | 1 | 200 (0.50 ×) | 200 (0.50 ×) |" in text
    assert "| training, autocast | 200 (1.50 ×) |" in text
    assert "| training, fp32 | 10.0 | 11.0 | 0.90 × | 50.0 | – |" in text
    assert "| FreeLB-5 step, 32 texts × 128 tokens | 36.0 ms | 45.0 ms | **no** | 25 % above" in text
    assert "fine-tune step" not in text  # an aim that nothing was measured for
    assert "`cpu_step.py`" not in text
    assert "- steps at batch 128" in text


def test_commands_on_the_page_run_today(script: Any) -> None:
    parts = script("_page_parts")
    about = {"env": {"device": "a GPU", "python": "3", "cores": 2, "packages": {}}}
    assert "`python x --rows 3`" in parts.made_with({**about, "command": "python x --rows 3"}, "--rows 3")
    assert "`python x --rows 3`" in parts.made_with({**about, "command": "python x"}, "--rows 3")
    page = script("page")
    commands = set(re.findall(r"`python (benchmarks/\w+\.py --[^`]*)`", page.made()))
    assert len(commands) > 5
    for command in commands:
        name, *words = command.split()
        source = (ROOT / name).read_text()
        for word in words:
            assert not word.startswith("--") or f'"{word}"' in source, (name, word)


def test_the_committed_page_is_what_the_committed_results_give(script: Any) -> None:
    page = script("page")
    if not page.PAGE.is_file():
        pytest.skip("no docs/dev/speed.md yet")
    assert page.PAGE.read_text() == page.made(), "run python benchmarks/page.py"
