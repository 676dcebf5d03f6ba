"""What two machines must share for a run to give the same figures on both.

A run is stored under a digest of its specification and its sources, and must not depend on the machine that made it.
Libraries and processors differ between machines: NumPy's exponential with AVX-512 differs from that with AVX2 in the
last bit, and one bit can change a placement. An environment is compared before a run: sources, versions of the
libraries that calculate, a digest of elementary functions at fixed points, and the names and sizes of the trace files.
Limits: functions that the digest does not evaluate are not compared, nor are trace files of equal names and sizes.
"""

from __future__ import annotations

import hashlib
import math
import platform
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from cotenant_lab import storage

_LIBRARIES = ("numpy", "numba", "polars", "ortools", "scipy")
_POINTS = 2_000


@dataclass(frozen=True, slots=True)
class Environment:
    """The origin of a process's figures, without the specification."""

    python: str  # "3.11"
    sources: str  # `storage.code_digest`
    libraries: tuple[str, ...]  # "numpy 2.4.0"
    arithmetic: str  # `arithmetic_digest`
    traces: str = ""  # `traces_digest` of the folder that the run reads; empty = it reads none


def environment(traces: Path | None = None) -> Environment:
    """The environment of this process. `traces`: the folder that the run reads."""
    return Environment(
        ".".join(platform.python_version_tuple()[:2]),
        storage.code_digest(),
        libraries(),
        arithmetic_digest(),
        traces_digest(traces) if traces else "",
    )


def difference(there: Environment, here: Environment) -> str:
    """The first difference, as a clause for an error message; empty if there is none."""
    if there.python != here.python:
        return f"it has Python {there.python}, this machine {here.python}"
    if there.sources != here.sources:
        return f"it has other sources of cotenant (digest {there.sources}, here {here.sources})"
    if there.libraries != here.libraries:
        theirs, ours = set(there.libraries) - set(here.libraries), set(here.libraries) - set(there.libraries)
        return f"it has {_listed(theirs)}, this machine {_listed(ours)}"
    if there.arithmetic != here.arithmetic:
        return (
            "elementary functions differ there in the last bits (another processor or C library); "
            "NumPy's NPY_DISABLE_CPU_FEATURES can make both use the same instructions"
        )
    if there.traces != here.traces:
        return f"its traces are {there.traces or 'none'}, here {here.traces or 'none'}"
    return ""


def libraries() -> tuple[str, ...]:
    """Name and version of each library that calculates; those that are not installed are left out."""
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)


@lru_cache(maxsize=1)
def arithmetic_digest() -> str:
    """Sixteen hexadecimal digits of elementary functions at fixed points, by NumPy, its generator and the C library."""
    # Exact fractions: these points are the same on every machine.
    points = (np.arange(1, _POINTS + 1, dtype=np.float64) * 0.0078125) + 0.0009765625
    with np.errstate(all="ignore"):
        values = [
            np.exp(points),
            np.exp(-points),
            np.log(points),
            np.log1p(points),
            np.expm1(-points),
            np.power(points, 0.7),
            np.sqrt(points),
            np.sin(points),
            np.cos(points),
            np.tanh(points),
            np.cumsum(1 / points),
            np.array([points.sum(), points.std(), points @ np.sqrt(points)]),
        ]
    random = np.random.default_rng(0)
    values += [random.standard_normal(_POINTS), random.standard_exponential(_POINTS)]
    values += [random.gamma(1.2, 0.4, _POINTS), random.lognormal(0, 0.5, _POINTS)]
    values += [
        np.array([function(x) for x in points.tolist()]) for function in (math.exp, math.log, math.sin, math.erfc)
    ]
    digest = hashlib.sha256()
    for column in values:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()[:16]


def traces_digest(folder: Path) -> str:
    """Number and size of the files in a folder of traces, with a digest of their names and sizes: "12 files, 3456
    bytes (1a2b3c4d)".
    """
    digest = hashlib.sha256()
    count = size = 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        own = path.stat().st_size
        digest.update(f"{path.relative_to(folder).as_posix()}\0{own}\0".encode())
        count += 1
        size += own
    return f"{count} files, {size} bytes ({digest.hexdigest()[:8]})"


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none of them"
