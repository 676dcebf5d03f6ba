"""The file of a copy: written and read, of other versions, damaged, and made by someone else."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant.drivers.kube.snapshot import archive
from cotenant.drivers.kube.snapshot.archive import read_archive, write_archive
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import NO_METERS, CardUse, CardUses, Energy, Meters
from cotenant.model.errors import InvalidInput, Permanent

NODES, PODS = "v1/nodes", "v1/pods"
SNAPSHOT = ClusterSnapshot(
    1_700_000_000.25,
    {NODES: [b'{"metadata":{"name":"n1"}}'], PODS: [b'{"metadata":{"name":"p","namespace":"\xd7\xa9"}}']},
    (
        KindRead(NODES, KindReading.READ),
        KindRead(PODS, KindReading.READ),
        KindRead("batch/v1/jobs", KindReading.DENIED, "403"),
    ),
    "v1.36.2",
    "a test",
)
METERS = Meters(
    CardUses((CardUse("n1", "GPU-1", (20.0, np.nan), (30.0, np.nan), 5.0, "shop/p"),), "DCGM", "", True),
    Energy((("shop/p", (3.6e6, np.nan)),), (7.2e6, np.nan), "Kepler", ""),
)


def history() -> ClusterHistory:
    values = np.array([[1.0, np.nan, 3.0]], np.float32)
    use = AssessedHistory(0.0, 300.0, ("shop/p",), values, values * 2, "made up")
    nodes = AssessedHistory(0.0, 300.0, ("n1",), values * 3, values * 4, "made up")
    one = np.array([5.0], np.float32)
    pods = PodHistory(use, ("n1",), ("shop/Deployment/web",), one, one * 2)
    return ClusterHistory(pods, nodes, ("a gap",), METERS)


def rewritten(path: Path, change: dict[str, bytes | None]) -> Path:
    """The archive with other members; None = without it."""
    other = path.with_name("other.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if name not in change:
                new.writestr(name, old.read(name))
        for name, content in change.items():
            if content is not None:
                new.writestr(name, content)
    return other


def manifest(path: Path, **change: Any) -> bytes:
    with zipfile.ZipFile(path) as file:
        return json.dumps(json.loads(file.read("manifest.json")) | change).encode()


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "copy.zip"
    assert write_archive(path, SNAPSHOT, history()) == path.stat().st_size
    return path


def test_what_is_written_is_read(written: Path) -> None:
    snapshot, use = read_archive(written)
    assert snapshot.objects == {key: list(lines) for key, lines in SNAPSHOT.objects.items()}
    assert snapshot.kinds == SNAPSHOT.kinds
    assert (snapshot.taken_s, snapshot.server, snapshot.source) == (1_700_000_000.25, "v1.36.2", "a test")
    assert [kind.key for kind in snapshot.lacking] == ["batch/v1/jobs"]
    assert use is not None
    given = history()
    np.testing.assert_array_equal(use.pods.use.cpu_m, given.pods.use.cpu_m)
    np.testing.assert_array_equal(use.nodes.memory_mib, given.nodes.memory_mib)
    assert (use.pods.node, use.pods.workload, use.faults) == (given.pods.node, given.pods.workload, given.faults)
    assert (use.nodes.names, use.nodes.source, use.nodes.step_s) == (("n1",), "made up", 300.0)


def test_a_newer_version_is_refused_with_a_sentence(written: Path) -> None:
    newer = rewritten(
        written, {"manifest.json": manifest(written, version=archive.VERSION + 1, taken={"in": "new form"})}
    )
    with pytest.raises(InvalidInput, match=f"version: {archive.VERSION + 1}: expected 1 to .*newer cotenant"):
        read_archive(newer)


def test_fields_and_kinds_of_a_later_version_are_skipped(written: Path) -> None:
    kinds = [{"key": "new.example/v1/things", "reading": "read", "colour": "red"}, {"key": NODES, "reading": "read"}]
    snapshot, _ = read_archive(
        rewritten(written, {"manifest.json": manifest(written, kinds=kinds, more=1, history=None)})
    )
    assert [kind.key for kind in snapshot.kinds] == [NODES]


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 0},
        {"version": "1"},
        {"taken": "yesterday"},
        {"taken": "0001-01-01T00:00:00+23:00"},
        {"taken": "9999-12-31T23:59:59-23:00"},
        {"taken": "1970-01-01T00:00:00Z"},
        {"kinds": [{"key": NODES, "reading": "guessed"}]},
        {"kinds": 3},
    ],
)
def test_a_manifest_that_is_none_is_refused(written: Path, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        read_archive(rewritten(written, {"manifest.json": manifest(written, **change)}))


@pytest.mark.parametrize("size", [0, 1, 11, 16])
def test_columns_of_another_size_are_refused(written: Path, size: int) -> None:
    with pytest.raises(InvalidInput, match=r"pods\.cpu_m"):
        read_archive(rewritten(written, {"history/pods.cpu_m": b"\0" * size}))


@pytest.mark.parametrize("steps", [2**70, -(2**70), -1, 2**62, 2])
def test_steps_that_no_column_has_are_refused(written: Path, steps: int) -> None:
    with zipfile.ZipFile(written) as file:
        history = json.loads(file.read("manifest.json"))["history"]
    history["nodes"]["steps"] = steps
    with pytest.raises(InvalidInput, match=r"history.*nodes"):
        read_archive(rewritten(written, {"manifest.json": manifest(written, history=history)}))


def test_meters_without_cards_or_joules_say_why_there_are_none(written: Path) -> None:
    with zipfile.ZipFile(written) as file:
        history = json.loads(file.read("manifest.json"))["history"]
    _, use = read_archive(rewritten(written, {"manifest.json": manifest(written, history=history | {"meters": {}})}))
    assert use is not None
    assert use.meters.cards.why == use.meters.energy.why == "the copy has none, and does not say why"


def test_values_that_no_meter_measures_are_unknown(written: Path) -> None:
    values = np.array([-1.0, np.inf, 2.0], "<f4").tobytes()
    _, use = read_archive(rewritten(written, {"history/pods.cpu_m": values}))
    assert use is not None
    np.testing.assert_array_equal(use.pods.use.cpu_m, [[np.nan, np.nan, 2.0]])


def test_lines_that_are_no_objects_are_counted(written: Path) -> None:
    lines = b'\n{"metadata":{"name":"n2"}}\nnot json\n[]\n{"metadata":{}}\n\xff\xfe\n' + b"[" * 5000 + b"\n"
    snapshot, _ = read_archive(rewritten(written, {"objects/v1_nodes.jsonl": lines}))
    assert snapshot.count(NODES) == 1
    assert next(kind.malformed for kind in snapshot.kinds if kind.key == NODES) == 5


def lacks(snapshot: ClusterSnapshot) -> dict[str, str]:
    return {kind.key: kind.lack for kind in snapshot.lacking if kind.reading is KindReading.READ}


def test_objects_that_the_manifest_counts_and_the_file_has_not_are_named(written: Path, tmp_path: Path) -> None:
    gone, _ = read_archive(rewritten(written, {"objects/v1_pods.jsonl": None}))
    assert lacks(gone) == {PODS: "1 object is missing from the file"}
    more = manifest(written, kinds=[{"key": PODS, "reading": "read", "objects": 4}])
    short, _ = read_archive(rewritten(written, {"manifest.json": more, "objects/v1_pods.jsonl": b"{}\n[]\n"}))
    assert lacks(short) == {PODS: "2 entries were no objects with a name; 2 objects are missing from the file"}
    again = tmp_path / "again.zip"
    write_archive(again, short)
    assert lacks(read_archive(again)[0]) == lacks(short)  # a copy of a copy says so too


def test_a_line_that_is_longer_than_any_object_is_refused(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_OBJECT_BYTES", 40)
    lines = b'{"metadata":{"name":"n2"}}\n{"metadata":{"name":"' + b"x" * 40 + b'"}}\n'
    with pytest.raises(InvalidInput, match=r"v1_nodes\.jsonl, line 2: very long: expected at most 40 bytes"):
        read_archive(rewritten(written, {"objects/v1_nodes.jsonl": lines}))


def test_a_file_that_someone_else_made_keeps_only_what_a_reader_names(written: Path) -> None:
    line = b'{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","env":[{"value":"hunter2"}]}]}}\n'
    snapshot, _ = read_archive(rewritten(written, {"objects/v1_pods.jsonl": line}))
    assert b"hunter2" not in snapshot.objects[PODS][0]


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + b"\0" * 40, b"{}"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_archive(path)


def test_a_cut_file_is_refused(written: Path) -> None:
    whole = written.read_bytes()
    for size in range(0, len(whole) - 1, 97):
        written.write_bytes(whole[:size])
        with pytest.raises(InvalidInput):
            read_archive(written)


def test_more_than_fits_is_refused_before_it_is_unpacked(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 100)
    with pytest.raises(InvalidInput, match="at most 100"):
        read_archive(written)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy.zip").mkdir()
    (tmp_path / "copy.zip" / "x").touch()
    with pytest.raises(Permanent):
        write_archive(tmp_path / "copy.zip", SNAPSHOT)
    assert [path.name for path in tmp_path.iterdir()] == ["copy.zip"]


def test_meters_come_back_and_a_copy_without_them_says_why(written: Path) -> None:
    _, found = read_archive(written)
    assert found is not None
    assert repr(found.meters) == repr(METERS)  # NaN is not equal to itself
    with zipfile.ZipFile(written) as file:
        document = json.loads(file.read("manifest.json"))
    del document["history"]["meters"]
    _, before = read_archive(rewritten(written, {"manifest.json": json.dumps(document).encode()}))
    assert before is not None
    assert before.meters == NO_METERS


def test_what_no_meter_measures_is_unknown(written: Path) -> None:
    with zipfile.ZipFile(written) as file:
        document = json.loads(file.read("manifest.json"))
    document["history"]["meters"]["cards"][0] |= {"mean_pct": [-5.0, 1e308], "memory_pct": -1.0}
    document["history"]["meters"]["energy"]["shop/p"] = [-1.0, 1.0]
    _, found = read_archive(rewritten(written, {"manifest.json": json.dumps(document).encode()}))
    assert found is not None
    (card,) = found.meters.cards.cards
    assert (repr(card.mean_pct), card.memory_pct) == ("(nan, 1e+308)", None)
    assert repr(found.meters.energy.pods) == "(('shop/p', (nan, 1.0)),)"
    document["history"]["meters"]["cards"] = [{"node": 5}]
    with pytest.raises(InvalidInput, match="manifest"):
        read_archive(rewritten(written, {"manifest.json": json.dumps(document).encode()}))
