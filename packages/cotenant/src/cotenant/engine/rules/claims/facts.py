"""Slices, classes, claims and namespaces, as they were last seen, and who is told of changes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.one_inventory import OneInventory
from cotenant.engine.rules.claims.inventories import Inventories
from cotenant.engine.rules.claims.ledger import ClaimLedger
from cotenant.engine.rules.claims.readiness import is_ready
from cotenant.engine.rules.claims.selecting import Selectors
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.claims.devices import DeviceId, OfferedDevice, ResourceSlice, TaintRule
from cotenant.model.claims.requests import DeviceClass
from cotenant.model.cluster.labels import Labels

_MAX_ENDED = 50_000
_IDENTIFYING = frozenset({"uuid", "pcibusid"})  # names of attributes
_MAX_TOUCHED = 64  # nodes that are told singly that a device of theirs is free


class ClaimFacts:
    """What is known of devices and claims. What is called at changes is set by who listens."""

    def __init__(self, selectors: Selectors) -> None:
        self.selectors = selectors
        self.classes: dict[str, DeviceClass] = {}
        self.inventories = Inventories()
        self.ledger = ClaimLedger(self._touched, self._observed)
        self.namespaces: dict[str, Labels] = {}
        # By namespace and UID of the pod: claims for its extended resources. The owner that a claim names is what its
        # writer says; one of another namespace is never the pod's.
        self.made_for: dict[tuple[str, str], ResourceClaim] = {}
        self.ended: dict[str, None] = {}  # UIDs of pods that ended
        self.changed: Callable[[], None] = _nothing  # classes
        self.freed: Callable[[], None] = _nothing
        self.devices: Callable[[], None] = _nothing
        self.permits: Callable[[], None] = _nothing  # classes and namespaces: obstacles of pods may be gone, or new
        self.waiting: dict[str, None] = {}  # claims, by UID, whose devices are not ready
        self.claim: Callable[[str], None] = _ignore  # by namespace/name: its pods must be looked at again
        self.shared = OneInventory()  # with Device objects
        self.shared.changed = self._held_elsewhere
        self._same: dict[str, dict[str, DeviceId]] = {}  # node -> identity -> the device
        self._identities: dict[DeviceId, tuple[str, tuple[str, ...]]] = {}
        self._encoder: Encoder | None = None

    def attach(self, encoder: Encoder) -> None:
        """Start again with these rows."""
        self._encoder = encoder
        self.inventories.attach(encoder)

    def capture(self) -> Callable[[ClaimFacts], None]:
        """Fills other facts with what is known now."""
        classes, slices = tuple(self.classes.values()), tuple(self.inventories.slices.values())
        rules, claims = tuple(self.inventories.rules.values()), tuple(self.ledger.by_key.values())
        namespaces, ended = dict(self.namespaces), dict(self.ended)

        def fill(made: ClaimFacts) -> None:
            made.namespaces.update(namespaces)
            made.ended.update(ended)
            for found in classes:
                made.classes[found.name] = found
            made.changed()
            for rule in rules:
                made.inventories.rule_seen(rule)
            for offered in slices:
                made.inventories.slice_seen(offered)
            for claim in claims:
                made.claim_seen(claim)

        return fill

    def extended_resources(self) -> frozenset[str]:
        """Resources that classes say they stand for."""
        return frozenset(found.extended_resource for found in self.classes.values() if found.extended_resource)

    # ---- events

    def class_seen(self, found: DeviceClass, now_s: float = 0.0) -> None:
        """A class was created or changed."""
        if self.classes.get(found.name) != found:
            self.classes[found.name] = found
            self.changed()
            self.devices()
            self.permits()

    def class_gone(self, name: str, now_s: float = 0.0) -> None:
        """A class was deleted, or cannot be read."""
        if self.classes.pop(name, None) is not None:
            self.changed()
            self.devices()
            self.permits()

    def slice_seen(self, offered: ResourceSlice, now_s: float = 0.0) -> None:
        """A slice was created or changed."""
        if self.inventories.slices.get(offered.name) != offered:
            self._forget_identities(offered.name)
            self.inventories.slice_seen(offered)
            self._note_identities(offered)
            self.devices()

    def slice_gone(self, name: str, now_s: float = 0.0) -> None:
        """A slice was deleted, or cannot be read."""
        self._forget_identities(name)
        self.inventories.slice_gone(name)
        self.devices()

    def rule_seen(self, rule: TaintRule, now_s: float = 0.0) -> None:
        """A taint rule was created or changed."""
        self.inventories.rule_seen(rule)
        self.devices()

    def rule_gone(self, name: str, now_s: float = 0.0) -> None:
        """A taint rule was deleted."""
        self.inventories.rule_gone(name)
        self.devices()

    def claim_seen(self, claim: ResourceClaim, now_s: float = 0.0) -> None:
        """A claim was created or changed, or a write of it was answered."""
        before = self.ledger.seen(claim)
        if before is claim:
            return  # older than what is known
        if claim.is_for_extended and claim.owner_uid:
            self.made_for[claim.namespace, claim.owner_uid] = claim
        if is_ready(claim):
            self.waiting.pop(claim.uid, None)
        else:
            self.waiting[claim.uid] = None
        if before is None or _concerns_pods(before, claim):
            self.claim(claim.key)

    def claim_gone(self, key: str, now_s: float = 0.0) -> None:
        """A claim was deleted, or cannot be read."""
        claim = self.ledger.gone(key)
        if claim is None:
            return
        self.waiting.pop(claim.uid, None)
        owner = claim.namespace, claim.owner_uid
        if owner in self.made_for and self.made_for[owner].uid == claim.uid:
            del self.made_for[owner]
            self.freed()
        self.claim(key)

    def namespace_seen(self, name: str, labels: Labels) -> None:
        """The labels of a namespace, which permit admin access."""
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.permits()

    def pod_arrived(self, uid: str) -> None:
        """A pod may use its claims."""
        self.ended.pop(uid, None)

    def pod_left(self, uid: str) -> None:
        """A pod uses its claims no longer."""
        self.ended[uid] = None
        if len(self.ended) > _MAX_ENDED:
            for old in list(islice(self.ended, _MAX_ENDED // 10)):
                del self.ended[old]

    # ---- the same devices, in Device objects

    def _note_identities(self, offered: ResourceSlice) -> None:
        node = offered.reach.node if offered.reach is not None else ""
        for device in offered.devices if node else ():
            found = identities_of(device)
            if found:
                id_ = DeviceId(offered.driver, offered.pool, device.name)
                self._identities[id_] = node, found
                self._same.setdefault(node, {}).update(dict.fromkeys(found, id_))
        if node in self._same:
            self._held_elsewhere(node)
            self._tell(node)

    def _forget_identities(self, name: str) -> None:
        offered = self.inventories.slices.get(name)
        for device in offered.devices if offered is not None else ():
            id_ = DeviceId(offered.driver, offered.pool, device.name) if offered is not None else None
            node, found = self._identities.pop(id_, ("", ())) if id_ is not None else ("", ())
            for identity in found:
                self._same.get(node, {}).pop(identity, None)
            if id_ is not None:
                self.ledger.outside.discard(id_)

    def _held_elsewhere(self, node: str) -> None:
        """Pods have other devices of a node than before, by its Device object."""
        held = self.shared.elsewhere.get(node, frozenset())
        for identity, device in self._same.get(node, {}).items():
            _, names = self._identities[device]
            if (device in self.ledger.outside) == (not held.isdisjoint(names)):
                continue
            if identity in held:
                self.ledger.outside.add(device)
            else:
                self.ledger.outside.discard(device)
            self._touched(device)
            self._observed((device,), device not in self.ledger.outside)

    def _tell(self, node: str) -> None:
        """Say which devices of a node claims have."""
        self.shared.tell(
            node, frozenset(name for name, device in self._same.get(node, {}).items() if self.ledger.has(device))
        )

    # ---- what follows

    def _touched(self, device: DeviceId) -> None:
        if device in self._identities:
            self._tell(self._identities[device][0])
        self.inventories.touched(device)

    def _observed(self, devices: Collection[DeviceId], freed: bool) -> None:
        """Nodes that can use these devices are not as they were, and pods that wait for them may get them."""
        encoder = self._encoder
        if encoder is not None:
            for device in devices:
                for name in islice(self.inventories.nodes_of(device), _MAX_TOUCHED):
                    row = encoder.node_rows.get(name)
                    if row is not None:
                        encoder.on_row_changed(row)
        if freed:
            self.freed()


def _concerns_pods(before: ResourceClaim, claim: ResourceClaim) -> bool:
    return (
        before.uid != claim.uid
        or before.spec != claim.spec
        or before.is_ending != claim.is_ending
        or (before.allocation is None) != (claim.allocation is None)
        or before.states != claim.states
        or len(claim.reserved_for) < len(before.reserved_for)
    )


def identities_of(device: OfferedDevice) -> tuple[str, ...]:
    """By what a Device object may name the same device: its UUID and its PCI address."""
    return tuple(
        value.lower()
        for name, value in device.attributes
        if isinstance(value, str) and value and name.rpartition("/")[2].lower() in _IDENTIFYING
    )


def _nothing() -> None:
    pass


def _ignore(key: str) -> None:
    pass
