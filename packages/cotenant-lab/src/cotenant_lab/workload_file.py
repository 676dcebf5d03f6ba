"""A user's own workload, described in YAML.

A misspelt field must not be ignored, and an invalid number must be refused at its field. One frozen record read
strictly; unknown fields are errors that name the field and the closest known one.
Limits: it varies only the co-located world; a workload of another kind is a scenario module.

    base: colocation          # founding, colocation or replay: whose defaults apply
    title: a small cluster with more services
    nodes: 100
    load: [0.7, 0.8, 0.9]     # or one number: requested CPU / capacity
    service_share: 0.45       # of the cluster's CPU, requested by services
    interference: 1.0
    pressure_law: mixed       # linear, knee, queueing or mixed
    horizon_h: 6
    seeds: 5                  # or 20-29
    policies: [cotenant, edf-least-allocated]
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Literal

import msgspec

from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant_lab.seeds import read_seeds

SUFFIXES = (".yaml", ".yml")
MAX_LOAD = 1.5  # the limit of the co-located world


class WorkloadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A workload of the co-located world. None = the base's value. The command line overrides the file."""

    base: Literal["founding", "colocation", "takeover", "replay"]
    title: str = ""
    nodes: int | None = None
    load: float | tuple[float, ...] | None = None  # requested CPU / capacity, services included
    service_share: float | None = None  # of the cluster's CPU, requested by services
    interference: float | None = None  # scale of the world's contention
    pressure_law: Literal["linear", "knee", "queueing", "mixed"] | None = None
    estimate_error: float | None = None  # log-normal sd
    declared_profiles: bool | None = None  # whether schedulers are shown sensitivity, pressure and tolerance
    node_qos: bool | None = None
    node_guard: bool | None = None  # with node_qos: batch is also cut when a replica comes close to its objective
    failures: bool | None = None
    horizon_h: float | None = None  # hours in which jobs arrive
    seeds: int | str | None = None  # how many, or seeds such as 20-29
    policies: tuple[str, ...] | None = None

    @property
    def loads(self) -> tuple[float, ...] | None:
        """The loads as a tuple, whether one or several are given."""
        return (self.load,) if isinstance(self.load, float | int) else self.load


# Field -> smallest and largest valid value, and the description in errors.
_RANGES: dict[str, tuple[float, float, str]] = {
    "nodes": (1, 100_000, "1..100000 nodes"),
    "service_share": (0.0, 0.95, "a share of the CPU, 0..0.95"),
    "interference": (0.0, 10.0, "a scale, 0..10"),
    "estimate_error": (0.0, 5.0, "a log-normal standard deviation, 0..5"),
    "horizon_h": (1.5, 168.0, "hours, 1.5..168"),
}


def is_workload_file(workload: str) -> bool:
    """Whether a `--workload` argument names a file rather than a scenario."""
    return workload.lower().endswith(SUFFIXES)


def read_workload_file(path: Path) -> WorkloadFile:
    """Read and check a workload file. Raises `InvalidInput` naming the file and field."""
    name = str(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("--workload", name, "a readable YAML file", error.strerror or "") from error
    read = read_struct(WorkloadFile, text, name, "a workload file")
    for field, (low, high, words) in _RANGES.items():
        value = getattr(read, field)
        if value is not None and not (isfinite(value) and low <= value <= high):
            raise InvalidInput(f"{name}: {field}", value, words)
    if read.seeds is not None:
        read_seeds(read.seeds, f"{name}: seeds")
    for load in read.loads or ():
        if not isfinite(load) or not 0 < load <= MAX_LOAD:
            raise InvalidInput(f"{name}: load", load, f"a share of the cluster's CPU above 0, at most {MAX_LOAD:g}")
        if read.service_share is not None and load <= read.service_share:
            raise InvalidInput(
                f"{name}: load", load, f"more than service_share = {read.service_share:g}, so that there is batch"
            )
    for field in ("load", "policies"):
        if getattr(read, field) == ():
            raise InvalidInput(f"{name}: {field}", "[]", "at least one")
    return read
