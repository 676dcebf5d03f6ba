"""Which claims hold which devices: what is observed, and what was decided and is not observed yet.

A claim's observed allocation is the truth. Until it is seen, an assumed one counts, for as long as a pod relies on it;
several pods may rely on one. A claim that a pod's extended resources will get has no object yet: it is known by the
pod, and ends when its object is seen with an allocation. An object older than the one known is ignored, since the
answer to a write may arrive before the watch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from cotenant.model.claims.claim import AllocatedDevice, Allocation, ResourceClaim
from cotenant.model.claims.devices import DeviceId
from cotenant.model.errors import Permanent

_NO_DEVICES = Allocation()


def extended_uid(pod_uid: str) -> str:
    """By what the claim is known that will be made for a pod's extended resources."""
    return f"extended resources of {pod_uid}"


@dataclass(slots=True)
class Assumed:
    """An allocation that is not observed yet, and the pods that rely on it."""

    allocation: Allocation
    pods: set[int] = field(default_factory=set)


class ClaimLedger:
    """All claims. Implements `DeviceUsage` of policy/claims/allocator.py."""

    def __init__(
        self, touched: Callable[[DeviceId], None], observed: Callable[[Collection[DeviceId], bool], None]
    ) -> None:
        """`touched`: the use of a device changed. `observed`: that of these did by what was observed, and whether some
        may be free, or become free by evictions, that could not before. Of what is decided and given up nothing is
        said: it is tried and undone many times a round, and a pod that leaves is an event of its own.
        """
        self.by_key: dict[str, ResourceClaim] = {}
        self.by_uid: dict[str, ResourceClaim] = {}
        self.assumed: dict[str, Assumed] = {}
        self.holders: dict[DeviceId, dict[str, None]] = {}  # -> UIDs of claims, of devices that they have alone
        self._shares: dict[DeviceId, dict[tuple[str, int], AllocatedDevice]] = {}  # by claim and position
        self._counted: dict[str, Allocation] = {}  # by claim: what is entered
        self._aside: set[str] = set()  # claims that count as deallocated in a trial
        self.outside: set[DeviceId] = set()  # held by pods that have them by a Device object
        self._touched = touched
        self._observed = observed
        self.recounted: Callable[[str], None] = _ignore  # the devices of a claim, by UID, are others

    # ---- Usage

    def holds(self, device: DeviceId) -> bool:
        """Whether a claim has the device for itself."""
        return device in self.holders or device in self.outside

    def has(self, device: DeviceId) -> bool:
        """Whether claims have the device, or a share of it."""
        return device in self.holders or device in self._shares

    def consumed(self, device: DeviceId) -> Mapping[str, int] | None:
        """What claims have of a shared device."""
        return self.consumed_without(device, frozenset())

    def consumed_without(self, device: DeviceId, gone: frozenset[str]) -> Mapping[str, int] | None:
        """What others than these claims have of a shared device."""
        shares = self._shares.get(device)
        if not shares:
            return None
        found: dict[str, int] = {}
        left = [share for (uid, _), share in shares.items() if uid not in gone]
        for share in left:
            for name, amount in share.consumed:
                found[name] = found.get(name, 0) + amount.nano
        return found if left else None

    def users_of(self, device: DeviceId) -> Iterable[str]:
        """The claims that hold a device or a share of it."""
        yield from self.holders.get(device, ())
        yield from dict.fromkeys(uid for uid, _ in self._shares.get(device, ()))

    # ---- claims

    def seen(self, claim: ResourceClaim) -> ResourceClaim | None:
        """A claim as it is now. Returns what was known of that name before; the same value where nothing is news."""
        before = self.by_key.get(claim.key)
        if before is not None and before.uid == claim.uid and 0 < claim.version < before.version:
            return claim
        if before is not None and before.uid != claim.uid:
            self.gone(claim.key)
        self.by_key[claim.key] = self.by_uid[claim.uid] = claim
        if claim.allocation is not None:
            self.assumed.pop(claim.uid, None)
            if claim.is_for_extended and claim.owner_uid:
                pending = extended_uid(claim.owner_uid)
                self.assumed.pop(pending, None)
                self._recount(pending)
        had = self._counted.get(claim.uid, _NO_DEVICES).devices
        self._recount(claim.uid)
        now = self._counted.get(claim.uid, _NO_DEVICES).devices
        fewer = before is not None and not set(before.reserved_for) <= set(claim.reserved_for)
        if had != now or (had and fewer):
            self._observed({device.id for device in (*had, *now)}, bool(had))
        return before

    def gone(self, key: str) -> ResourceClaim | None:
        """A claim was deleted. Returns it."""
        claim = self.by_key.pop(key, None)
        if claim is not None:
            self.by_uid.pop(claim.uid, None)
            self.assumed.pop(claim.uid, None)
            had = self._counted.get(claim.uid, _NO_DEVICES).devices
            self._recount(claim.uid)
            if had:
                self._observed({device.id for device in had}, True)
        return claim

    def allocation(self, uid: str) -> Allocation | None:
        """What a claim has, observed or assumed."""
        claim = self.by_uid.get(uid)
        if claim is not None and claim.allocation is not None:
            return claim.allocation
        assumed = self.assumed.get(uid)
        return assumed.allocation if assumed is not None else None

    def assume(self, uid: str, allocation: Allocation, number: int) -> None:
        """A pod relies on this allocation from now on; without effect on a claim that is seen to have one."""
        claim = self.by_uid.get(uid)
        if claim is not None and claim.allocation is not None:
            return
        self.assumed.setdefault(uid, Assumed(allocation)).pods.add(number)
        self._recount(uid)

    def release(self, uid: str, number: int) -> None:
        """A pod relies on it no longer."""
        assumed = self.assumed.get(uid)
        if assumed is None:
            return
        assumed.pods.discard(number)
        if not assumed.pods:
            del self.assumed[uid]
            self._recount(uid)

    def is_free_for(self, uid: str, allocation: Allocation) -> bool:
        """Whether a claim may have this allocation again: it is nobody else's."""
        known = self.allocation(uid)
        if known is not None:
            return known.devices == allocation.devices
        return not any(self.holds(device.id) and not device.has_admin_access for device in allocation.devices)

    def forget_pods(self) -> None:
        """No pod is known any more."""
        for uid in list(self.assumed):
            del self.assumed[uid]
            self._recount(uid)

    def put_back(self, assumed: Mapping[str, Assumed]) -> None:
        """Restore former `assumed`."""
        for uid in {*self.assumed, *assumed}:
            known = assumed.get(uid)
            if known is None:
                self.assumed.pop(uid, None)
            else:
                self.assumed[uid] = Assumed(known.allocation, set(known.pods))
            self._recount(uid)

    def has_devices(self, uid: str) -> bool:
        """Whether devices of a claim are counted as taken."""
        return uid in self._counted

    def set_aside(self, uid: str) -> None:
        """The devices of a claim are free until `put_all_back`; nobody is told."""
        if uid in self._counted and uid not in self._aside:
            self._aside.add(uid)
            self._recount(uid)

    def put_all_back(self) -> None:
        """Claims have what they had before `set_aside`."""
        aside, self._aside = self._aside, set()
        for uid in aside:
            self._recount(uid)

    # ---- devices

    def _recount(self, uid: str) -> None:
        """Enter what a claim has instead of what is entered."""
        now = _NO_DEVICES if uid in self._aside else self.allocation(uid) or _NO_DEVICES
        before = self._counted.get(uid, _NO_DEVICES)
        if now.devices == before.devices:
            return
        for position, device in enumerate(before.devices):
            if not device.has_admin_access:
                self._remove(uid, position, device)
        for position, device in enumerate(now.devices):
            if not device.has_admin_access:
                self._enter(uid, position, device)
        if now.devices:
            self._counted[uid] = now
        else:
            del self._counted[uid]
        self.recounted(uid)
        for id_ in {device.id for device in (*before.devices, *now.devices)}:
            self._touched(id_)

    def _enter(self, uid: str, position: int, device: AllocatedDevice) -> None:
        if device.share:
            self._shares.setdefault(device.id, {})[uid, position] = device
        else:
            self.holders.setdefault(device.id, {})[uid] = None

    def _remove(self, uid: str, position: int, device: AllocatedDevice) -> None:
        if device.share:
            shares = self._shares[device.id]
            del shares[uid, position]
            if not shares:
                del self._shares[device.id]
        else:
            holders = self.holders.get(device.id, {})  # a claim may list a device twice: it is removed once
            holders.pop(uid, None)
            if not holders:
                self.holders.pop(device.id, None)

    def validate(self) -> None:
        """Check that what is entered is what claims have, and no assumed device is another's. Raises `Permanent`."""
        expected = {uid: self.allocation(uid) for uid in {*self.by_uid, *self.assumed}}
        named = {uid: found.devices for uid, found in expected.items() if found is not None and found.devices}
        if named != {uid: found.devices for uid, found in self._counted.items()}:
            raise Permanent("the devices that are entered differ from those that claims have")
        for uid in self.assumed:
            for device in self._counted.get(uid, _NO_DEVICES).devices:
                if len(self.holders.get(device.id, ())) > 1 and not device.has_admin_access:
                    raise Permanent(f"device {device.id} was given to several claims")


def _ignore(_: str) -> None:
    pass
