"""What the probe of waits besides a CPU costs: load averages, histograms, and long waits with who ran. Goal: 0.5 % of a
core at most.

Measured in a guest whose clock counts instructions (Debian's newest kernel, QEMU without hardware help), so that the
figures are the same on a busy host: `bench.stall_load` is what runs there. The guest's core does 250 million
instructions a second; shares are of that core, and of one that does a billion, which a server's core does even where
most of its loads miss the cache. Needs root, QEMU, and the built objects (`make bpf`).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from bench.machine import show
from cotenant.drivers.qemu.kernel import zone_kernel
from cotenant_lab.experiments.site.kernel_guest import run_in_guest

RATES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)  # context switches a second
NS_AN_INSTRUCTION = 4  # of the guest's clock
LOOK_S = 5.0
GOAL_PERCENT = 0.5


def rows_of(found: dict[str, Any], rates: tuple[int, ...] = RATES) -> list[dict[str, Any]]:
    """A row for each rate: what each part takes of the guest's core, and all of it of a core of a billion instructions
    a second.
    """
    switch, look = found["switch_ns"], found["reader"]["look_ms"]
    base, probe, kept = (switch[arm] for arm in ("without", "probe", "with long waits"))
    rows = []
    for rate in rates:
        kernel, history, reader = (rate * (probe - base) / 1e7, rate * (kept - probe) / 1e7, look / LOOK_S / 10)
        whole = kernel + history + reader
        rows.append(
            {
                "switches_per_s": rate,
                "waits_percent": round(kernel, 3),
                "who_ran_percent": round(history, 3),
                "reader_percent": round(reader, 3),
                "of_the_guests_core_percent": round(whole, 3),
                "of_a_core_percent": round(whole / NS_AN_INSTRUCTION, 3),
            }
        )
    return rows


def bound_per_s(found: dict[str, Any]) -> dict[str, int]:
    """The rate at which the goal is reached, on the guest's core and on one of a billion instructions a second."""
    a_switch_ns = found["switch_ns"]["with long waits"] - found["switch_ns"]["without"]
    reader = found["reader"]["look_ms"] / LOOK_S / 10
    return {
        name: max(0, round((GOAL_PERCENT * factor - reader) * 1e7 / a_switch_ns))
        for name, factor in (("the guest's core", 1), ("a core of a billion instructions", NS_AN_INSTRUCTION))
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.stalls", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    given = parser.parse_args()
    run = asyncio.run(
        run_in_guest(zone_kernel(), "full", "bench.stall_load", lambda line: print(line, file=sys.stderr))
    )
    found = run.result
    switch, long_waits, reader = (found[name] for name in ("switch_ns", "long_waits", "reader"))
    notes = (
        f"Linux {run.kernel}. A switch with its wake-up: {switch['without'] / 4:.0f} instructions, with the probe "
        f"{(switch['probe'] - switch['without']) / 4:.0f} more, with who ran "
        f"{(switch['with long waits'] - switch['probe']) / 4:.0f} more.",
        "By the kernel's count: "
        + "; ".join(
            f"{name} {one['ns_a_run'] / 4:.0f} instructions, {one['runs_a_switch']:.2f} runs a switch"
            for name, one in found["programs"].items()
        ),
        f"A storm of long waits: {long_waits['ns_a_run_with_one'] / 4:.0f} instructions a switch "
        f"({long_waits['number']} of {long_waits['runs']} found room), {long_waits['read_us'] * 250:.0f} to read one.",
        f"A look at {reader['groups']} groups and {reader['tasks']} tasks: {reader['look_ms'] * 0.25:.2f} million "
        f"instructions, of them {reader['of_it_counting_ms'] * 0.25:.2f} in the kernel's count of tasks.",
        f"The goal of {GOAL_PERCENT} % is reached at "
        + ", ".join(f"{rate:,} switches a second on {name}" for name, rate in bound_per_s(found).items()),
    )
    show(rows_of(found), given.json, notes)


if __name__ == "__main__":
    main()
