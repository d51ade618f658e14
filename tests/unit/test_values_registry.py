"""The registry lists without importing, knows its mistakes, and takes components from other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from refusing import refused
from robust_tickets import registry
from robust_tickets.config import build, to_plain
from robust_tickets.errors import TicketsError
from robust_tickets.registry import REGISTRIES, Registry, code_of, name_of


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A package with two components, of which one cannot be imported, and a shared part."""
    folder = tmp_path / "zoo_of_tests"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "lion.py").write_text("REGISTERED = 'roar'")
    (folder / "ghost.py").write_text("raise RuntimeError('imported')\nREGISTERED: str = 'boo'")
    (folder / "cage.py").write_text("raise RuntimeError('imported')\nNOT_REGISTERED = 1")
    (folder / "notes.txt").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._entry_points.cache_clear()
    yield Registry("animals", "zoo_of_tests")
    registry._entry_points.cache_clear()
    for name in [n for n in sys.modules if n.startswith("zoo_of_tests")]:
        del sys.modules[name]


def plug(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name=name, value=value, group="robust_tickets.animals")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])


def test_names_import_nothing_and_leave_out_shared_parts(zoo: Registry) -> None:
    assert zoo.names() == ("ghost", "lion")
    assert "zoo_of_tests.lion" not in sys.modules
    assert zoo.get("lion") == "roar"


def test_unknown_names_get_a_hint(zoo: Registry) -> None:
    with refused("registry.unknown"):
        zoo.get("lino")
    with refused("registry.unknown"):
        zoo.get("zzzzz")
    for name in ("cage", "__init__", "lion.py", "../lion", ""):
        with pytest.raises(TicketsError):
            zoo.get(name)


def test_plug_ins_are_found_through_entry_points(zoo: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    plug(monkeypatch, "zebra", "string:ascii_letters")
    assert zoo.names() == ("ghost", "lion", "zebra")
    assert str(zoo.get("zebra")).startswith("abc")


def test_a_plug_in_cannot_take_a_built_in_name(zoo: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    plug(monkeypatch, "lion", "string:ascii_letters")
    with refused("registry.name_taken"):
        zoo.names()


def test_the_code_of_a_plug_in_is_part_of_what_it_is(zoo: Registry, tmp_path: Path) -> None:
    """Also inside a component of ours; ours have the version."""
    from robust_tickets.adversary.pgd import PGD
    from robust_tickets.experiment.execute import train_key
    from robust_tickets.train.finetune import FineTune

    path = tmp_path / "zoo_of_tests" / "tiger.py"
    text = (
        "from dataclasses import dataclass\nfrom robust_tickets.adversary.objective import Adversary\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Tiger(Adversary):\n    steps: int = 1\nREGISTERED = Tiger\n"
    )
    path.write_text(text)
    tiger = zoo.get("tiger")()
    before = code_of(tiger)
    assert list(before) == ["zoo_of_tests.tiger"]
    given, trainer = {"version": "1", "model": "m", "task": "t"}, FineTune(epochs=1, adversary=tiger)
    key = train_key(trainer, given, None)
    assert code_of(trainer) == before == key["code"]
    path.write_text(text + "# the same settings, another method\n")
    assert code_of(tiger) != before
    assert train_key(trainer, given, None) != key
    assert code_of(FineTune(epochs=1, adversary=PGD())) == {}
    assert "code" not in train_key(FineTune(epochs=1, adversary=PGD()), given, None)


def test_a_plug_ins_settings_go_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is the entry point's, wherever its class lives; a broken neighbour does not matter."""
    from robust_tickets.adversary.freelb import FreeLB
    from robust_tickets.train.finetune import FineTune

    class Mine(FreeLB):
        __module__ = "otherpackage.implementation"

    class Point:
        def __init__(self, found: object) -> None:
            self.found = found

        def load(self) -> object:
            if self.found is None:
                raise ImportError("broken")
            return self.found

    points = {"broken": Point(None), "mine": Point(Mine)}
    monkeypatch.setattr(Registry, "_plugged", lambda self: points if self.kind == "adversaries" else {})
    trainer = FineTune(adversary=Mine(steps=2))
    plain = to_plain(trainer)
    assert plain["adversary"]["name"] == "mine"
    assert build(FineTune, plain) == trainer


@pytest.mark.parametrize("kind", sorted(REGISTRIES))
def test_every_registered_component_is_named_after_its_file(kind: str) -> None:
    for name in REGISTRIES[kind].names():
        component = REGISTRIES[kind].get(name)
        if isinstance(component, type):
            assert name_of(component) == name


def test_components_of_a_users_own_file_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes of one file, and a class without a file: another class or another body is another component."""
    from dataclasses import dataclass

    from robust_tickets.config import describe
    from robust_tickets.registry import code_of, name_of

    bodies = {"A": "return 1", "B": "return 1", "C": "return 2"}
    scope: dict[str, object] = {"__name__": "notebook", "dataclass": dataclass}
    made = {}
    for name, body in bodies.items():
        source = f"@dataclass(frozen=True)\nclass Own{name}:\n    def keep(self):\n        {body}\n"
        exec(compile(source, "<cell>", "exec"), scope)  # noqa: S102  # as a notebook does
        made[name] = scope[f"Own{name}"]()  # type: ignore[operator]
    assert [name_of(one) for one in made.values()] == ["notebook:OwnA", "notebook:OwnB", "notebook:OwnC"]
    assert describe(made["A"]) != describe(made["B"])
    hashes = [next(iter(code_of(one).values())) for one in made.values()]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_order_of_a_set_in_a_notebooks_method_does_not_count() -> None:
    from dataclasses import dataclass

    def code(members: list[int]) -> dict[str, str]:
        scope: dict[str, Any] = {"__name__": "notebook", "dataclass": dataclass}
        source = "@dataclass\nclass Own:\n    def skips(self, n):\n        return n in {0, 8}\n"
        exec(compile(source, "<cell>", "exec"), scope)  # noqa: S102  # as a notebook does
        method = scope["Own"].skips
        consts = [frozenset(members) if isinstance(c, frozenset) else c for c in method.__code__.co_consts]
        method.__code__ = method.__code__.replace(co_consts=tuple(consts))
        return code_of(scope["Own"]())

    assert list(frozenset([0, 8])) != list(frozenset([8, 0]))  # as those of texts in two processes
    assert code([0, 8]) == code([8, 0])
    assert code([0, 8]) != code([0, 9])
