"""Classes in the modules of a package, and in the entry points of its name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fossil.discovery import discover
from fossil.errors import FossilWarning

BASE = """
class Shape:
    name: str

class Helper(Shape):
    '''No name of its own: a base for others.'''
"""
ROUND = """
from shapes_of_a_test.base import Helper, Shape

class Circle(Helper):
    name = "circle"

class Ellipse(Circle):
    '''Inherits its name, and would hide the circle.'''

class Disc:
    name = "disc"

not_a_class = "square"
"""


@pytest.fixture
def shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with a base class and one module that has shapes."""
    folder = tmp_path / "shapes_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "base.py").write_text(BASE)
    (folder / "round.py").write_text(ROUND)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("shapes_of_a_test")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shapes_of_a_test"]:
        del sys.modules[name]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package with these entry points: a module, and a folder such as an installer leaves."""

    def install(module: str, source: str, *points: str, group: str = "shapes_of_a_test") -> None:
        place = tmp_path / f"of-{module}"
        (place / f"{module}-1.0.dist-info").mkdir(parents=True)
        (place / f"{module}.py").write_text(source)
        (place / f"{module}-1.0.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
        )
        lines = "\n".join(points)
        (place / f"{module}-1.0.dist-info" / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def base_of(shapes: ModuleType) -> type:
    base: type = importlib.import_module(f"{shapes.__name__}.base").Shape
    return base


def test_named_classes_of_the_package_are_found(shapes: ModuleType) -> None:
    found = discover(shapes, base_of(shapes))
    assert {name: kind.__qualname__ for name, kind in found.items()} == {"circle": "Circle"}


def test_an_entry_point_adds_to_them(shapes: ModuleType, offer: Callable[..., None]) -> None:
    source = "from shapes_of_a_test.base import Shape\nclass Square(Shape):\n    name = 'square'\n"
    offer("squares_of_a_test", source, "anything = squares_of_a_test:Square")
    # The name that counts is that of the class; entry points of other groups are none of ours.
    offer("others_of_a_test", source.replace("square", "cube"), "cube = others_of_a_test:Square", group="other.shapes")
    found = discover(shapes, base_of(shapes))
    assert sorted(found) == ["circle", "square"] and found["square"].__module__ == "squares_of_a_test"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise OSError('no licence')", r"could not be loaded and is left out: OSError: no licence"),
        ("import no_such_package", r"could not be loaded and is left out: ModuleNotFoundError"),
        ("", r"could not be loaded and is left out: AttributeError"),
        ("Square = 3", r"is no Shape with a name"),
        ("class Square:\n    name = 'square'", r"is no Shape with a name"),
        ("from shapes_of_a_test.base import Shape\nclass Square(Shape):\n    pass", r"is no Shape with a name"),
        (
            "from shapes_of_a_test.base import Shape\nclass Square(Shape):\n    name = 'circle'",
            r"is called 'circle', as another Shape is",
        ),
    ],
)
def test_what_cannot_be_used_is_left_out_with_one_warning(
    shapes: ModuleType, offer: Callable[..., None], source: str, message: str
) -> None:
    offer("squares_of_a_test", source, "square = squares_of_a_test:Square")
    with pytest.warns(FossilWarning, match=message) as caught:
        found = discover(shapes, base_of(shapes))
    assert len(caught) == 1
    said = str(caught[0].message)
    assert said.startswith("squares_of_a_test:Square of squares_of_a_test ") and "left out" in said
    assert {name: kind.__qualname__ for name, kind in found.items()} == {"circle": "Circle"}


def test_one_class_that_is_offered_twice_is_no_reason_to_warn(shapes: ModuleType, offer: Callable[..., None]) -> None:
    source = "from shapes_of_a_test.base import Shape\nclass Square(Shape):\n    name = 'square'\n"
    offer("squares_of_a_test", source, "one = squares_of_a_test:Square", "two = squares_of_a_test:Square")
    assert sorted(discover(shapes, base_of(shapes))) == ["circle", "square"]
