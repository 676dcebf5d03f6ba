"""`kernels`: which kernel parameters and scheduler suit a Redis beside batch, at low and at high load.

A zone in a virtual machine chooses its kernel, and folklore says that at low load wake-ups count and at high load ticks
cost. Each kernel is booted with each preemption model that it knows, on a clock that counts instructions, and runs the
same loads under the fair class, weights and each of our schedulers (kernel_loads.py). The claims are pass lines, so a
kernel that contradicts one shows it.
Guests of one kernel differ all the same, since their root's files come at this host's pace: several rounds, and ratios
of kernels have intervals over guests.
Limits: as of site/kernel_guest.py and kernel_loads.py; a model that the kernel does not know is left out and named;
claims about ticks need images that differ in nothing else.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.pages.figures import rival
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Findings, Picture
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.studies.kernel_loads import ALONE, FAIR, WEIGHTS
from cotenant_lab.statistics import independent_ratio

MODULE = "cotenant_lab.experiments.studies.kernel_loads"
MODELS = ("full", "lazy", "none")
SCHEDULERS = (FAIR, WEIGHTS, "latency", "throughput", "weighted")
Runner = Callable[[Kernel, str, str, Callable[[str], None]], Awaitable[GuestRun]]


@dataclass(frozen=True, slots=True)
class KernelArm:
    """One scheduler under one kernel. Milliseconds at low load, of all rounds; requests at high load, of the median
    round.
    """

    hz: int
    preempt: str
    scheduler: str
    latencies_ms: tuple[float, ...]  # sorted
    batch_cpus: float
    requests_per_s: float
    requests_per_cpu_s: float
    by_round: tuple[float, ...] = ()  # requests a second, sorted
    p99_by_round: tuple[float, ...] = ()  # milliseconds, sorted
    per_cpu_by_round: tuple[float, ...] = ()  # requests a CPU second, sorted

    def quantile(self, share: float) -> float:
        """Of the latencies."""
        return _quantile(self.latencies_ms, share)

    @property
    def kernel(self) -> str:
        """As rows name it."""
        return f"{self.hz} Hz, {self.preempt}"


async def measure(
    kernels: Sequence[Kernel],
    run: Runner,
    say: Callable[[str], None],
    rounds: int = 3,
    at_once: int = len(os.sched_getaffinity(0)),
) -> Findings:
    """Every kernel with every model, each in so many guests of its own, so many at once. Raises `Permanent` where a
    guest fails.
    """
    free = asyncio.Semaphore(at_once)

    async def one(kernel: Kernel, model: str) -> GuestRun:
        async with free:
            return await run(kernel, model, MODULE, say)

    asked = [(kernel, model) for kernel in kernels for model in MODELS for _ in range(rounds)]
    runs: dict[tuple[int, str, str], list[JsonObject]] = {}
    unknown: dict[str, None] = {}
    for (_, model), found in zip(asked, await asyncio.gather(*(one(*each) for each in asked)), strict=True):
        for name, figures in found.result.items():
            runs.setdefault((found.hz, found.preempt, name), []).append(figures)
        if found.preempt != model:
            unknown[f"preempt={model} at {found.hz} Hz, for Linux {found.kernel} runs {found.preempt} instead"] = None
    return judged([_arm(*key, figures) for key, figures in runs.items()], list(unknown), rounds)


def _arm(hz: int, preempt: str, scheduler: str, rounds: Sequence[JsonObject]) -> KernelArm:
    by_round = tuple(sorted(float(one["requests_per_s"]) for one in rounds))
    return KernelArm(
        hz,
        preempt,
        scheduler,
        tuple(sorted(chain.from_iterable(one["latencies_ms"] for one in rounds))),
        median(one["batch_cpus"] for one in rounds),
        median(by_round),
        median(one["requests_per_cpu_s"] for one in rounds),
        by_round,
        tuple(sorted(_quantile(sorted(one["latencies_ms"]), 0.99) for one in rounds)),
        tuple(sorted(float(one["requests_per_cpu_s"]) for one in rounds)),
    )


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]


def judged(arms: Sequence[KernelArm], unknown: Sequence[str], rounds: int) -> Findings:
    """The result of these measurements. `unknown`: models that a kernel did not take. Raises `Permanent` without a
    single arm.
    """
    if not arms:
        raise Permanent(f"no kernel ran: {'; '.join(unknown)}")
    shown = [arm for arm in arms if arm.scheduler != ALONE]
    return Findings(
        experiment="kernels",
        title="Redis beside batch on one CPU, by tick, preemption model and scheduler",
        rounds=rounds,
        discarded=(),
        seed=0,
        figures={"arms": [_plain(arm) for arm in arms], "unknown": list(unknown)},
        checks=_checks(arms),
        columns=(
            *("Hz, preempt", "scheduler", "low: p50 ms", "p99 ms", "p99 from to", "max ms", "batch CPUs"),
            *("high: req/s", "req/s from to", "req/ CPU s"),
        ),
        rows=tuple(
            (
                f"{arm.hz} {arm.preempt}",
                arm.scheduler,
                *(_ms(arm.quantile(share)) for share in (0.5, 0.99)),
                f"{_ms(arm.p99_by_round[0])}–{_ms(arm.p99_by_round[-1])}" if arm.p99_by_round else "",
                _ms(arm.quantile(1)),
                f"{arm.batch_cpus:.2f}",
                f"{arm.requests_per_s:.0f}",
                f"{arm.by_round[0]:.0f}–{arm.by_round[-1]:.0f}" if arm.by_round else "",
                f"{arm.requests_per_cpu_s:.0f}",
            )
            for arm in arms
        ),
        notes=(*_findings(shown), *_ticks(arms), *(f"Not shown: {model}." for model in unknown)),
        pictures=(_latencies(shown), _requests(arms)),
    )


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _plain(arm: KernelArm) -> JsonObject:
    return {
        "hz": arm.hz,
        "preempt": arm.preempt,
        "scheduler": arm.scheduler,
        **{name: arm.quantile(share) for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1))},
        "batch_cpus": arm.batch_cpus,
        "requests_per_s": arm.requests_per_s,
        "requests_per_s_by_round": list(arm.by_round),
        "p99_ms_by_round": list(arm.p99_by_round),
        "requests_per_cpu_s": arm.requests_per_cpu_s,
        "requests_per_cpu_s_by_round": list(arm.per_cpu_by_round),
    }


def _checks(arms: Sequence[KernelArm]) -> tuple[FigureCheck, ...]:
    """The claims, as far as the kernels that ran can show them; the fair class unless another is named."""
    by = {(arm.hz, arm.preempt, arm.scheduler): arm for arm in arms}
    ticks = sorted({arm.hz for arm in arms})
    slow, fast = ticks[0], ticks[-1]
    checks = []
    for hz in ticks:
        if (hz, "full", FAIR) in by and (hz, "lazy", FAIR) in by:
            full, lazy = by[hz, "full", FAIR], by[hz, "lazy", FAIR]
            checks.append(_check(f"low load, {hz} Hz: p99, full / lazy", full.p99_by_round, lazy.p99_by_round))
    if slow != fast:
        for model in ("lazy", "full"):
            if (slow, model, FAIR) in by and (fast, model, FAIR) in by:
                ends = f"{fast} Hz / {slow} Hz"
                after, before = by[fast, model, FAIR].p99_by_round, by[slow, model, FAIR].p99_by_round
                checks.append(_check(f"low load, {model}: p99, {ends}", after, before))
                after, before = by[fast, model, ALONE].per_cpu_by_round, by[slow, model, ALONE].per_cpu_by_round
                checks.append(_check(f"high load alone, {model}: requests a CPU second, {ends}", after, before))
    return tuple(checks)


def _check(what: str, first: Sequence[float], second: Sequence[float]) -> FigureCheck:
    ratio, *ends = independent_ratio(first, second)
    low, high = (None if math.isnan(end) else end for end in ends)
    return FigureCheck(what, ratio, 1.0, low=low, high=high)


def _ticks(arms: Sequence[KernelArm]) -> tuple[str, ...]:
    """What more ticks change under each scheduler, where kernels of two ticks ran."""
    by = {(arm.hz, arm.preempt, arm.scheduler): arm for arm in arms}
    ticks = sorted({arm.hz for arm in arms})
    slow, fast = ticks[0], ticks[-1]
    if slow == fast:
        return ()
    shown: tuple[tuple[str, Callable[[KernelArm], Sequence[float]]], ...] = (
        ("p99 at low load", lambda arm: arm.p99_by_round),
        ("requests a CPU second at high load", lambda arm: arm.per_cpu_by_round),
    )
    lines = []
    for model in sorted({arm.preempt for arm in arms}):
        of = [(name, by.get((fast, model, name)), by.get((slow, model, name))) for name in (ALONE, *SCHEDULERS)]
        for what, figure in shown:
            words = [
                f"{name} {_ratio(figure(after), figure(before))}" for name, after, before in of if after and before
            ]
            lines.append(f"{fast} Hz / {slow} Hz, {model}, {what}: {', '.join(words)}.")
    return tuple(lines)


def _ratio(first: Sequence[float], second: Sequence[float]) -> str:
    ratio, low, high = independent_ratio(first, second)
    return f"{ratio:.2f}" if math.isnan(low) else f"{ratio:.2f} ({low:.2f} to {high:.2f})"


def _findings(shown: Sequence[KernelArm]) -> tuple[str, str]:
    quick = min(shown, key=lambda arm: arm.quantile(0.99))
    late = max(shown, key=lambda arm: arm.quantile(0.99))
    cheap = max(shown, key=lambda arm: arm.requests_per_cpu_s)
    dear = min(shown, key=lambda arm: arm.requests_per_cpu_s)
    most = max(shown, key=lambda arm: arm.requests_per_s)
    return (
        f"Low load: the least p99 has {quick.kernel}, {quick.scheduler} ({quick.quantile(0.99):.2f} ms), the most "
        f"{late.kernel}, {late.scheduler} ({late.quantile(0.99):.2f} ms).",
        f"High load: most requests a second with {most.kernel}, {most.scheduler} ({most.requests_per_s:.0f}); a CPU "
        f"second brings {cheap.requests_per_cpu_s:.0f} requests at most ({cheap.kernel}, {cheap.scheduler}) and "
        f"{dear.requests_per_cpu_s:.0f} at least ({dear.kernel}, {dear.scheduler}).",
    )


def _latencies(shown: Sequence[KernelArm]) -> Picture:
    """How many requests were answered later than so, for each scheduler a panel."""
    panels = []
    for scheduler in SCHEDULERS:
        of = [arm for arm in shown if arm.scheduler == scheduler]
        curves = [
            Curve(
                arm.kernel,
                arm.latencies_ms,
                [100 * (1 - rank / len(arm.latencies_ms)) for rank in range(len(arm.latencies_ms))],
                rival(number),
                is_dashed=arm.preempt == "lazy",
            )
            for number, arm in enumerate(of)
        ]
        panels.append((scheduler, curves))
    return Picture(
        "Low load: requests answered later than",
        "milliseconds after they were due",
        "% of requests",
        panels,
        x_log=True,
    )


def _requests(arms: Sequence[KernelArm]) -> Picture:
    """What a CPU second brings, by tick."""
    models = sorted({arm.preempt for arm in arms})
    panels = []
    for model in models:
        curves = []
        for number, scheduler in enumerate((ALONE, FAIR, "latency")):
            of = sorted(
                (arm for arm in arms if (arm.preempt, arm.scheduler) == (model, scheduler)), key=lambda arm: arm.hz
            )
            x, y = [float(arm.hz) for arm in of], [arm.requests_per_cpu_s for arm in of]
            curves.append(Curve(scheduler, x, y, rival(number), is_points=True))
        panels.append((f"preempt={model}", curves))
    return Picture("High load: what a second of the service's CPU brings", "ticks a second", "requests", panels)
