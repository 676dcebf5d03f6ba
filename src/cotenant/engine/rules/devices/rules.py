"""Devices of nodes as a rule of nodes: who may have which part of which device, chosen with the node and written with the bind.

Problem: GPUs and cards are given out in parts and groups, which no sum over a row can judge; objects that tell of them come late, change, and go while
pods hold them; and others give devices too. Choice: what is asked is judged once for each state that a node's devices are in (device_rules_nodes.py,
device_rules_verdicts.py), so a pod costs a look at the rows that changed and one choice on the row that won. What a pod was given is its `Holdings`,
from which all of this is built again. A pod that sits on a node with devices and says nothing of what it was given (kubelet chose, or it is only
promised the node) is taken to hold what would be chosen for it, so that as much stays free as really is; nobody is told so.

Which resources the row's own sums see: of a node with a Device object, those that its allocatable names, since its kubelet counts them too; the others
are judged here alone. Of a node without one, all: whole cards are then counted, and whatever needs to know which device is refused.

Where a NUMA policy holds, the host of the alignment (engine/node_rules.NumaHost) is given hints and says on which NUMA nodes of a row the devices have
to lie. It refuses where they cannot; here rows are judged as without, and worth and choice are within what it says.

Limits: a pod that is taken to hold what would be chosen for it is not aligned; the device that a kubelet's own plugin hands out may be another than
the one chosen.

Source: Koordinator, DeviceShare.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Lent, NumaHost, Rule
from cotenant.engine.rules.devices.lending import judge_lent
from cotenant.engine.rules.devices.nodes import UNKNOWN, DeviceNodes
from cotenant.engine.rules.devices.requests import Ask, Asks, DeviceSettings
from cotenant.engine.rules.devices.verdicts import AllVerdicts
from cotenant.engine.rules.devices.victims import device_columns
from cotenant.engine.rules.devices.views import NodeDeviceSummary, summary
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent
from cotenant.policy.placement.numa import Hints
from cotenant.policy.placement.preemption import Column
from cotenant.policy.placement.preference import Part

PLUGIN = "DeviceShare"
SETTINGS = DeviceSettings()


@dataclass(slots=True)
class _Pod:
    """One pod that has to do with devices."""

    key: str
    ask: Ask | str | None  # a sentence where what it asks contradicts itself; None = it only holds
    given: tuple[DeviceAllocation, ...]
    given_on: str = ""  # the node that `given` was chosen on; empty = told by an annotation
    node: str = ""  # where it sits
    is_guess: bool = False  # it sits, and what it holds is a guess
    is_exact: bool = False  # it holds what it was said to hold, also if that is nothing
    lent: Mapping[int, Lent] = field(default_factory=dict)  # row -> what is kept for it there


class DeviceRules:
    """Meets engine/node_rules.NodeRules, its Clearing, its Lending and NumaProvider."""

    name = PLUGIN

    def __init__(self, settings: DeviceSettings = SETTINGS) -> None:
        self.settings = settings
        self.nodes = DeviceNodes()
        self._pods: dict[int, _Pod] = {}
        self._bare: dict[
            str, set[int]
        ] = {}  # node -> pods that sit there, ask for devices, and of which nobody said what they have
        self._asks = Asks(settings)
        self._verdicts = AllVerdicts(self.nodes)
        self._encoder: Encoder | None = None
        self._host: NumaHost | None = None

    # ---- facts

    def seen(self, facts: NodeDevices, now_s: float = 0.0) -> None:
        """A Device object as it is now."""
        self.nodes.seen(facts)
        for number in sorted(self._bare.pop(facts.node, ())):
            self._sit(number, self._pods[number], facts.node)

    def gone(self, name: str, now_s: float = 0.0) -> None:
        """A Device object was deleted, or cannot be read."""
        self.nodes.gone(name)

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Begin anew: no pod is known, rows are this encoder's; devices stay."""
        self._encoder = encoder
        self._pods.clear()
        self._bare.clear()
        self._asks = Asks(self.settings)
        self._verdicts.clear()
        self.nodes.attach(encoder)

    def watch(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether it asks for devices or was given some."""
        asks = asks_devices(pod.requests)
        if not (asks or holds.devices):
            return False
        self._pods[number] = _Pod(pod.key, self._asks.read(number, pod, demands) if asks else None, holds.devices)
        return True

    def held(self, number: int, holds: Holdings) -> None:
        """What it was given was told anew; nothing told of devices leaves what is known."""
        pod = self._pods[number]
        if not holds.devices or (holds.devices == pod.given and not pod.is_guess):
            return
        name = pod.node
        if name:
            self._leave(number, pod)
        pod.given, pod.given_on = holds.devices, ""
        if name:
            self._sit(number, pod, name)
            self._touch(name)

    def rules(self, number: int) -> Iterator[Rule]:
        """A rule for each reason for which rows refuse."""
        ask, lent = self._pods[number].ask, self._pods[number].lent
        if isinstance(ask, str):
            yield Rule(PLUGIN, ask, np.zeros(len(self.nodes.states()), dtype=np.bool_), False)
        elif ask is not None:
            verdicts = self._verdicts.of(ask)
            present = np.bincount(verdicts.codes, minlength=len(verdicts.reasons))
            strict = self._host.strict(number) if self._host is not None else None
            for code, (reason, yields) in enumerate(verdicts.reasons):
                if code and present[code]:
                    figures = partial(verdicts.figures, self.nodes, code)
                    left = verdicts.codes != code
                    left[list(lent)] = True
                    if not yields or strict is None:
                        yield Rule(PLUGIN, reason, left, yields, figures)
                        continue
                    yield Rule(PLUGIN, reason, left | strict, True, figures)
                    yield Rule(PLUGIN, reason, left | ~strict, False, figures)
            for row, kept in lent.items():
                refusal = judge_lent(self.nodes, ask, row, kept).refusal
                if refusal is not None:
                    left = np.ones(len(verdicts.codes), dtype=np.bool_)
                    left[row] = False
                    yield Rule(PLUGIN, refusal.reason, left, False)

    def wishes(self, number: int, rows: Int) -> tuple[Part, ...]:
        """The strategy's choice between nodes, the worst 0 and the best 100 as a profile's score; nothing where it makes no difference."""
        ask = self._pods[number].ask
        if not isinstance(ask, Ask) or self.settings.weight == 0.0 or self._pods[number].lent:
            return ()
        verdicts = self._verdicts.of(ask)
        where = self._host.affinities(number, ask.name) if self._host is not None else None
        values = (verdicts.worths if where is None else verdicts.worths_within(self.nodes, where))[rows]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if low == high:
            return ()
        return (Part("devices", self.settings.weight * (100.0 / (high - low)) * (values - low)),)

    def choose(self, number: int, row: int) -> None:
        """Choose on a row that the rules left. Raises `Permanent` where nothing is left after all."""
        pod = self._pods[number]
        name = self.nodes.name_of(row)
        pod.given, pod.given_on = (), name
        if isinstance(pod.ask, Ask) and row in pod.lent:
            verdict = judge_lent(self.nodes, pod.ask, row, pod.lent[row])
            if verdict.refusal is not None:
                raise Permanent(f"devices kept on {name}: {verdict.refusal.reason} ({verdict.refusal.nearest})")
            pod.given = verdict.chosen
        elif isinstance(pod.ask, Ask):
            within = self._host.affinity(number, pod.ask.name) if self._host is not None else None
            pod.given = self._chosen(pod.ask, name, within)
        elif pod.ask is not None:
            raise Permanent(f"pod {pod.key} was placed, and its devices cannot be chosen: {pod.ask}")
        pod.node = name
        if pod.given:
            self.nodes.take(name, str(number), pod.given, checked=True)
        elif pod.ask is not None:
            self._bare.setdefault(name, set()).add(number)

    def assign(self, number: int, row: int) -> None:
        """It sits there: what it holds is taken, or guessed."""
        self._sit(number, self._pods[number], self.nodes.name_of(row))

    def leave(self, number: int) -> None:
        """It left its node; what it held is free, and remembered."""
        self._leave(number, self._pods[number])

    def forget(self, number: int) -> None:
        """It is gone for good."""
        pod = self._pods.pop(number)
        if pod.node:
            self._leave(number, pod)
        if isinstance(pod.ask, Ask):
            pod.ask.pods.discard(number)

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """`holds` with the pod's devices."""
        pod = self._pods[number]
        return replace(holds, devices=pod.given) if pod.given and not pod.is_guess else holds

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[Column]:
        """What of these residents stands in the pod's way on devices."""
        ask = self._pods[number].ask
        if isinstance(ask, Ask):
            held = [self._held_by(other) for other in pods.tolist()]
            strict = self._host.strict(number) if self._host is not None else None
            yield from device_columns(self.nodes, self._verdicts.of(ask), held, rows, strict)

    # ---- NumaProvider

    def hosted(self, host: NumaHost) -> None:
        """This one says where devices have to lie together with what others keep."""
        self._host = host
        self.nodes.changed = host.provided

    def numa_kind(self, number: int) -> Hashable:
        """What it asks."""
        pod = self._pods.get(number)
        return pod.ask if pod is not None and isinstance(pod.ask, Ask) else None

    def numa_marks(self) -> Int:
        """The states of all rows' devices."""
        return self.nodes.states() + (self.nodes.generation << 32)

    def numa_hints(self, number: int, row: int, numa_nodes: tuple[int, ...]) -> Hints:
        """The sets on which all devices of the pod could be had together."""
        ask = self._pods[number].ask
        if not isinstance(ask, Ask):
            return {}
        return self._verdicts.as_known(ask).hints(self.nodes, int(self.nodes.states()[row]), numa_nodes)

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """Until told otherwise the pod is judged on these rows by what is kept for it there."""
        self._pods[number].lent = {row: kept for row, kept in lent.items() if kept.holds.devices}

    def keep(self, number: int, holds: Holdings) -> None:
        """A pod that sits nowhere holds this and nothing else."""
        pod = self._pods[number]
        pod.given, pod.given_on, pod.is_exact = holds.devices, "", True

    def validate(self) -> None:
        """What is free and what is held add up. Raises `Permanent`."""
        self.nodes.validate()
        expected: dict[str, set[str]] = {}
        for number, pod in self._pods.items():
            if pod.node and (pod.given or pod.is_guess):
                expected.setdefault(pod.node, set()).add(str(number))
        for name, node in self.nodes.by_name.items():
            told = {holding.uid for holding in node.ledger.holdings}
            if not told <= expected.get(name, set()):
                raise Permanent(f"devices of {name} are held by pods that do not sit there")
        for number, pod in self._pods.items():
            if pod.node and pod.given and not pod.is_guess:
                node_ = self.nodes.by_name.get(pod.node)
                kept = [h.allocations for h in node_.ledger.holdings if h.uid == str(number)] if node_ else []
                if kept != [pod.given]:
                    raise Permanent(f"pod {pod.key} holds devices of {pod.node} that are not kept for it")

    # ---- questions

    def describe(self, node: str) -> NodeDeviceSummary | None:
        """A node's devices and their holders; None for one of which nothing is known."""
        found = self.nodes.by_name.get(node)
        if found is None:
            return None
        names = {str(number): (pod.key, pod.is_guess) for number, pod in self._pods.items() if pod.node == node}
        return summary(found, names)

    def summaries(self) -> Iterator[NodeDeviceSummary]:
        """Of every node of which something is known."""
        by_node: dict[str, dict[str, tuple[str, bool]]] = {}
        for number, pod in self._pods.items():
            if pod.node:
                by_node.setdefault(pod.node, {})[str(number)] = (pod.key, pod.is_guess)
        for name, node in self.nodes.by_name.items():
            yield summary(node, by_node.get(name, {}))

    def obstacle(self, number: int) -> str:
        """What contradicts itself in what a watched pod asks; empty where nothing does."""
        pod = self._pods.get(number)
        return f"{PLUGIN}: {pod.ask}" if pod is not None and isinstance(pod.ask, str) else ""

    # ---- within

    def _chosen(self, ask: Ask, name: str, numa: int | None = None) -> tuple[DeviceAllocation, ...]:
        """By the state's verdict, with this node's own identities."""
        node = self.nodes.by_name.get(name)
        verdict = self._verdicts.as_known(ask).of(self.nodes, node.state if node is not None else UNKNOWN, numa)
        if verdict.refusal is not None:
            raise Permanent(f"devices of {name}: {verdict.refusal.reason} ({verdict.refusal.nearest})")
        if node is None:
            return verdict.chosen
        found = []
        for each in verdict.chosen:
            pool = node.ledger.pool(each.type)
            device = pool.inventory.devices[each.minor] if pool is not None else None
            same = device is None or device.id == each.id
            found.append(
                each
                if same or device is None
                else DeviceAllocation(each.type, each.minor, each.amounts, each.functions, device.id)
            )
        return tuple(found)

    def _sit(self, number: int, pod: _Pod, name: str) -> None:
        pod.node = name
        if pod.given and pod.given_on in ("", name):
            self.nodes.take(name, str(number), pod.given)
            return
        if not isinstance(pod.ask, Ask) or pod.is_exact:
            return
        node = self.nodes.by_name.get(name)
        if node is None or node.facts is None:
            self._bare.setdefault(name, set()).add(number)
            return
        if self._verdicts.as_known(pod.ask).of(self.nodes, node.state).chosen:
            pod.is_guess = True
            self.nodes.take(name, str(number), self._chosen(pod.ask, name), checked=True)
        else:
            self._bare.setdefault(name, set()).add(number)

    def _leave(self, number: int, pod: _Pod) -> None:
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

    def _held_by(self, number: int) -> tuple[str, str]:
        """Where a resident sits, and its name among the holders there; empty for one that holds no device."""
        pod = self._pods.get(number)
        return (pod.node, str(number)) if pod is not None and pod.node else ("", "")
