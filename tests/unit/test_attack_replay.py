"""Replaying adversarial texts: counts by hand, labels by name, files of every layout, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calling import tickets
from refusing import refused
from robust_tickets import replay
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.attack.replay import open_set
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from tiny import tiny_classifier


def by_word(*words: str, labels: tuple[str, ...] = ("neg", "pos"), positive: int = 1) -> Classifier:
    """Positive where one of the words stands."""

    def judge(texts: list[Any]) -> np.ndarray:
        said = [text if isinstance(text, str) else " ".join(text) for text in texts]
        p = np.array([0.8 if set(text.split()) & set(words) else 0.2 for text in said])
        return np.stack([1 - p, p] if positive else [p, 1 - p], axis=1)

    return Classifier.wrap(judge, labels=labels)


TEXTS = ["a good film", "good", "dull film", "a dull thing", "a good thing indeed"]
LABELS = [1, 1, 0, 1, 1]


def attacked(folder: Path | None = None) -> Any:
    return PWWS()(by_word("good"), Split.of(TEXTS, LABELS), n=0, folder=folder, labels=["neg", "pos"])


def test_counts_by_hand() -> None:
    result = attacked()
    found = {e.status: e for e in result.examples()}
    assert result.outcomes == {"success": 3, "failed": 1, "skipped": 1, "unknown": 0, "error": 0}
    turned = [e.perturbed[0] for e in result.examples() if e.status == "success" and e.perturbed]
    assert found["skipped"].original == ("a dull thing",)
    # one victim knows "good" only and falls for all; the other holds to "film" and "thing" too, so what is left of them saves two
    told = replay(result, [by_word("good"), by_word("film", "thing")])
    same, other = told.cell(0, 0), told.cell(0, 1)
    assert (same["n"], same["texts"], same["turned"], same["mended"]) == (5, 3, 3, 0)
    assert [same[name] for name in ("clean", "originals", "adversarials", "transfer")] == [80.0, 100.0, 0.0, 100.0]
    assert same["drop"] == 100.0
    assert same["replayed"] == result.aua == 20.0
    kept = sum("film" in text or "thing" in text for text in turned)
    # right on "a good film" and the two things; wrong on "good" and on "dull film"
    assert (other["clean"], other["originals"]) == (60.0, round(200 / 3, 4))
    assert other["adversarials"] == round(100 * kept / 3, 4)
    assert other["turned"] == 2 - kept
    assert set(other["intervals"]) == {"clean", "originals", "adversarials", "transfer", "replayed", "drop"}
    assert "few-examples" in other["flag_codes"]
    with refused("replay.cell"):
        told.cell(0, 2)


def test_labels_are_matched_by_name_not_by_order() -> None:
    result = attacked()
    straight, turned = replay(result, [by_word("good"), by_word("good", labels=("pos", "neg"), positive=0)]).cells
    assert {k: v for k, v in straight.items() if k != "model"} == {k: v for k, v in turned.items() if k != "model"}
    strange = by_word("good", labels=("bad", "fine"))
    with refused("labels.other"):
        replay(result, strange)
    assert replay(result, strange, label_map={"neg": "bad", "pos": 1}).cell()["transfer"] == 100.0
    with refused("replay.label_map"):
        replay(result, strange, label_map={"neg": "bad", "pos": 1, "meh": 0})
    with refused("classifier.columns"):
        replay(result, Classifier.wrap(lambda texts: texts, labels=["neg", "pos"], columns=("a", "b")))


def test_models_that_call_their_classes_differently(tmp_path: Path) -> None:
    models = [by_word("good"), by_word("good", labels=("bad", "fine"))]
    maps = [{}, {"neg": "bad", "pos": "fine"}]
    told = replay(attacked(), iter(models), label_map=maps, folder=tmp_path)
    assert [cell["clean"] for cell in told.cells] == [80.0, 80.0]
    assert json.loads((tmp_path / "replay.json").read_text())["label_map"] == maps
    for wrong in (maps[1:], [*maps, {}], maps[::-1]):
        with pytest.raises(TicketsError):
            replay(attacked(), iter(models), label_map=wrong)


def test_another_replay_is_not_written_over(tmp_path: Path) -> None:
    models = [by_word("good"), by_word("film", "thing", labels=("pos", "neg"), positive=0)]
    first = replay(attacked(), models, folder=tmp_path)
    before = [(tmp_path / name).read_bytes() for name in ("rows.jsonl", "replay.json")]
    others: list[tuple[Any, dict[str, Any]]] = [
        (models[::-1], {}), (models[:1], {}), ([*models, models[0]], {}), (models, {"label_map": {"neg": "neg", "pos": "pos"}}),
    ]  # fmt: skip
    for given, flags in others:
        with refused("stage.other_work"):
            replay(attacked(), given, folder=tmp_path, **flags)
    with refused("stage.other_work"):
        replay([attacked(), attacked()], models, folder=tmp_path)

    def opened() -> Iterator[Classifier]:
        yield models[1]
        raise AssertionError("refused only after the first model was asked")

    with refused("stage.other_work"):
        replay(attacked(), opened(), folder=tmp_path)
    assert [(tmp_path / name).read_bytes() for name in ("rows.jsonl", "replay.json")] == before
    assert replay(attacked(), models, folder=tmp_path).cells == first.cells  # the same may be made again
    (tmp_path / "replay.json").write_text("[]")
    with refused("stage.other_work"):
        replay(attacked(), models, folder=tmp_path)


def test_the_attacked_model_falls_for_all_that_was_found_on_it(tmp_path: Path) -> None:
    clf = tiny_classifier("bert", max_length=24)
    texts = [f"the {a} {b} was {c}" for a in ("good", "bad") for b in ("film", "story") for c in ("great", "poor")]
    logits = clf.logits(texts)
    with torch.no_grad():  # half of the texts on either side
        clf.model.classifier.bias[1] -= float(np.median(logits[:, 1] - logits[:, 0]))
    labels = [clf.labels.index(label) for label in clf.predict(texts)[0]]
    result = PWWS()(clf, Split.of(texts, labels), n=0, folder=tmp_path / "attack", token_budget=64, query_budget=90)
    assert result.outcomes["success"] > 0
    for budget in (16, 4096):
        cell = replay(tmp_path / "attack", clf, token_budget=budget).cell()
        assert (cell["turned"], cell["texts"]) == (result.outcomes["success"],) * 2
        assert (cell["replayed"], cell["clean"]) == (result.aua, result.clean)
        assert "same-model" in cell["flag_codes"]


def test_rows_and_numbers_are_written(tmp_path: Path) -> None:
    attacked(tmp_path / "a")
    models = (by_word(word) for word in ("good", "dull"))  # loaded one after another
    told = replay([tmp_path / "a", tmp_path / "a"], models, folder=tmp_path / "out")
    stored = json.loads((tmp_path / "out" / "replay.json").read_text())
    assert stored == json.loads(json.dumps(told.to_json()))
    rows = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 2 * 5
    assert [row["id"] for row in rows[:5]] == [f"test:{i}" for i in range(5)], "in the set's order"
    assert rows[0] == {
        "source": 0, "model": 0, "id": "test:0", "label": 1, "original_right": True, "original_predicted": 1,
        "adversarial_right": False, "adversarial_predicted": 0,
    }  # fmt: skip
    assert rows[3]["adversarial_right"] is None, "a skipped example has no adversarial text"
    for cell in told.cells:
        mine = [r for r in rows if (r["source"], r["model"]) == (cell["source"], cell["model"])]
        assert cell["turned"] == sum(r["original_right"] and r["adversarial_right"] is False for r in mine)
        assert cell["clean"] == 100 * sum(r["original_right"] for r in mine) / 5
    assert stored["sources"][0]["attack"] == "PWWS"
    assert stored["sources"][0]["model"]["identity"].startswith("callable:")


def test_a_failing_text_costs_one_row() -> None:
    good = by_word("good")

    def judge(texts: list[str]) -> Any:
        if any(text == "dull film" for text in texts):
            raise ValueError("no")
        return np.exp(good.logits(texts))

    told = replay(attacked(), Classifier.wrap(judge, labels=["neg", "pos"])).cell()
    assert (told["errors"], told["n"], told["turned"]) == (1, 4, 3)
    (said,) = (flag for flag, code in zip(told["flags"], told["flag_codes"], strict=True) if code == "errors")
    assert "1 example(s) failed" in said
    assert said.endswith("; most often: ValueError: no")

    def broken(texts: list[str]) -> Any:
        raise ValueError("down")

    with pytest.raises(TicketsError, match="in a row: ValueError: down"):
        replay(attacked(), Classifier.wrap(broken, labels=["neg", "pos"]))


ROWS = [("a fine film", "a good film", 1), ("fine", "good", 1), ("dull", "dull", 0)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_static_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"adversarial.{ending}"
    heads = ("sentence", "clean", "label")
    if ending == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(heads, row, strict=True))) + "\n" for row in ROWS))
    elif ending == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist([dict(zip(heads, row, strict=True)) for row in ROWS]), path)
    else:
        mark = "," if ending == "csv" else "\t"
        path.write_text("\n".join(mark.join(map(str, row)) for row in [heads, *ROWS]) + "\n")
    clf = by_word("good", labels=("negative", "positive"))
    alone = replay(open_set(path, task="sst2", text="sentence", label="label"), clf).cell()
    names = ("texts", "adversarials", "clean", "transfer", "drop")
    assert [alone[name] for name in names] == [3, 33.3333, None, None, None]
    assert "no-originals" in alone["flag_codes"]
    both = replay(open_set(path, task="sst2", text="sentence", label="label", original="clean"), clf).cell()
    assert (both["adversarials"], both["originals"], both["turned"], both["drop"]) == (33.3333, 100.0, 2, 66.6667)
    assert both["replayed"] is None
    with refused("labels.other"):  # class numbers are never taken for a model's classes by order
        replay(open_set(path, text="sentence", label="label"), clf)
    mapped = replay(open_set(path, text="sentence", label="label"), clf, label_map={"0": 0, "1": "positive"}).cell()
    assert mapped["adversarials"] == 33.3333


def test_a_row_without_an_original_is_still_a_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    rows = [
        {"text": f"fine {i}", "clean": f"good {i}" if i != 1 else None, "label": "pos" if i else "neg"}
        for i in range(150)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cell = replay(open_set(path, text="text", label="label", original="clean"), by_word("good")).cell()
    assert (cell["texts"], cell["n"], cell["turned"], cell["mended"]) == (150, 149, 148, 1)


def test_advglue_layout(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    rows = [{"idx": i, "label": label, "sentence": text} for i, (text, _, label) in enumerate(ROWS)]
    names = ("question1", "question2", "original_question1", "original_question2")
    pairs = [{"idx": 0, "label": 1, **dict(zip(names, ("good", "fine", "x", "good"), strict=True))}]
    path.write_text(json.dumps({"sst2": rows, "qqp": pairs, "odd": []}))
    clf = by_word("good", labels=("positive", "negative"), positive=0)
    told = replay(open_set(path, task="sst2"), clf)
    assert told.cell()["adversarials"] == 33.3333
    assert [told.sources[0][key] for key in ("name", "task", "kind")] == ["dev.json:sst2", "sst2", "static"]

    def same(texts: list[tuple[str, str]]) -> np.ndarray:
        return np.array([[0.1, 0.9] if "good" in pair[1] else [0.9, 0.1] for pair in texts])

    two = Classifier.wrap(same, labels=["not_duplicate", "duplicate"], columns=("question1", "question2"))
    assert replay(open_set(path, task="qqp"), two).cell()["turned"] == 1
    for task in (None, "sst", "odd"):
        with refused("replay.task"):
            open_set(path, task=task)
    for rows in (
        3,
        [{"label": 2, "sentence": "x"}],
        [{"label": -1, "sentence": "x"}],
        [{"label": 1}],
        [7],
        [{"label": 1, "sentence": None}],
    ):
        path.write_text(json.dumps({"sst2": rows}))
        with refused("data.advglue"):
            open_set(path)


def test_what_is_refused(tmp_path: Path) -> None:
    with refused("replay.source"):
        open_set(tmp_path)
    with refused("replay.source"):
        open_set(tmp_path / "x.csv")
    with refused("replay.labels"):
        open_set(Split.of(["a"], [0]))
    with refused("replay.empty"):
        replay([], by_word("good"))
    with refused("replay.empty"):
        replay(attacked(), [])


def test_the_verb(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    clf = tiny_classifier("bert", max_length=24)
    clf.save_pretrained(tmp_path / "model")
    PWWS()(clf, Split.of(["a good film", "bad story"], [0, 1]), n=0, folder=tmp_path / "a")
    (tmp_path / "set.csv").write_text("text,label\na fine film,x\npoor,y\n")
    names = ",".join(f"{name}={i}" for i, name in enumerate(("x", "y")))
    attack, model, table = (str(tmp_path / name) for name in ("a", "model", "set.csv"))
    told = tickets(capsys, "replay", attack, model, model, "--out", str(tmp_path / "out"))
    assert (len(told["sources"]), len(told["models"]), len(told["cells"])) == (1, 2, 2)
    assert (tmp_path / "out" / "rows.jsonl").is_file()
    told = tickets(capsys, "replay", table, model, "--label-map", names, "--out", str(tmp_path / "static"))
    assert told["cells"][0]["texts"] == 2
    assert told["label_map"] == {"x": 0, "y": 1}
    for wrong in ([table, model, "--label-map", "x"], [table, model, "--label-map", "x=0,x=1"], [attack]):
        tickets(capsys, "replay", *wrong, "--out", str(tmp_path / "w"), code=2)


@pytest.mark.shared
def test_advglue_of_the_shared_folder(shared: Path) -> None:
    texts = open_set(shared / "data" / "advglue_dev" / "sst2.parquet", task="sst2")
    cell = replay(texts, by_word("good", "great", "fun", labels=("negative", "positive"))).cell()
    assert cell["texts"] == len(texts.pairs) == 148
    assert texts.labels == ("negative", "positive")
