"""CPUs and NUMA nodes of a cluster: which nodes can give a pod exclusive CPUs, which CPUs they are, and which pods hold them.

Problem: latency-critical pods get exclusive CPUs, close to one another and away from other such pods, on nodes whose topology is reported by another
component; pods and topologies change at any time. Choice: a node rule (engine/framework/node_rules.py): accounts by node name (accounts.py), verdicts by
need and row (verdicts.py), judged by policy/placement/cpus. What a pod was given is stored with its number, so that unassigning and reassigning it
restores the same CPUs. Nodes without a topology cannot give exclusive CPUs. While no node reports a topology, exclusive CPUs are not managed: only pods
that require them wait for one.

It hosts the NUMA alignment: where a NUMA policy of the pod or of the node applies, the hints of CPU and memory are merged with those of the other
node rules (numa_providers.py), which ask here on which NUMA nodes of a row to allocate.

Limits: pods without exclusive CPUs, devices or a NUMA policy are not judged, even on nodes whose labels would bind or align every pod. CPUs are not
reserved for a nominated pod; its request is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Lent, NumaProvider, Rule
from cotenant.engine.rules.cpus.accounts import Claim, CpuAccount, validate_accounts
from cotenant.engine.rules.cpus.amplification import short_of_amplified
from cotenant.engine.rules.cpus.judging import answer, likeness
from cotenant.engine.rules.cpus.numa_providers import NumaProviders
from cotenant.engine.rules.cpus.updates import CpuUpdates
from cotenant.engine.rules.cpus.verdicts import Answer, Verdicts, VerdictsByNeed
from cotenant.engine.rules.cpus.victims import CpuVacate, cpu_column, cpu_vacate
from cotenant.engine.rules.cpus.views import CpusOfNode, described
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.reported import PPM, NodeTopology
from cotenant.model.cpus.spec import ExclusivePolicy, ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology, mask_of, numbers_in
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent
from cotenant.model.resources import CPU_NAME
from cotenant.policy.placement.cpus.drawing import give_from
from cotenant.policy.placement.cpus.needs import CpuNeed, cpu_need, shared_need
from cotenant.policy.placement.cpus.node_fit import CpuNode, Given, Sets, give
from cotenant.policy.placement.numa import no_hints
from cotenant.policy.placement.preemption import Column
from cotenant.policy.placement.preference import Part
from cotenant.policy.placement.refusal import Refusal

NAME = "NodeNUMAResource"
WISH_WEIGHT = 100.0  # score of a row that satisfies the preferences, on the scale of a profile's score
_MOST_TOPOLOGIES = 4096


@dataclass(slots=True)
class _Pod:
    """A watched pod."""

    key: str
    need: CpuNeed | None
    exclusive: ExclusivePolicy
    claim: Claim | None = None  # chosen or reported
    chosen_for: str = ""  # the node that `claim` was chosen for; "" = reported
    node: str = ""  # the node it is assigned to
    elsewhere: Sets = ()  # NUMA nodes for the resources of other rules on the row chosen last
    lent: Mapping[int, Lent] = field(default_factory=dict)  # row -> what is reserved for it there


class Cpus:
    """The CPU rule. Implements `NodeRules`, `Clearing`, `Vacating`, `Lending` and `NumaHost` of engine/framework/node_rules.py."""

    name = NAME

    def __init__(self) -> None:
        self.updates = CpuUpdates(NAME, self.need_of)
        self._accounts: dict[str, CpuAccount] = {}
        self._reporting = 0  # nodes with a reported topology
        self._amplified: set[str] = set()  # nodes with amplified CPU capacity
        self._aligning: set[str] = set()  # nodes with a NUMA policy
        self._providers = NumaProviders()
        self._alive: dict[
            int, CpuTopology
        ] = {}  # by identity; kept alive so that no id is reused while verdicts refer to it
        self._begin(None)

    def _begin(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        self._pods: dict[int, _Pod] = {}
        self._by_need = VerdictsByNeed()
        self._clock = 0
        self._versions: Int = np.zeros(0, dtype=np.int64)
        self._at: dict[int, Node] = {}  # row -> node, as last looked at
        self._revision = -1

    def capture(self) -> Callable[[], Cpus]:
        """A maker of rules with the same topologies and no pods, for a copy of the engine; it reads nothing of these later."""
        reported = tuple(each.reported for each in self._accounts.values() if each.reported is not None)

        def make() -> Cpus:
            made = Cpus()
            for each in reported:
                made.topology_seen(each, 0.0)
            return made

        return make

    # ---- facts about nodes

    def topology_seen(self, reported: NodeTopology, now_s: float) -> None:
        """Record a node's reported topology."""
        account = self._account_of(reported.name)
        if account.reported == reported:
            return
        self._reporting += account.reported is None
        if id(reported.topology) not in self._alive:
            if len(self._alive) >= _MOST_TOPOLOGIES:
                self._alive = {
                    id(each.reported.topology): each.reported.topology
                    for each in self._accounts.values()
                    if each.reported
                }
                self._by_need.forget_alike()
            self._alive[id(reported.topology)] = reported.topology
        account.report(reported)
        (self._amplified.add if reported.ratio_ppm > PPM else self._amplified.discard)(reported.name)
        self._note_policy(reported.name, account)
        self._changed(reported.name, account)

    def topology_gone(self, name: str, now_s: float) -> None:
        """A node's topology is no longer reported; pods keep the CPUs they hold."""
        account = self._accounts.get(name)
        if account is None or account.reported is None:
            return
        self._reporting -= 1
        account.report(None)
        self._amplified.discard(name)
        self._note_policy(name, account)
        self._changed(name, account)
        self._drop_if_idle(name, account)

    def _changed(self, name: str, account: CpuAccount) -> None:
        self._touch_name(name)
        for _ in account.conflicts():
            self.updates.odd("CPUs that a pod holds are no longer available on its node")
        self.updates.changed()

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; reported topologies stay."""
        self._begin(encoder)
        for name, account in list(self._accounts.items()):
            for number in list(account.claims):
                account.release(number)
            self._drop_if_idle(name, account)

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether the pod needs or holds CPUs or NUMA nodes, or asks for devices that a node may have to align."""
        need = cpu_need(pod, demands)
        if need is None and self._providers and asks_devices(pod.requests):
            need = shared_need(pod)
        if need is None and holds.cpus is None:
            return False
        exclusive = need.spec.exclusive if need is not None else ExclusivePolicy.NONE
        entry = self._pods[number] = _Pod(pod.key, need, exclusive)
        if holds.cpus is not None:
            entry.claim = Claim.reported(pod.key, holds.cpus, exclusive)
        return True

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Replace what the pod holds by what is reported; holdings without CPUs change nothing."""
        pod = self._pods.get(number)
        if pod is None or holds.cpus is None:
            return
        claim = Claim.reported(pod.key, holds.cpus, pod.exclusive)
        if claim == pod.claim:
            pod.chosen_for = ""
            return
        name = pod.node
        if name:
            self._unassign(number, pod)
        pod.claim, pod.chosen_for = claim, ""
        if name:
            self._assign(number, pod, name)

    def rules(self, number: int) -> Iterator[Rule]:
        """The rows that can satisfy the pod's CPU need."""
        pod = self._pods.get(number)
        need = pod.need if pod is not None else None
        if pod is None or need is None or not (self._reporting or need.is_strict):
            return
        verdicts = self._judged(number, need)
        if verdicts is None:
            return
        size = len(self._versions)
        for refusal, left in verdicts.refusals(size):
            left[list(pod.lent)] = True
            yield Rule(NAME, refusal.reason, left, refusal.yields, verdicts.nearest)
        for row in pod.lent:
            given = self._given(number, pod, need, row)
            if isinstance(given, Refusal):
                left = np.ones(size, dtype=np.bool_)
                left[row] = False
                yield Rule(NAME, given.reason, left, False)
        if need.own:
            assert self._encoder is not None
            promising = {name: self._accounts[name] for name in self._amplified}
            yield from short_of_amplified(NAME, self._encoder, promising, need.cpu_m)

    def preferences(self, number: int, rows: Int) -> tuple[Part, ...]:
        """Prefer rows where the pod's preferences on its CPUs can be satisfied."""
        pod = self._pods.get(number)
        if pod is None or pod.need is None or not self._reporting or pod.lent:
            return ()
        verdicts = self._judged(number, pod.need)
        if verdicts is None:
            return ()
        kept = verdicts.kept[rows]
        if kept.all() or not kept.any():
            return ()
        return (Part("preferred CPUs", np.where(kept, WISH_WEIGHT, 0.0)),)

    def allocate(self, number: int, row: int) -> None:
        """Select CPUs and NUMA nodes on this row, and take them."""
        pod = self._pods[number]
        name = self._name(row)
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
                    pod.claim = Claim.chosen(pod.key, given, pod.exclusive)
        self._assign(number, pod, name)

    def assign(self, number: int, row: int) -> None:
        """Assign the pod with what it holds; nothing is chosen."""
        self._assign(number, self._pods[number], self._name(row))

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
        accounts = {row: self._account_at(row, self._name(row)) for row in some}
        self._pods[number].lent = {row: lent[row] for row, each in accounts.items() if each is not None and each.node}

    def keep(self, number: int, holds: Holdings) -> None:
        """Set the holdings of an unassigned pod to exactly these."""
        pod = self._pods[number]
        pod.claim = Claim.reported(pod.key, holds.cpus, pod.exclusive) if holds.cpus is not None else None
        pod.chosen_for = ""

    def validate(self) -> None:
        """Check each account against the claims of its pods. Raises `Permanent`."""
        assigned: dict[str, dict[int, Claim]] = {}
        for number, pod in self._pods.items():
            if pod.node and pod.claim is not None:
                assigned.setdefault(pod.node, {})[number] = pod.claim
        validate_accounts(self._accounts, assigned)
        if self._reporting != sum(account.reported is not None for account in self._accounts.values()):
            raise Permanent("the number of nodes with a reported topology is wrong")
        if self._aligning != {name for name, account in self._accounts.items() if account.aligns}:
            raise Permanent("the recorded set of nodes with a NUMA policy is wrong")

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

    def _aligned(self, number: int) -> Verdicts | None:
        pod = self._pods.get(number)
        return self._judged(number, pod.need) if pod is not None and pod.need is not None and self._reporting else None

    # ---- Clearing

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[Column]:
        """CPUs that must be free on each row, as a sum over its pods (engine/cycle/preemption.py)."""
        need = self._pods[number].need
        if need is None or not need.own or not self._reporting:
            return
        verdicts = self._judged(number, need)
        assert verdicts is not None
        known = {row: self._accounts[node.name] for row, node in self._at.items() if node.name in self._accounts}
        yield cpu_column(need, verdicts, known, pods)

    def vacate(self, number: int, row: int) -> CpuVacate | None:
        """Whether the pod's CPU need is met on the row without some holders."""
        need = self._pods[number].need
        if need is None or not self._reporting:
            return None
        kind = self._providers.kind(number)
        return cpu_vacate(
            need,
            self._account_at(row, self._name(row)),
            lambda removed: self._providers.of(number, kind, row, removed),
        )

    # ---- queries

    def describe(self, node: str) -> CpusOfNode | None:
        """A node's CPUs; None where nothing is known."""
        account = self._accounts.get(node)
        return described(node, account) if account is not None else None

    def need_of(self, number: int) -> CpuNeed | None:
        """The CPU need of a watched pod; None for any other."""
        pod = self._pods.get(number)
        return pod.need if pod is not None else None

    def nodes(self) -> tuple[str, ...]:
        """Nodes with an account, by name."""
        return tuple(sorted(self._accounts))

    # ---- assignments

    def _given(self, number: int, pod: _Pod, need: CpuNeed, row: int) -> Given | Refusal | None:
        """What the pod would get on a row; None where no topology is reported. Reserved devices are not realigned."""
        account = self._account_at(row, self._name(row))
        if account is None or account.node is None:
            return None
        lent = pod.lent.get(row)
        has_devices = lent is not None and lent.holds.devices
        others = no_hints if has_devices else self._providers.of(number, self._providers.kind(number), row)
        if lent is None or lent.holds.cpus is None:
            return give(account.node, need, others)
        kept = mask_of(lent.holds.cpus.cpus)
        return give_from(account.node, need, kept, CPU_NAME in lent.strict, others)

    def _name(self, row: int) -> str:
        assert self._encoder is not None
        return self._encoder.node(row).name

    def _account_at(self, row: int, name: str) -> CpuAccount | None:
        """The account of the row's node, with current labels."""
        assert self._encoder is not None
        node = self._encoder.node(row)
        if self._at.get(row) is not node:
            self._note(row, node)
        return self._accounts.get(name)

    def _assign(self, number: int, pod: _Pod, name: str) -> None:
        if pod.node:
            raise Permanent(f"{pod.key} is already assigned to {pod.node}")
        pod.node = name
        if pod.chosen_for not in ("", name):
            pod.claim = None  # chosen on another node; another client bound the pod here
        if pod.claim is None:
            return
        conflicts = self._account_of(name).claim(number, pod.claim)
        if conflicts:
            self.updates.odd("CPUs claimed by two pods, or not available on their node")
        self._touch_name(name)

    def _unassign(self, number: int, pod: _Pod) -> None:
        name, pod.node = pod.node, ""
        if not name or pod.claim is None:
            return
        account = self._accounts[name]
        account.release(number)
        self._touch_name(name)
        self._drop_if_idle(name, account)

    def _account_of(self, name: str) -> CpuAccount:
        """The account of a node, created with its known labels if absent."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = CpuAccount()
            row = self._encoder.node_rows.get(name) if self._encoder is not None else None
            if row is not None and self._encoder is not None:
                account.relabel(self._encoder.node(row).labels)
        return account

    def _note_policy(self, name: str, account: CpuAccount) -> None:
        (self._aligning.add if account.aligns else self._aligning.discard)(name)

    def _drop_if_idle(self, name: str, account: CpuAccount) -> None:
        if account.is_idle:
            del self._accounts[name]

    # ---- verdicts

    def _touch_name(self, name: str) -> None:
        row = self._encoder.node_rows.get(name) if self._encoder is not None else None
        if row is not None:
            self._touch(row)

    def _touch(self, row: int) -> None:
        self._clock += 1
        if row < len(self._versions):
            self._versions[row] = self._clock

    def _note(self, row: int, node: Node) -> None:
        self._at[row] = node
        account = self._accounts.get(node.name)
        if account is not None and account.labels != node.labels:
            account.relabel(node.labels)
            self._note_policy(node.name, account)
        self._touch(row)

    def _sync_nodes(self) -> None:
        """Bring the row-to-node map up to date with the encoder."""
        encoder = self._encoder
        assert encoder is not None
        size = len(encoder.nodes().ready)
        if size > len(self._versions):
            more = np.zeros(size - len(self._versions), dtype=np.int64)
            self._versions = np.concatenate([self._versions, more])
        if self._revision != encoder.revision:
            self._revision = encoder.revision
            gone = self._at.keys() - set(encoder.node_rows.values())
            for row in gone:
                del self._at[row]
                self._touch(row)
            for row in encoder.node_rows.values():
                node = encoder.node(row)
                if self._at.get(row) is not node:
                    self._note(row, node)

    def _judged(self, number: int, need: CpuNeed) -> Verdicts | None:
        """Current verdicts; None where the pod needs nothing here because no node aligns it."""
        self._sync_nodes()
        if not (need.own or need.numa.policy is not TopologyPolicy.NONE or self._aligning):
            return None
        accounts, providers = self._accounts, self._providers
        kind = providers.kind(number)
        marks = providers.marks(kind)
        verdicts = self._by_need.of(need, kind)

        def standing(row: int) -> CpuNode | None:
            known = accounts.get(self._at[row].name)
            return known.node if known is not None else None

        def key(row: int) -> Hashable:
            return row not in self._at or likeness(standing(row), need, [int(each[row]) for each in marks])

        def judge(row: int) -> Answer:
            return answer(standing(row), need, providers.of(number, kind, row)) if row in self._at else Answer(None)

        verdicts.refresh(self._versions, marks, key, judge)
        return verdicts
