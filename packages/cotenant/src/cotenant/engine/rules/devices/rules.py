"""The device rule: which pods get which part of which device, chosen together with the node and written with the bind.

GPUs and cards are allocated in parts and groups, which no sum over a row can check; the objects that describe them
arrive late, change, and disappear while pods hold devices; and other components allocate devices too. A request is
judged once per distinct state of a node's devices (nodes.py, verdicts.py), so a pod costs a look at the changed rows
and one choice on the selected row. What a pod was given is in its `Holdings`, from which all state can be rebuilt. A
pod assigned to a node with devices without a reported allocation (the kubelet chose, or the pod is only nominated) is
assumed to hold what would be chosen for it, so that the free amount is right; the assumption is not written anywhere.

Which resources are also checked by the row's sums: on a node with a Device object, those named in allocatable, since
its kubelet counts them too; the others are checked here only. On a node without one, all: whole cards are counted, and
a request that needs specific devices is refused.

Where a NUMA policy applies, the host of the alignment (engine/framework/node_rules.NumaHost) receives hints and returns
the NUMA nodes of a row on which to allocate. The host refuses rows without an alignment; here rows are judged without
it, and score and choice stay within the returned NUMA nodes.

Limits: assumed holdings are not aligned; the device that a kubelet plugin hands out may differ from the one chosen
here.

Source: Koordinator, DeviceShare.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import Lent, NumaHost, RuleResult
from cotenant.engine.rules.devices.device_pod import DevicePod, check_holdings
from cotenant.engine.rules.devices.device_view import NodeDeviceSummary, summary
from cotenant.engine.rules.devices.lending import judge_lent
from cotenant.engine.rules.devices.measured_needs import MeasuredNeeds
from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.preferring import beside, preferences
from cotenant.engine.rules.devices.requests import Asks, DeviceSettings, DistinctDeviceRequest
from cotenant.engine.rules.devices.verdicts import DeviceVerdictCache, hints_of
from cotenant.engine.rules.devices.victims import DeviceVacate, device_columns, device_vacate, ledger_without
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent
from cotenant.model.machine.node_metric import NodeMetric
from cotenant.policy.placement.numa import Hints
from cotenant.policy.placement.preemption import ConstraintColumn
from cotenant.policy.placement.preference import PreferencePart

PLUGIN = "DeviceShare"
SETTINGS = DeviceSettings()


class DeviceRules:
    """Implements `NodeRules`, `ClearingRules`, `Vacating`, `LendingRules` and `NumaProvider` of
    engine/framework/node_rules.py.
    """

    name = PLUGIN

    def __init__(self, settings: DeviceSettings = SETTINGS) -> None:
        self.settings = settings
        self.nodes = DeviceNodes()
        self._pods: dict[int, DevicePod] = {}
        self._bare: dict[str, set[int]] = {}  # node -> assigned pods that ask for devices, with unknown holdings
        self._asks = Asks(settings)
        self.needs = MeasuredNeeds()
        self._verdicts = DeviceVerdictCache(self.nodes)
        self._encoder: Encoder | None = None
        self._host: NumaHost | None = None

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`: which devices were chosen or assumed, also for pods without a node."""
        memento = Memento((*self._pods.values(), self._pods, self._bare))
        holdings = self.nodes.holdings()

        def put_back() -> None:
            memento.restore()
            self.nodes.put_back(holdings)

        return put_back

    # ---- facts about nodes

    def judges(self, node: Node, resource: str) -> bool:
        """Whether a node's Device object has the devices of a resource."""
        found = self.nodes.by_name.get(node.name)
        return found is not None and found.facts is not None and resource in found.facts.judged_resources()(node)

    def capture(self) -> Callable[[], DeviceRules]:
        """A maker of rules with the same devices and no pods, for a copy of the engine; it reads nothing of these
        later.
        """
        settings, needs = self.settings, self.needs.copy()
        found = tuple(device_node.facts for device_node in self.nodes.by_name.values() if device_node.facts)

        def make() -> DeviceRules:
            made = DeviceRules(settings)
            made.needs = needs.copy()
            for node_devices in found:
                made.seen(node_devices)
            return made

        return make

    def seen(self, facts: NodeDevices, now_s: float = 0.0) -> None:
        """Record a Device object."""
        self.nodes.seen(facts)
        for number in sorted(self._bare.pop(facts.node, ())):
            self._assign(number, self._pods[number], facts.node)

    def gone(self, name: str, now_s: float = 0.0) -> None:
        """A Device object was deleted, or cannot be read."""
        self.nodes.gone(name)

    def metric_seen(self, metric: NodeMetric) -> None:
        """What a node measured of its pods: what pods like them need of a card."""
        if not self.settings.neighbours or metric.is_empty or metric.age_s > 2 * metric.interval_s:
            return
        for key, measured in (metric.pods or {}).items():
            number = self.needs.number_of(key)
            if number is None or self._pods[number].node != metric.node:
                continue
            for other, described, demands in self.needs.measured(key, measured.signals):
                self._needs_now(other, described, demands)

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; devices stay."""
        self._encoder = encoder
        self._pods.clear()
        self._bare.clear()
        self._asks = Asks(self.settings)
        self._verdicts.clear()
        self.nodes.attach(encoder)

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether the pod asks for devices or holds some."""
        asks = asks_devices(pod.requests)
        if not (asks or holds.devices):
            return False
        need = self.needs.follow(number, pod, demands) if self.settings.neighbours else NO_NEED
        ask = self._asks.read(number, pod, demands, need) if asks else None
        self._pods[number] = DevicePod(pod.key, ask, holds.devices, need=need)
        return True

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Replace what the pod holds by what is reported; holdings without devices change nothing."""
        pod = self._pods[number]
        if not holds.devices or (holds.devices == pod.given and not pod.is_guess):
            return
        name = pod.node
        if name:
            self._leave(number, pod)
        pod.given, pod.given_on = holds.devices, ""
        if name:
            self._assign(number, pod, name)
            self._touch(name)

    def rules(self, number: int) -> Iterator[RuleResult]:
        """One rule for each reason of refusal."""
        ask, lent = self._pods[number].ask, self._pods[number].lent
        if isinstance(ask, str):
            yield RuleResult(PLUGIN, ask, np.zeros(len(self.nodes.states()), dtype=np.bool_), False)
        elif ask is not None:
            verdicts = self._verdicts.of(ask)
            present = np.bincount(verdicts.codes, minlength=len(verdicts.reasons))
            for code, (reason, yields) in enumerate(verdicts.reasons):
                if code and present[code]:
                    left = verdicts.codes != code
                    left[list(lent)] = True
                    yield RuleResult(PLUGIN, reason, left, yields, partial(verdicts.figures, self.nodes, code))
            for row, kept in lent.items():
                refusal = judge_lent(self.nodes, ask, row, kept).refusal
                if refusal is not None:
                    left = np.ones(len(verdicts.codes), dtype=np.bool_)
                    left[row] = False
                    yield RuleResult(PLUGIN, refusal.reason, left, False)

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """The strategy's preference between nodes, and that for neighbours which want other things of a card."""
        ask = self._pods[number].ask
        if not isinstance(ask, DistinctDeviceRequest) or self._pods[number].lent:
            return ()
        verdicts = self._verdicts.of(ask)
        where = self._host.affinities(number, ask.name) if self._host is not None else None
        worths, points = verdicts.within(self.nodes, where) if where is not None else (verdicts.worths, verdicts.points)
        return preferences(self.settings, worths[rows], points[rows])

    def allocate(self, number: int, row: int) -> None:
        """Choose devices on a row that passed. Raises `Permanent` where nothing is available after all."""
        pod = self._pods[number]
        name = self.nodes.name_of(row)
        pod.given, pod.given_on = (), name
        if isinstance(pod.ask, DistinctDeviceRequest) and row in pod.lent:
            verdict = judge_lent(self.nodes, pod.ask, row, pod.lent[row])
            if verdict.refusal is not None:
                raise Permanent(f"devices reserved on {name}: {verdict.refusal.reason} ({verdict.refusal.nearest})")
            pod.given = verdict.chosen
        elif isinstance(pod.ask, DistinctDeviceRequest):
            within = self._host.affinity(number, pod.ask.name) if self._host is not None else None
            pod.given = self._chosen(pod.ask, name, within)
        elif pod.ask is not None:
            raise Permanent(f"pod {pod.key} was placed, but its devices cannot be chosen: {pod.ask}")
        pod.node = name
        if pod.given:
            self.nodes.take(name, str(number), pod.given, checked=True, need=pod.need)
        elif pod.ask is not None:
            self._bare.setdefault(name, set()).add(number)

    def assign(self, number: int, row: int) -> None:
        """Assign the pod: enter what it holds, or assume it."""
        self._assign(number, self._pods[number], self.nodes.name_of(row))

    def unassign(self, number: int) -> None:
        """Release what the pod holds; it is remembered."""
        self._leave(number, self._pods[number])

    def remove_pod(self, number: int) -> None:
        """The pod has left the cluster."""
        pod = self._pods.pop(number)
        self.needs.forget(number, pod.key)
        if pod.node:
            self._leave(number, pod)
        if isinstance(pod.ask, DistinctDeviceRequest):
            pod.ask.pods.discard(number)

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """`holds` with the pod's devices, and what enforces its share of a GPU."""
        pod = self._pods[number]
        ask = pod.ask if isinstance(pod.ask, DistinctDeviceRequest) else None
        share = "" if ask is None else self.nodes.share(pod.node, ask.is_share, ask.plain)
        if pod.is_guess or not (pod.given or (share and ask is not None and ask.plain)):
            return holds
        return replace(holds, devices=pod.given or holds.devices, gpu_share=share)

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[ConstraintColumn]:
        """What of these residents blocks the pod on devices."""
        ask = self._pods[number].ask
        if isinstance(ask, DistinctDeviceRequest):
            yield from device_columns(
                self.nodes, self._verdicts.of(ask), [self._holder(other) for other in pods.tolist()], rows
            )

    def vacate(self, number: int, row: int, nominated: tuple[int, ...] = ()) -> DeviceVacate | None:
        """Whether the pod's devices can be allocated on the row without some holders, beside nominated pods."""
        ask = self._pods[number].ask
        if not isinstance(ask, DistinctDeviceRequest):
            return None
        others = [self._pods[entry].ask for entry in nominated if entry in self._pods]
        return device_vacate(
            ask, self.nodes.at(row), tuple(entry for entry in others if isinstance(entry, DistinctDeviceRequest))
        )

    # ---- NumaProvider

    def hosted(self, host: NumaHost) -> None:
        """Set the host that decides on which NUMA nodes devices are allocated."""
        self._host = host
        self.nodes.changed = host.provided

    def numa_kind(self, number: int) -> Hashable:
        """The pod's ask."""
        pod = self._pods.get(number)
        return pod.ask if pod is not None and isinstance(pod.ask, DistinctDeviceRequest) else None

    def numa_marks(self) -> Int:
        """The device states of all rows."""
        return self.nodes.states() + (self.nodes.generation << 32)

    def numa_hints(
        self, number: int, row: int, numa_nodes: tuple[int, ...], without: frozenset[int] = frozenset()
    ) -> Hints:
        """The NUMA node sets that can hold all devices of the pod."""
        ask = self._pods[number].ask
        if not isinstance(ask, DistinctDeviceRequest):
            return {}
        node = self.nodes.at(row) if without else None
        if node is not None:
            return hints_of(ask, ledger_without(node, without), numa_nodes)
        return self._verdicts.as_known(ask).hints(self.nodes, int(self.nodes.states()[row]), numa_nodes)

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """From now on judge the pod on these rows by what is reserved for it there."""
        self._pods[number].lent = {row: kept for row, kept in lent.items() if kept.holds.devices}

    def keep(self, number: int, holds: Holdings) -> None:
        """Set the holdings of an unassigned pod to exactly these."""
        pod = self._pods[number]
        pod.given, pod.given_on, pod.is_exact = holds.devices, "", True

    def validate(self) -> None:
        """Check ledgers and holdings against each other. Raises `Permanent`."""
        self.nodes.validate()
        check_holdings(self._pods, self.nodes.by_name)

    # ---- queries

    def describe(self, node: str) -> NodeDeviceSummary | None:
        """A node's devices and their holders; None where nothing is known."""
        found = self.nodes.by_name.get(node)
        if found is None:
            return None
        names = {str(number): (pod.key, pod.is_guess) for number, pod in self._pods.items() if pod.node == node}
        return summary(found, names)

    def summaries(self) -> Iterator[NodeDeviceSummary]:
        """The devices and holders of every known node."""
        by_node: dict[str, dict[str, tuple[str, bool]]] = {}
        for number, pod in self._pods.items():
            if pod.node:
                by_node.setdefault(pod.node, {})[str(number)] = (pod.key, pod.is_guess)
        for name, node in self.nodes.by_name.items():
            yield summary(node, by_node.get(name, {}))

    def beside(self, number: int) -> tuple[str, ...]:
        """What speaks against the neighbours of a pod on its cards; nothing while needs are not looked at."""
        pod = self._pods.get(number)
        node = self.nodes.by_name.get(pod.node) if pod is not None else None
        return tuple(beside(node.ledger, pod.need, pod.given)) if node is not None and pod is not None else ()

    def need_of(self, number: int, pod: Pod) -> str:
        """What a pod needs of a card as measured of its like; empty where it is not."""
        known = self._pods.get(number)
        return self.needs.sentence(pod, known.need) if known is not None else ""

    def obstacle(self, number: int) -> str:
        """The contradiction in a watched pod's request; empty for none."""
        pod = self._pods.get(number)
        return f"{PLUGIN}: {pod.ask}" if pod is not None and isinstance(pod.ask, str) else ""

    # ---- internals

    def _needs_now(self, number: int, described: Pod, demands: Demands) -> None:
        """Judge a pod, and its neighbours on its cards, by what it needs now."""
        pod = self._pods[number]
        pod.need = self.needs.of(described, demands)
        if isinstance(pod.ask, DistinctDeviceRequest):
            pod.ask.pods.discard(number)
            pod.ask = self._asks.read(number, described, demands, pod.need)
        if pod.node and pod.given:
            self.nodes.give_back(pod.node, str(number))
            self.nodes.take(pod.node, str(number), pod.given, need=pod.need)
            self._touch(pod.node)

    def _chosen(self, ask: DistinctDeviceRequest, name: str, numa: int | None = None) -> tuple[DeviceAllocation, ...]:
        """The allocation from the state's verdict, with this node's device ids."""
        node = self.nodes.by_name.get(name)
        verdict = self._verdicts.as_known(ask).of(self.nodes, node.state if node is not None else UNKNOWN, numa)
        if verdict.refusal is not None:
            raise Permanent(f"devices of {name}: {verdict.refusal.reason} ({verdict.refusal.nearest})")
        return verdict.chosen if node is None else node.ledger.identified(verdict.chosen)

    def _assign(self, number: int, pod: DevicePod, name: str) -> None:
        pod.node = name
        if pod.given and pod.given_on in ("", name):
            self.nodes.take(name, str(number), pod.given, need=pod.need)
            return
        if not isinstance(pod.ask, DistinctDeviceRequest) or pod.is_exact:
            return
        node = self.nodes.by_name.get(name)
        if node is None or node.facts is None:
            self._bare.setdefault(name, set()).add(number)
            return
        if self._verdicts.as_known(pod.ask).of(self.nodes, node.state).chosen:
            pod.is_guess = True
            self.nodes.take(name, str(number), self._chosen(pod.ask, name), checked=True, need=pod.need)
        else:
            self._bare.setdefault(name, set()).add(number)

    def _leave(self, number: int, pod: DevicePod) -> None:
        self.nodes.give_back(pod.node, str(number))
        bare = self._bare.get(pod.node)
        if bare is not None:
            bare.discard(number)
            if not bare:
                del self._bare[pod.node]
        pod.node, pod.is_guess = "", False

    def _touch(self, name: str) -> None:
        node = self.nodes.by_name.get(name)
        if node is not None:
            self.nodes.touch(node)

    def _holder(self, number: int) -> str:
        """A resident's uid in the ledger of its node; empty if it has none."""
        pod = self._pods.get(number)
        return str(number) if pod is not None and pod.node else ""
