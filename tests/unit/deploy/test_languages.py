"""The guides that are in both languages say the same: their sections, commands, and every name in them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[3] / "docs" / "guide"


def sections(name: str) -> list[str]:
    return re.split(r"^(?=#+ )", (GUIDES / name).read_text(), flags=re.MULTILINE)[1:]


TRANSLATED = tuple(sorted(path.name.removesuffix(".zh-CN.md") for path in GUIDES.glob("*.zh-CN.md")))
PAIRS = [pair for name in TRANSLATED for pair in zip(sections(f"{name}.md"), sections(f"{name}.zh-CN.md"), strict=True)]


def commands(section: str) -> list[str]:
    """Lines of code, without what is said beside them."""
    return [line.partition("  #")[0].strip() for line in section.splitlines() if line.startswith("    ")]


def links(section: str) -> set[str]:
    found = {where.partition("#")[0] for where in re.findall(r"\]\(([^)]+)\)", section)}
    return found - {"", *(f"{name}{end}" for name in TRANSLATED for end in (".md", ".zh-CN.md"))}  # each other


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[english.split("\n")[0] for english, _ in PAIRS])
def test_a_section_has_the_same_commands_names_and_links(english: str, chinese: str) -> None:
    assert english.partition(" ")[0] == chinese.partition(" ")[0]  # the level
    assert commands(english) == commands(chinese)
    assert set(re.findall(r"`([^`\n]+)`", english)) == set(re.findall(r"`([^`\n]+)`", chinese))
    assert english.count("\n| ") == chinese.count("\n| ")
    assert links(english) == links(chinese)
