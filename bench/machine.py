"""Shared by the benchmarks: description of the machine, CPU-time medians, and output as a table or JSON."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numba
import numpy as np


def machine() -> dict[str, Any]:
    """The processor, its count, the current load, and the relevant versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def cpu_seconds(measured: Callable[[], object]) -> float:
    """Process CPU time of one call, which is robust on a shared machine."""
    start = process_time()
    measured()
    return process_time() - start


def median_seconds(prepare: Callable[[], Any], measured: Callable[[Any], object], repeats: int) -> float:
    """Median CPU time of `measured(prepare())`, excluding the preparation."""
    taken = []
    for _ in range(repeats):
        state = prepare()
        start = process_time()
        measured(state)
        taken.append(process_time() - start)
    return statistics.median(taken)


def peak_memory_mib() -> float:
    """The largest resident size of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(rows: Sequence[dict[str, Any]], as_json: bool, notes: Sequence[str] = ()) -> None:
    """Print the rows as one JSON object on one line, with the name of the running benchmark, or as a table."""
    if as_json:
        program = Path(sys.argv[0])
        name = program.parent.name if program.stem == "__main__" else program.stem
        print(json.dumps({"bench": name, "rows": list(rows), "machine": machine(), "notes": list(notes)}), flush=True)
        return
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[_cell(row.get(name, "")) for name in names] for row in rows]
        widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
        for line in [names, *cells]:
            print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))
    about = machine()
    print(f"{about['cpu']}, {about['cpus']} CPUs, load {about['load_1min']}; numba {about['numba']}")
    for note in notes:
        print(note)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
