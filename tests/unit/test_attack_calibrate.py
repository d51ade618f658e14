"""The calibrated temperature: exact where there is one, on rows that are not attacked, said in the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.attack.calibration import HIGHEST, LEAST, LOWEST, ROWS, calibrate, ece, fit, held_out, nll
from robust_tickets.attack.options import AttackOptions
from robust_tickets.attack.recipes.pwws import PWWS
from robust_tickets.classifier import Classifier
from robust_tickets.data.task import Split
from robust_tickets.errors import TicketsError
from robust_tickets.seeds import numpy_generator


def drawn(seed: int, n: int, classes: int, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels as likely as the logits divided by ``temperature`` say."""
    generator = numpy_generator(seed, "calibrate")
    logits = generator.normal(size=(n, classes)) * 3 * temperature
    p = np.exp(logits / temperature - (logits / temperature).max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) < generator.random((n, 1))).sum(axis=1)
    return logits, np.minimum(labels, classes - 1)


@pytest.mark.parametrize(("temperature", "classes"), [(0.5, 2), (1.0, 2), (4.0, 3), (1000.0, 2)])
def test_it_finds_the_temperature_the_labels_were_drawn_at(temperature: float, classes: int) -> None:
    logits, labels = drawn(1, 20_000, classes, temperature)
    found, why = fit(logits, labels)
    assert found == pytest.approx(temperature, rel=0.05)
    assert why == ""
    assert ece(logits / found, labels) < 0.02


@given(st.integers(0, 10_000), st.integers(2, 4), st.sampled_from([0.3, 1.0, 7.0]), st.sampled_from([0.25, 1.0, 64.0]))
@settings(max_examples=60, deadline=None)
def test_no_other_temperature_fits_better_and_the_scale_of_the_logits_does_not_matter(
    seed: int, classes: int, temperature: float, scale: float
) -> None:
    logits, labels = drawn(seed, 60, classes, temperature)
    found, why = fit(logits * scale, labels)
    if found is None:
        assert why
        return
    best = nll(logits * scale / found, labels)
    for other in (found * 1.02, found / 1.02, found * 3, found / 3, 1.0):
        assert best <= nll(logits * scale / other, labels) + 1e-9
    plain, _ = fit(logits, labels)
    assume(plain is not None)
    assert plain is not None
    assume(LOWEST < plain * scale < HIGHEST)
    assert found == pytest.approx(plain * scale, rel=2e-3)


def film(i: int) -> str:
    return f"a {'good' if i % 3 else 'dull'} film number {i}"


def sure(texts: list[str]) -> np.ndarray:
    """Nearly certain by one word."""
    p = np.array([0.9995 if "good" in text else 0.0005 for text in texts])
    return np.stack([1 - p, p], axis=1)


CLF = Classifier.wrap(sure, labels=["neg", "pos"])
# wrong on every tenth row
SPLIT = Split.of(
    [film(i) for i in range(120)], [int((i % 3 > 0) != (i % 10 == 0)) for i in range(120)], name="validation"
)


def test_rows_with_an_attacked_text_are_left_out() -> None:
    attacked = np.arange(20)
    held = held_out("calibrated", SPLIT, attacked, None)
    assert held is not None
    assert [e.id for e in held] == [f"validation:{i}" for i in range(20, 120)]
    # the same text in another split, in other case and with other spaces, under another label
    other = Split.of(
        [film(i).upper() + "  " for i in range(10)] + [film(i) for i in range(200, 240)], [1] * 50, name="other"
    )
    held = held_out("calibrated", SPLIT, attacked, other)
    assert held is not None
    assert [e.id for e in held] == [f"other:{i}" for i in range(10, 50)]
    with pytest.raises(TicketsError, match=f"at least {LEAST} labelled rows whose texts are not attacked, got 20"):
        held_out("calibrated", SPLIT, np.arange(100), None)
    many = Split.of([film(i) for i in range(5000)], [0] * 5000)
    held = held_out("calibrated", many, attacked, None)
    assert held is not None
    assert len(held) == ROWS
    with refused("attack.calibration"):
        held_out("calibrated", SPLIT, attacked, Split.of([("a", "b")], [0]))
    for wrong in (0, -1.0, float("inf"), float("nan"), "warm"):
        with refused("settings.limit"):
            AttackOptions(temperature=wrong)  # type: ignore[arg-type]
    with refused("attack.calibration"):
        held_out(2.0, SPLIT, attacked, SPLIT)


def test_classes_are_those_of_the_task() -> None:
    held = held_out("calibrated", SPLIT, np.arange(20), None)
    assert held is not None
    swapped = Classifier.wrap(lambda texts: sure(texts)[:, ::-1], labels=["pos", "neg"])
    assert calibrate(CLF, held, (0, 1)) == calibrate(swapped, held, (1, 0))
    assert calibrate(CLF, held, (0, 1))[0] > 2
    assert calibrate(swapped, held, (0, 1))[1]["fitted"] is False


def test_the_result_says_how_it_was_fitted(tmp_path: Path) -> None:
    asked: list[int] = []

    def counted(texts: list[str]) -> np.ndarray:
        asked.append(len(texts))
        return sure(texts)

    def run(**options: Any) -> Any:
        clf = Classifier.wrap(counted, labels=["neg", "pos"])
        return PWWS()(clf, SPLIT, n=12, folder=tmp_path / "a", **options)

    result = run(temperature="calibrated")
    told = json.loads((tmp_path / "a" / "result.json").read_text())["calibration"]
    assert told == dict(result.calibration)
    assert set(told) == {"split", "n", "digest", "fitted", "why", "nll_before", "nll_after", "ece_before", "ece_after"}
    assert (told["split"], told["n"], told["fitted"]) == ("validation", 108, True)
    assert told["nll_after"] < told["nll_before"]
    assert told["ece_after"] < told["ece_before"]
    assert result.temperature == pytest.approx(np.log(0.9995 / 0.0005) / np.log(98 / 10), rel=0.1)  # 90 % right
    assert "temperature" in result.flag_codes
    assert "over-confident" not in result.flag_codes
    asked.clear()
    assert run(temperature="calibrated") == result
    assert sum(asked) < LEAST, "a finished attack is not calibrated again"
    with refused("stage.other_work"):
        run(temperature=result.temperature)
    plain = PWWS()(CLF, SPLIT, n=12)
    assert (plain.calibration, plain.temperature) == (None, 1.0)
    assert "over-confident" in plain.flag_codes
    assert plain.clean == result.clean
