"""Whether one node can provide a pod's CPUs and NUMA nodes, and which ones.

The pod's annotations, the node's labels, the kubelet's policies and free CPUs all matter, for ten thousand nodes and
for the chosen one. `give` computes the full result; `could` gives the same yes or no without choosing where no NUMA
policy applies and the node's cores are even (then counting suffices), and calls `give` elsewhere. Under a NUMA policy
CPU, memory and resources accounted elsewhere (devices) are aligned (policy/placement/numa.py); own CPUs are then taken
within the alignment.
Limits: of the NUMA nodes that could serve, the first in the kubelet's order is tried.

Source: Koordinator, NodeNUMAResource (Filter, Reserve; its reason texts where it has them).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from cotenant.model.cluster.labels import Labels
from cotenant.model.cpus.amplification import NOT_AMPLIFIED, Ratios, amplified
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import CPU_BIND_POLICY as BIND_LABEL
from cotenant.model.cpus.spec import (
    NUMA_ALLOCATE_STRATEGY,
    NUMA_TOPOLOGY_POLICY,
    BindPolicy,
    ExclusivePolicy,
    NodeBindPolicy,
    NumaAmount,
    NumaStrategy,
    TopologyPolicy,
)
from cotenant.policy.placement.cpus.accumulator import CpuAsk, CpuChoice, shortage
from cotenant.policy.placement.cpus.demands import cpu_ask, topology_policy
from cotenant.policy.placement.cpus.distribution import take_by_strategy
from cotenant.policy.placement.cpus.ledger import CpuHolding, CpuLedger
from cotenant.policy.placement.cpus.needs import CpuNeed
from cotenant.policy.placement.cpus.numa_amounts import NumaAmounts, cpu_rooms, spread_amount
from cotenant.policy.placement.numa import (
    MAX_NUMA_NODES,
    NUMA_IDS,
    Alignment,
    NumaRoom,
    Provider,
    align,
    alone,
    alone_of,
    can_be_aligned,
    hints,
    meet_on_one,
    no_hints,
)
from cotenant.policy.placement.refusal import Refusal

KUBELET_GIVES = Refusal(
    "node(s) where the kubelet's static CPU manager gives CPUs",
    "to Guaranteed pods whose containers have whole CPUs, which this pod is not",
)
NOT_WHOLE_CORES = "the kubelet gives whole cores only"
NO_TOPOLOGY = Refusal("node(s) without a usable CPU topology", "no NodeResourceTopology reports its CPUs")


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A node's options for CPU allocation: its labels, else its kubelet's policies; the ratios by which its
    capacity is amplified; and whether its kubelet gives CPUs.
    """

    bind: NodeBindPolicy = NodeBindPolicy.NONE
    strategy: NumaStrategy = NumaStrategy.MOST_ALLOCATED
    policy: TopologyPolicy = TopologyPolicy.NONE
    ratios: Ratios = NOT_AMPLIFIED
    kubelet_gives: bool = False
    is_full_cores: bool = False  # the kubelet gives whole cores only


AS_USUAL = NodeOptions()


@dataclass(frozen=True, slots=True)
class CpuNode:
    """The CPU state of one node."""

    ledger: CpuLedger
    amounts: NumaAmounts
    options: NodeOptions

    def taken(self, uid: str, given: GivenCpus, exclusive: ExclusivePolicy) -> CpuNode:
        """With a pod's allocation, for evaluation."""
        ledger = self.ledger.given(CpuHolding(uid, given.cpus, exclusive)) if given.cpus else self.ledger
        amounts = self.amounts.given(uid, given.numa) if given.numa else self.amounts
        return replace(self, ledger=ledger, amounts=amounts)


Sets = tuple[
    tuple[str, int], ...
]  # for each resource that is kept elsewhere, the NUMA nodes (mask) where it is to be taken


@dataclass(frozen=True, slots=True)
class GivenCpus:
    """A pod's allocation. `kept`: all of its preferences are satisfied too."""

    cpus: int  # mask; 0 = it shares CPUs
    numa: tuple[NumaAmount, ...] = ()  # where its resources are aligned
    kept: bool = True
    elsewhere: Sets = ()


@dataclass(frozen=True, slots=True)
class CpuFit:
    """The result without a choice of CPUs; the fields are those of `GivenCpus`."""

    kept: bool
    elsewhere: Sets = ()


def node_options(labels: Labels, reported: NodeTopology, ratios: Ratios = NOT_AMPLIFIED) -> NodeOptions:
    """A node's options. A label with an unknown value counts as absent, as for every label of the protocol."""
    bind = _word(NodeBindPolicy, labels.get(BIND_LABEL))
    strategy = _word(NumaStrategy, labels.get(NUMA_ALLOCATE_STRATEGY))
    policy = _word(TopologyPolicy, labels.get(NUMA_TOPOLOGY_POLICY))
    return NodeOptions(
        reported.bind if bind in (None, NodeBindPolicy.NONE) else bind,
        strategy or reported.strategy or NumaStrategy.MOST_ALLOCATED,
        policy or reported.policy,
        ratios,
        reported.kubelet_gives,
        reported.kubelet_gives and reported.bind is NodeBindPolicy.FULL_CORES_ONLY,
    )


def give(node: CpuNode, need: CpuNeed, others: Provider = no_hints, preferred: int = 0) -> GivenCpus | Refusal:
    """The pod's allocation on this node, or the reason why there is none.

    `others`: hints for resources besides CPU and memory, used only under a NUMA policy. `preferred`: a mask of CPUs to
    be taken first.
    """
    asked = _asked(node, need)
    if isinstance(asked, Refusal):
        return asked
    ask, policy = asked
    if ask is not None and preferred:
        ask = replace(ask, preferred=preferred)
    if policy is not TopologyPolicy.NONE:
        return _aligned(node, need, ask, policy, others)
    if ask is None:
        return GivenCpus(0)
    choice = take_by_strategy(node.ledger, ask)
    return choice if isinstance(choice, Refusal) else GivenCpus(choice.cpus, kept=_is_kept(choice))


def could(node: CpuNode, need: CpuNeed, others: Provider = no_hints) -> CpuFit | Refusal:
    """Whether `give` would succeed; else its reason."""
    asked = _asked(node, need)
    if isinstance(asked, Refusal):
        return asked
    ask, policy = asked
    if policy is TopologyPolicy.NONE and (ask is None or node.ledger.topology.is_even):
        if ask is None:
            return CpuFit(True)
        refusal = shortage(node.ledger, ask)
        return refusal if refusal is not None else CpuFit(_would_be_kept(node.ledger, ask))
    if policy is TopologyPolicy.NONE:
        given = give(node, need)
    else:
        given = _aligned(node, need, ask, policy, others, choosing=False)
    return given if isinstance(given, Refusal) else CpuFit(given.kept, given.elsewhere)


def policy_of(node: CpuNode, need: CpuNeed) -> TopologyPolicy:
    """The NUMA policy for this pod on this node; the pod's own where the two conflict."""
    policy = topology_policy(node.options.policy, need.numa.policy)
    return need.numa.policy if isinstance(policy, Refusal) else policy


def may_yield(node: CpuNode, need: CpuNeed, refusal: Refusal) -> bool:
    """Whether removing pods could change this refusal by `could`: not where pod and node conflict, or nothing can
    be aligned.
    """
    if isinstance(_asked(node, need), Refusal):
        return False
    if policy_of(node, need) is TopologyPolicy.NONE:
        return refusal.missing > 0
    return can_be_aligned(tuple(cpu_group.id for cpu_group in node.ledger.topology.numa))


def _asked(node: CpuNode, need: CpuNeed) -> tuple[CpuAsk | None, TopologyPolicy] | Refusal:
    ask = None
    if need.own and node.options.kubelet_gives:
        refusal = _refusal_of_kubelet(node, need)
        if refusal is not None:
            return refusal
    elif need.own:
        made = cpu_ask(need.cpu_m, need.spec, node.options.bind, node.options.strategy)
        if isinstance(made, Refusal):
            return made
        ask = made
    policy = topology_policy(node.options.policy, need.numa.policy)
    return policy if isinstance(policy, Refusal) else (ask, policy)


def _refusal_of_kubelet(node: CpuNode, need: CpuNeed) -> Refusal | None:
    """Why a node whose kubelet gives CPUs has none for this pod. What the pod gets there is the kubelet's choice:
    nothing is chosen here.
    """
    if not need.by_kubelet:
        return KUBELET_GIVES
    entry = node.ledger.topology.threads_per_core
    if node.options.is_full_cores and need.cpu_m // 1000 % entry:
        return Refusal(NOT_WHOLE_CORES, f"{need.cpu_m // 1000} CPUs requested, a core has {entry}")
    return None


def _aligned(
    node: CpuNode,
    need: CpuNeed,
    ask: CpuAsk | None,
    policy: TopologyPolicy,
    others: Provider,
    *,
    choosing: bool = True,
) -> GivenCpus | Refusal:
    """Without `choosing`, the result says only whether, and whether preferences are satisfied, as far as counting
    shows.
    """
    topology, amounts = node.ledger.topology, node.amounts
    ids = tuple(cpu_group.id for cpu_group in topology.numa)
    if not can_be_aligned(ids):
        return Refusal(
            f"NUMA topology policy {policy.value} cannot be satisfied",
            f"{len(ids)} NUMA nodes; at most {MAX_NUMA_NODES} with ids below {NUMA_IDS} can be aligned",
        )
    barred = amounts.mixed() if need.numa.single_node_exclusive else frozenset[int]()
    beside = others(ids)
    asked: list[tuple[str, int, tuple[NumaRoom, ...]]] = []
    cpu_rooms_m = _without(amounts.cpu_rooms_m(), barred)
    memory_rooms = amounts.memory_rooms()
    if ask is not None:
        own = cpu_rooms(node.ledger)  # of the same NUMA nodes, in the same order
        each_m = amplified(1000, node.options.ratios.cpu_ppm)
        rooms = tuple(
            [NumaRoom(*one[:2], min(one.free, all_.free // each_m)) for one, all_ in zip(own, cpu_rooms_m, strict=True)]
        )
        asked.append(("cpu", ask.count, rooms))
    elif need.cpu_m:
        asked.append(("cpu", need.cpu_m, cpu_rooms_m))
    if memory_rooms is not None and need.memory_bytes:
        memory_rooms = _without(memory_rooms, barred)
        asked.append(("memory", need.memory_bytes, memory_rooms))
    each_alone = {name: alone_of(given) for name, given in beside.items() if given is not None}
    each_alone |= {name: alone(amount, rooms) for name, amount, rooms in asked}
    alignment: Alignment | Refusal | None = meet_on_one(each_alone)
    if alignment is None:
        alignment = align(policy, {**beside, **{name: hints(amount, rooms) for name, amount, rooms in asked}}, ids)
    if isinstance(alignment, Refusal):
        return alignment
    elsewhere = tuple(pair for pair in alignment.sets if pair[0] in beside)
    cpu_nodes, memory_nodes = _ids(alignment, "cpu", ids), _ids(alignment, "memory", ids)
    within = None if cpu_nodes == ids else topology.numa_mask(cpu_nodes)
    if not choosing and (ask is None or topology.is_even):
        if ask is None:
            return GivenCpus(0, kept=alignment.preferred, elsewhere=elsewhere)
        bounded = replace(ask, within=within)
        short = shortage(node.ledger, bounded)
        if short is not None and policy is TopologyPolicy.BEST_EFFORT and within is not None:
            short = shortage(node.ledger, ask)
            return short if short is not None else GivenCpus(0, kept=False, elsewhere=elsewhere)
        kept = alignment.preferred and _would_be_kept(node.ledger, bounded)
        return short if short is not None else GivenCpus(0, kept=kept, elsewhere=elsewhere)
    cpus, kept = 0, alignment.preferred
    if ask is not None:
        choice = take_by_strategy(node.ledger, replace(ask, within=within))
        if isinstance(choice, Refusal) and policy is TopologyPolicy.BEST_EFFORT and within is not None:
            choice, kept = take_by_strategy(node.ledger, ask), False
        if isinstance(choice, Refusal):
            return choice
        cpus, kept = choice.cpus, kept and _is_kept(choice)
    cpu_rooms_m = tuple(room for room in cpu_rooms_m if room.node in cpu_nodes)
    if memory_rooms is not None:
        memory_rooms = tuple(room for room in memory_rooms if room.node in memory_nodes)
    return GivenCpus(cpus, _numa(node, need, cpus, cpu_rooms_m, memory_rooms), kept, elsewhere)


def _numa(
    node: CpuNode,
    need: CpuNeed,
    cpus: int,
    cpu_rooms_m: tuple[NumaRoom, ...],
    memory_rooms: tuple[NumaRoom, ...] | None,
) -> tuple[NumaAmount, ...]:
    """The amounts, taken of these rooms; CPUs of its own lie where they were taken."""
    if cpus:
        cpu_m = {
            cpu_group.id: (cpu_group.mask & cpus).bit_count() * 1000
            for cpu_group in node.ledger.topology.numa
            if cpu_group.mask & cpus
        }
    else:
        cpu_m = spread_amount(need.cpu_m, cpu_rooms_m)
    memory = spread_amount(need.memory_bytes, memory_rooms) if memory_rooms is not None else {}
    return tuple(NumaAmount(id_, cpu_m.get(id_), memory.get(id_)) for id_ in sorted(cpu_m.keys() | memory.keys()))


def _without(rooms: tuple[NumaRoom, ...], barred: frozenset[int]) -> tuple[NumaRoom, ...]:
    if not barred:
        return rooms
    return tuple(room._replace(free=0) if room.node in barred else room for room in rooms)


def _ids(alignment: Alignment, resource: str, every: tuple[int, ...]) -> tuple[int, ...]:
    """The NUMA nodes where a resource is taken, of all that there are."""
    nodes = alignment.within(resource)
    if nodes is None:
        nodes = alignment.nodes
    return every if nodes is None else tuple(number for number in every if nodes >> number & 1)


def _is_kept(choice: CpuChoice) -> bool:
    return choice.alone and choice.bound


def _would_be_kept(ledger: CpuLedger, ask: CpuAsk) -> bool:
    """By counting: enough CPUs that satisfy the bind policy, away from the avoided pods."""
    apart = ledger.free & ~ledger.exclusive(ask.exclusive)
    within = apart if ask.within is None else apart & ask.within
    if ask.bind is not BindPolicy.SPREAD and ask.count % ledger.topology.threads_per_core:
        return False  # no whole cores, wherever
    strict = replace(ask, within=within, exclusive=ExclusivePolicy.NONE, bind_required=True)
    return shortage(ledger, strict) is None


W = TypeVar("W", NodeBindPolicy, NumaStrategy, TopologyPolicy)


def _word(words: type[W], text: str | None) -> W | None:
    if not text:
        return None
    return next((word for word in words if word.value == text), None)
