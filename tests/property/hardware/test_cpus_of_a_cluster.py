"""For any events of pods, nodes and topologies: no CPU has two holders, cached verdicts equal fresh ones, and a
restart restores the same state.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.cpu_cluster import EIGHT, Api, cpus, node, pod, tells, zones
from tests.property.few import examples, first_cases

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.cpus.spec import (
    BindPolicy,
    ExclusivePolicy,
    NodeBindPolicy,
    NumaStrategy,
    NumaTopologySpec,
    ResourceSpec,
    TopologyPolicy,
)
from cotenant.model.cpus.topology import CpuTopology
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.node_fit import CpuFit, CpuNode, GivenCpus, NodeOptions, could, give
from cotenant.policy.placement.cpus.numa_amounts import NumaAmounts
from cotenant.policy.placement.numa import Hint
from cotenant.policy.placement.refusal import Refusal

SPECS = st.builds(
    ResourceSpec,
    required=st.sampled_from([None, None, BindPolicy.FULL_CORES, BindPolicy.SPREAD]),
    preferred=st.sampled_from([BindPolicy.DEFAULT, BindPolicy.SPREAD]),
    exclusive=st.sampled_from(ExclusivePolicy),
)
NUMA = st.sampled_from(
    [NumaTopologySpec(), NumaTopologySpec(), *(NumaTopologySpec(policy) for policy in TopologyPolicy)]
)
TOPOLOGIES = (
    EIGHT,
    CpuTopology.of(cpus(without=(3, 4))),
    CpuTopology.of(cpus(sockets=2, nodes=1, cores=4)),
    CpuTopology.of(cpus(nodes=1, cores=3, threads=1)),
)


@st.composite
def worlds(draw: st.DrawFn) -> CpuNode:
    reported = tells("a", draw(st.sampled_from(TOPOLOGIES)), draw(st.sets(st.integers(0, 7), max_size=2)))
    reported = replace(reported, zones=draw(st.sampled_from([(), zones(4, 8)])))
    ledger = CpuLedger.empty(reported.topology, reserved=reported.reserved)
    amounts = NumaAmounts.empty(reported)
    for number in range(draw(st.integers(0, 3))):
        cpus_of_it = ledger.free & draw(st.integers(0, 255))
        if cpus_of_it:
            ledger = ledger.given(CpuHolding(str(number), cpus_of_it, draw(st.sampled_from(ExclusivePolicy))))
    options = NodeOptions(
        draw(st.sampled_from(NodeBindPolicy)),
        draw(st.sampled_from(NumaStrategy)),
        draw(st.sampled_from(TopologyPolicy)),
    )
    return CpuNode(ledger, amounts, options)


@pytest.mark.slow
@settings(max_examples=examples(400), deadline=None)
@given(worlds(), SPECS, NUMA, st.integers(1, 8), st.integers(0, 9), st.booleans(), st.integers(0, 7))
def test_counting_agrees_with_choosing(
    world: CpuNode, spec: ResourceSpec, numa: NumaTopologySpec, count: int, gib: int, own: bool, cards: int
) -> None:
    need = CpuNeed(count * 1000, gib << 30, own, spec, numa)
    ids = tuple(cpu_group.id for cpu_group in world.ledger.topology.numa)
    sets = sorted(
        {1 << ids[0], 1 << ids[-1], sum(1 << number for number in ids)}, key=lambda number: (number.bit_count(), number)
    )
    some = tuple(Hint(number, number.bit_count() == 1) for number in sets if cards >> sets.index(number) & 1)
    counted, chosen = could(world, need, lambda _: {"gpu": some}), give(world, need, lambda _: {"gpu": some})
    assert isinstance(counted, Refusal) == isinstance(chosen, Refusal)
    if isinstance(chosen, Refusal):
        assert counted == chosen
        return
    assert isinstance(chosen, GivenCpus)
    assert isinstance(counted, CpuFit)
    assert counted.elsewhere == chosen.elsewhere
    assert chosen.cpus.bit_count() == (count if own else 0)
    assert not chosen.cpus & ~world.ledger.free
    if chosen.numa:
        assert sum(numa_amount.cpu_m or 0 for numa_amount in chosen.numa) == need.cpu_m
        memory = [numa_amount.memory_bytes for numa_amount in chosen.numa if numa_amount.memory_bytes is not None]
        assert sum(memory) in (need.memory_bytes, 0)
    if TopologyPolicy.SINGLE_NUMA_NODE in (world.options.policy, numa.policy):
        assert len(chosen.numa) == 1


EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("create"), st.integers(0, 9), st.integers(1, 5), st.sampled_from(["LSR", "LSE", "LS"]), SPECS, NUMA
        ),
        st.tuples(
            st.just("reported"),
            st.integers(0, 9),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["0-1", "1-4", "7", "9"]),
        ),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("tell"), st.sampled_from(["a", "b"]), st.sampled_from(TOPOLOGIES)),
        st.tuples(st.just("silence"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("restart")),
        st.tuples(st.just("node away"), st.sampled_from(["a", "b"])),
        st.tuples(st.just("label"), st.sampled_from(["a", "b"]), st.sampled_from(["", "SingleNUMANode"])),
        st.tuples(st.just("rebuild")),
    ),
    max_size=25,
)


def _happens(api: Api, event: tuple) -> None:  # type: ignore[type-arg]
    kind, *rest = event
    if kind == "create" and f"uid-p{rest[0]}" not in api.pods:
        number, size, qos, spec, numa = rest
        api.create(pod(f"p{number}", size, qos=QoSClass(qos), spec=spec, numa=numa, priority=9000 + number))
    elif kind == "reported" and f"uid-p{rest[0]}" not in api.pods:
        api.create(pod(f"p{rest[0]}", 1, on=rest[1], has=rest[2], priority=9000 + rest[0]))
    elif kind == "delete" and f"uid-p{rest[0]}" in api.pods:
        api.delete(f"p{rest[0]}")
    elif kind == "tell":
        api.tell(tells(rest[0], rest[1]))
    elif kind == "silence":
        api.forget(rest[0])
    elif kind == "restart":
        api.restart()
    elif kind == "rebuild":
        api.cluster.rebuild(api.now_s)
    elif kind == "node away":
        known = [entry for entry in api.nodes if entry.name == rest[0]]
        if known:
            api.nodes.remove(known[0])
            api.cluster.node_gone(rest[0], api.now_s)
        else:
            api.nodes.append(node(rest[0], 16))
            api.cluster.node_seen(api.nodes[-1])
    elif kind == "label":
        for place, entry in enumerate(api.nodes):
            if entry.name == rest[0]:
                api.nodes[place] = node(rest[0], 16, numa_topology_policy=rest[1])
                api.cluster.node_seen(api.nodes[place])


@pytest.mark.slow
@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_no_cpu_has_two_holders_and_a_restart_restores_the_state(events: list[tuple]) -> None:  # type: ignore[type-arg]
    api = Api(node("a", 16), node("b", 16))
    chosen: set[str] = set()
    for event in events:
        _happens(api, event)
        before = set(api.pods)
        for instruction in api.turn():
            holds = getattr(instruction, "holds", None)
            if holds is not None and holds.cpus is not None and holds.cpus.cpus:
                chosen.add(instruction.uid)  # type: ignore[union-attr]
        chosen &= before
        for name in ("a", "b"):
            taken: set[int] = set()
            for uid in chosen:
                seen = api.pods[uid]
                if seen.node == name and seen.holds.cpus is not None:
                    assert not taken & set(seen.holds.cpus.cpus)
                    taken |= set(seen.holds.cpus.cpus)
    described = {name: api.cluster.plugins.cpus.describe(name) for name in ("a", "b")}
    api.restart()
    api.cluster.validate()
    for name, reported in described.items():
        found = api.cluster.plugins.cpus.describe(name)
        assert (found.available if found else ()) == (reported.available if reported else ())
        held = {holder.pod: holder.cpus for holder in reported.holders} if reported else {}
        assert ({holder.pod: holder.cpus for holder in found.holders} if found else {}) == held
    for uid in list(api.pods):
        api.delete(uid.removeprefix("uid-"))
    api.cluster.validate()
    for name in ("a", "b"):
        left = api.cluster.plugins.cpus.describe(name)
        assert left is None or not left.holders


test_first_cases = first_cases(
    test_counting_agrees_with_choosing,
    test_no_cpu_has_two_holders_and_a_restart_restores_the_state,
)
