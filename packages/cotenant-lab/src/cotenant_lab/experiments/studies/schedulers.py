"""`schedulers`: what schedulers that know the machine keep apart, in guests of a fitting topology.

A claim such as "batch never runs beside a service on a core's other thread" must be seen on such cores, and few test
machines have them. One guest has two cores of two threads and counts who shared a core (core_loads.py); another has one
CPU and an application whose own threads compete (thread_loads.py); a third has such cores again, and parties that a
rule keeps apart (apart_loads.py); a fourth says what ticks take, the most that a scheduler without them could gain
(tick_loads.py). A scheduler whose figure does not show its claim is not worth having, so the claims are pass lines.
Limits: as of site/kernel_guest.py and the loads; one guest each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from cotenant.drivers.qemu.packages import Kernel
from cotenant.model.errors import Permanent
from cotenant.model.json_object import JsonObject
from cotenant.model.pages.figures import rival
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Findings, Picture
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.studies.thread_loads import BY_NAME, ONE_ROW

CORES = "cotenant_lab.experiments.studies.core_loads"
THREADS = "cotenant_lab.experiments.studies.thread_loads"
APART = "cotenant_lab.experiments.studies.apart_loads"
TICKS = "cotenant_lab.experiments.studies.tick_loads"
PREEMPT = "full"
CPUS, THREADS_OF_A_CORE = 4, 2
Runner = Callable[[Kernel, str, str, Callable[[str], None], int, int], Awaitable[GuestRun]]


async def measure(kernel: Kernel, run: Runner, say: Callable[[str], None]) -> Findings:
    """The guests, one after the other. Raises `Permanent` where one fails, or runs another preemption model."""
    cores = await run(kernel, PREEMPT, CORES, say, CPUS, THREADS_OF_A_CORE)
    threads = await run(kernel, PREEMPT, THREADS, say, 1, 1)
    apart = await run(kernel, PREEMPT, APART, say, CPUS, THREADS_OF_A_CORE)
    ticks = await run(kernel, PREEMPT, TICKS, say, 1, 1)
    for found in (cores, threads, apart, ticks):
        if not found.result:
            raise Permanent(f"Linux {found.kernel} runs preempt={found.preempt} and not {PREEMPT}")
    return judged(cores.result["arms"], threads.result["arms"], apart.result["arms"], ticks.result["arms"])


def judged(
    cores: Sequence[JsonObject], threads: JsonObject, apart: Sequence[JsonObject], ticks: JsonObject
) -> Findings:
    """The result of these measurements."""
    works = sorted({arm["work_ms"] for arm in cores})
    beside = {(arm["scheduler"], arm["work_ms"]): arm["beside_share"] for arm in cores}
    p99 = {name: _quantile(arm["delays_ms"], 0.99) for name, arm in threads.items()}
    checks = [
        FigureCheck(
            f"services that work {work:g} ms: time beside batch, siblings / latency",
            beside["siblings", work] / max(beside["latency", work], 1e-9),
            0.5,  # 0.24 to 0.31 in runs with 20 ms
        )
        for work in works
    ]
    checks.append(FigureCheck("wake-up delay p99, rows by name / one row", p99[BY_NAME] / p99[ONE_ROW], 0.1))
    together = {(arm["load"], arm["scheduler"]): arm["beside_share"] for arm in apart}
    checks += [
        FigureCheck(
            f"{load}: time beside the other party, apart / latency",
            together[load, "apart"] / max(together[load, "latency"], 1e-9),
            0.1,
        )
        for load in sorted({arm["load"] for arm in apart})
    ]
    return Findings(
        experiment="schedulers",
        title="Schedulers that know the machine: who shares a core, what runs at once, threads of one application",
        rounds=1,
        discarded=(),
        seed=0,
        figures={
            "cores": list(cores),
            "threads": {name: _plain(arm) for name, arm in threads.items()},
            "apart": list(apart),
            "ticks": ticks,
        },
        checks=tuple(checks),
        columns=("load", "scheduler", "beside batch", "CPUs of services", "CPUs of batch", "delay p50 ms", "p99 ms"),
        rows=(
            *(
                (
                    f"two services, {arm['work_ms']:g} ms",
                    arm["scheduler"],
                    f"{100 * arm['beside_share']:.1f} %",
                    f"{arm['service_cpus']:.2f}",
                    f"{arm['batch_cpus']:.2f}",
                    "",
                    "",
                )
                for arm in cores
            ),
            *(
                (
                    f"parties, {arm['load']}",
                    arm["scheduler"],
                    f"{100 * arm['beside_share']:.1f} %",
                    f"{arm['one_cpus']:.2f}",
                    f"{arm['other_cpus']:.2f}",
                    "",
                    "",
                )
                for arm in apart
            ),
            *(
                (
                    "one application",
                    name,
                    "",
                    "",
                    f"{arm['compaction_cpus']:.2f}",
                    f"{_quantile(arm['delays_ms'], 0.5):.2f}",
                    f"{p99[name]:.2f}",
                )
                for name, arm in threads.items()
            ),
        ),
        notes=(
            "A guest that counts instructions runs one CPU at a time, and an interrupt waits for its CPU's turn: the "
            "rest of the time beside batch is a cost of each start of a service, so that it falls with longer work.",
            "What is not a task's own where nothing else wants its CPU: "
            + ", ".join(
                f"{100 * arm['lost_share']:.2f} % in {arm['gaps_per_s']:.0f} gaps a second under {name}"
                for name, arm in ticks.items()
            )
            + ".",
        ),
        pictures=(
            Picture(
                "Wake-ups later than",
                "milliseconds late",
                "% of wake-ups",
                [("threads of one application", [_curve(number, *arm) for number, arm in enumerate(threads.items())])],
                x_log=True,
            ),
        ),
    )


def _curve(number: int, name: str, arm: JsonObject) -> Curve:
    delays = arm["delays_ms"]
    shares = [100 * (1 - rank / len(delays)) for rank in range(len(delays))]
    return Curve(name, delays, shares, rival(number))


def _plain(arm: JsonObject) -> JsonObject:
    delays = arm["delays_ms"]
    found = {name: _quantile(delays, share) for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1))}
    return {**found, "compaction_cpus": arm["compaction_cpus"]}


def _quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
