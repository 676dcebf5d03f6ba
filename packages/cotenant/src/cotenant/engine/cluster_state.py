"""What the engine of a cluster knows, for those around it: nothing is changed by asking.

`Cluster` has these questions beside its events. What a pod waits for, and why, is answered by engine/explain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.eviction.preemption import DisruptionBudgets
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.state.pod_kind import PodKind
from cotenant.model.arrays import Float, Int
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import DisruptionBudget, NamespaceFacts


class ClusterState:
    """Questions about the nodes and pods of one cluster."""

    def __init__(
        self,
        components: ClusterComponents,
        pods: Pods,
        nodes: Mapping[str, Node],
        namespaces: Mapping[str, NamespaceFacts],
        budgets: DisruptionBudgets,
    ) -> None:
        self._components = components
        self._pods = pods
        self._known_nodes = nodes
        self._known_namespaces = namespaces
        self._budgets = budgets

    def reported(self, node: str) -> tuple[float, ...]:
        """A node's last report, in the order of `arrays.Report`, NaN where it never reported; empty for an unknown
        node.
        """
        encoder = self._components.assignments.encoder
        row = encoder.node_rows.get(node)
        return tuple(encoder.nodes().report[row].tolist()) if row is not None else ()

    def number_of(self, uid: str) -> int:
        """The engine's number of a pod, used by measurements: stable while the pod is known, -1 for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.number if entry is not None else -1

    def is_awaited(self, uid: str) -> bool:
        """Whether a preemptor waits for this pod to end."""
        return self._components.nominations.is_awaited(uid)

    def story(self, uid: str) -> tuple[str, ...]:
        """The history of a pod, oldest first; empty for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.lines() if entry is not None else ()

    def state_of(self, uid: str) -> SchedulingState:
        """The state of a pod; `GONE` for an unknown pod."""
        entry = self._pods.by_uid.get(uid)
        return entry.state if entry is not None else SchedulingState.GONE

    def find(self, key: str) -> PodInfo | None:
        """A pod by namespace/name; read only."""
        return self._pods.by_uid.get(self._pods.by_key.get(key, ""))

    def every_pod(self) -> Iterator[PodInfo]:
        """Every known pod; read only."""
        return iter(self._pods.by_uid.values())

    def pods_on(self, node: str) -> tuple[PodInfo, ...]:
        """The pods assigned to a node; read only."""
        return tuple(self._components.assignments.residents.get(node, {}).values())

    def alike(self, pods: Iterable[PodInfo]) -> list[list[PodInfo]]:
        """These pods, in groups that no rule between pods distinguishes."""
        kind_of = self._components.assignments.narrowing.kind_of
        found: dict[PodKind, list[PodInfo]] = {}
        for entry in pods:
            found.setdefault(kind_of(entry.number), []).append(entry)
        return list(found.values())

    def nodes(self) -> tuple[Node, ...]:
        """Every known node."""
        return tuple(self._known_nodes.values())

    def node(self, name: str) -> Node | None:
        """A node by name; None = not known."""
        return self._known_nodes.get(name)

    def namespaces(self) -> tuple[NamespaceFacts, ...]:
        """Every known namespace with labels."""
        return tuple(self._known_namespaces.values())

    def requested(self) -> tuple[tuple[str, ...], tuple[str, ...], Int, Int]:
        """Names of nodes, names of resources, and copies of what the nodes have and of what their pods request:
        `int64[N, R]`.
        """
        assignments = self._components.assignments
        assignments.write()
        rows = assignments.encoder.node_rows
        at = np.array(list(rows.values()), dtype=np.int64)
        nodes = assignments.ledger.nodes
        return tuple(rows), assignments.encoder.axis.names, nodes.capacity[at], nodes.requested[at]

    def expected_of(self, pods: Sequence[PodInfo]) -> Float:
        """How these pods are expected to behave, by estimate and by what was learned: `float64[P, len(Param)]`."""
        assignments = self._components.assignments
        assignments.write()
        return assignments.ledger.shapes.params[[entry.shape for entry in pods]]

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """Every disruption budget."""
        return self._budgets.all()

    def assigned(self) -> dict[str, str]:
        """UID -> node, of every assigned pod."""
        return {uid: entry.node for uid, entry in self._pods.by_uid.items() if entry.node}

    def pending_pods(self) -> dict[str, int]:
        """Waiting pods, by kube-scheduler's names of its queues."""
        sizes = {standing.value: pods for standing, pods in self._components.queue.sizes().items()}
        held = [
            entry.state
            for entry in self._pods.by_uid.values()
            if entry.state in (SchedulingState.GATED, SchedulingState.BLOCKED)
        ]
        sizes["gated"] = held.count(SchedulingState.GATED)
        sizes["unschedulable"] += held.count(SchedulingState.BLOCKED)
        sizes["backoff"] += len(self._pods.held)
        return sizes

    def size(self) -> tuple[int, int]:
        """The number of known nodes and pods."""
        return len(self._known_nodes), len(self._pods.by_uid)

    def reserved(self) -> dict[str, str]:
        """UID -> node, of nominated pods."""
        return self._components.nominations.nodes()

    def over_capacity(self) -> tuple[str, ...]:
        """Nodes on which pods request more than the capacity, without resources reserved for nominated pods."""
        return self._components.assignments.over_capacity()
