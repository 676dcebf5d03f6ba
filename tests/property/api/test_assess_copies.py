"""A copy in which anything may stand anywhere: it is read, or refused in one line, and figures are finite."""

from __future__ import annotations

import json
from copy import deepcopy
from math import isfinite
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.assessed import budget, node, node_metric, pod, replica_set, resource_quota, snapshot
from tests.property.few import examples

from cotenant.drivers.kube.snapshot.anonymise import Words, anonymised
from cotenant.policy.assess.workloads import by_workload
from cotenant.services.assess import columns
from cotenant.services.assess.asking import waiting
from cotenant.services.assess.cards import cards
from cotenant.services.assess.copying import copied
from cotenant.services.assess.lending import lending
from cotenant.services.assess.measured import with_measured
from cotenant.services.assess.totals import totals

DEVICE = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Device",
    "metadata": {"name": "a"},
    "spec": {"devices": [{"type": "gpu", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}]},
}
CLUSTER = [
    node("a"),
    node("b"),
    pod("p", "a"),
    pod("q"),
    replica_set(2),
    budget(1),
    node_metric("a", {"p": 500}, 900),
    DEVICE,
    resource_quota({"requests.cpu": "1", "pods": "2"}, {"requests.cpu": "1", "pods": "1"}),
]
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=12),
    st.sampled_from(
        ["NaN", "inf", "-1", "1e400", "9999999999999999999999", "0", "1Ei", "2026-13-99T00:00:00Z", "\u0000", "a/b"]
    ),
    st.just([]),
    st.just({}),
    st.just([[[]]]),
    st.just({"": {"": ""}}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything within an object but its kind."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        if path or key not in ("apiVersion", "kind"):
            found += places(part, (*path, key))
    return found


PLACES = [(at, path) for at, obj in enumerate(CLUSTER) for path in places(obj)]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=4))
def test_anything_may_stand_anywhere(changes: list[tuple[tuple[int, tuple[Any, ...]], Any]]) -> None:
    objects = deepcopy(CLUSTER)
    for (at, path), odd in changes:
        part: Any = objects[at]
        for key in path[:-1]:
            if isinstance(part, dict):
                part = part.get(key)
            else:  # a list, or what an earlier change has put there
                part = part[key] if isinstance(part, list) and isinstance(key, int) and key < len(part) else None
            if part is None:
                break
        else:
            if isinstance(part, dict):
                part[path[-1]] = deepcopy(odd)
    given_ = snapshot(json.loads(json.dumps(objects)))
    for copy_of in (given_, anonymised(given_, Words(b"secret"))):
        copy = copied(copy_of)
        nodes, pods = columns.node_columns(copy), columns.pod_columns(copy)
        use = columns.moment(copy, pods)
        workloads = by_workload(columns.by_workload(pods), use.pods.by_workload() if use.pods.use.steps else None)
        lent = lending(copy, pods, use, 0.01)
        cards(copy, pods, use.meters.cards)
        waits = waiting(copy, lent.by_node)
        assert sum(group.pods for group in waits) >= sum(group.placed_now for group in waits)
        with_measured(copy, pods, use)
        figures = [*totals(nodes, pods, use, workloads), *(one.ours for one in lent.amounts)]
        assert all(figure.value is None or isfinite(figure.value) for figure in figures)
