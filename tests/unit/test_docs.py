"""The documents agree with the source tree: the picture of the rooms is current, and every package says what belongs in it."""

import ast
import re

import pytest
from tools.imports import rooms
from tools.owner_modes import with_table
from tools.rooms import picture
from tools.tree import PACKAGES, ROOT

SOURCE = PACKAGES["cotenant"]
FLOORS = {"lab": PACKAGES["cotenant_lab"], "local": PACKAGES["cotenant_local"]}  # of the other packages
ROOMS = sorted(
    path.relative_to(ROOT).as_posix() for package in PACKAGES.values() for path in package.rglob("__init__.py")
)


def test_the_picture_of_the_rooms_is_up_to_date() -> None:
    committed = (ROOT / "docs" / "architecture.svg").read_text()
    assert committed == picture(rooms(PACKAGES.values())), (
        "run: python -m tools.rooms > docs/architecture.svg (or `make docs`)"
    )


def test_the_table_of_modes_is_up_to_date() -> None:
    page = (ROOT / "docs" / "guide" / "agent.md").read_text()
    assert page == with_table(page), "run: python -m tools.owner_modes docs/guide/agent.md (or `make docs`)"


@pytest.mark.parametrize("package", ROOMS)
def test_a_package_says_what_belongs_in_it_and_what_does_not(package: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / package).read_text()))
    assert text, f"{package} has no docstring"
    assert "Not here:" in text, f"{package} does not say what belongs elsewhere"
    assert len(text.splitlines()) >= 3, f"{package}: a summary, an empty line, and what belongs here and what does not"


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()


def names(text: str) -> list[str]:
    """What a page has in backticks, each once, without code blocks."""
    return sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"^    .*$", "", text, flags=re.MULTILINE))))


def is_path(name: str) -> bool:
    return bool(re.fullmatch(r"[\w.-]+(/[\w.-]+)*(/|\.py|\.toml)|\w+(/[\w-]+)+", name)) and not name.startswith("OUT/")


@pytest.mark.parametrize("name", [name for name in names(ARCHITECTURE) if is_path(name)])
def test_a_path_on_the_architecture_page_exists(name: str) -> None:
    places = (ROOT, SOURCE, SOURCE / "engine", *(package.parent for package in PACKAGES.values()))
    assert any((place / name).exists() for place in places), f"docs/architecture.md names {name}"


@pytest.mark.parametrize("name", [name for name in names(ARCHITECTURE) if re.fullmatch(r"[A-Z][a-z]\w*(\.\w+)?", name)])
def test_a_class_on_the_architecture_page_exists(name: str) -> None:
    owner, _, method = name.partition(".")
    holders = [path.read_text() for package in PACKAGES.values() for path in package.rglob("*.py")]
    holders = [text for text in holders if re.search(rf"^(class {owner}\b|{owner}\b.* = )", text, re.MULTILINE)]
    assert holders, f"docs/architecture.md names {name}"
    assert not method or any(f"def {method}(" in text for text in holders), f"docs/architecture.md names {name}"


def test_every_link_between_documents_leads_somewhere() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
        *ROOT.glob("packages/*/*.md"),
    ]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not broken


def test_every_guide_is_listed() -> None:
    folder = ROOT / "docs" / "guide"
    listed = set(re.findall(r"\(([\w.-]+\.md)\)", (folder / "README.md").read_text()))
    assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= listed


def test_every_decision_is_listed() -> None:
    records = {path.name for path in (ROOT / "docs" / "adr").glob("0*.md")}
    assert records == set(re.findall(r"\((0[^)]*\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text()))
    assert [name[:4] for name in sorted(records)] == [f"{number:04}" for number in range(1, len(records) + 1)]


@pytest.mark.parametrize(("floor", "contents"), re.findall(r"^\| `([a-z]+)` \| (.*) \|$", ARCHITECTURE, re.MULTILINE))
def test_the_table_of_floors_names_rooms_that_exist(floor: str, contents: str) -> None:
    folder = FLOORS.get(floor, SOURCE / floor)
    assert folder.is_dir()
    for name in names(contents):
        assert (folder / name).exists(), f"docs/architecture.md names {name} in {floor}"
