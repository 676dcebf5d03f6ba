"""Energy of a cluster and of what its pods belong to, added up by hand and by a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from random import Random

import numpy as np
import pytest

from cotenant.engine.framework.pod_state import PodInfo
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import NOT_ASKED, Energy, Meters
from cotenant.model.assess.report import EnergyOf
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.services.assess.columns import RunningColumns
from cotenant.services.assess.energy import SHOWN, energy_figures, energy_groups

KWH = 3.6e6  # joules
NO_PODS = RunningColumns((), np.zeros(0, np.int64), np.zeros(0, np.int64), ())


def history(
    pods: Mapping[str, Sequence[float]], nodes: Sequence[float] = (), workloads: Mapping[str, str] | None = None
) -> ClusterHistory:
    """`pods`, `nodes`: kWh of each day; `workloads`: of the pods whose use the history knows."""
    known = workloads or {}
    empty = np.zeros((len(known), 0), np.float32)
    unknown = np.full(len(known), nan, np.float32)
    of_pods = AssessedHistory(0.0, 300.0, tuple(known), empty, empty)
    none = np.zeros((0, 0), np.float32)
    energy = Energy(
        tuple((name, tuple(day * KWH for day in days)) for name, days in pods.items()),
        tuple(day * KWH for day in nodes),
        "by a meter",
        "",
    )
    return ClusterHistory(
        PodHistory(of_pods, ("",) * len(known), tuple(known.values()), unknown, unknown),
        AssessedHistory(0.0, 300.0, (), none, none),
        meters=Meters(energy=energy),
    )


def running(*pods: tuple[str, str, str]) -> RunningColumns:
    """`pods`: namespace/name, tenant, workload."""
    entries = []
    for key, tenant, _ in pods:
        namespace, _, name = key.partition("/")
        entries.append(PodInfo(ObservedPod(Pod(name, namespace=namespace, tenant=tenant), f"u-{name}", "s", 0.0)))
    zeros = np.zeros(len(pods), np.int64)
    return RunningColumns(tuple(entries), zeros, zeros, tuple(workload for _, _, workload in pods))


def test_energy_of_pods_is_the_sum_over_pods_and_the_mean_of_the_days_with_their_range() -> None:
    pods, nodes = energy_figures(history({"a/p": (1.0, 2.0, nan, 3.0), "b/q": (1.0, nan, nan, 0.0)}, (4.0, 8.0, 9.0)))
    assert (pods.key, pods.unit, pods.value, pods.low, pods.high) == (
        "energy_pods",
        "kWh a day",
        pytest.approx(7 / 3),
        2.0,
        3.0,
    )
    assert pods.interval == "the smallest and the largest of 3 days"
    assert (nodes.key, nodes.value, nodes.low, nodes.high) == ("energy_nodes", pytest.approx(7.0), 4.0, 9.0)
    assert pods.definition == "what Kepler counted for all pods, mean of the days; by a meter"
    assert nodes.definition == "what Kepler counted for all nodes, idle or not, mean of the days; by a meter"


def test_two_days_are_a_mean_without_a_range() -> None:
    pods, nodes = energy_figures(history({"a/p": (1.0, 2.0)}, (4.0,)))
    assert (pods.value, pods.low, pods.high) == (pytest.approx(1.5), None, None)
    assert pods.interval == "none: 2 days are known, a range needs 3"
    assert (nodes.value, nodes.interval) == (pytest.approx(4.0), "none: 1 days are known, a range needs 3")


def test_without_values_it_says_why_by_what_was_asked() -> None:
    pods, nodes = energy_figures(history({"a/p": (nan, nan)}))
    assert pods.why == nodes.why == "by a meter has no value in these days"
    assert energy_groups(history({}), NO_PODS) is None
    unasked = replace(history({}), meters=Meters())
    assert [figure.why for figure in energy_figures(unasked)] == [NOT_ASKED, NOT_ASKED]


def test_energy_is_grouped_by_tenant_namespace_and_workload_those_with_most_first() -> None:
    spent = history(
        {"a/p": (1.0, 3.0), "a/gone": (0.5,) * 2, "b/q": (4.0, 4.0), "b/lost": (nan, nan), "c/old": (2.5, 2.5)},
        workloads={"c/old": "c/Job/old", "a/p": "a/Deployment/before", "b/lost": ""},
    )
    found = energy_groups(spent, running(("a/p", "red", "a/Deployment/now"), ("b/q", "", "b/Pod/q")))
    assert found is not None
    # of c/old, which is gone, the history knows the workload; of a/gone nothing
    assert found.workloads == (
        EnergyOf("b/Pod/q", 4.0),
        EnergyOf("c/Job/old", 2.5),
        EnergyOf("a/Deployment/now", 2.0),
        EnergyOf("a, not known", 0.5),
    )
    assert found.namespaces == (EnergyOf("b", 4.0), EnergyOf("a", 2.5), EnergyOf("c", 2.5))
    assert found.tenants == (EnergyOf("none named", 7.0), EnergyOf("red", 2.0))


def test_where_no_pod_names_a_tenant_none_are_given() -> None:
    found = energy_groups(history({"a/p": (1.0,)}), running(("a/p", "", "w")))
    assert found is not None
    assert found.tenants == ()
    assert found.namespaces == (EnergyOf("a", 1.0),)


@pytest.mark.parametrize("seed", range(5))
def test_groups_add_up_day_by_day(seed: int) -> None:
    random = Random(seed)
    names = [f"n{number % 14}/p{number}" for number in range(40)]
    spent = {
        name: [random.choice((nan, float(random.randrange(9)), float(random.randrange(9)))) for _ in range(3)]
        for name in names
    }
    found = energy_groups(history(spent), NO_PODS)
    assert found is not None
    by_namespace = {}
    for namespace in {name.partition("/")[0] for name in names}:
        rows = [days for name, days in spent.items() if name.startswith(f"{namespace}/")]
        days = [[day for day in column if day == day] for column in zip(*rows, strict=True)]
        sums = [sum(day) for day in days if day]
        if sums:
            by_namespace[namespace] = sum(sums) / len(sums)
    expected = sorted(by_namespace.items(), key=lambda one: (-one[1], one[0]))[:SHOWN]
    assert [one.name for one in found.namespaces] == [name for name, _ in expected]
    assert [one.kwh_a_day for one in found.namespaces] == pytest.approx([kwh for _, kwh in expected])
