"""Cold start: the time until a command answers. Goal: `cotenant --help` within 0.5 s.

    python -m bench.coldstart [COMMAND ...]       default: cotenant --help, by this Python

Wall and CPU time of the whole process, medians over the runs, the first run (cold file cache) separately; peak memory
of the child.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter

from bench.machine import show

OURS = (
    sys.executable,
    "-c",
    "import sys; from cotenant.cli.main import main; sys.argv = ['cotenant', '--help']; main()",
)


def one_run(command: list[str]) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds and exit status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = perf_counter()
    status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
    wall = perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, status


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.coldstart", description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: cotenant --help")
    given = parser.parse_args()
    command = given.command or list(OURS)
    first, *later = (one_run(command) for _ in range(given.repeats + 1))
    if any(status for _, _, status in (first, *later)):
        raise SystemExit(f"bench.coldstart: {' '.join(command)}: exits with {first[2]}")
    peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    row = {
        "command": "cotenant --help" if command == list(OURS) else " ".join(command),
        "first_s": round(first[0], 3),
        "wall_s": round(median(wall for wall, _, _ in later), 3),
        "cpu_s": round(median(cpu for _, cpu, _ in later), 3),
        "peak_mib": round(peak_kib / 1024, 1),
        "runs": len(later),
    }
    show([row], given.json, (f"load {os.getloadavg()[0]:.1f} while measured",))


if __name__ == "__main__":
    main()
