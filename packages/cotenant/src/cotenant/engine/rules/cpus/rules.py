"""CPUs and NUMA nodes of a cluster: which nodes can give a pod exclusive CPUs, which CPUs they are, and which pods hold
them.

latency-critical pods get exclusive CPUs, close to one another and away from other such pods, on nodes whose topology is
reported by another component; pods and topologies change at any time. A node rule (engine/framework/node_rules.py):
accounts by node name (nodes.py), verdicts by need and row (verdicts.py), judged by policy/placement/cpus. What a pod
was given is stored with its number, so that unassigning and reassigning it restores the same CPUs. Nodes without a
topology cannot give exclusive CPUs. While no node reports a topology, exclusive CPUs are not managed: only pods that
require them wait for one.

It hosts the NUMA alignment: where a NUMA policy of the pod or of the node applies, the hints of CPU and memory are
merged with those of the other node rules (numa_providers.py), which ask here on which NUMA nodes of a row to allocate.
A node's policy applies to every pod with requests for CPU, memory or devices, so from the first node with a policy on
all pods are judged here (`Widening`).

Limits: pods without exclusive CPUs are not bound by labels of the node that would bind every pod. CPUs are not reserved
for a nominated pod; its request is. A node with a policy but without a reported topology aligns no pod that does not
require it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import Lent, NumaProvider, RuleResult
from cotenant.engine.rules.cpus.accounts import CpuAccount, CpuClaim
from cotenant.engine.rules.cpus.amplification import amplified_column, short_of_amplified
from cotenant.engine.rules.cpus.cpu_answers import answer, likeness
from cotenant.engine.rules.cpus.cpu_view import CpusOfNode, described
from cotenant.engine.rules.cpus.nodes import CpuNodes
from cotenant.engine.rules.cpus.numa_providers import NumaProviders
from cotenant.engine.rules.cpus.pods import CpuPod
from cotenant.engine.rules.cpus.updates import CpuUpdates
from cotenant.engine.rules.cpus.verdicts import CpuAnswer, CpuVerdicts, VerdictsByNeed
from cotenant.engine.rules.cpus.victims import CpuVacate, cpu_column, cpu_vacate
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.reported import NodeTopology
from cotenant.model.cpus.spec import ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import numbers_in
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent
from cotenant.policy.placement.cpus.needs import CpuNeed, cpu_need, shared_need
from cotenant.policy.placement.cpus.node_fit import GivenCpus
from cotenant.policy.placement.preemption import ConstraintColumn
from cotenant.policy.placement.preference import PreferencePart
from cotenant.policy.placement.refusal import Refusal

NAME = "NodeNUMAResource"
PREFERENCE_WEIGHT = 100.0  # score of a row that satisfies the preferences, on the scale of a profile's score


class Cpus:
    """The CPU rule. Implements `NodeRules`, `ClearingRules`, `Vacating`, `Widening`, `Surplus`, `LendingRules` and
    `NumaHost` of engine/framework/node_rules.py.
    """

    name = NAME

    def __init__(self) -> None:
        self.updates = CpuUpdates(NAME, self.need_of, self.snapshot)
        self._by_need = VerdictsByNeed()
        self._nodes = CpuNodes(lambda: self._by_need.forget_alike())
        self._providers = NumaProviders()
        self._pods: dict[int, CpuPod] = {}
        self._wide = False  # whether all pods with requests are judged
        self.may_widen = False

    def capture(self) -> Callable[[], Cpus]:
        """A maker of rules with the same topologies and no pods, for a copy of the engine; it reads nothing of
        these later.
        """
        reported = tuple(account.reported for account in self._nodes.accounts.values() if account.reported is not None)

        def make() -> Cpus:
            made = Cpus()
            for node_topology in reported:
                made.topology_seen(node_topology, 0.0)
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`: which CPUs were chosen, also for pods without a node."""
        before = self._pods.copy()
        memento = Memento((*before.values(), self._pods))

        def put_back() -> None:
            again = [number for number, pod in before.items() if self._pods[number] is not pod]
            for number in again:
                self._unassign(number, self._pods[number])
            memento.restore()
            for number in again:
                pod = self._pods[number]
                if pod.node and pod.claim is not None:
                    self._nodes.claim(pod.node, number, pod.claim)

        return put_back

    # ---- facts about nodes

    def topology_seen(self, reported: NodeTopology, now_s: float) -> None:
        """Record a node's reported topology."""
        self.may_widen = not self._wide
        self._node_changed(self._nodes.report(reported))

    def topology_gone(self, name: str, now_s: float) -> None:
        """A node's topology is no longer reported; pods keep the CPUs they hold."""
        self._node_changed(self._nodes.stop_reporting(name))

    def _node_changed(self, account: CpuAccount | None) -> None:
        if account is None:
            return
        for _ in account.conflicts():
            self.updates.odd("CPUs that a pod holds are no longer available on its node")
        self.updates.changed()

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; reported topologies stay."""
        self._by_need = VerdictsByNeed()
        self._pods = {}
        self._wide = False
        self._nodes.attach(encoder)
        self.may_widen = True

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether the pod needs or holds CPUs or NUMA nodes, or requests what a node may have to align."""
        need = cpu_need(pod, demands)
        if need is None and (self._wide or (self._providers and asks_devices(pod.requests))):
            need = shared_need(pod)
            if not (need.cpu_m or need.memory_bytes or asks_devices(pod.requests)):
                need = None
        if need is None and holds.cpus is None:
            return False
        entry = self._pods[number] = CpuPod.of(pod, need)
        if holds.cpus is not None:
            entry.claim = entry.reported(holds.cpus)
        return True

    def widened(self) -> bool:
        """Whether a node has got a NUMA policy while pods were added without regard to one."""
        if not self._nodes.reporting or self._wide:
            self.may_widen = False  # until a topology is reported
            return False
        self._nodes.sync()
        self._wide = bool(self._nodes.aligning)
        self.may_widen = not self._wide
        return self._wide

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Replace what the pod holds by what is reported; holdings without CPUs change nothing."""
        pod = self._pods.get(number)
        if pod is None or holds.cpus is None:
            return
        claim = pod.reported(holds.cpus)
        if claim == pod.claim:
            pod.chosen_for = ""
            return
        name = pod.node
        if name:
            self._unassign(number, pod)
        pod.claim, pod.chosen_for = claim, ""
        if name:
            self._assign(number, pod, name)

    def rules(self, number: int) -> Iterator[RuleResult]:
        """The rows that can satisfy the pod's CPU need."""
        pod = self._pods.get(number)
        need = pod.need if pod is not None else None
        if pod is None or need is None or not (self._nodes.reporting or need.is_strict):
            return
        verdicts = self._judged(number, need)
        if verdicts is None:
            return
        size = len(self._nodes.versions)
        for refusal, left in verdicts.refusals(size):
            left[list(pod.lent)] = True
            yield RuleResult(NAME, refusal.reason, left, refusal.yields, verdicts.nearest)
        for row in pod.lent:
            given = self._given(number, pod, need, row)
            if isinstance(given, Refusal):
                left = np.ones(size, dtype=np.bool_)
                left[row] = False
                yield RuleResult(NAME, given.reason, left, False)
        if need.own:
            yield from short_of_amplified(NAME, self._nodes, need.cpu_m)

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """Prefer rows where the pod's preferences on its CPUs can be satisfied."""
        pod = self._pods.get(number)
        if pod is None or pod.need is None or not self._nodes.reporting or pod.lent:
            return ()
        verdicts = self._judged(number, pod.need)
        if verdicts is None:
            return ()
        kept = verdicts.kept[rows]
        if kept.all() or not kept.any():
            return ()
        return (PreferencePart("preferred CPUs", np.where(kept, PREFERENCE_WEIGHT, 0.0)),)

    def allocate(self, number: int, row: int) -> None:
        """Select CPUs and NUMA nodes on this row, and take them."""
        pod = self._pods[number]
        name = self._nodes.name(row)
        if pod.need is not None:
            pod.claim, pod.chosen_for, pod.elsewhere = None, name, ()
            given = self._given(number, pod, pod.need, row)
            if isinstance(given, Refusal):
                raise Permanent(
                    f"{pod.key} was placed on {name}, which cannot give its CPUs: {given.reason}, {given.nearest}"
                )
            if given is not None:
                pod.elsewhere = given.elsewhere
                if given.cpus or given.numa:
                    pod.claim = CpuClaim.chosen(pod.key, given, pod.exclusive)
        self._assign(number, pod, name)

    def assign(self, number: int, row: int) -> None:
        """Assign the pod with what it holds; nothing is chosen."""
        self._assign(number, self._pods[number], self._nodes.name(row))

    def unassign(self, number: int) -> None:
        """Release what the pod holds; it is remembered."""
        self._unassign(number, self._pods[number])

    def remove_pod(self, number: int) -> None:
        """The pod has left the cluster."""
        pod = self._pods.pop(number)
        if pod.node:
            self._unassign(number, pod)

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """With its CPUs and NUMA amounts."""
        claim = self._pods[number].claim
        if claim is None:
            return holds
        return replace(holds, cpus=ResourceStatus(numbers_in(claim.cpus), claim.numa))

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """From now on judge the pod on these rows by what is reserved for it there."""
        some = [row for row, kept in lent.items() if kept.holds.cpus is not None or kept.holds.devices]
        accounts = {row: self._nodes.account_at(row) for row in some}
        self._pods[number].lent = {
            row: lent[row] for row, account in accounts.items() if account is not None and account.node
        }

    def keep(self, number: int, holds: Holdings) -> None:
        """Set the holdings of an unassigned pod to exactly these."""
        pod = self._pods[number]
        pod.claim = pod.reported(holds.cpus) if holds.cpus is not None else None
        pod.chosen_for = ""

    def validate(self) -> None:
        """Check each account against the claims of its pods. Raises `Permanent`."""
        assigned: dict[str, dict[int, CpuClaim]] = {}
        for number, pod in self._pods.items():
            if pod.node and pod.claim is not None:
                assigned.setdefault(pod.node, {})[number] = pod.claim
        self._nodes.validate(assigned)

    # ---- NumaHost

    def host(self, providers: tuple[NumaProvider, ...]) -> None:
        """Register the providers of the alignment."""
        self._providers = NumaProviders(providers)

    def provided(self) -> None:
        """A provider changed: pods refused for their alignment may be tried again."""
        self.updates.changed()

    def affinities(self, number: int, resource: str) -> Int | None:
        """NUMA nodes for a provider's resource on each row."""
        verdicts = self._aligned(number)
        return verdicts.elsewhere.get(resource) if verdicts is not None else None

    def affinity(self, number: int, resource: str) -> int | None:
        """NUMA nodes for a provider's resource on the row chosen last."""
        pod = self._pods.get(number)
        return next((nodes for name, nodes in pod.elsewhere if name == resource), None) if pod is not None else None

    def _aligned(self, number: int) -> CpuVerdicts | None:
        pod = self._pods.get(number)
        return (
            self._judged(number, pod.need)
            if pod is not None and pod.need is not None and self._nodes.reporting
            else None
        )

    # ---- Clearing

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[ConstraintColumn]:
        """CPUs that must be free on each row, as a sum over its pods (engine/cycle/eviction/preemption.py)."""
        need = self._pods[number].need
        if need is None or not need.own or not self._nodes.reporting:
            return
        verdicts = self._judged(number, need)
        assert verdicts is not None
        yield cpu_column(need, verdicts, self._nodes.accounts_by_row(), pods)
        yield from amplified_column(self._nodes, need.cpu_m, pods)

    def vacate(self, number: int, row: int, nominated: tuple[int, ...] = ()) -> CpuVacate | None:
        """Whether the pod's CPU need is met on the row without some holders, beside nominated pods."""
        need = self._pods[number].need
        if need is None or not self._nodes.reporting:
            return None
        kind = self._providers.kind(number)
        return cpu_vacate(
            need,
            self._nodes.account_at(row),
            lambda removed: self._providers.of(number, kind, row, removed),
            tuple(own for entry in nominated if (own := self.need_of(entry)) is not None),
        )

    def surplus_m(self, pods: Int) -> Int:
        """Milli-CPU that each of these pods takes of its node beside its request."""
        found = np.zeros(len(pods), dtype=np.int64)
        if not self._nodes.amplified:
            return found
        for place, number in enumerate(pods.tolist()):
            pod = self._pods.get(number)
            if pod is not None and pod.claim is not None and pod.node in self._nodes.amplified:
                found[place] = self._nodes.accounts[pod.node].surplus_m(number)
        return found

    # ---- queries

    def describe(self, node: str) -> CpusOfNode | None:
        """A node's CPUs; None where nothing is known."""
        account = self._nodes.accounts.get(node)
        return described(node, account) if account is not None else None

    def need_of(self, number: int) -> CpuNeed | None:
        """The CPU need of a watched pod; None for any other."""
        pod = self._pods.get(number)
        return pod.need if pod is not None else None

    def nodes(self) -> tuple[str, ...]:
        """Nodes with an account, by name."""
        return tuple(sorted(self._nodes.accounts))

    # ---- assignments

    def _given(self, number: int, pod: CpuPod, need: CpuNeed, row: int) -> GivenCpus | Refusal | None:
        """What the pod would get on a row; None where no topology is reported."""
        account = self._nodes.account_at(row)
        if account is None or account.node is None:
            return None
        return pod.given_on(
            account.node, need, row, lambda: self._providers.of(number, self._providers.kind(number), row)
        )

    def _assign(self, number: int, pod: CpuPod, name: str) -> None:
        if pod.node:
            raise Permanent(f"{pod.key} is already assigned to {pod.node}")
        pod.node = name
        if pod.chosen_for not in ("", name):
            pod.claim = None  # chosen on another node; another client bound the pod here
        if pod.claim is None:
            return
        if self._nodes.claim(name, number, pod.claim):
            self.updates.odd("CPUs claimed by two pods, or not available on their node")

    def _unassign(self, number: int, pod: CpuPod) -> None:
        name, pod.node = pod.node, ""
        if not name or pod.claim is None:
            return
        self._nodes.release(name, number)

    # ---- verdicts

    def _judged(self, number: int, need: CpuNeed) -> CpuVerdicts | None:
        """Current verdicts; None where the pod needs nothing here because no node aligns it."""
        nodes, providers = self._nodes, self._providers
        nodes.sync()
        if not (need.own or need.numa.policy is not TopologyPolicy.NONE or nodes.aligning):
            return None
        kind = providers.kind(number)
        marks = providers.marks(kind)
        verdicts = self._by_need.of(need, kind)

        def key(row: int) -> Hashable:
            return row not in nodes.at or likeness(nodes.standing(row), need, [int(mark[row]) for mark in marks])

        def judge(row: int) -> CpuAnswer:
            if row not in nodes.at:
                return CpuAnswer(None)
            return answer(nodes.standing(row), need, providers.of(number, kind, row))

        verdicts.refresh(nodes.versions, marks, key, judge)
        return verdicts
