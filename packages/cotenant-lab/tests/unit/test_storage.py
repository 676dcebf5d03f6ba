"""Stored data reads back, and half-written files are never used."""

import errno
import os
from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path
from typing import BinaryIO

import numpy as np
import polars as pl
import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.forms import MachineFrames, RunSeries
from cotenant.services.console.views.run_files import load_frames  # what the console reads
from cotenant_lab import storage
from cotenant_lab.contract import MachineMap, Measures, RunResult, RunSpec

SPEC = RunSpec("fake", "cotenant", 3, 0.77, overrides=(("spread", 0.2),))


def result(spec: RunSpec = SPEC) -> RunResult:
    return RunResult(
        spec,
        Measures(success=0.999, violation=0.0021),
        series=(RunSeries("fragmentation", "time (h)", "%", np.array([0.0, 1.0]), np.array([0.5, 0.25])),),
        slowdowns=np.array([1.0, 1.5, 9.0]),
        machine_map=MachineMap(
            "at 3.0 h", np.array([0, 0, 4]), ("b", "a", "b"), np.array([0.1, 0.2, 0.3]), np.array([1, 0, 1]) > 0
        ),
        by_class=(("8-GPU pods placed", 0.73),),
        notes=("stretched",),
        machine_frames=MachineFrames(
            np.array([0.0, 60.0]),
            np.array([0, 2]),
            np.arange(24, dtype=np.uint8).reshape(2, 2, 6),
            4,
            np.array([0, 3]),
            np.array([0.5, 0.6]),
        ),
    )


def test_a_stored_run_comes_back_whole(tmp_path: Path) -> None:
    path = storage.run_path(tmp_path, SPEC)
    storage.save_result(path, result())
    record = storage.load_record(path, SPEC)
    assert record is not None
    assert record.measures.success == 0.999
    assert isnan(record.measures.fragmentation)
    back = storage.load_result(record)
    assert back.by_class == (("8-GPU pods placed", 0.73),)
    assert back.notes == ("stretched",)
    assert back.slowdowns.tolist() == [1.0, 1.5, 9.0]
    assert (back.series[0].name, back.series[0].y.tolist()) == ("fragmentation", [0.5, 0.25])
    frames = back.machine_frames
    assert frames is not None
    assert load_frames(path) is not None
    assert (frames.machines, frames.cells.dtype, frames.cells[1, 1].tolist()) == (4, np.uint8, [18, 19, 20, 21, 22, 23])
    assert (frames.time_s.tolist(), frames.machine.tolist(), frames.violated.tolist(), frames.used_cpu.tolist()) == (
        [0.0, 60.0],
        [0, 2],
        [0, 3],
        [0.5, 0.6],
    )
    assert back.machine_map is not None
    assert back.machine_map.owner == ("b", "a", "b")
    assert back.machine_map.is_service.tolist() == [True, False, True]


def test_a_run_without_pictures_comes_back_without_them(tmp_path: Path) -> None:
    path = storage.run_path(tmp_path, SPEC)
    storage.save_result(path, RunResult(SPEC, Measures(success=1.0)))
    record = storage.load_record(path, SPEC)
    assert record is not None
    back = storage.load_result(record)
    assert (back.series, back.machine_map, back.slowdowns.size) == ((), None, 0)
    assert back.machine_frames is None


def test_infinite_and_undefined_figures_stay_what_they_are(tmp_path: Path) -> None:
    path = storage.run_path(tmp_path, SPEC)
    storage.save_result(
        path, replace(result(), measures=Measures(slowdown_p99=inf), by_class=(("late", inf), ("no", nan)))
    )
    record = storage.load_record(path, SPEC)
    assert record is not None
    assert record.measures.slowdown_p99 == inf
    assert isnan(record.measures.success)
    assert record.by_class[0] == ("late", inf)
    assert isnan(record.by_class[1][1])


def test_no_run_is_made_of_damaged_files(tmp_path: Path) -> None:
    path = storage.run_path(tmp_path, SPEC)
    assert storage.load_record(path, SPEC) is None
    storage.save_result(path, result())
    record = storage.load_record(path, SPEC)
    assert record is not None
    for damaged in (b"", b"PK\x03\x04 cut short", b"text"):
        path.with_suffix(".npz").write_bytes(damaged)
        with pytest.raises(Permanent, match="cannot read the run"):
            storage.load_result(record)
    path.write_text('{"spec": {}')
    assert storage.load_record(path, SPEC) is None


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"load": 0.78}, {"interference": 2.0}, {"node_qos": False}, {"overrides": ()}, {"workload": "openb"}],
)
def test_another_specification_has_another_digest(change: dict[str, object]) -> None:
    assert storage.spec_digest(replace(SPEC, **change)) != storage.spec_digest(SPEC)


def test_the_order_of_knobs_does_not_matter() -> None:
    one = replace(SPEC, overrides=(("a", 1.0), ("b", 2.0)))
    assert storage.spec_digest(one) == storage.spec_digest(replace(one, overrides=(("b", 2.0), ("a", 1.0))))


def test_a_changed_workload_file_is_another_specification(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base: founding\n")
    spec = replace(SPEC, file=file)
    before = storage.spec_digest(spec)
    file.write_text("base: founding\nnodes: 9\n")
    assert storage.spec_digest(spec) != before


def test_a_full_disk_leaves_the_earlier_report_and_no_remains(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    storage.write_atomic(path, lambda file: file.write(b"earlier"))

    def full(file: BinaryIO) -> None:
        file.write(b"half a rep")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Permanent, match=r"report.html: No space left on device; the previous content is unchanged"):
        storage.write_atomic(path, full)
    assert path.read_bytes() == b"earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_pipe_or_a_folder_is_not_replaced_and_a_link_is_followed(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        file.write(b"new")

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "to-pipe", "folder"):
        with pytest.raises(InvalidInput, match=f"{name}: not a regular file"):
            storage.write_atomic(tmp_path / name, write)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "folder" / "report").write_bytes(b"old")
    (tmp_path / "link").symlink_to("folder/report")
    (tmp_path / "dangling").symlink_to("later/report")
    for name, target in (("link", "folder/report"), ("dangling", "later/report")):
        storage.write_atomic(tmp_path / name, write)
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / target).read_bytes() == b"new"
        assert [path.name for path in (tmp_path / target).parent.iterdir()] == ["report"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".a.json.77.tmp").write_text("{")
    (tmp_path / "runs" / "a.json").write_text("{}")
    assert storage.remove_leftovers(tmp_path) == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a.json"]


def test_parquet_has_a_row_a_run_null_for_what_is_not_defined_and_infinities(tmp_path: Path) -> None:
    records = []
    for seed in (0, 1):
        spec = replace(SPEC, seed=seed)
        path = storage.run_path(tmp_path, spec)
        storage.save_result(path, result(spec))
        record = storage.load_record(path, spec)
        assert record is not None
        records.append(replace(record, measures=replace(record.measures, slowdown_p99=inf)))
    storage.write_parquet(tmp_path / "results.parquet", records)
    frame = pl.read_parquet(tmp_path / "results.parquet")
    assert frame["seed"].to_list() == [0, 1]
    assert frame["overrides"].to_list() == ["spread=0.2", "spread=0.2"]
    assert frame["success"].to_list() == [0.999, 0.999]
    assert frame["fragmentation"].to_list() == [None, None]
    assert frame["slowdown_p99"].to_list() == [inf, inf]
    assert frame["class: 8-GPU pods placed"].to_list() == [0.73, 0.73]
