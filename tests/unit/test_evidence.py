"""The tables of README.md, README.zh-CN.md and docs/results.md equal the summaries in docs/results/."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bench.evidence import pages
from bench.evidence.__main__ import main
from bench.evidence.experiments import BY_NAME, EXPERIMENTS
from bench.evidence.searches import FOLDER as SEARCHES
from bench.evidence.searches import SEARCH_BY_NAME, read_search
from bench.evidence.summaries import Value, read_summary, summarise, summary_path, write_summary
from bench.evidence.tables import by_law, cell, figure, section

from cotenant.model.errors import InvalidInput

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The pages and the summaries, to change."""
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    for page in pages.PAGES:
        shutil.copy(ROOT / page, tmp_path / page)
    return tmp_path


def test_every_table_equals_its_summary() -> None:
    assert pages.drifted(ROOT) == [], "python -m bench.evidence --write"


def test_every_experiment_has_its_place_and_every_summary_its_origin() -> None:
    shown = {page: pages.places((ROOT / page).read_text()) for page in pages.PAGES}
    results = shown[Path("docs/results.md")]
    assert len(set(results)) == len(results)
    combined = {name for names in pages.COMBINED.values() for name in names}
    assert {experiment.name for experiment in EXPERIMENTS} - combined - set(pages.UNSHOWN) <= set(results)
    assert not set(pages.UNSHOWN) & set(results)
    assert set(pages.COMBINED) <= set(results)
    assert set(SEARCH_BY_NAME) <= set(results)
    assert {path.stem for path in (ROOT / SEARCHES).glob("*.json")} == set(SEARCH_BY_NAME)
    for name in SEARCH_BY_NAME:
        found = read_search(ROOT, name)
        assert (found.name, found.command) == (name, SEARCH_BY_NAME[name].command)
        assert re.fullmatch(r"[0-9a-f]{7,40}", found.commit), f"{name} was made with changes that are not in a commit"
        assert found.sources
    assert (shown[Path("README.md")], shown[Path("README.zh-CN.md")]) == (
        ["mixed.readme"],
        ["mixed.readme.zh"],
    )
    stored = {path.stem for path in (ROOT / "docs" / "results").glob("*.json")}
    assert stored <= set(BY_NAME)
    for name in stored:
        summary = read_summary(ROOT, name)
        assert summary.name == name
        assert re.fullmatch(r"[0-9a-f]{7,40}", summary.commit), f"{name} was made with changes that are not in a commit"
        assert summary.sources or summary.remark
        assert summary.command.startswith("cotenant lab compare --workload ")


@pytest.mark.parametrize("page", pages.PAGES, ids=str)
def test_a_changed_digit_is_found_and_put_right(copy: Path, page: Path) -> None:
    text = (copy / page).read_text()
    table = re.search(r"<!-- table: (\S+) -->", text)
    assert table is not None
    digit = re.compile(r"\*\*cotenant(?:-learned)?\*\* \| (\d)")
    at = digit.search(text, table.end())
    assert at is not None
    (copy / page).write_text(text[: at.start()] + str((int(at[1]) + 1) % 10) + text[at.end() :])
    assert pages.drifted(copy) == [f"{page}: {table[1]}"]
    assert pages.write_pages(copy) == [page]
    assert (copy / page).read_text() == text


def test_a_new_summary_changes_every_page_that_shows_it(copy: Path) -> None:
    summary = read_summary(copy, "mixed")
    at = next(i for i, row in enumerate(summary.rows) if (row.policy, row.load) == ("kube-default", 0.85))
    shown = summary.rows[at]
    changed = {**shown.figures, "violation": Value(0.5, 0.01)}
    rows = (*summary.rows[:at], type(shown)(shown.policy, shown.load, changed, shown.by_class), *summary.rows[at + 1 :])
    write_summary(copy, type(summary)(**{**_fields(summary), "rows": rows}))
    assert len(pages.drifted(copy)) == 3
    assert set(pages.write_pages(copy)) == set(pages.PAGES)
    for page in pages.PAGES:
        assert "| 50.00 " in (copy / page).read_text()


def _fields(summary: object) -> dict[str, object]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__}  # type: ignore[attr-defined]


def test_nothing_is_written_where_a_summary_is_missing(copy: Path) -> None:
    summary_path(copy, "dag").unlink()
    before = {page: (copy / page).read_text() for page in pages.PAGES}
    (copy / "README.md").write_text(before[Path("README.md")].replace("1.38", "1.39"))
    with pytest.raises(InvalidInput, match=r"dag\.json"):
        pages.write_pages(copy)
    assert "1.39" in (copy / "README.md").read_text()
    summary_path(copy, "dag").write_text("{}")
    with pytest.raises(InvalidInput, match=r"make it with python -m bench\.evidence --only dag"):
        pages.drifted(copy)


def test_an_unknown_table_is_refused(copy: Path) -> None:
    with pytest.raises(InvalidInput, match="one of mixed, "):
        pages.rewritten(copy, "<!-- table: other -->\n<!-- end of table -->\n")


def test_a_summary_keeps_what_the_pages_show() -> None:
    def row(policy: str, violation: float) -> dict[str, object]:
        return {
            "policy": policy,
            "role": "ours",
            "load": 0.9,
            "seeds": 2,
            "violation": violation,
            "violation_ci": 0.001,
            "success": None,
            "success_ci": None,
            "by_class": {"accepted: cpu-only": {"mean": 0.5, "ci": None}},
        }

    pair = {"policy": "random", "against": "cotenant", "load": 0.9, "difference": 0.0312345678, "difference_ci": 0.01}
    found = {
        "seeds": 2,
        "loads": [0.9],
        "ours": "cotenant",
        "rows": [row("cotenant", 0.0123), row("random", 0.04)],
        "paired": [{**pair, "metric": "violation"}, {**pair, "metric": "success"}],
        "sustained_load": [],
    }
    made = {"provenance": {"cotenant": "0.1.0", "sources": "abc"}}
    summary = summarise("dag", "cotenant lab compare --workload dag", found, made, "0123456789")
    assert [difference.value.mean for difference in summary.paired] == [0.0312346]
    assert figure(summary.rows[0], "success") == Value(None)
    assert figure(summary.rows[0], "class:accepted: cpu-only") == Value(0.5)
    lines = section(summary, (("violation", "violation %", 100.0, 2), ("success", "success %", 100.0, 2)))
    assert "at commit 0123456789, sources abc." in lines[0]
    assert "| **cotenant** | 1.23 ±0.10 | – |" in lines
    assert lines[-1] == "| random | +3.12 ±1.00 |"
    assert cell(Value(0.5), 1.0, 1) == "0.5"


def test_violation_by_the_law_that_a_seed_drew() -> None:
    def run(policy: str, seed: int, violation: float) -> dict[str, object]:
        return {
            "policy": policy,
            "load": 0.9,
            "seed": seed,
            "violation": violation,
            "violation_service": 0.0,
            "violation_batch": None if policy == "bound" else 0.0,
        }

    found = {"seeds": 3, "loads": [0.9], "ours": "cotenant", "rows": [], "paired": [], "sustained_load": []}
    made = {"provenance": {"cotenant": "0.1.0", "sources": "abc"}}
    records = [run("random", 22, 0.05), run("random", 21, 0.03), run("random", 20, 0.01), run("bound", 20, 0.0)]
    records += [run("cotenant", 20, 0.0), run("cotenant", 21, 0.01), run("cotenant", 22, 0.01)]
    summary = summarise("mixed", "cotenant lab compare", found, made, "0123456789", records)
    assert by_law(summary, {20: "knee", 21: "linear", 22: "linear"}) == [
        "| law | seeds | load | **cotenant** | random |",
        "| --- | --- | --- | --- | --- |",
        "| knee | 1 | 0.9 | 0.00 | 1.00 (+1.00) |",
        "| linear | 2 | 0.9 | 1.00 | 4.00 (+3.00 ±12.71) |",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "dags"], "--only: dags: expected experiments with commas between"),
        (["--seeds", "29-20"], "--seeds: 29-20: expected ranges that ascend"),
        (["--seeds", "nan"], "--seeds: nan: expected a number of seeds"),
        (["--seeds", ""], "--seeds: : expected a number of seeds"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert says in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", pages.UNSHOWN)
def test_a_table_that_no_page_shows_can_be_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show", name]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("`cotenant lab compare")
    assert "\n| **cotenant" in printed
    assert f"`python -m bench.evidence --show {name}`" in (ROOT / "docs" / "results.md").read_text()


def test_the_check_of_this_repository(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == "every table equals its summary\n"


def test_other_seeds_are_part_of_the_command() -> None:
    assert (
        replace(BY_NAME["founding"], seeds="20-29").command == "cotenant lab compare --workload founding --seeds 20-29"
    )
