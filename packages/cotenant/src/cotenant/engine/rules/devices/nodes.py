"""The devices of every node, their holders, and a number for the state of each node.

Ten thousand machines with eight GPUs are in a few hundred distinct states; judging every machine for every pod would
judge the same state thousands of times. A ledger per node (policy/placement/devices/ledger.py), and one state number
for all nodes with equal devices in equal use: an allocation valid on one is valid on all of them, with the same minors.
Nodes are known by name, with or without a row; holders outlive the Device object.
Limits: states are renumbered when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.one_inventory import OneInventory
from cotenant.model.arrays import Int
from cotenant.model.cluster.demands import UNENFORCED
from cotenant.model.cluster.labels import NO_LABELS, Labels
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.card_need import NO_NEED, CardNeed
from cotenant.model.devices.inventory import NodeDevices, plugin_shares
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.policy.placement.devices.ledger import DeviceHolding, DeviceLedger
from cotenant.policy.placement.devices.overlap import overlaps

BY_CLAIMS = "claims"  # stands for a pod in a node's ledger: devices that claims have
UNKNOWN = 0  # the state of a node without a Device object
_MAX_STATES = 50_000
_NOTHING = DeviceLedger(())


@dataclass(slots=True)
class DeviceNode:
    """One node. `facts` None = no Device object."""

    name: str
    facts: NodeDevices | None = None
    labels: Labels = NO_LABELS
    ledger: DeviceLedger = _NOTHING
    form: int = 0  # equal for nodes with equal devices
    state: int = UNKNOWN
    row: int = -1
    overlaps: tuple[str, ...] = field(default=())


class DeviceNodes:
    """The devices of all nodes."""

    def __init__(self) -> None:
        self.by_name: dict[str, DeviceNode] = {}
        self.ledgers: list[DeviceLedger] = [_NOTHING]  # by state: a representative ledger without holders
        self.generation = 0  # changes when states are renumbered
        self.count: Callable[[str], None] = _ignore
        self.changed: Callable[[], None] = _nothing  # called when a node's devices, or reported holdings, changed
        self.shared = OneInventory()  # with claims of devices
        self.shared.changed = self._claimed
        self._forms: dict[Hashable, int] = {}
        self._states: dict[Hashable, int] = {}
        self._encoder: Encoder | None = None
        self._revision = -1
        self._rows: Int = np.zeros(0, dtype=np.int64)

    def attach(self, encoder: Encoder) -> None:
        """Start over with these rows and no holders."""
        self._encoder = encoder
        self._revision = -1
        for node in list(self.by_name.values()):
            node.row = -1
            node.labels = NO_LABELS
            if node.facts is None:
                del self.by_name[node.name]
                continue
            node.ledger = _ledger(node.facts, node.labels)
            node.form = self._form(node.ledger)
            node.overlaps = ()
            encoder.set_unlimited(node.name, node.facts.judged_resources())
            self._restate(node)
            self._claimed(node.name)

    # ---- facts

    def seen(self, facts: NodeDevices) -> None:
        """Record a node's Device object."""
        node = self.by_name.setdefault(facts.node, DeviceNode(facts.node))
        if node.facts == facts:
            return
        node.facts = facts
        self._refresh(node)
        if self._encoder is not None:
            self._encoder.set_unlimited(node.name, facts.judged_resources())
        self._claimed(facts.node)
        self.touch(node)

    def gone(self, name: str) -> None:
        """The Device object was deleted, or can no longer be read; holders keep what they hold."""
        node = self.by_name.get(name)
        if node is None or node.facts is None:
            return
        node.facts = None
        self._refresh(node)
        if self._encoder is not None:
            self._encoder.set_unlimited(name, None)
        self.touch(node)
        self._drop_if_empty(node)

    def touch(self, node: DeviceNode) -> None:
        """Mark the node as changed for other rules and providers."""
        encoder = self._encoder
        row = encoder.node_rows.get(node.name) if encoder is not None else None
        if encoder is not None and row is not None:
            encoder.on_row_changed(row)
        self.changed()

    def _refresh(self, node: DeviceNode) -> None:
        """Move the current holders to a new ledger over the devices as now reported."""
        encoder = self._encoder
        if encoder is not None and node.row < 0 and encoder.labels_revision == self._revision:
            node.row = encoder.node_rows.get(node.name, -1)
            node.labels = encoder.node(node.row).labels if node.row >= 0 else NO_LABELS
        ledger = _ledger(node.facts, node.labels)
        for holding in node.ledger.holdings:
            ledger = ledger.observed(holding)
        node.ledger = ledger
        node.form = self._form(ledger)
        self._restate(node)
        self._compare(node)

    def isolation(self, name: str) -> str:
        """What enforces shares of a node's GPUs; empty where nothing is said to."""
        node = self.by_name.get(name)
        return node.ledger.isolation if node is not None else ""

    def share(self, name: str, is_share: bool, is_plain: bool) -> str:
        """What enforces the part of a GPU that a pod gets there, though it may have asked for whole cards (`is_plain`);
        `UNENFORCED`: nothing. Empty where it gets no part.
        """
        encoder = self._encoder
        row = encoder.node_rows.get(name) if encoder is not None else None
        if is_share or encoder is None or row is None:
            return (self.isolation(name) or UNENFORCED) if is_share else ""
        return plugin_shares(encoder.node(row).labels) if is_plain else ""

    # ---- holders

    def _claimed(self, name: str) -> None:
        """Hold the devices that claims have, whole, so that no pod gets a part of them."""
        node = self.by_name.get(name)
        if node is None:
            return
        ids = self.shared.elsewhere.get(name, frozenset())
        devices = node.facts.devices if node.facts is not None else ()
        whole = tuple(
            DeviceAllocation(device.type, device.minor, device.total)
            for device in devices
            if device.id and device.id.lower() in ids
        )
        before = next((holding.allocations for holding in node.ledger.holdings if holding.uid == BY_CLAIMS), ())
        if whole == before:
            return
        ledger = node.ledger.returned(BY_CLAIMS)
        node.ledger = ledger.observed(DeviceHolding(BY_CLAIMS, whole)) if whole else ledger
        self._restate(node)
        self._compare(node)
        self.touch(node)

    def take(
        self,
        name: str,
        uid: str,
        allocations: tuple[DeviceAllocation, ...],
        checked: bool = False,
        need: CardNeed = NO_NEED,
    ) -> None:
        """Enter a holding. One that does not fit beside the others is counted: another component must have
        allocated it. `need`: what it takes of each of its cards.
        """
        node = self.by_name.setdefault(name, DeviceNode(name))
        node.ledger = node.ledger.observed(DeviceHolding(uid, allocations, need))
        self._restate(node)
        if not checked or node.overlaps:
            self._compare(node)

    def give_back(self, name: str, uid: str) -> None:
        """Remove a holding."""
        node = self.by_name.get(name)
        if node is None:
            return
        node.ledger = node.ledger.returned(uid)
        self._restate(node)
        if node.overlaps:
            self._compare(node)
        self._drop_if_empty(node)

    def holdings(self) -> dict[str, DeviceLedger]:
        """The ledger of each node, by name."""
        return {name: node.ledger for name, node in self.by_name.items()}

    def put_back(self, ledgers: Mapping[str, DeviceLedger]) -> None:
        """Restore former `holdings`, of the same devices."""
        for name, ledger in ledgers.items():
            node = self.by_name.setdefault(name, DeviceNode(name))
            if node.ledger is not ledger:
                node.ledger = ledger
                self._restate(node)
                self._compare(node)

    def _compare(self, node: DeviceNode) -> None:
        found = tuple(overlaps(node.ledger))
        for _ in set(found) - set(node.overlaps):
            self.count("a device that is held twice")
        node.overlaps = found

    def _drop_if_empty(self, node: DeviceNode) -> None:
        if node.facts is None and not node.ledger.holdings:
            del self.by_name[node.name]

    # ---- states

    def states(self) -> Int:
        """`int64[N]`: by row; `UNKNOWN` where the node has no Device object."""
        encoder = self._encoder
        assert encoder is not None
        if encoder.labels_revision != self._revision:
            self._lay_out(encoder)
        return self._rows

    def at(self, row: int) -> DeviceNode | None:
        """The node of a row; None where nothing is known of its devices."""
        encoder = self._encoder
        assert encoder is not None
        return self.by_name.get(encoder.node(row).name)

    def name_of(self, row: int) -> str:
        """The node name of a row."""
        assert self._encoder is not None
        return self._encoder.node(row).name

    def state_of(self, ledger: DeviceLedger, form: int) -> int:
        """The state of a node with this form and ledger."""
        key = (form, _likeness(ledger))
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = len(self.ledgers)
            self.ledgers.append(replace(ledger, holdings=()))
        return state

    def _restate(self, node: DeviceNode) -> None:
        if len(self.ledgers) > max(_MAX_STATES, 4 * len(self.by_name)):
            self._start_over()
        node.state = self.state_of(node.ledger, node.form) if node.facts is not None else UNKNOWN
        if 0 <= node.row < len(self._rows):
            self._rows[node.row] = node.state
        if self.shared.elsewhere or node.facts is not None:
            self.shared.tell(node.name, _in_use(node))

    def _form(self, ledger: DeviceLedger) -> int:
        likeness = (
            tuple(pool.inventory.likeness() for pool in ledger.pools),
            ledger.table,
            ledger.honor,
            ledger.isolation,
            ledger.returns_s,
        )
        return self._forms.setdefault(likeness, len(self._forms) + 1)

    def _start_over(self) -> None:
        self.generation += 1
        self._states.clear()
        del self.ledgers[1:]
        self._revision = -1
        for node in self.by_name.values():
            if node.facts is not None:
                node.state = self.state_of(node.ledger, node.form)

    def _lay_out(self, encoder: Encoder) -> None:
        """Recompute the row of every node: nodes were added or removed, or labels changed."""
        self._revision = encoder.labels_revision
        self._rows = np.zeros(encoder.all_rows, dtype=np.int64)
        for node in self.by_name.values():
            node.row = encoder.node_rows.get(node.name, -1)
            if node.row < 0:
                continue
            labels = encoder.node(node.row).labels
            if labels != node.labels:
                node.labels = labels
                stood = node.ledger.table, node.ledger.honor, node.ledger.isolation
                if node.facts is not None and (*node.facts.partitions(labels), node.facts.isolation(labels)) != stood:
                    self._refresh(node)
            self._rows[node.row] = node.state

    def validate(self) -> None:
        """Check that every ledger is the sum of its holdings, and every state that of its ledger. Raises
        `Permanent`.
        """
        states = self.states() if self._encoder is not None else self._rows
        for node in self.by_name.values():
            try:
                node.ledger.validate()
            except InvalidInput as error:
                raise Permanent(f"devices of {node.name}: {error}") from None
            known = self.ledgers[node.state]
            if (node.facts is None) != (node.state == UNKNOWN) or (
                node.facts is not None and _likeness(node.ledger) != _likeness(known)
            ):
                raise Permanent(f"devices of {node.name} do not match the recorded state")
            if node.row >= 0 and states[node.row] != node.state:
                raise Permanent(f"the recorded state of row {node.row} differs from that of {node.name}")
        here = {node.row for node in self.by_name.values() if node.row >= 0}
        if set(np.flatnonzero(states).tolist()) - here:
            raise Permanent("rows without a node have a device state")


def _ledger(facts: NodeDevices | None, labels: Labels) -> DeviceLedger:
    if facts is None:
        return _NOTHING
    table, honor = facts.partitions(labels)
    return DeviceLedger.of(facts.devices, table, honor, facts.isolation(labels), facts.returns_s())


def _likeness(ledger: DeviceLedger) -> Hashable:
    return tuple((pool.used, pool.functions) for pool in ledger.pools), ledger.beside


def _in_use(node: DeviceNode) -> frozenset[str]:
    """The identities of devices of which pods hold any part."""
    if not node.ledger.holdings or node.facts is None:
        return frozenset()
    held = {
        (part.type, part.minor)
        for holding in node.ledger.holdings
        if holding.uid != BY_CLAIMS
        for part in holding.allocations
    }
    return frozenset(
        device.id.lower() for device in node.facts.devices if device.id and (device.type, device.minor) in held
    )


def _ignore(what: str) -> None:
    pass


def _nothing() -> None:
    pass
