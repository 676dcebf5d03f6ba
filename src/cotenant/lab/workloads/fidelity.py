"""How close generated work comes to what it claims to be calibrated on: published figure against generated, with a stated tolerance.

The published figures are those of the whole population of Alibaba 2018's DAG batch jobs (Tian, Zheng, Wang, SoCC 2019) and of Alibaba's
2018 contest containers. Figures weighted by instances need a wide tolerance: one per cent of the tasks holds half of the instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cotenant.lab.workloads.day_curves import Services
from cotenant.lab.workloads.generator import BatchTrace
from cotenant.model.arrays import Float, Int

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True, slots=True)
class Figure:
    """One statistic. It holds where |generated - published| is at most relative x |published| + absolute."""

    name: str
    published: float
    generated: float
    relative: float
    absolute: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the generated figure is within its tolerance."""
        return abs(self.generated - self.published) <= self.relative * abs(self.published) + self.absolute


# name: mean and the quantiles at SHARES; relative tolerance of each, absolute tolerance (the grain of the values)
_TASKS_PER_JOB = (3.38, 2, 4, 7, 11, 20, 36)
_INSTANCES = (43.1, 1, 4, 47, 176, 844, 3_526)
_TASK_S = (44.8, 5, 22, 96, 227, 603, 2_033)
_INSTANCE_S = (35.4, 11, 32, 87, 147, 373)
_PLAN_MEMORY = (0.327, 0.30, 0.39, 0.49, 0.59, 0.59, 0.79)
_CPU_USED = (64.4, 67, 88, 101, 115, 168, 243)
_MEMORY_USED = (0.143, 0.05, 0.12, 0.33, 0.70, 1.30, 3.05)
_SHORT = (0.01, 0.01, 0.01, 0.03, 0.03, 0.05, 0.08)
_LONG = (0.05, 0.02, 0.03, 0.04, 0.05, 0.06, 0.15)
_WEIGHTED = (0.25, 0.08, 0.08, 0.10, 0.15, 0.20)


def compare_batch(trace: BatchTrace) -> tuple[Figure, ...]:
    """Published against generated. The tolerances suit 100,000 jobs and more."""
    sizes = np.diff(trace.job_offset)
    duration = trace.end_s - trace.start_s
    depth = np.maximum.reduceat(trace.level, trace.job_offset[:-1])
    gaps = np.diff(trace.arrival_s)
    weight = trace.instances
    figures = [
        *_table("tasks per job", sizes, _TASKS_PER_JOB, _SHORT, 1),
        *_table("instances per task", weight, _INSTANCES, _LONG, 1),
        *_table("task duration s", duration, _TASK_S, _LONG, 1),
        *_table("instance duration s", trace.instance_s, _INSTANCE_S, _WEIGHTED, 1, weight),
        *_table("plan memory %", trace.plan_memory, _PLAN_MEMORY, (0.01,) * 7, 0.02),
        *_table("used CPU", trace.cpu_used, _CPU_USED, (0.02,) * 7, 1),
        *_table("used memory %", trace.memory_used, _MEMORY_USED, _LONG, 0.01),
    ]
    for size, share in ((1, 0.38), (2, 0.20), (3, 0.13), (4, 0.07), (5, 0.05)):
        figures.append(Figure(f"jobs of {size} tasks", share, float(np.mean(sizes == size)), 0.0, 0.008))
    figures.append(Figure("tasks of one instance", 0.662, float(np.mean(weight == 1)), 0.01))
    for most, share, tolerance in (
        (10, 0.181, 0.03),
        (100, 0.067, 0.04),
        (1_000, 0.0082, 0.08),
        (10_000, 0.00026, 0.35),
    ):
        figures.append(Figure(f"tasks above {most:,} instances", share, float(np.mean(weight > most)), tolerance))
    figures += [
        Figure("variation of instances per task", 8.0, float(weight.std() / weight.mean()), 0.10),
        Figure("instances in the top 1 % of tasks", 0.48, _share_of_top(weight), 0.06),
        Figure("task durations of zero", 0.077, float(np.mean(duration == 0)), 0.03),
        Figure("instance durations of zero", 0.020, float(weight[trace.instance_s == 0].sum() / weight.sum()), 0.20),
        *_log_normal("task duration", duration, np.ones_like(weight), 2.15, 1.71, 0.02),
        *_log_normal("instance duration", trace.instance_s, weight, 2.44, 1.51, 0.06),
        Figure("plan CPU of half a core", 0.419, float(np.mean(trace.plan_cpu == 50)), 0.02),
        Figure("plan CPU of one core", 0.581, float(np.mean(trace.plan_cpu == 100)), 0.02),
        Figure("plan CPU", 79.1, float(trace.plan_cpu.mean()), 0.01),
        Figure("plan CPU by instances", 86.0, _mean(trace.plan_cpu, weight), 0.05),
        Figure("plan memory % by instances", 0.38, _mean(trace.plan_memory, weight), 0.07),
        Figure("used / planned CPU", 0.75, _mean(trace.cpu_used, weight) / _mean(trace.plan_cpu, weight), 0.08),
        Figure(
            "used / planned memory", 0.37, _mean(trace.memory_used, weight) / _mean(trace.plan_memory, weight), 0.15
        ),
        Figure("job gaps of 0 s", 0.81, float(np.mean(gaps == 0)), 0.01),
        Figure("job gaps of 1 s", 0.18, float(np.mean(gaps == 1)), 0.03),
        Figure("job gaps of 2 s", 0.011, float(np.mean(gaps == 2)), 0.10),
    ]
    for value, share in ((0.20, 0.34), (0.30, 0.23), (0.39, 0.22), (0.49, 0.12), (0.59, 0.06)):
        generated = float(np.mean(np.isclose(trace.plan_memory, value)))
        figures.append(Figure(f"plan memory of {value:.2f} %", share, generated, 0.03, 0.006))
    for size, length, tolerance in ((5, 3.7, 0.02), (10, 5.2, 0.04), (20, 7.5, 0.08)):
        figures.append(Figure(f"longest path of {size} tasks", length, float(depth[sizes == size].mean()), tolerance))
    return tuple(figures)


def compare_services(services: Services) -> tuple[Figure, ...]:
    """Published against generated. The tolerances suit 9,000 applications and more; few applications hold most containers."""
    count = services.containers
    mean, peak = services.cpu_cores.mean(axis=1), services.cpu_cores.max(axis=1)
    curve = services.cluster_curve()
    total = count @ services.cpu_cores
    figures = [
        Figure("containers per application", 7.3, float(count.mean()), 0.10),
        Figure("containers per application p50", 2, float(np.quantile(count, 0.5)), 0.0),
        Figure("containers per application p90", 12, float(np.quantile(count, 0.9)), 0.10),
        Figure("containers per application p99", 105, float(np.quantile(count, 0.99)), 0.15),
        Figure("least of the cluster's curve", 0.70, float(curve.min()), 0.15),
        Figure("most of the cluster's curve", 1.22, float(curve.max()), 0.08),
        Figure("sum of peaks / peak of the sum", 1.32, float((count * peak).sum() / total.max()), 0.08),
        Figure("memory peak GB", 9.5, _mean(services.memory_gb, count), 0.10),
        Figure("disk GB", 67.0, _mean(services.disk_gb, count), 0.10),
    ]
    for share, cpu, most, memory, disk in (
        (0.5, 1.40, 2.97, 8, 60),
        (0.75, 3.16, 5.93, 8, 60),
        (0.9, 5.97, 9.20, 16, 100),
    ):
        at = f"p{share * 100:g}"
        figures += [
            Figure(f"CPU mean cores {at}", cpu, _quantile(mean, share, count), 0.20),
            Figure(f"CPU peak cores {at}", most, _quantile(peak, share, count), 0.25),
            Figure(f"memory peak GB {at}", memory, _quantile(services.memory_gb, share, count), 0.0),
            Figure(f"disk GB {at}", disk, _quantile(services.disk_gb, share, count), 0.21),
        ]
    return tuple(figures)


def _table(
    name: str,
    values: Int | Float,
    published: tuple[float, ...],
    relative: tuple[float, ...],
    grain: float,
    weight: Int | None = None,
) -> list[Figure]:
    by = np.ones(len(values), dtype=np.int64) if weight is None else weight
    found = [_mean(values, by), *(_quantile(values, share, by) for share in SHARES)]
    names = ["mean", *(f"p{share * 100:g}" for share in SHARES)]
    # a quantile of whole values may fall on either side of a step; a mean may not
    absolute = [0.0, *(grain for _ in SHARES)]
    return [Figure(f"{name} {n}", p, f, r, a) for n, p, f, r, a in zip(names, published, found, relative, absolute)]


def _mean(values: Int | Float, weight: Int) -> float:
    return float(np.sum(values * weight) / weight.sum())


def _quantile(values: Int | Float, share: float, weight: Int) -> float:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, share * below[-1], side="left")])


def _share_of_top(weight: Int) -> float:
    largest = np.sort(weight)[::-1]
    return float(largest[: max(1, len(weight) // 100)].sum() / weight.sum())


def _log_normal(name: str, values: Int, weight: Int, mu: float, sigma: float, tolerance: float) -> list[Figure]:
    """Mean and deviation of the logarithm of what is not zero."""
    some = values > 0
    logarithm, by = np.log(values[some]), weight[some]
    mean = _mean(logarithm, by)
    return [
        Figure(f"{name}, log mean", mu, mean, tolerance),
        Figure(f"{name}, log deviation", sigma, float(np.sqrt(_mean((logarithm - mean) ** 2, by))), tolerance),
    ]
