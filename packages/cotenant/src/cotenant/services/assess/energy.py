"""Energy by tenant, namespace and workload, from the days of Kepler's counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from cotenant.model.assess.figure import AssessedFigure, unknown
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import EnergyGroups, EnergyOf
from cotenant.policy.assess.cards import energy_a_day
from cotenant.policy.assess.use import MIN_DAYS
from cotenant.services.assess.columns import RunningColumns

SHOWN = 10


def energy_figures(history: ClusterHistory) -> tuple[AssessedFigure, ...]:
    """Of pods, and of nodes with what no pod causes."""
    energy = history.meters.energy
    found = []
    for key, title, rows, what in (
        ("energy_pods", "Energy of pods", [joules for _, joules in energy.pods], "all pods"),
        ("energy_nodes", "Energy of nodes", [energy.nodes] if energy.nodes else [], "all nodes, idle or not"),
    ):
        definition = f"what Kepler counted for {what}, mean of the days"
        spent = energy_a_day(rows)
        if spent is None:
            why = energy.why or f"{energy.source} has no value in these days"
            found.append(unknown(key, title, "kWh a day", definition, why))
            continue
        mean, low, high, days = spent
        said = f"{definition}; {energy.source}"
        if days < MIN_DAYS:
            why = f"none: {days} days are known, a range needs {MIN_DAYS}"
            found.append(AssessedFigure(key, title, mean, "kWh a day", said, why))
        else:
            interval = f"the smallest and the largest of {days} days"
            found.append(AssessedFigure(key, title, mean, "kWh a day", said, interval, low, high))
    return tuple(found)


def energy_groups(history: ClusterHistory, pods: RunningColumns) -> EnergyGroups | None:
    """By what pods belong to, those with most first; None where no energy is known. A pod that is gone belongs to its
    namespace, and to its workload where the history knows it.
    """
    if not history.meters.energy.pods:
        return None
    of = history.pods
    workloads = {name: workload for name, workload in zip(of.use.names, of.workload, strict=True) if workload}
    workloads |= {info.seen.pod.key: name for info, name in zip(pods.entries, pods.workload, strict=True)}
    tenants = {info.seen.pod.key: info.seen.pod.tenant for info in pods.entries if info.seen.pod.tenant}

    def by(name: Callable[[str], str]) -> tuple[EnergyOf, ...]:
        groups: defaultdict[str, list[Sequence[float]]] = defaultdict(list)
        for pod, joules in history.meters.energy.pods:
            groups[name(pod)].append(joules)
        spent = {group: energy_a_day(rows) for group, rows in groups.items()}
        known = [EnergyOf(group, kwh[0]) for group, kwh in spent.items() if kwh is not None]
        return tuple(sorted(known, key=lambda one: (-one.kwh_a_day, one.name))[:SHOWN])

    return EnergyGroups(
        by(lambda pod: tenants.get(pod, "none named")) if tenants else (),
        by(lambda pod: pod.partition("/")[0]),
        by(lambda pod: workloads.get(pod, f"{pod.partition('/')[0]}, not known")),
    )
