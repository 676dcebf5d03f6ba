"""The devices of every node, against holdings that are kept by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.rules.devices.nodes import BY_CLAIMS, UNKNOWN, DeviceNodes
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.devices.partition import PARTITION_POLICY
from cotenant.model.errors import Permanent
from cotenant.model.resources import GPU_CORE, Amounts
from cotenant.policy.placement.devices.ledger import DeviceHolding

NAMES = ("a", "b", "c")


def kept(name: str, healthy: bool = True, count: int = 2) -> NodeDevices:
    devices = (Device(DeviceType.GPU, i, Amounts.of({GPU_CORE: 100}), healthy, id=f"{name}-{i}") for i in range(count))
    return NodeDevices(name, tuple(devices))


def part(minor: int, percent: int) -> DeviceAllocation:
    return DeviceAllocation(DeviceType.GPU, minor, Amounts.of({GPU_CORE: percent}))


def machine(name: str, labels: Labels | None = None) -> Node:
    return Node(name, Amounts.of({"cpu": 1000, "memory": 1 << 30}), labels if labels is not None else Labels.of({}))


def encoder(*names: str) -> Encoder:
    made = Encoder(1.0)
    for name in names:
        made.add_node(machine(name))
    return made


def used(nodes: DeviceNodes, name: str) -> list[int]:
    (pool,) = nodes.by_name[name].ledger.pools
    return [amount for (amount,) in pool.used]


class Model:
    """What is known of the nodes, as plain mappings."""

    def __init__(self) -> None:
        self.facts: dict[str, NodeDevices] = {}
        self.held: dict[str, dict[str, tuple[DeviceAllocation, ...]]] = {name: {} for name in NAMES}
        self.claimed: dict[str, frozenset[str]] = {}

    def used(self, name: str) -> tuple[int, ...] | None:
        facts = self.facts.get(name)
        if facts is None:
            return None
        sums = [100 if device.id in self.claimed.get(name, ()) else 0 for device in facts.devices]
        for allocations in self.held[name].values():
            for one in allocations:
                if one.minor < len(sums):
                    sums[one.minor] += one.amounts.get(GPU_CORE)
        return tuple(sums)

    def likeness(self, name: str) -> object:
        """Equal for nodes on which equal allocations are possible."""
        facts, found = self.facts.get(name), self.used(name)
        return None if facts is None else (tuple(device.healthy for device in facts.devices), found)

    def overlaps(self, name: str) -> int:
        return sum(amount > 100 for amount in self.used(name) or ())


def check(nodes: DeviceNodes, model: Model, there: Encoder) -> None:
    nodes.validate()
    expected = {name for name in NAMES if name in model.facts or model.held[name]}
    by_claims = {name for name in set(nodes.by_name) - expected if nodes.shared.elsewhere.get(name)}
    assert set(nodes.by_name) == expected | by_claims  # a claim of devices that are not reported any more
    expected |= by_claims
    states = nodes.states()
    assert len(states) == there.all_rows
    for name in NAMES:
        row = there.node_rows.get(name, -1)
        if name in expected:
            node = nodes.by_name[name]
            uids = [holding.uid for holding in node.ledger.holdings if holding.uid != BY_CLAIMS]
            assert sorted(uids) == sorted(model.held[name])
            assert len(node.overlaps) == (model.overlaps(name) if name in model.facts else 0)
            assert (node.state == UNKNOWN) is (name not in model.facts)
            assert node.row == row or (node.row == -1 and name not in model.facts)
            if name in model.facts:
                assert tuple(used(nodes, name)) == model.used(name)
                assert nodes.ledgers[node.state].holdings == ()
        if row >= 0:
            assert states[row] == (nodes.by_name[name].state if name in expected else UNKNOWN)
            assert nodes.at(row) is nodes.by_name.get(name)
            assert nodes.name_of(row) == name
    for one in expected:
        for other in expected:
            alike = model.likeness(one) == model.likeness(other)
            assert (nodes.by_name[one].state == nodes.by_name[other].state) is alike


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_events_leaves_the_sums_of_what_is_held(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, model, there = DeviceNodes(), Model(), encoder(*NAMES)
    twice: list[str] = []
    nodes.count = twice.append
    nodes.attach(there)
    overlapping = 0
    for step in range(60):
        name = NAMES[rng.integers(3)]
        before = {(other, i) for other in NAMES for i, amount in enumerate(model.used(other) or ()) if amount > 100}
        match int(rng.integers(8)):
            case 0 | 1:
                facts = kept(name, bool(rng.integers(2)), int(rng.integers(1, 4)))
                nodes.seen(facts)
                model.facts[name] = facts
            case 2:
                nodes.gone(name)
                model.facts.pop(name, None)
            case 3 | 4:
                nodes.take(name, f"p{step}", (taken := part(int(rng.integers(2)), int(rng.choice([20, 50, 100]))),))
                model.held[name][f"p{step}"] = (taken,)
            case 5 | 6:
                uid = min(model.held[name], default="nobody")
                nodes.give_back(name, uid)
                model.held[name].pop(uid, None)
            case _:
                ids = frozenset(f"{name}-{i}" for i in range(3) if rng.integers(2))
                nodes.shared.told(name, ids)
                model.claimed[name] = ids
        after = {(other, i) for other in NAMES for i, amount in enumerate(model.used(other) or ()) if amount > 100}
        overlapping += len(after - before)
        check(nodes, model, there)
    # as often as a device came to be held twice, or with other amounts
    assert len(twice) >= overlapping
    assert set(twice) <= {"a device that is held twice"}


class Noted:
    """A nodes' registry that notes which rows it says have changed."""

    def __init__(self, *names: str) -> None:
        self.nodes, self.there = DeviceNodes(), encoder(*names)
        self.rows: list[int] = []
        self.changes = 0
        self.there.on_row_changed = self.rows.append
        self.nodes.changed = self.change
        self.nodes.attach(self.there)

    def change(self) -> None:
        self.changes += 1

    def told(self) -> tuple[list[int], int]:
        found, self.rows[:], self.changes = (list(self.rows), self.changes), [], 0
        return found


def test_what_changes_a_nodes_devices_is_told_once_and_what_changes_nothing_is_not() -> None:
    w = Noted("a", "b")
    nodes = w.nodes
    nodes.seen(kept("b"))
    assert w.told() == ([1], 1)
    nodes.seen(kept("b"))
    nodes.gone("a")
    nodes.give_back("a", "nobody")
    assert w.told() == ([], 0)
    nodes.seen(kept("nowhere"))
    assert w.told() == ([], 1)
    nodes.shared.told("b", {"b-1"})
    assert w.told() == ([1], 1)
    nodes.shared.told("b", {"b-1", "unknown"})  # the same device of ours
    assert w.told() == ([], 0)
    nodes.gone("b")
    assert w.told() == ([1], 1)
    nodes.gone("b")
    assert w.told() == ([], 0)


def test_the_kubelets_count_of_a_resource_is_not_asked_while_its_devices_are_known() -> None:
    w = Noted("a")
    column = w.there.axis.column("cpu")
    nodes = w.nodes
    w.there.add_pod(Pod("p", requests=Amounts.of({"cpu": 1, "memory": 1, GPU_CORE: 10})))
    gpu = w.there.axis.column(GPU_CORE)
    assert (w.there.nodes().capacity[0, column], w.there.nodes().capacity[0, gpu]) == (1000, 0)
    nodes.seen(kept("a"))
    assert w.there.nodes().capacity[0, gpu] > 1 << 40
    assert w.there.nodes().capacity[0, column] == 1000
    nodes.gone("a")
    assert w.there.nodes().capacity[0, gpu] == 0


def test_pods_tell_the_claims_which_devices_they_hold_by_their_identities() -> None:
    nodes = DeviceNodes()
    told: list[tuple[str, frozenset[str]]] = []
    nodes.shared.tell = lambda node, ids: told.append((node, ids))
    nodes.attach(encoder("a"))
    nodes.take("a", "early", (part(1, 10),))
    assert told == []  # nothing is known of the devices, and claims have none
    unnamed = Device(DeviceType.GPU, 2, Amounts.of({GPU_CORE: 100}))
    upper = NodeDevices("a", (*(replace(device, id=device.id.upper()) for device in kept("a").devices), unnamed))
    nodes.seen(upper)
    assert told[-1] == ("a", frozenset({"a-1"}))
    nodes.take("a", "late", (part(0, 10), part(2, 10)))
    assert told[-1] == ("a", frozenset({"a-0", "a-1"}))
    nodes.shared.told("a", {"a-0"})
    assert used(nodes, "a") == [110, 10, 10]
    nodes.give_back("a", "late")
    assert told[-1] == ("a", frozenset({"a-1"}))  # not what the claims hold themselves
    nodes.give_back("a", "early")
    assert told[-1] == ("a", frozenset())


def test_attached_again_nodes_have_their_devices_and_no_holders() -> None:
    nodes, first = DeviceNodes(), encoder("a", "b")
    nodes.attach(first)
    nodes.seen(kept("a"))
    nodes.shared.told("a", {"a-1"})
    nodes.take("a", "p", (part(0, 100), part(1, 50)))
    nodes.take("b", "q", (part(0, 100),))
    assert nodes.by_name["a"].overlaps
    again = encoder("x", "a")
    nodes.attach(again)
    assert set(nodes.by_name) == {"a"}
    assert used(nodes, "a") == [0, 100]  # the claims' devices are still theirs
    assert nodes.by_name["a"].overlaps == ()
    assert (nodes.states() > 0).tolist() == [False, True]
    nodes.validate()


def test_holdings_are_put_back() -> None:
    nodes = DeviceNodes()
    nodes.attach(encoder("a", "b"))
    nodes.seen(kept("a"))
    nodes.take("a", "p", (part(0, 60),))
    nodes.take("b", "q", (part(1, 60),))
    before, states = nodes.holdings(), nodes.states().tolist()
    nodes.take("a", "r", (part(0, 60),))
    nodes.give_back("b", "q")
    assert nodes.by_name["a"].overlaps
    nodes.put_back(before)
    nodes.validate()
    assert nodes.holdings() == before
    assert (nodes.states().tolist(), nodes.by_name["a"].overlaps) == (states, ())


def test_a_nodes_labels_say_which_devices_go_together_whenever_they_come() -> None:
    nodes, there = DeviceNodes(), encoder("a")
    nodes.attach(there)
    nodes.seen(kept("a"))
    nodes.take("a", "p", (part(0, 60),))
    before = int(nodes.states()[0])
    assert not nodes.by_name["a"].ledger.honor
    there.update_node(machine("a", Labels.of({PARTITION_POLICY: "Honor"})))
    assert nodes.states()[0] != before
    assert nodes.by_name["a"].ledger.honor
    assert used(nodes, "a") == [60, 0]
    nodes.seen(kept("a", healthy=False))  # the labels are kept
    assert nodes.by_name["a"].ledger.honor
    there.add_node(machine("b"))
    nodes.seen(kept("b"))
    assert nodes.states()[0] != nodes.states()[1]
    nodes.validate()


def test_states_are_numbered_anew_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cotenant.engine.rules.devices.nodes._MAX_STATES", 20)
    nodes = DeviceNodes()
    nodes.attach(encoder("a", "b"))
    nodes.seen(kept("b"))
    nodes.take("b", "q", (part(1, 60),))
    nodes.seen(kept("a"))
    most = 0
    for percent in range(60):
        nodes.take("a", f"p{percent}", (part(0, 1),), checked=True)
        most = max(most, len(nodes.ledgers))
        nodes.validate()
    assert (most, nodes.generation) == (21, 3)
    assert used(nodes, "b") == [0, 60]


def test_validation_finds_a_wrong_sum_a_wrong_state_and_a_wrong_row() -> None:
    def made() -> DeviceNodes:
        nodes = DeviceNodes()
        nodes.attach(encoder("a", "b"))
        nodes.seen(kept("a"))
        nodes.take("a", "p", (part(0, 60),))
        nodes.validate()
        return nodes

    nodes = made()
    nodes.by_name["a"].ledger = replace(nodes.by_name["a"].ledger, holdings=())
    with pytest.raises(Permanent, match="devices of a: ledger of gpu"):
        nodes.validate()
    nodes = made()
    nodes.by_name["a"].state = UNKNOWN
    with pytest.raises(Permanent, match="devices of a do not match"):
        nodes.validate()
    nodes = made()
    nodes.by_name["a"].ledger = nodes.by_name["a"].ledger.observed(DeviceHolding("q", (part(1, 5),)))
    with pytest.raises(Permanent, match="devices of a do not match"):
        nodes.validate()
    nodes = made()
    nodes.states()[0] = 7
    with pytest.raises(Permanent, match="state of row 0 differs from that of a"):
        nodes.validate()
    nodes = made()
    nodes.states()[1] = 7
    with pytest.raises(Permanent, match="rows without a node"):
        nodes.validate()
