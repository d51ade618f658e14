"""A prediction that is stopped goes on where it was, and its file is what an undisturbed one writes, wherever it was cut."""

from __future__ import annotations

import csv
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.classifier import Classifier
from robust_tickets.deploy import predict
from robust_tickets.deploy.predict import Answer, Answers
from robust_tickets.deploy.predict import predict as predict_file
from tiny import tiny_classifier

LABELS = ["x", "y"]


class Victim:
    """Answers every text by itself and, a little, by its batch; fails on some texts, and is stopped after some calls."""

    def __init__(self, wrong: Sequence[str] = (), stop: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self.wrong, self.stop = 10**9, set(wrong), stop
        self.asked: list[str] = []
        self.salt = 0

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise self.stop("no route to host")
        if self.wrong.intersection(texts):
            raise ValueError("not this one")
        self.asked.extend(texts)
        batch = (
            random.Random(str(texts)).random() / 200
        )  # as a model's last bits do, but within what a service may vary by
        p = [random.Random(f"{text}{self.salt}").random() * 0.99 + batch for text in texts]
        return np.array([[1 - x, x] for x in p]).reshape(-1, 2)

    def clf(self, **settings: Any) -> Classifier:
        return Classifier.wrap(self, labels=LABELS, **settings)


def write(path: Path, texts: Sequence[str]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["id", "text"], *enumerate(texts)])
    return path


def part_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.answers.part")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


TEXTS = [" ".join(["word"] * (i * 7 % 5 + 1)) + f" {i}" for i in range(60)]
TEXTS[3] = TEXTS[41] = " "  # bad rows
WRONG = [TEXTS[i] for i in (0, 7, 8, 9, 30, 59)]


@settings(max_examples=40, deadline=None)
@given(
    kills=st.lists(st.tuples(st.integers(0, 70), st.integers(0, 2) | st.integers(0, 400)), min_size=1, max_size=4),
    size=st.sampled_from([None, 1, 3, 16]),
    chunk=st.sampled_from([4, 25, 2048]),
    wrong=st.booleans(),
    ending=st.sampled_from(["csv", "tsv", "jsonl", "parquet"]),
)
@example(kills=[(49, 0)], size=16, chunk=2048, wrong=True, ending="csv")  # a text failed before the kill
def test_going_on_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    kills: list[tuple[int, int]],
    size: int | None,
    chunk: int,
    wrong: bool,
    ending: str,
) -> None:
    folder = tmp_path_factory.mktemp("predict")
    data, out, whole = write(folder / "in.csv", TEXTS), folder / f"out.{ending}", folder / f"whole.{ending}"
    victim = Victim(WRONG if wrong else ())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict, "AT_ONCE", chunk)
        told = predict_file(victim.clf(batch_size=size), data, whole, text="text")
        for calls, cut in kills:
            victim.left = calls
            try:
                predict_file(victim.clf(batch_size=size), data, out, text="text")
            except KeyboardInterrupt:
                assert not out.exists()
                if part_of(out).exists():  # the last line may be torn anywhere
                    kept = part_of(out).read_bytes()
                    part_of(out).write_bytes(kept[: len(kept) - cut % len(kept)])
            else:
                out.unlink()
        victim.left = 10**9
        again = predict_file(victim.clf(batch_size=size), data, out, text="text")
    assert out.read_bytes() == whole.read_bytes()
    assert {**again, "out": ""} == {**told, "out": ""}
    assert names(folder) == sorted(["in.csv", out.name, whole.name])


class Killed(BaseException):
    pass


def test_a_model_stopped_after_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answers depend, in their last bits, on the batch: so going on must ask in the same ones."""
    clf = tiny_classifier(labels=("a", "b"))
    data = write(tmp_path / "in.csv", [" ".join(["a", "good", "film"] * (i % 9 + 1)) for i in range(40)])
    monkeypatch.setattr(predict, "AT_ONCE", 25)
    monkeypatch.setattr("robust_tickets.deploy.predict.TOKEN_BUDGET", 64)
    plain, seen = type(clf).forward, []

    def noted(self: Any, rows: Any) -> Any:
        seen.append(tuple(rows))
        return plain(self, rows)

    monkeypatch.setattr(type(clf), "forward", noted)
    predict_file(clf, data, tmp_path / "whole.csv", text="text")
    batches, out = list(seen), tmp_path / "out.csv"
    assert len(batches) > 5
    add = Answers.add

    def mortal(self: Answers, *given: Any) -> None:
        add(self, *given)
        raise Killed

    seen.clear()
    monkeypatch.setattr(Answers, "add", mortal)
    for _ in batches:
        with pytest.raises(Killed):
            predict_file(clf, data, out, text="text")
    monkeypatch.setattr(Answers, "add", add)
    predict_file(clf, data, out, text="text")
    assert seen == batches, "each batch once, and the same"
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_victim_that_dies_costs_only_what_it_did_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"text {i}" for i in range(100)]
    data, out = write(tmp_path / "in.csv", texts), tmp_path / "out.csv"
    victim = Victim(stop=ConnectionError)
    victim.left = 6
    with refused("predict.failed"):  # not taken for an error of writing, which is an OSError too
        predict_file(victim.clf(batch_size=10), data, out, text="text")
    assert "predict: 60 answers are kept in" in capsys.readouterr().err
    assert names(tmp_path) == ["in.csv", "out.csv.answers.part"]
    with refused("predict.failed"):  # still gone
        predict_file(victim.clf(batch_size=10), data, out, text="text")
    assert "predict: 60 answers are kept in" in capsys.readouterr().err
    victim.left, first, victim.asked = 10**9, victim.asked, []
    told = predict_file(
        victim.clf(batch_size=5, retries=1), data, out, text="text"
    )  # called otherwise: the answers are the same
    assert "predict: 60 rows were answered before and are taken over" in capsys.readouterr().err
    assert (told["rows"], told["bad"]) == (100, 0)
    probes, asked = victim.asked[:8], victim.asked[8:]
    assert set(probes) <= set(first)
    assert sorted(asked) == sorted(set(texts) - set(first)), "each of the others, once"
    assert names(tmp_path) == ["in.csv", "out.csv"]


def test_nothing_is_kept_of_a_victim_that_answered_nothing(tmp_path: Path) -> None:
    data, victim = write(tmp_path / "in.csv", TEXTS), Victim(stop=ConnectionError)
    victim.left = 0
    with refused("predict.failed"):
        predict_file(victim.clf(), data, tmp_path / "out.csv", text="text")
    assert names(tmp_path) == ["in.csv"]


def test_a_failing_batch_asks_nothing_twice(tmp_path: Path) -> None:
    data, victim = write(tmp_path / "in.csv", TEXTS), Victim(WRONG)
    told = predict_file(victim.clf(batch_size=4), data, tmp_path / "out.csv", text="text")
    assert told["bad"] == len(WRONG) + 2
    assert sorted(victim.asked) == sorted(set(TEXTS) - set(WRONG) - {" "})


def test_texts_of_one_kind_that_fail_are_told_from_a_victim_that_is_gone(tmp_path: Path) -> None:
    """The short ones come last: by then all others are answered, and none of these."""
    texts = [f"{'a longer text' if i % 2 else 'short'} {i}" for i in range(80)]
    data, victim = write(tmp_path / "in.csv", texts), Victim([text for text in texts if text.startswith("short")])
    told = predict_file(victim.clf(batch_size=1), data, tmp_path / "out.csv", text="text")
    assert (told["rows"], told["bad"]) == (80, 40)
    assert told["reasons"] == [{"problem": "ValueError: not this one", "rows": 40}]
    gone = Victim(stop=ConnectionError)
    gone.left = 40
    with refused("predict.failed"):
        predict_file(gone.clf(batch_size=1), data, tmp_path / "gone.csv", text="text")
    assert gone.left > -80, "it does not go on asking text by text"


@pytest.mark.parametrize("changed", ["data", "columns", "labels", "function", "model"])
def test_answers_to_something_else_are_not_taken_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    data, out = write(tmp_path / "in.csv", [f"text {i}" for i in range(40)]), tmp_path / "out.csv"
    victim = Victim()
    victim.left = 3
    with pytest.raises(KeyboardInterrupt):
        predict_file(victim.clf(batch_size=5), data, out, text="text")
    victim.left, victim.asked = 10**9, []
    labels, text, clf = LABELS, "text", victim.clf(batch_size=5)
    if changed == "data":
        write(data, [f"text {i}" for i in range(41)])
    elif changed == "columns":
        text = "id"
    elif changed == "labels":
        clf = Classifier.wrap(victim, labels=labels[::-1])
    elif changed == "function":
        victim.salt = 1
    else:
        clf = tiny_classifier(labels=tuple(labels))
    told = predict_file(clf, data, out, text=text)
    err = capsys.readouterr().err
    assert "starting over" in err
    assert "taken over" not in err
    assert told["rows"] == 40 + (changed == "data")
    predict_file(clf, data, tmp_path / "whole.csv", text=text)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert names(tmp_path) == ["in.csv", "out.csv", "whole.csv"]


def test_lines_that_are_damaged_are_asked_again(tmp_path: Path) -> None:
    key, out, answer = {"labels": LABELS, "data": "d"}, tmp_path / "o.csv", Answer(0, [1.0, 0.0])
    damaged = ("[]", "7", "[[0], [2], [[1, 0]]]", "[[0], [0], [[1]]]", "[[0, 1], [0], [[1, 0]]]", '{"a": 1}')
    for line in (*(f"{line}\n".encode() for line in damaged), b"[[1], [0], [[1, 0]]]"):  # the last lacks its end alone
        kept = Answers(out, key)
        kept.add({2: answer})
        kept.close()
        with open(part_of(out), "ab") as stream:
            stream.write(line)
        again = Answers(out, key)
        assert (again.count, list(again.earlier())) == (1, [{2: answer}]), line
        again.add({0: answer})  # behind what is fine, not behind what is damaged
        again.close()
        third = Answers(out, key)
        assert (third.count, next(third.chunks())) == (2, {0: answer, 2: answer}), line
        third.remove()


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    first = Answers(tmp_path / "o.csv", {"labels": LABELS})
    with refused("predict.busy") as caught:
        Answers(tmp_path / "o.csv", {"labels": LABELS})
    assert caught.value.exit_code == 3
    first.leave()
    assert not list(tmp_path.iterdir())


MODULE = """
import pathlib, time
def judge(texts):
    if pathlib.Path("slow").exists():
        time.sleep(0.05)
    with open("calls", "a") as calls:
        calls.write(f"{len(texts)}\\n")
    return [[0.6, 0.4] if len(text) % 2 else [0.3, 0.7] for text in texts]
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_on_the_command_line(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "far_judge.py").write_text(MODULE)
    write(tmp_path / "in.csv", [f"text {i} {'a' * (i % 3)}" for i in range(300)])

    def start(out: str) -> subprocess.Popen[str]:
        # Python leaves SIGINT alone where the shell that began the tests had it ignored, as for a command in the background
        hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        code = f"{hears}; from robust_tickets.cli.main import main; main()"
        flags = ["--data", "in.csv", "--out", out, "--text", "text", "--labels", "bad,good", "--batch-size", "3"]
        return subprocess.Popen(
            [sys.executable, "-c", code, "predict", "far_judge:judge", *flags],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )

    def asked() -> int:
        found = sum(map(int, (tmp_path / "calls").read_text().split()))
        (tmp_path / "calls").unlink()
        return found

    (tmp_path / "slow").touch()
    part, until = part_of(tmp_path / "out.csv"), time.monotonic() + 60
    stopped = start("out.csv")
    while time.monotonic() < until and not (part.is_file() and part.read_bytes().count(b"\n") > 4):
        time.sleep(0.01)
    stopped.send_signal(how)
    said = stopped.communicate()[1]
    assert stopped.returncode == (-9 if how == signal.SIGKILL else 130), said
    assert part.is_file()
    assert not (tmp_path / "out.csv").exists()
    before = asked()
    (tmp_path / "slow").unlink()
    again = start("out.csv")
    said = again.communicate()[1]
    assert again.returncode == 0, said
    assert "rows were answered before and are taken over" in said
    assert 300 <= before + asked() <= 300 + 3 + 8  # the batch it was killed in, and the probes
    whole = start("whole.csv")
    whole.communicate()
    assert whole.returncode == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert not [name for name in names(tmp_path) if name.endswith(".part")]
