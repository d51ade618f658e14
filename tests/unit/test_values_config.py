"""Configs: tables in, frozen values out, canonical text and hash back; every mistake names its place."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.config import build, build_component, canonical, describe, digest, read_toml, to_plain
from robust_tickets.errors import TicketsError


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
    ("values", "words"),
    [
        ({"name": "n", "flagg": True}, r"config: unknown key 'flagg'\n  hint: did you mean 'flag'\?"),
        ({"name": "n", "inner": {"dept": 1}}, r"config\.inner: unknown key 'dept'\n  hint: did you mean 'depth'\?"),
        ({"name": "n", "inner": {"depth": 1.5}}, r"config\.inner\.depth: expected a whole number, got 1\.5"),
        ({"name": "n", "inner": {"depth": True}}, "expected a whole number, got True"),
        ({"name": "n", "inner": {"rate": "fast"}}, "expected a number, got 'fast'"),
        ({"name": "n", "inner": {"rate": True}}, "expected a number, got True"),
        ({"name": "n", "inner": 3}, "expected a table, got 3"),
        ({"name": 3}, "expected a text, got 3"),
        ({"name": "n", "flag": 1}, "expected true or false, got 1"),
        ({"name": "n", "flag": "false"}, "expected true or false, got 'false'"),
        ({"name": "n", "mode": "c"}, "expected 'a' or 'b', got 'c'"),
        ({"name": "n", "sizes": 3}, "expected a list, got 3"),
        ({"name": "n", "sizes": [1, "2"]}, r"sizes\[1\]: expected a whole number"),
        ({"name": "n", "pair": ["x"]}, "expected a list of 2"),
        ({"name": "n", "maybe": 3}, "expected a text, got 3"),
        ({"name": "n", "table": []}, "expected a table"),
        ({"name": "n", "table": {"k": "v"}}, r"table\.k: expected a number"),
        ({"name": "n", "adversary": 3}, "expected a name or a table with a name"),
        ({"name": "n", "adversary": {"steps": 3}}, "expected a name or a table with a name"),
        ({"name": "n", "adversary": "freelbb"}, "did you mean 'freelb'"),
        (
            {"name": "n", "adversary": {"name": "freelb", "stepss": 3}},
            r"config\.adversary: unknown key 'stepss'\n  hint: did you mean 'steps'",
        ),
        ({}, "config: missing name"),
    ],
)
def test_mistakes_name_their_place(values: dict[str, Any], words: str) -> None:
    with pytest.raises(TicketsError, match=words):
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


def test_configs_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        build(Outer, {"name": "n"}).name = "m"


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
