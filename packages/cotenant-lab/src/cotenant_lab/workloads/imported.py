"""Work of an imported trace in one form: arrivals, durations, sizes and, where recorded, usage.

Traces record different things: sizes without memory, bytes without durations, a cell's usage without jobs. One record
of batch tasks, with NaN where the trace says nothing, or of services, or a curve; what is missing is drawn or assumed
by the workload, and every assumption is a sentence in the run's notes.
Limits: a folder holds one trace; GPUs, RDMA and disks are left out, because the co-located world has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput
from cotenant_lab.traces.catalogue import FORMATS
from cotenant_lab.traces.convert import stem
from cotenant_lab.traces.folder import ENDINGS
from cotenant_lab.traces.read import read_table

GIB = float(1 << 30)
BLOCK_BYTES = 128.0 * (1 << 20)  # input of one map task: Hadoop's usual block
BYTES_PER_S = 50e6  # what one task processes; assumption
MAX_TASKS = 1_000_000
# What a table of the `generic` format must have to be replayed, and may have beside.
GENERIC_NEEDS = ("arrival_s", "duration_s", "cpus")
GENERIC_TAKES = (*GENERIC_NEEDS, "instances", "memory_gib", "used_cpus", "used_memory_gib", "job")


@dataclass(frozen=True, slots=True)
class Imported:
    """An imported trace. Batch tasks ([T], by arrival; NaN = not recorded), services ([S]) or an hourly weight of
    arrivals.
    """

    format: str
    notes: tuple[str, ...]
    arrival_s: Float = field(default_factory=lambda: np.empty(0))
    duration_s: Float = field(default_factory=lambda: np.empty(0))
    cores: Float = field(default_factory=lambda: np.empty(0))  # of one instance
    instances: Int = field(default_factory=lambda: np.empty(0, np.int64))
    memory_bytes: Float = field(default_factory=lambda: np.empty(0))
    memory_share: Float = field(default_factory=lambda: np.empty(0))  # of a node, where the trace gives it so
    used_cores: Float = field(default_factory=lambda: np.empty(0))
    used_memory_bytes: Float = field(default_factory=lambda: np.empty(0))
    job: Int = field(
        default_factory=lambda: np.empty(0, np.int64)
    )  # tasks of a job follow one another in rows of equal job
    service_cores: Float = field(default_factory=lambda: np.empty(0))
    service_memory_bytes: Float = field(default_factory=lambda: np.empty(0))
    service_replicas: Int = field(default_factory=lambda: np.empty(0, np.int64))
    curve: Float = field(default_factory=lambda: np.empty(0))  # weight of arrivals over time
    memory_used_share: float = float("nan")  # of assigned memory, where the trace records it for the cell


@lru_cache(maxsize=4)
def read_imported(folder: Path) -> Imported:
    """The trace in a folder: files that `cotenant lab import` wrote, or the published ones.

    Raises `InvalidInput` naming the folder, file or column for no trace, several, an empty one or no usable row.
    """
    files = sorted(path for path in folder.iterdir() if path.name.endswith(ENDINGS) and not path.name.startswith("."))
    found: list[tuple[str, str, Path]] = []
    for format_, table in _READERS:
        tables = next(entry for entry in FORMATS if entry.name == format_).tables
        pattern = next(entry for entry in tables if entry.name == table).file_pattern
        found += [(format_, table, path) for path in files if re.fullmatch(pattern, stem(path))]
    if not found:
        return _generic(folder, files)
    formats = {entry[0] for entry in found}
    if len(formats) > 1:
        raise InvalidInput("traces", str(folder), "a folder with one trace", f"it has {' and '.join(sorted(formats))}")
    frames, said = [], []
    for format_, table, path in found:
        frame, report = read_table(format_, table, path)
        frames.append(frame)
        said += [line.strip() for line in report.sentences()]
    format_, table, _ = found[0]
    return _checked(_READERS[format_, table](pl.concat(frames), (f"Trace {format_} from {folder}.", *said)), folder)


def _checked(work: Imported, folder: Path) -> Imported:
    if not (work.arrival_s.size or work.service_cores.size or work.curve.size):
        raise InvalidInput("traces", str(folder), f"at least one usable row of {work.format}")
    return work


def _numbers(frame: pl.DataFrame, name: str) -> Float:
    return frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _tasks(format_: str, notes: tuple[str, ...], **columns: Float | Int) -> Imported:
    """Tasks that last and ask for CPU, by arrival; missing columns are NaN, one instance and a job each."""
    n = len(columns["arrival_s"])
    unknown = np.full(n, np.nan)
    full: dict[str, Float | Int] = {
        "instances": np.ones(n, np.int64),
        "job": np.arange(n),
        **dict.fromkeys(("memory_bytes", "memory_share", "used_cores", "used_memory_bytes"), unknown),
        **columns,
    }
    good = (full["duration_s"] > 0) & (full["cores"] > 0) & np.isfinite(full["arrival_s"])
    order = np.flatnonzero(good)
    _, first = np.unique(full["job"][order], return_inverse=True)
    start = np.full(first.max() + 1 if first.size else 0, np.inf)
    np.minimum.at(start, first, full["arrival_s"][order])
    order = order[np.lexsort((full["arrival_s"][order], first, start[first]))]
    if len(order) < n:
        notes = (*notes, f"{n - len(order):,} rows without duration or CPU are left out.")
    return Imported(format_, notes, **{name: column[order] for name, column in full.items()})  # type: ignore[arg-type]


def _gaia(format_: str) -> Callable[[pl.DataFrame, tuple[str, ...]], Imported]:
    def make(frame: pl.DataFrame, notes: tuple[str, ...]) -> Imported:
        return _tasks(
            format_,
            (
                *notes,
                "The sampler stretched arrivals over a year: their order and relative gaps are the trace's, "
                "their rate is not.",
            ),
            arrival_s=_numbers(frame, "arrival_hours") * 3600.0,
            duration_s=_numbers(frame, "duration_hours") * 3600.0,
            cores=_numbers(frame, "cpus"),
        )

    return make


def _alibaba2017(frame: pl.DataFrame, notes: tuple[str, ...]) -> Imported:
    begin, end = _numbers(frame, "create_time"), _numbers(frame, "end_time")
    return _tasks(
        "alibaba2017",
        (*notes, "Tasks of a job run at once in the trace; they are jobs of their own here."),
        arrival_s=begin,
        duration_s=end - begin,
        cores=_numbers(frame, "plan_cpu") / 100.0,
        instances=frame["instance_num"].to_numpy(),
        memory_share=_numbers(frame, "plan_mem"),
    )


def _swim(frame: pl.DataFrame, notes: tuple[str, ...]) -> Imported:
    """A map stage of one task per block, then a reduce stage where bytes are shuffled."""
    at = _numbers(frame, "submit_s")
    stages = []
    for name in ("map_input_bytes", "shuffle_bytes"):
        data = _numbers(frame, name)
        stages.append((data, np.maximum(1, np.ceil(data / BLOCK_BYTES)).astype(np.int64)))
    arrival, duration, instances, job = [], [], [], []
    for data, tasks in stages:
        rows = np.flatnonzero(data > 0)
        arrival.append(at[rows])
        duration.append(data[rows] / tasks[rows] / BYTES_PER_S)
        instances.append(tasks[rows])
        job.append(rows)
    count = sum(len(row) for row in arrival)
    return _tasks(
        "swim",
        (
            *notes,
            f"Jobs record bytes only: one map task of one core per {BLOCK_BYTES / (1 << 20):g} MiB read and one "
            f"reduce task per as much shuffled, each at {BYTES_PER_S / 1e6:g} MB/s; "
            "reduce tasks wait for all map tasks.",
        ),
        arrival_s=np.concatenate(arrival),
        duration_s=np.concatenate(duration),
        cores=np.ones(count),
        instances=np.concatenate(instances),
        job=np.concatenate(job),
    )


def _dlrm(frame: pl.DataFrame, notes: tuple[str, ...]) -> Imported:
    """Applications are services: a replica per instance, sizes of the application's median instance."""
    apps = (
        frame.filter(pl.col("cpu_request") > 0)
        .group_by("app_name", maintain_order=True)
        .agg(pl.col("cpu_request").median(), pl.col("memory_request").median(), pl.len().alias("replicas"))
    )
    return Imported(
        "dlrm2025",
        (
            *notes,
            "Applications are services with a replica per instance, resident for the whole run; GPU, RDMA and disk "
            "requests and the density limits are left out. Batch is drawn as in the founding workload.",
        ),
        service_cores=_numbers(apps, "cpu_request"),
        service_memory_bytes=_numbers(apps, "memory_request") * GIB,
        service_replicas=apps["replicas"].cast(pl.Int64).to_numpy(),
    )


def _google2019(frame: pl.DataFrame, notes: tuple[str, ...]) -> Imported:
    used, assigned = _numbers(frame, "avg_mem"), _numbers(frame, "avg_assigned_mem")
    share = float(np.nanmean(used) / np.nanmean(assigned))
    return Imported(
        "google2019",
        (
            *notes,
            "The trace records a cell's usage and no jobs: jobs are drawn as in the founding workload, arrive in "
            f"proportion to the cell's CPU in use, and use {share:.2f} of the memory that they request.",
        ),
        curve=np.maximum(_numbers(frame, "avg_cpu"), 0.0),
        memory_used_share=share,
    )


_READERS: dict[tuple[str, str], Callable[[pl.DataFrame, tuple[str, ...]], Imported]] = {
    ("pai2020", "jobs"): _gaia("pai2020"),
    ("azure-vm", "vms"): _gaia("azure-vm"),
    ("alibaba2017", "batch_task"): _alibaba2017,
    ("swim", "jobs"): _swim,
    ("dlrm2025", "instances"): _dlrm,
    ("google2019", "usage"): _google2019,
}


def _generic(folder: Path, files: list[Path]) -> Imported:
    """A Parquet file that a mapping of the `generic` format was imported to."""
    parquet = [path for path in files if path.suffix == ".parquet"]
    if len(parquet) != 1:
        known = ", ".join(sorted({format_ for format_, _ in _READERS}))
        what = "no table" if not parquet else f"{len(parquet)} Parquet files"
        raise InvalidInput("traces", str(folder), f"a table of {known}, or one imported as generic", f"it has {what}")
    path = parquet[0]
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InvalidInput(str(path), "damaged Parquet", "a valid Parquet file", str(error).splitlines()[0]) from error
    for name in GENERIC_NEEDS:
        if name not in frame.columns:
            hint = f"map it in the mapping of `cotenant lab import generic`; taken are {', '.join(GENERIC_TAKES)}"
            raise InvalidInput(str(path), f"no column {name}", f"columns {', '.join(GENERIC_NEEDS)}", hint)
    columns: dict[str, Float | Int] = {}
    for name in GENERIC_TAKES:
        if name not in frame.columns or name == "job":
            continue
        if not frame[name].dtype.is_numeric():
            raise InvalidInput(f"{path}: column {name}", str(frame[name].dtype), "numbers")
        columns[name] = _numbers(frame, name)
        bad = np.flatnonzero(~np.isfinite(columns[name]) | (columns[name] < 0))
        if bad.size:
            where = f"{path}: row {bad[0] + 1}, column {name}"
            raise InvalidInput(where, float(columns[name][bad[0]]), "a finite number, 0 or more")
    named = {"memory_gib": "memory_bytes", "used_memory_gib": "used_memory_bytes"}
    given: dict[str, Float | Int] = {}
    for name, column in columns.items():
        given[named.get(name, name)] = (column * GIB).astype(np.float64) if name in named else column
    given["cores"] = given.pop("cpus")
    if "used_cpus" in given:
        given["used_cores"] = given.pop("used_cpus")
    if "instances" in given:
        given["instances"] = np.maximum(1, given["instances"]).astype(np.int64)
    if "job" in frame.columns:
        given["job"] = frame["job"].rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
    left = [name for name in frame.columns if name not in GENERIC_TAKES]
    notes = (f"Trace {path}, {frame.height:,} rows.", *((f"Columns left out: {', '.join(left)}.",) if left else ()))
    return _checked(_tasks("generic", notes, **given), folder)
