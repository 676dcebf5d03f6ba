"""`schedulers --linux`: which of our objects and schedulers load and behave on which kernel.

A zone on a node has that node's kernel, and sched_ext changed with every release from 6.12 on. Each kernel is booted in
a guest of one core with two threads, which loads every object and gives each scheduler three cases: its claim, the
longest wait beside tasks that never sleep, and the kernel's watchdog against it without its bound
(scheduler_trials.py). What a kernel refuses is in the table with the reason; it fails where that kernel should have
taken it.
Limits: as of the trials; one guest a kernel. A kernel without sched_ext, and one whose type information is broken, are
told and fail nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.ebpf.sched_ext import has_sub_schedulers
from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import ZoneMode
from cotenant_lab.experiments.outcome import FigureCheck, Findings
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.studies.scheduler_trials import BOUND, CLAIM, EJECTED, FIGURES, SUB

MODULE = "cotenant_lab.experiments.studies.scheduler_trials"
PREEMPT = "full"
CPUS = THREADS_OF_A_CORE = 2
LONGEST_WAIT_S = 4.0  # the bound is 1 s, then a turn of each who waits; on 7.2 and 7.3 a turn may be lost, twice
LONGEST_EJECTION_S = 8.0  # the watchdog looks twice within its limit of 5 s
LEAST_AFTER_S = 0.05  # of who starved, in the half second after the ejection
# between these the claim holds
CLAIMS: dict[ZoneMode, tuple[float, float]] = {
    ZoneMode.LATENCY: (0, 3),  # a turn is 4 ms
    ZoneMode.THROUGHPUT: (12, 60),
    ZoneMode.WEIGHTED: (5, 14),
    ZoneMode.EXCLUSIVE: (0, 0),
    ZoneMode.SIBLINGS: (0, 0.2),
    ZoneMode.APART: (0, 0.05),
}
# in the reason that drivers/ebpf gives, and where Debian's packages are known for it
_BROKEN, _BROKEN_SERIES = "broken type information", ("7.1.", "7.2.")
Runner = Callable[[Kernel, str, str, Callable[[str], None], int, int, Sequence[str]], Awaitable[GuestRun]]


@dataclass(frozen=True, slots=True)
class KernelTrial:
    """What one kernel came to. `refused`: why it was not booted, "" where it was."""

    kernel: str
    refused: str = ""
    result: JsonObject | None = None


async def measure(
    kernels: Mapping[str, Kernel | str],
    run: Runner,
    say: Callable[[str], None],
    modes: Sequence[ZoneMode] = (),
    at_once: int = len(os.sched_getaffinity(0)),
) -> Findings:
    """Each kernel in a guest, so many at once; in place of a kernel the reason why it is not tried. Raises `Permanent`
    where a guest fails.
    """
    free = asyncio.Semaphore(at_once)

    async def one(version: str, kernel: Kernel | str) -> KernelTrial:
        if isinstance(kernel, str):
            return KernelTrial(version, kernel)
        async with free:
            words = [mode.value for mode in modes]
            found = await run(kernel, PREEMPT, MODULE, say, CPUS, THREADS_OF_A_CORE, words)
        if not found.result:
            raise Permanent(f"Linux {found.kernel} runs preempt={found.preempt} and not {PREEMPT}")
        return KernelTrial(found.kernel, "", found.result)

    return judged(await asyncio.gather(*(one(version, kernel) for version, kernel in kernels.items())))


def judged(trials: Sequence[KernelTrial]) -> Findings:
    """The result of these trials."""
    tried = [trial for trial in trials if trial.result is not None]
    failures = {trial.kernel: _failures(trial) for trial in tried}
    return Findings(
        experiment="schedulers",
        title="Which objects and schedulers load and behave on which kernel",
        rounds=1,
        discarded=(),
        seed=0,
        figures={"kernels": [{"kernel": t.kernel, "refused": t.refused, **(t.result or {})} for t in trials]},
        checks=tuple(
            FigureCheck(f"Linux {kernel}: objects and cases that fail", float(len(found)), 0.0)
            for kernel, found in failures.items()
        ),
        columns=("Linux", "object", "for", "loads", "claim", "", "longest wait s", "ejected after s"),
        rows=tuple(row for trial in trials for row in _rows(trial)),
        notes=(
            "Claims: " + "; ".join(f"{mode.value}: {what}, {_ends(mode)}" for mode, what in FIGURES.items()) + ".",
            f"Longest wait: of any task beside others that never sleep, at most {LONGEST_WAIT_S:g} s. Ejected: without "
            "the bound, by the kernel's watchdog, whose limit is 5 s; who starved runs again after it.",
            *(f"Linux {kernel}: {failure}." for kernel, found in failures.items() for failure in found),
        ),
    )


def _ends(mode: ZoneMode) -> str:
    low, high = CLAIMS[mode]
    return f"{low:g} to {high:g}" if low else f"at most {high:g}"


def _rows(trial: KernelTrial) -> list[tuple[str, ...]]:
    if trial.result is None:
        return [(trial.kernel, "", "", trial.refused, "", "", "", "")]
    rows: list[tuple[str, ...]] = [
        (trial.kernel, name, "probe", why or "yes", "", "", "", "") for name, why in trial.result["probes"].items()
    ]
    for one in trial.result["schedulers"]:
        head = (trial.kernel, one["scheduler"], one["back_end"])
        if one["refused"]:
            rows.append((*head, one["refused"], "", "", "", ""))
            continue
        wrong = _wrong(one)
        ejected = one[EJECTED]["after_s"]
        rows.append(
            (
                *head,
                "yes",
                f"{one[CLAIM]:.2f}",
                "behaves" if not wrong else "; ".join(wrong),
                f"{max(one[BOUND].values()):.2f}",
                "no" if ejected is None else f"{ejected:.1f}",
            )
        )
    return rows


def _failures(trial: KernelTrial) -> list[str]:
    """What failed on a kernel that should have taken it."""
    assert trial.result is not None
    found = [f"{name}: {why}" for name, why in trial.result["probes"].items() if why]
    for one in trial.result["schedulers"]:
        name = f"{one['scheduler']} ({one['back_end']})"
        if not one["refused"]:
            found += [f"{name}: {wrong}" for wrong in _wrong(one)]
        elif not _is_known(trial.kernel, one):
            found.append(f"{name}: {one['refused']}")
    return found


def _is_known(kernel: str, one: JsonObject) -> bool:
    """Whether the refusal of a scheduler is this kernel's and not ours."""
    if one["back_end"] == SUB and not has_sub_schedulers(kernel):
        return True
    return _BROKEN in one["refused"] and kernel.startswith(_BROKEN_SERIES)


def _wrong(one: JsonObject) -> list[str]:
    """Which of a scheduler's cases failed."""
    low, high = CLAIMS[ZoneMode(one["scheduler"])]
    found = []
    if not low <= one[CLAIM] <= high:
        found.append(f"claim: {one[CLAIM]:.3g}")
    found += [f"{kind} waited {waited:.2f} s" for kind, waited in one[BOUND].items() if waited > LONGEST_WAIT_S]
    ejected = one[EJECTED]
    if ejected["after_s"] is None or ejected["after_s"] > LONGEST_EJECTION_S or "stall" not in ejected["reason"]:
        found.append(f"not ejected: {ejected['reason'] or 'it went on'}")
    elif ejected["starved_then_s"] < LEAST_AFTER_S:
        found.append(f"after the ejection who starved got {ejected['starved_then_s']:.2f} s")
    return found
