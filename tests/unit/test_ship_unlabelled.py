"""Rows without a label: why, how many, what to do, and that a script notices."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robust_tickets.classifier import Classifier
from robust_tickets.cli.main import main
from robust_tickets.data.load import load_task
from robust_tickets.deploy import predict as ship_unlabelled
from robust_tickets.deploy.predict import REST, Reasons
from robust_tickets.deploy.predict import predict as predict_file
from robust_tickets.errors import TicketsError

Capture = pytest.CaptureFixture[str]
MODULE = "def judge(texts):\n    return [[0.6, 0.4]] * len(texts)\n"


def judge(texts: list[str]) -> np.ndarray:
    if any("fail" in text for text in texts):
        raise RuntimeError("too odd")
    return np.tile([0.6, 0.4], (len(texts), 1))


def predict(tmp_path: Path, texts: list[bytes]) -> dict[str, Any]:
    data = tmp_path / "my file.csv"
    data.write_bytes(b"text,n\n" + b"".join(text + b",1\n" for text in texts))
    return predict_file(Classifier.wrap(judge, labels=["bad", "good"]), data, tmp_path / "out.csv", text="text")


def test_a_latin_1_file_is_told_how_to_become_utf8(tmp_path: Path) -> None:
    told = predict(tmp_path, ["schön".encode("latin-1")] * 3 + [b"fine", b" "])
    assert told["reasons"] == [{"problem": "broken UTF-8", "rows": 3}, {"problem": "empty text", "rows": 1}]
    assert (told["bad"], told["unanswered"], told["exit_code"]) == (4, 0, 2)
    command = told["hint"].partition("Latin-1: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert "schön" in (tmp_path / "utf8-my file.csv").read_text("utf-8")
    with pytest.raises(TicketsError) as caught:
        load_task(tmp_path / "my file.csv", text="text", label="n")
    told = predict(tmp_path, ["schön – „gut“".encode("cp1252")] * 3)  # Latin-1 has control characters there
    subprocess.run(told["hint"].partition("Latin-1: ")[2], shell=True, check=True, cwd=tmp_path)
    assert "schön – „gut“" in (tmp_path / "utf8-my file.csv").read_text("utf-8")
    assert f"-t UTF-8 {shlex.quote(str(tmp_path / 'my file.csv'))} >" in caught.value.hint


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ([b"a", b"b"], 0),
        ([b"a", b" "], 0),  # half of them is not more than half
        ([b"a", b" ", b" "], 2),
        ([b"a", b"fail 1", b"fail 2"], 3),
        ([b" ", b"a", b"fail 2"], 2),  # as many of the one as of the other
        ([b" ", b"a", b"fail 1", b"fail 2"], 3),
        ([], 0),
    ],
)
def test_more_than_half_without_a_label_is_no_success(tmp_path: Path, texts: list[bytes], code: int) -> None:
    told = predict(tmp_path, texts)
    assert told["exit_code"] == code
    assert bool(told["hint"]) == bool(told["bad"])
    assert "iconv" not in told["hint"]


def test_reasons_without_number_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ship_unlabelled, "MOST", 3)
    reasons = Reasons()
    for i in (0, 1, 2, 3, 4, 0):
        reasons.add(f"reason {i}", readable=False)
    assert dict(reasons.counts) == {"reason 0": 2, "reason 1": 1, "reason 2": 1, REST: 2}


def test_the_terminal_says_it(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "said_judge.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    data = tmp_path / "stars.csv"
    data.write_bytes(b"text\n" + b"".join(bytes([word]) + b" film\n" for word in [0xE9] * 9) + b"fine\n")
    call = ["predict", "said_judge:judge", "--labels", "bad,good", "--data", str(data), "--out", "out.csv"]
    for arguments in (call, [*call, "--json"]):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        said = capsys.readouterr()
        assert end.value.code == 2, said.err
        assert "warning: predict: more than half of the rows got no label (9 of 10)" in said.err
        if arguments is call:
            assert (
                "10 rows: bad 1, good 0; 9 bad rows left without a label:\n  broken UTF-8 (9 rows)\n  what to do: stars.csv is not"
                in said.out
            )
        else:
            assert json.loads(said.out)["reasons"] == [{"problem": "broken UTF-8", "rows": 9}]
    assert len((tmp_path / "out.csv").read_text("utf-8").splitlines()) == 11, "it is written all the same"


def test_a_reason_of_several_lines_is_printed_on_one(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = "    if 'odd' in texts:\n        raise ValueError('first\\n\\n  second')\n"
    (tmp_path / "lines_judge.py").write_text(MODULE.replace("    return", odd + "    return"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "in.csv").write_text("text\nodd\nfine\n")
    with pytest.raises(SystemExit) as end:
        main(["predict", "lines_judge:judge", "--labels", "bad,good", "--data", "in.csv", "--out", "out.csv"])
    assert end.value.code == 0
    assert (
        "; 1 bad row left without a label:\n  ValueError: first second (1 row)\n  what to do" in capsys.readouterr().out
    )
    (tmp_path / "in.csv").write_text("text\nodd\nodd\n")
    with pytest.raises(SystemExit):
        main(["predict", "lines_judge:judge", "--labels", "bad,good", "--data", "in.csv", "--out", "gone.csv"])
    assert "the last time with ValueError: first second; gone.csv is not written\n" in capsys.readouterr().err
