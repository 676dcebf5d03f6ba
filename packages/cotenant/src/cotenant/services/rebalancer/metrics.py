"""The rebalancer's metrics, read from the engine when a scrape asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from cotenant.drivers.metrics.registry import MetricsRegistry, Sample
from cotenant.engine.migration.migrations import Migrations
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.model.groups.migration import JobPhase


class RoundCounts(Protocol):
    """Counts of rounds (see `RoundTotals` in rebalancer_process.py)."""

    number: int
    planned: int
    created: int
    seconds: float
    last: MovePlan | None
    writes: dict[str, int]
    helped: dict[str, int]


def register(
    registry: MetricsRegistry,
    migrations: Migrations,
    rounds: RoundCounts,
    *,
    leads: Callable[[], bool],
    acts: bool,
    now: Callable[[], float],
    malformed: Callable[[], dict[str, int]],
) -> None:
    """Add the metrics."""
    gauge, counter = GaugeMetricFamily, CounterMetricFamily

    def one(value: Callable[[], float]) -> Callable[[], list[Sample]]:
        return lambda: [((), float(value()))]

    def by(values: Callable[[], Mapping[str, int]]) -> Callable[[], Iterator[Sample]]:
        return lambda: (((name,), float(count)) for name, count in sorted(values().items()))

    def phases() -> Mapping[str, int]:
        found = Counter(str(job.phase) for job in migrations.jobs.values())
        return {str(phase): found[str(phase)] for phase in JobPhase}

    def nodes() -> Mapping[str, int]:
        plan = rounds.last
        pools = plan.pools if plan is not None else ()
        return {
            "overloaded": sum(len(pool.overloaded) for pool in pools),
            "underused": sum(pool.underused for pool in pools),
            "unmeasured": len(plan.unmeasured) if plan is not None else 0,
        }

    registry.read(gauge, "cotenant_rebalancer_leading", "1 while this replica leads.", (), one(leads))
    registry.read(
        gauge, "cotenant_rebalancer_acting", "1 where moves are carried out, 0 in a dry run.", (), one(lambda: acts)
    )
    registry.read(counter, "cotenant_rebalancer_rounds", "Rounds of planning.", (), one(lambda: rounds.number))
    registry.read(
        gauge, "cotenant_rebalancer_round_cpu_seconds", "CPU time of the last round.", (), one(lambda: rounds.seconds)
    )
    registry.read(
        counter,
        "cotenant_rebalancer_planned_moves",
        "Moves planned, also in a dry run.",
        (),
        one(lambda: rounds.planned),
    )
    registry.read(
        counter, "cotenant_rebalancer_created_jobs", "PodMigrationJobs created.", (), one(lambda: rounds.created)
    )
    registry.read(
        gauge,
        "cotenant_rebalancer_nodes",
        "Nodes in the last round: overloaded, underused, unmeasured.",
        ("state",),
        by(nodes),
    )
    registry.read(gauge, "cotenant_rebalancer_jobs", "PodMigrationJobs by phase.", ("phase",), by(phases))
    registry.read(
        counter,
        "cotenant_rebalancer_writes",
        "Writes by outcome: done, conflict, refused.",
        ("outcome",),
        by(lambda: rounds.writes),
    )
    registry.read(
        counter,
        "cotenant_rebalancer_proofs",
        "Moves by whether they helped: True, False, Unknown.",
        ("helped",),
        by(lambda: rounds.helped),
    )
    registry.read(
        gauge,
        "cotenant_rebalancer_backed_off_kinds",
        "Kinds of moves that are backed off.",
        (),
        one(lambda: len(migrations.resting(now()))),
    )
    registry.read(
        counter, "cotenant_rebalancer_unreadable", "Objects that could not be read, by kind.", ("kind",), by(malformed)
    )


def read_spans(registry: MetricsRegistry, samples: Callable[[], Iterable[Sample]]) -> None:
    """Add the spans by outcome, where they are on."""
    about = "Spans of rounds and moves, by outcome: exported, refused by the receiver, or dropped."
    registry.read(CounterMetricFamily, "cotenant_rebalancer_spans", about, ("outcome",), samples)
