"""Results of the lab: listed from folders, by listed names only, with the curves of single runs."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fakes.processes.console_objects import lab_folder

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.views import MAX_POINTS
from cotenant.services.console.views.results import Results

ODD = "a/../b <i>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("results")
    lab_folder(found / "one", ("cotenant", ODD), seeds=2)
    for name, text in (("broken", "{"), ("other", '{"rows": 3}'), ("deep/er/still", "{}")):
        (found / name).mkdir(parents=True)
        (found / name / "results.json").write_text(text)
    return found


def asked(section: Results, *names: str, **query: str) -> Any:
    return msgspec.json.decode(msgspec.json.encode(asyncio.run(section.answer(names, query))))


def test_experiments_are_listed_and_files_of_another_form_are_not(folder: Path) -> None:
    (one,) = asked(Results(folder))
    assert (one["name"], one["workload"], one["policies"]) == ("one", "founding", ["cotenant", ODD])
    assert (one["loads"], one["seeds"], one["failed"]) == ([0.7, 0.9], 2, 0)
    assert asked(Results(folder / "one"))[0]["name"] == "."
    assert asked(Results(folder / "none")) == []


def test_a_page_has_the_file_and_the_definitions_of_its_figures(folder: Path) -> None:
    page = asked(Results(folder), "results", of="one")
    assert page["results"]["ours"] == "cotenant"
    violation = next(entry for entry in page["metrics"] if entry["name"] == "violation")
    assert (violation["better"], violation["ranks"], violation["unit"]) == ("lower", True, "fraction")
    assert violation["definition"]


def test_results_without_definitions_are_refused_with_what_to_do(tmp_path: Path) -> None:
    lab_folder(tmp_path, ("cotenant",), seeds=1)
    written = msgspec.json.decode((tmp_path / "results.json").read_bytes())
    del written["metrics"]
    (tmp_path / "results.json").write_bytes(msgspec.json.encode(written))
    with pytest.raises(NotFound, match="repeat the command"):
        asked(Results(tmp_path), "results", of=".")


def test_curves_of_a_run_are_thinned(folder: Path) -> None:
    (curve,) = asked(Results(folder), "curves", of="one", policy=ODD, load="0.9", seed="1")
    assert (curve["name"], curve["x_label"]) == ("queued", "time (h)")
    assert MAX_POINTS / 2 <= len(curve["x"]) == len(curve["y"]) <= MAX_POINTS


def test_machines_of_a_run_over_time(folder: Path) -> None:
    found = asked(Results(folder), "machines", of="one", policy="cotenant", load="0.9", seed="1")
    assert (found["hours"], found["violated"]) == ([0.0, 0.5, 1.0, 1.5, 2.0], [0, 0, 0, 0, 0])
    assert (len(found["machine"]), found["machines"], found["used_cpu"][0]) == (30, 60, 0.5)
    assert found["columns"] == ["service_asked", "batch_asked", "service_used", "batch_used", "missed", "down"]
    cells = base64.b64decode(found["cells"])
    assert len(cells) == 5 * 30 * 6
    assert (list(cells[:6]), list(cells[-6:])) == ([40, 70, 20, 30, 0, 0], [0, 0, 0, 0, 0, 1])


def test_a_run_without_machines_over_time_says_so(folder: Path) -> None:
    with pytest.raises(NotFound, match="an older version stored it"):
        asked(Results(folder), "machines", of="one", policy=ODD, load="0.9", seed="1")


@pytest.mark.parametrize(
    ("names", "query", "error"),
    [
        (("machines",), {"of": "one", "policy": "../../x", "load": "0.9"}, NotFound),
        (("machines",), {"of": "one", "policy": "cotenant", "load": "much"}, InvalidInput),
        (("results",), {"of": "../one"}, NotFound),
        (("results",), {"of": "broken"}, NotFound),
        (("curves",), {"of": "one", "policy": "../../x", "load": "0.9"}, NotFound),
        (("curves",), {"of": "one", "policy": "cotenant", "load": "0.8"}, NotFound),
        (("curves",), {"of": "one", "policy": "cotenant", "load": "nan"}, NotFound),
        (("curves",), {"of": "one", "policy": "cotenant", "load": "much"}, InvalidInput),
        (("curves",), {"of": "one", "policy": "cotenant", "load": "0.9", "seed": "x"}, InvalidInput),
        (("else",), {}, NotFound),
    ],
)
def test_what_is_not_there_is_not_found(
    folder: Path, names: tuple[str, ...], query: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        asked(Results(folder), *names, **query)


def test_without_a_folder_and_with_a_damaged_run_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="--results"):
        asked(Results(None))
    lab_folder(tmp_path, ("cotenant",), seeds=1)
    for path in tmp_path.glob("runs/*.npz"):
        path.write_bytes(b"not an archive")
    with pytest.raises(Permanent, match="cannot read the run"):
        asked(Results(tmp_path), "curves", of=".", policy="cotenant", load="0.9", seed="0")
