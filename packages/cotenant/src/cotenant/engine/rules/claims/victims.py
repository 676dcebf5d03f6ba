"""Which evictions would free devices for a pod's claims on one node.

The devices of a claim are free once all that may use it are gone, so a claim that pods share counts only when each of
them leaves. Claims that nobody uses any more, and claims whose users end, count as free: what deletes or deallocates
them is under way, and nobody is evicted for them. The answer is a search for devices, the same that places the pod
later. Limits: pods on other nodes that hold devices which this node can use too are not evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cotenant.engine.rules.claims.inventories import PoolInventory
from cotenant.engine.rules.claims.ledger import ClaimLedger
from cotenant.engine.rules.claims.verdicts import Choice, ClaimVerdicts, VerdictFacts
from cotenant.model.claims.devices import DeviceId
from cotenant.policy.claims.allocator import Steps

REASON = "node(s) whose devices would not suffice for the pod's claims without pods of lower priority"
_SEARCH_STEPS = 2_000  # of each of up to 1,500 searches


class UsageWithout:
    """The ledger without some claims, and with devices that are chosen meanwhile. Implements `DeviceUsage`."""

    def __init__(self, ledger: ClaimLedger, gone: frozenset[str]) -> None:
        self._ledger = ledger
        self._gone = gone
        self._more: dict[DeviceId, dict[str, int]] = {}
        self._held: set[DeviceId] = set()

    def holds(self, device: DeviceId) -> bool:
        """Whether another claim has the device for itself."""
        if device in self._held or device in self._ledger.outside:
            return True
        return any(uid not in self._gone for uid in self._ledger.holders.get(device, ()))

    def consumed(self, device: DeviceId) -> Mapping[str, int] | None:
        """What other claims have of a shared device."""
        found, more = self._ledger.consumed_without(device, self._gone), self._more.get(device)
        if more is None:
            return found
        return {name: (found or {}).get(name, 0) + more.get(name, 0) for name in {*(found or {}), *more}}

    def add(self, inventory: PoolInventory, choice: Choice) -> None:
        """Devices that another pod will get first."""
        for picks in choice:
            for pick in picks:
                device = inventory.pools[pick.place[0]].devices[pick.place[1]]
                if device.device.is_shared:
                    more = self._more.setdefault(device.id, {})
                    for name, amount in pick.consumed:
                        more[name] = more.get(name, 0) + amount.nano
                elif not pick.request.admin_access:
                    self._held.add(device.id)


@dataclass(slots=True, eq=False)
class ClaimVacate:
    """Whether an ask fits on one node without some residents (engine/framework/node_rules.Vacating)."""

    facts: VerdictFacts
    ledger: ClaimLedger
    inventory: PoolInventory
    verdicts: ClaimVerdicts
    users: Mapping[str, frozenset[int] | None]  # claim -> pods that use it; None = one of them may be unknown
    sizes: Mapping[int, int]
    nominated: tuple[ClaimVerdicts, ...] = ()  # of pods that get theirs before
    reason: str = field(default=REASON)

    def fits(self, removed: frozenset[int]) -> bool:
        """Whether a search succeeds, after those of nominated pods that succeed."""
        gone = frozenset(uid for uid, pods in self.users.items() if pods is not None and pods <= removed)
        usage = UsageWithout(self.ledger, gone)
        for other in self.nominated:
            choice, _ = other.search(self.facts, self.inventory, usage, Steps(_SEARCH_STEPS))
            if choice is not None:
                usage.add(self.inventory, choice)
        return self.verdicts.search(self.facts, self.inventory, usage, Steps(_SEARCH_STEPS))[0] is not None


def vacate_of(
    facts: VerdictFacts,
    ledger: ClaimLedger,
    inventory: PoolInventory,
    verdicts: ClaimVerdicts,
    users_of: Callable[[str], frozenset[int] | None],
    nominated: tuple[ClaimVerdicts, ...],
) -> ClaimVacate:
    """The question about one node."""
    sizes: dict[int, int] = {}
    users: dict[str, frozenset[int] | None] = {}
    for pool in inventory.pools:
        for device in (*pool.devices, *(pool.elsewhere if pool.counters else ())):
            for uid in ledger.users_of(device.id):
                if uid not in users:
                    users[uid] = users_of(uid)
                for number in users[uid] or ():
                    sizes[number] = sizes.get(number, 0) + 1
    return ClaimVacate(facts, ledger, inventory, verdicts, users, sizes, nominated)
