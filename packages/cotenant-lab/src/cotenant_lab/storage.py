"""Files of an experiment on disk.

An experiment may be killed, or the disk may fill, at any moment; a half-written file must not be taken for a result,
and an earlier report must survive. Every file is written to a temporary name, flushed and renamed. A run is a JSON
file, with an NPZ file of its arrays written first, both named by a digest of the specification, the sources that
produce results and, where one is used, the contents of the workload's file.
Limits: the digest covers neither the traces nor the versions of dependencies.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from math import inf, isfinite, isnan, nan
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
import numpy as np

import cotenant
from cotenant import __version__
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results import forms
from cotenant.model.results.forms import RUNS
from cotenant_lab.contract import MachineMap, Measures, RunResult, RunSpec

EXPERIMENT = "experiment.json"
RESULTS_PARQUET = "results.parquet"
REPORT = "report.html"
FAILURES = "failures.txt"

_PACKAGES = (Path(cotenant.__file__).resolve().parent, Path(__file__).resolve().parent)
# Sources that cannot change a run's figures: those that only request, store, compare or print runs.
_AFTER = (
    "cotenant/cli/",
    "cotenant/__main__.py",
    "cotenant_lab/cli/",
    "cotenant_lab/report/",
    "cotenant_lab/comparison.py",
    "cotenant_lab/derived_metrics.py",
    "cotenant_lab/environment.py",
    "cotenant_lab/experiment.py",
    "cotenant_lab/metrics.py",
    "cotenant_lab/metrics_by_workload.py",
    "cotenant_lab/provenance.py",
    "cotenant_lab/ray_cluster.py",
    "cotenant_lab/registry.py",
    "cotenant_lab/seeds.py",
    "cotenant_lab/statistics.py",
    "cotenant_lab/storage.py",
    "cotenant_lab/tuning/",
    "cotenant_lab/workers.py",
)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A finished run without its arrays; `load_result` reads those."""

    spec: RunSpec
    measures: Measures
    by_class: tuple[tuple[str, float], ...]
    notes: tuple[str, ...]
    path: Path  # the JSON file


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Sixteen hexadecimal digits that change when any source that produces results changes."""
    digest = hashlib.sha256(__version__.encode())
    for package in _PACKAGES:
        for path in sorted(package.rglob("*.py")):
            name = path.relative_to(package.parent).as_posix()
            if not name.startswith(_AFTER):
                digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def spec_digest(spec: RunSpec) -> str:
    """Sixteen hexadecimal digits for a specification under the present sources."""
    content = hashlib.sha256(spec.file.read_bytes()).hexdigest() if spec.file else ""
    key = msgspec.json.encode([_plain_spec(spec), content, code_digest()])
    return hashlib.sha256(key).hexdigest()[:16]


def run_path(folder: Path, spec: RunSpec) -> Path:
    """The path of a run's JSON file."""
    name = forms.run_name(spec.policy, spec.load, spec.seed)
    return folder / RUNS / f"{name}{spec_digest(spec)}.json"


def replaceable(path: Path) -> Path:
    """The file that writing to `path` creates or replaces, with symbolic links resolved.

    Raises `InvalidInput` if it is a folder, a device or a pipe: a rename would replace it by a file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InvalidInput(str(path), "not a regular file", "a file to write to")
    return target


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a complete new file at `path`, or leave the previous one; a symbolic link stays, and its target is
    replaced.

    Raises `Permanent` with the reason, e.g. a full disk, and `InvalidInput` as `replaceable` does.
    """
    target = replaceable(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        kept = "; the previous content is unchanged" if path.is_file() else ""
        raise Permanent(f"cannot write {path}: {error.strerror or error}{kept}") from error


def remove_leftovers(folder: Path) -> int:
    """Remove temporary files that a killed process left in an experiment's folder; returns their number."""
    found = [*folder.glob(".*.tmp"), *folder.glob(f"{RUNS}/.*.tmp")]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def save_result(path: Path, result: RunResult) -> None:
    """Store a run: the arrays first, then the JSON file, whose presence marks the run as finished."""
    arrays = {"slowdowns": result.slowdowns, **forms.arrays_of(result.series, result.machine_frames)}
    if result.machine_map is not None:
        owners, codes = np.unique(np.array(result.machine_map.owner, dtype=np.str_), return_inverse=True)
        arrays |= {"owners": owners, "owner": codes.astype(np.int32), "machine": result.machine_map.machine}
        arrays |= {"cpu_share": result.machine_map.cpu_share, "is_service": result.machine_map.is_service}
    buffer = io.BytesIO()  # savez seeks in its target, and a path would have its suffix changed
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    write_atomic(path.with_suffix(".npz"), lambda file: file.write(buffer.getbuffer()))
    stored = {
        "spec": _plain_spec(result.spec),
        "measures": _stored_numbers(asdict(result.measures)),
        "by_class": _stored_numbers(dict(result.by_class)),
        "notes": list(result.notes),
        "series": forms.words_of(result.series),
        "machine_map": result.machine_map.at if result.machine_map else None,
    }
    text = msgspec.json.format(msgspec.json.encode(stored), indent=1)
    write_atomic(path, lambda file: file.write(text))


_Number = float | Literal["inf"] | None


class _Stored(msgspec.Struct):
    spec: dict[str, object]
    measures: dict[str, _Number]
    by_class: dict[str, _Number]
    notes: list[str]
    series: list[forms.Words]
    machine_map: str | None


def load_record(path: Path, spec: RunSpec) -> RunRecord | None:
    """A stored run of `spec`; None if there is none, or if it cannot be read (it is then run again)."""
    stored = _read(path)
    if stored is None or not path.with_suffix(".npz").is_file():
        return None
    known = {field.name for field in fields(Measures)}
    values = {name: _number(value) for name, value in stored.measures.items() if name in known}
    by_class = tuple((name, _number(value)) for name, value in stored.by_class.items())
    return RunRecord(spec, Measures(**values), by_class, tuple(stored.notes), path)


def load_result(record: RunRecord) -> RunResult:
    """A stored run with its arrays. Raises `Permanent` where its files are gone or damaged."""
    stored = _read(record.path)
    try:
        if stored is None:
            raise ValueError("not a stored run")
        with np.load(record.path.with_suffix(".npz"), allow_pickle=False) as arrays:
            series = forms.series_in(stored.series, arrays)
            machines = None
            if stored.machine_map is not None:
                owners = arrays["owners"]
                owner = tuple(str(owners[code]) for code in arrays["owner"])
                machines = MachineMap(
                    stored.machine_map, arrays["machine"], owner, arrays["cpu_share"], arrays["is_service"]
                )
            slowdowns, frames = arrays["slowdowns"], forms.frames_in(arrays)
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise Permanent(f"cannot read the run {record.path}: {error}") from error
    found = RunResult(record.spec, record.measures, series, slowdowns, machines, record.by_class, record.notes)
    return replace(found, machine_frames=frames)


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON; NaN becomes null."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=1)
    write_atomic(path, lambda file: file.write(text + b"\n"))


def write_parquet(path: Path, records: Iterable[RunRecord]) -> None:
    """One row per run: the specification's fields, then the measures, then the scenario's further figures; NaN
    becomes null, infinity stays.
    """
    import polars as pl  # loaded when used: it costs a fifth of a second

    rows = [
        {
            **{name: value for name, value in _plain_spec(record.spec).items() if name != "overrides"},
            "overrides": " ".join(f"{knob}={value:g}" for knob, value in record.spec.overrides),
            **{name: _or_null(value) for name, value in asdict(record.measures).items()},
            **{f"class: {name}": _or_null(value) for name, value in record.by_class},
        }
        for record in records
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    buffer = io.BytesIO()  # polars would report a full disk as a broken Parquet file
    frame.write_parquet(buffer)
    write_atomic(path, lambda file: file.write(buffer.getbuffer()))


def write_failures(folder: Path, failures: Sequence[tuple[str, str]]) -> None:
    """The failed runs with their tracebacks, in `failures.txt`; no such file if none failed. Raises as
    `write_atomic`.
    """
    path = folder / FAILURES
    if failures:
        text = "\n".join(f"{line}\n{detail}" for line, detail in failures)
        write_atomic(path, lambda file: file.write(text.encode()))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise Permanent(f"cannot remove {path}, which belongs to an earlier run: {error.strerror or error}") from error


def _stored_numbers(values: dict[str, float]) -> dict[str, _Number]:
    return {
        name: "inf" if value == inf else float(value) if isfinite(value) else None for name, value in values.items()
    }


def _or_null(value: float) -> float | None:
    return None if isnan(value) else float(value)


def _number(value: _Number) -> float:
    return nan if value is None else float(value)


def absolute(spec: RunSpec) -> RunSpec:
    """The same specification with absolute paths, independent of the working directory."""
    traces = spec.traces.resolve() if spec.traces else None
    return replace(spec, traces=traces, file=spec.file.resolve() if spec.file else None)


def _plain_spec(spec: RunSpec) -> dict[str, object]:
    plain: dict[str, object] = {field.name: getattr(spec, field.name) for field in fields(spec)}
    plain["traces"] = str(spec.traces) if spec.traces else None
    plain["file"] = str(spec.file) if spec.file else None
    plain["overrides"] = [list(override) for override in sorted(spec.overrides)]
    return plain


def _read(path: Path) -> _Stored | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Stored)
    except (OSError, msgspec.MsgspecError):
        return None


def encode_object(value: object) -> str:
    """One JSON object for standard output."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
