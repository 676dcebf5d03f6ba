"""The documents agree with the source tree and with each other, and can be read: names, links, sections, lengths."""

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml
from tools.imports import rooms
from tools.owner_modes import with_table
from tools.rooms import picture
from tools.tree import PACKAGES, ROOT

from cotenant import __version__
from cotenant_lab.cli.node_commands import app as experiments

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


@pytest.mark.parametrize("name", ["docs/guide/agent.md", "docs/guide/agent.zh-CN.md"])
def test_the_table_of_modes_is_up_to_date(name: str) -> None:
    page = (ROOT / name).read_text()
    assert page == with_table(page), f"run: python -m tools.owner_modes {name} (or `make docs`)"


def test_every_experiment_has_a_row_in_its_guide() -> None:
    page = (ROOT / "docs/guide/node-experiments.md").read_text()
    commands = [name for name in experiments if not name.startswith("-")]
    assert "kernels" in commands
    assert [name for name in commands if f"\n| `{name}` |" not in page] == []


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


@cache
def holders_by_name() -> dict[str, list[str]]:
    """The sources that define a class or a constant, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (path for package in PACKAGES.values() for path in package.rglob("*.py")):
        text = path.read_text()
        for match in re.finditer(r"^(?:class ([A-Z]\w*)|([A-Z]\w*)\b.* = )", text, re.MULTILINE):
            found[match[1] or match[2]].append(text)
    return found


@pytest.mark.parametrize("name", [name for name in names(ARCHITECTURE) if re.fullmatch(r"[A-Z][a-z]\w*(\.\w+)?", name)])
def test_a_class_on_the_architecture_page_exists(name: str) -> None:
    owner, _, method = name.partition(".")
    holders = holders_by_name().get(owner, [])
    assert holders, f"docs/architecture.md names {name}"
    assert not method or any(f"def {method}(" in text for text in holders), f"docs/architecture.md names {name}"


PAGES = [
    *ROOT.glob("*.md"),
    *(path for folder in ("docs", "examples", "deploy", "bpf") for path in (ROOT / folder).rglob("*.md")),
    *ROOT.glob("packages/*/*.md"),
]


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^( {4}|```).*$", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), flags=re.M)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; of two alike, the second has a number."""
    found: list[str] = []
    for head in re.findall(r"^#+ (.*)$", prose(page.read_text()), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
        found.append(name if name not in found else f"{name}-{found.count(name)}")
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_section(page: Path) -> None:
    broken = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page.read_text())):
        to = page.parent / target if target else page
        if "://" in target:
            continue
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            broken.append(f"{target}#{anchor}")
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_an_installed_folder_has_a_package_with_the_extras(page: Path) -> None:
    for folder, extras in re.findall(r"pip install[^\n]*?'(\.|packages/[\w-]+)\[([\w,]+)\]'", page.read_text()):
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text()).get("project", {})
        assert set(extras.split(",")) <= set(project.get("optional-dependencies", {})), f"{folder}[{extras}]"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_120_columns(page: Path) -> None:
    """Not: tables, pictures, and places that are written from code or results."""
    text = re.sub(r"^<!-- (table|modes).*?^<!-- (end of table|/modes) -->$", "", page.read_text(), flags=re.M | re.S)
    assert not [line for line in prose(text).splitlines() if len(line) > 120 and not line.startswith(("|", "!["))]


def test_a_path_of_the_tour_exists() -> None:
    text = (ROOT / "docs" / "tour.md").read_text()
    assert len(text.encode()) <= 5_500, "an evening's reading begins with a page"
    found = set(re.findall(r"`([\w./-]+/[\w./-]*)`", text))
    assert len(found) > 40
    places = (SOURCE, ROOT, *(package.parent for package in PACKAGES.values()))
    assert not [name for name in found if not any((place / name).exists() for place in places)]


def test_the_newest_release_is_the_version_of_the_package_and_the_chart() -> None:
    dated = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "packages" / "cotenant" / "pyproject.toml").read_text())["project"]
    assert dated
    assert {dated[0], __version__, project["version"], chart["version"], str(chart["appVersion"])} == {dated[0]}


def test_the_glossary_has_few_words_of_ours() -> None:
    ours = (ROOT / "docs" / "glossary.md").read_text().partition("## Ours")[2]
    terms = re.findall(r"^\| ([^|]+) \|", ours, re.MULTILINE)[2:]
    assert 0 < len(terms) < 40
    assert terms == sorted(terms, key=lambda term: re.sub(r"[^a-z ]", "", term.lower()))


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
