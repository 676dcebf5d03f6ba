"""How many tenants one namespace may name."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from cotenant.engine.state.namespace_tenants import NamespaceTenants
from cotenant.model.cluster.observed import ObservedPod, PodPhase
from cotenant.model.cluster.pod import Pod


def pod(name: str, tenant: str, namespace: str = "a") -> ObservedPod:
    return ObservedPod(Pod(name, namespace=namespace, tenant=tenant), f"{namespace}-{name}", "cotenant", 0.0, node="n")


def test_a_tenant_more_counts_as_the_namespace_and_others_are_not_affected() -> None:
    tenants = NamespaceTenants(2)
    first, second, third = (pod(f"p{i}", f"t{i}") for i in range(3))
    assert [tenants.bounded(seen).pod.owner for seen in (first, second, third)] == ["t0", "t1", "a"]
    assert tenants.bounded(third).pod.owner == "a"  # once more: it is the same pod
    assert tenants.bounded(pod("p3", "t0")).pod.owner == "t0"  # a name that counts already
    assert tenants.bounded(pod("p4", "a")).pod.owner == tenants.bounded(pod("p5", "")).pod.owner == "a"
    assert tenants.bounded(pod("p0", "t9", "b")).pod.owner == "t9"
    assert dict(tenants.beyond) == {"a": 1}
    tenants.gone(first.uid)
    assert tenants.bounded(pod("p6", "t6")).pod.owner == "a"  # p3 still names t0
    tenants.gone("a-p3")
    assert tenants.bounded(pod("p7", "t7")).pod.owner == "t7"
    assert tenants.bounded(third).pod.owner == "a"  # as long as it exists


def test_a_pod_that_ends_or_names_another_leaves_its_place() -> None:
    tenants = NamespaceTenants(1)
    assert tenants.bounded(pod("p", "t0")).pod.owner == "t0"
    assert tenants.bounded(pod("p", "t1")).pod.owner == "t1"
    assert tenants.bounded(replace(pod("p", "t1"), phase=PodPhase.SUCCEEDED)).pod.owner == "t1"
    assert tenants.bounded(pod("q", "t2")).pod.owner == "t2"


def test_what_counts_is_the_same_as_by_brute_force() -> None:
    random, tenants, most = Random(1), NamespaceTenants(3), 3
    decided: dict[str, tuple[str, str, bool]] = {}  # uid -> namespace, tenant, whether it counts
    for _ in range(3000):
        seen = pod(f"p{random.randrange(12)}", f"t{random.randrange(6)}", random.choice("ab"))
        if random.random() < 0.4:
            tenants.gone(seen.uid)
            decided.pop(seen.uid, None)
            continue
        asked = (seen.pod.namespace, seen.pod.tenant)
        before = decided.get(seen.uid)
        if before is None or before[:2] != asked:
            decided.pop(seen.uid, None)
            names = {tenant for space, tenant, counts in decided.values() if counts and space == asked[0]}
            decided[seen.uid] = (*asked, asked[1] in names or len(names) < most)
        owner = tenants.bounded(seen).pod.owner
        assert (owner == seen.pod.tenant) == decided[seen.uid][2]
        assert sum(tenants.beyond.values()) == sum(not counts for _, _, counts in decided.values())
