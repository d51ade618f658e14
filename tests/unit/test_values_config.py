"""Configs: tables in, frozen values out, canonical text and hash back; every mistake names its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.config import build, build_component, canonical, describe, digest, to_plain
from robust_tickets.files import read_toml


@dataclass(frozen=True, kw_only=True)
class Inner:
    depth: int = 1
    rate: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner = Inner()
    flag: bool = False
    mode: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    pair: tuple[str, int] = ("x", 0)
    maybe: str | tuple[str, str] | None = None
    table: dict[str, float] = field(default_factory=dict)
    path: Path = Path("p")
    adversary: Any = field(default=None, metadata={"registry": "adversaries"})


outers = st.builds(
    Outer,
    name=st.text(max_size=5),
    inner=st.builds(Inner, depth=st.integers(), rate=st.floats(allow_nan=False, allow_infinity=False)),
    flag=st.booleans(),
    mode=st.sampled_from(["a", "b"]),
    sizes=st.lists(st.integers(), max_size=3).map(tuple),
    pair=st.tuples(st.text(max_size=3), st.integers()),
    maybe=st.none() | st.text(max_size=3) | st.tuples(st.text(max_size=3), st.text(max_size=3)),
    table=st.dictionaries(st.text(max_size=3), st.floats(-1, 1), max_size=3),
)


@settings(deadline=None)
@given(outers)
def test_plain_and_back(value: Outer) -> None:
    again = build(Outer, to_plain(value))
    assert again == value
    assert digest(again) == digest(value)


@settings(deadline=None)
@given(outers, outers)
def test_equal_hashes_are_equal_configs(a: Outer, b: Outer) -> None:
    assert (digest(a) == digest(b)) == (canonical(a) == canonical(b))
    if a == b:
        assert digest(a) == digest(b)


def test_canonical_text_and_hash_stay_as_they_are() -> None:
    """Folders of runs are named by these: a change here loses everybody's finished work."""
    assert canonical({"b": [1, 2.5, None], "a": "ä"}) == '{"a":"ä","b":[1,2.5,null]}'
    assert (
        digest({"b": 1, "a": 2})
        == digest({"a": 2, "b": 1})
        == "d3626ac30a87e6f7a6428233b3c68299976865fa5508e4267c5415c76af7a772"
    )
    assert canonical(Inner()) == '{"depth":1,"rate":0.5}'
    assert canonical(Inner(rate=-0.0)) == canonical(Inner(rate=0.0)) == '{"depth":1,"rate":0.0}'  # equal configs
    assert (
        canonical(build(Inner, {"rate": 1})) == '{"depth":1,"rate":1.0}'
    )  # an integer where a number is due hashes as the number


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"name": "n", "flagg": True}, "config.unknown_key"),
        ({"name": "n", "inner": {"dept": 1}}, "config.unknown_key"),
        ({"name": "n", "inner": {"depth": 1.5}}, "config.type"),
        ({"name": "n", "inner": {"depth": True}}, "config.type"),
        ({"name": "n", "inner": {"rate": "fast"}}, "config.type"),
        ({"name": "n", "inner": {"rate": True}}, "config.type"),
        ({"name": "n", "inner": 3}, "config.type"),
        ({"name": 3}, "config.type"),
        ({"name": "n", "flag": 1}, "config.type"),
        ({"name": "n", "flag": "false"}, "config.type"),
        ({"name": "n", "mode": "c"}, "config.type"),
        ({"name": "n", "sizes": 3}, "config.type"),
        ({"name": "n", "sizes": [1, "2"]}, "config.type"),
        ({"name": "n", "pair": ["x"]}, "config.type"),
        ({"name": "n", "maybe": 3}, "config.type"),
        ({"name": "n", "table": []}, "config.type"),
        ({"name": "n", "table": {"k": "v"}}, "config.type"),
        ({"name": "n", "adversary": 3}, "config.component"),
        ({"name": "n", "adversary": {"steps": 3}}, "config.component"),
        ({"name": "n", "adversary": "freelbb"}, "registry.unknown"),
        (
            {"name": "n", "adversary": {"name": "freelb", "stepss": 3}},
            "config.unknown_key",
        ),
        ({}, "config.missing_key"),
    ],
)
def test_mistakes_name_their_place(values: dict[str, Any], code: str) -> None:
    with refused(code):
        build(Outer, values)


def test_components_inside_configs_carry_their_names() -> None:
    from robust_tickets.adversary.freelb import FreeLB

    value = build(Outer, {"name": "n", "adversary": {"name": "freelb", "steps": 2}})
    assert isinstance(value.adversary, FreeLB)
    assert to_plain(value)["adversary"]["name"] == "freelb"
    assert build(Outer, to_plain(value)) == value
    assert build(Outer, {"name": "n", "adversary": "freelb"}).adversary == FreeLB()
    assert describe(FreeLB(steps=2)) == {"name": "freelb", **to_plain(FreeLB(steps=2))}
    for nothing in (None, False, "none"):
        assert build_component("adversaries", nothing, "x") is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_have_no_hash(number: float) -> None:
    with refused("config.not_finite"):
        digest({"x": [number]})


def test_only_config_values_are_hashed() -> None:
    with pytest.raises(TypeError, match="set"):
        canonical({"x": {1, 2}})


def test_toml_problems_are_errors_with_the_file(tmp_path: Path) -> None:
    with refused("file.not_found"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with refused("config.toml"):
        read_toml(tmp_path / "bad.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe4"')
    with refused("config.toml"):
        read_toml(tmp_path / "latin.toml")
    (tmp_path / "good.toml").write_text("[a]\nb = 1")
    assert read_toml(tmp_path / "good.toml") == {"a": {"b": 1}}
    with refused("file.unreadable"):
        read_toml(tmp_path)
