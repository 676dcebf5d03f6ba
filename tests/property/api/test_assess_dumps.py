"""Files of assessments that are cut, of another version, or full of odd content: read whole, or refused in one line."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest
from tests.fakes.cluster.assessed import NOW_S, node, pod, replica_set, snapshot
from tests.property.api.test_assess_copies import DEVICE, places

from cotenant.drivers.kube.snapshot.archive import MANIFEST, read_archive, write_archive
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import CardUse, CardUses, Energy, Meters
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.page import page
from cotenant.services.assess.what_ifs.comparing import compared
from cotenant.services.assess.what_ifs.outcomes import CaseInputs
from cotenant.services.assess.what_ifs.writing import read_what_ifs
from cotenant.services.assess.whole_report import assess

SCRIPTS = ("متجر", "商店", "магазин", "דוכן", "दुकान", "ร้าน", "🛒", "ﬀ\u0301", "\u202eabc", "a\u0000b", "x" * 300)


def use_of(nodes: tuple[str, ...], values: np.ndarray) -> ClusterHistory:
    none = np.zeros((0, values.shape[1]), np.float32)
    few = np.zeros(0, np.float32)
    pods = PodHistory(AssessedHistory(0.0, 3600.0, (), none, none), (), (), few, few)
    return ClusterHistory(
        pods, AssessedHistory(0.0, 3600.0, nodes, values.astype(np.float32), values.astype(np.float32))
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "dump.zip"
    given = snapshot([node("a"), node("b"), pod("p", "a"), replica_set(1)])
    write_archive(path, given, use_of(("a", "b"), np.full((2, 30), 500.0)))
    return path


Found = TypeVar("Found")


def or_refused(read: Callable[[], Found]) -> Found | None:
    """What is read; None where it is refused, which takes one line."""
    try:
        return read()
    except InvalidInput as error:
        refusal = str(error)
    assert "\n" not in refusal
    return None


def test_a_file_cut_anywhere_is_refused(written: Path) -> None:
    whole = written.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 80)):
        written.write_bytes(whole[:length])
        with pytest.raises(InvalidInput):
            read_archive(written)


def rewritten(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    manifest = msgspec.json.decode(members[MANIFEST])
    change(manifest)
    members[MANIFEST] = msgspec.json.encode(manifest)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)


@pytest.mark.parametrize("value", [None, True, -1, 2, 99, "1", 1.5, [], {}, 2**70])
@pytest.mark.parametrize("name", ["version", "kinds", "notes", "history", "taken", "format"])
def test_a_manifest_of_other_types_is_refused_or_read(written: Path, name: str, value: Any) -> None:
    rewritten(written, lambda manifest: manifest.__setitem__(name, value))
    read = or_refused(lambda: read_archive(written))
    if read is None:
        return
    found, history = read
    assert found.count("v1/nodes") in (0, 2)
    assert history is None or history.nodes.steps == 30


@pytest.mark.parametrize(
    ("path", "value"),
    [("step_s", 0), ("step_s", -1.0), ("start_s", 1e308), ("steps", -1), ("steps", 2**62), ("names", ["a"]),
     ("names", ["a", "a"]), ("names", "ab")],
)  # fmt: skip
def test_series_of_another_shape_are_refused_or_read(written: Path, path: str, value: Any) -> None:
    rewritten(written, lambda manifest: manifest["history"]["nodes"].__setitem__(path, value))
    report = or_refused(lambda: assess(*read_archive(written), 0.01))
    assert report is None or report.nodes == 2


ODD: tuple[Any, ...] = (
    None, True, -1, 1.5, 2**70, -(2**70), 1e308, "", "x", "9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00",
    [], {}, [None], {"a": 1}, "\u0000",
)  # fmt: skip


def whole(path: Path) -> Path:
    """A copy with everything that a manifest may have."""
    values = np.random.default_rng(1).random((2, 60)).astype(np.float32) * 1000
    start_s, few = NOW_S - 60 * 3600.0, np.full(2, 1000, np.float32)
    use = AssessedHistory(start_s, 3600.0, ("shop/p", "shop/q"), values, values, "made up")
    pods = PodHistory(use, ("a", "b"), ("shop/Deployment/web",) * 2, few, few)
    cards = CardUses((CardUse("a", "gpu-0", (1.0, 2.0), (3.0, 4.0), 5.0, "shop/p"),), "DCGM", "", True)
    meters = Meters(cards, Energy((("shop/p", (1.0, 2.0)),), (5.0, 6.0), "Kepler", ""))
    of_nodes = AssessedHistory(start_s, 3600.0, ("a", "b"), values, values, "made up")
    objects = [node("a"), node("b"), pod("p", "a"), pod("q", "b"), pod("w"), replica_set(3), DEVICE]
    write_archive(path, snapshot(objects), ClusterHistory(pods, of_nodes, ("a fault",), meters))
    return path


def fields_of(path: Path) -> list[tuple[Any, ...]]:
    """Every field of the manifest; of a list's entries the first one's."""
    with zipfile.ZipFile(path) as file:
        every = places(msgspec.json.decode(file.read(MANIFEST)))
    by_shape = {tuple("*" if isinstance(key, int) else key for key in one): one for one in reversed(every)}
    return sorted(by_shape.values(), key=str)


@pytest.mark.slow
def test_every_field_of_a_manifest_may_hold_anything_or_be_missing(tmp_path: Path) -> None:
    path = whole(tmp_path / "whole.zip")
    good = path.read_bytes()
    read: list[bytes] = []
    for field in fields_of(path):
        for odd in (*ODD, KeyError):

            def change(manifest: Any, field: tuple[Any, ...] = field, odd: Any = odd) -> None:
                for key in field[:-1]:
                    manifest = manifest[key]
                if odd is KeyError:
                    del manifest[field[-1]]
                else:
                    manifest[field[-1]] = odd

            path.write_bytes(good)
            rewritten(path, change)
            if or_refused(lambda: read_archive(path)) is not None:
                read.append(path.read_bytes())
    assert len(read) > 100
    for number in np.random.default_rng(7).choice(len(read), 20, replace=False).tolist():
        path.write_bytes(read[number])
        report = or_refused(lambda: assess(*read_archive(path), 0.01))
        assert report is None or page(report, "here").encode("utf-8")


@pytest.mark.slow
def test_names_in_every_script_are_reported_and_drawn(tmp_path: Path) -> None:
    objects: list[Any] = [node("a")]
    for number, name in enumerate(SCRIPTS):
        one = pod(f"{name}{number}", "a", "10m", "1Mi")
        one["metadata"]["namespace"] = name
        objects.append(one)
    write_archive(tmp_path / "dump.zip", snapshot([*objects, replica_set(1)]))
    given, history = read_archive(tmp_path / "dump.zip")
    report = assess(given, history, 0.01)
    assert report.pods == len(SCRIPTS)
    text = page(report, "here")
    text.encode("utf-8")
    assert "商店" in text
    found = compared(CaseInputs(given, None, 0.01, None), read_what_ifs(["load=2 add=1:a"]), (0,), lambda words: None)
    pods = next(row for row in found.rows if row.title == "Running pods")
    assert pods.cases[0].value == 2 * len(SCRIPTS)


@pytest.mark.slow
def test_ten_thousand_namespaces_are_reported(tmp_path: Path) -> None:
    objects: list[Any] = [node("a", "4000", "16Ti")]
    objects[0]["status"]["allocatable"]["pods"] = "20000"
    for number in range(10_000):
        one = pod(f"p{number}", "a", "10m", "1Mi")
        one["metadata"]["namespace"] = f"n{number}"
        objects.append(one)
        objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}})
    write_archive(tmp_path / "dump.zip", snapshot(objects))
    given, _ = read_archive(tmp_path / "dump.zip")
    report = assess(given, None, 0.01)
    assert (report.pods, given.count("v1/namespaces")) == (10_000, 10_000)


@pytest.mark.slow
def test_nodes_with_nothing_and_histories_of_nothing_give_finite_figures(tmp_path: Path) -> None:
    values = np.full((3, 80), np.nan)
    values[0, ::7] = 300.0
    values[1, :] = np.inf
    objects = [node("a"), node("b", "0", "0"), node("c", "0"), pod("p", "a"), pod("q"), replica_set(2)]
    write_archive(tmp_path / "dump.zip", snapshot(objects), use_of(("a", "b", "gone"), values))
    given, history = read_archive(tmp_path / "dump.zip")
    report = assess(given, history, 0.01)
    assert all(figure.value is None or isfinite(figure.value) for figure in report.figures)
    msgspec.json.encode(report)
    found = compared(
        CaseInputs(given, history, 0.01, None),
        read_what_ifs(["remove=1:b load=3", "load=0.4"]),
        (0, 1),
        lambda words: None,
    )
    for row in found.rows:
        for figure in (row.base, *row.cases, *row.differences):
            assert figure.value is None or isfinite(figure.value)
