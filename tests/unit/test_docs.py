"""The documents agree with the source tree: the picture of the rooms is current, and every package says what belongs in it."""

import ast
from pathlib import Path

import pytest
from tools.imports import PACKAGE, rooms
from tools.rooms import picture

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / PACKAGE
PACKAGES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("__init__.py"))


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "architecture.svg").read_text()
    assert committed == picture(rooms(SOURCE)), "run: python -m tools.rooms > docs/architecture.svg (or `make docs`)"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_belongs_in_it_and_what_does_not(package: str) -> None:
    text = ast.get_docstring(ast.parse((SOURCE / package).read_text()))
    assert text, f"{package} has no docstring"
    assert "Not here:" in text, f"{package} does not say what belongs elsewhere"
    assert len(text.splitlines()) >= 3, f"{package}: a summary, an empty line, and what belongs here and what does not"
