"""CPU lists that are somebody else's: as they stand, or as they stood before ours.

Problem: a policy that gives a group CPUs must not give it more than its owner did, and what is read of a group that we hold is our own value.
Choice: a list counts as the owner's while nothing of ours is held there; from then on it is remembered, and after a restart the keeper's leases
say it. Limits: what the owner changes while we hold the group is taken up when we have stood off; CPU lists only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.engine.node.holding import Holding, Standing
from cotenant.model.machine.knob import Knob, Lease, Target

_THEIRS = frozenset({Standing.YIELDED, Standing.GONE})


class OwnersLists:
    """By target, of those that are read."""

    def __init__(self) -> None:
        self._lists: dict[Target, str] = {}
        self._ours: dict[Target, str] = {}  # our last value: what is still read of it is not the owner's

    def found(self, leases: Sequence[Lease]) -> None:
        """What the keeper holds, and what stood before."""
        for lease in leases:
            if lease.target.knob is Knob.CPUSET_CPUS:
                self._lists[lease.target] = lease.before
                self._ours[lease.target] = lease.value

    def seen(self, values: Mapping[Target, str], holding: Holding) -> Mapping[Target, str]:
        """What was read last, and what is held: the owners' lists now."""
        for target, value in values.items():
            if target.knob is not Knob.CPUSET_CPUS:
                continue
            entry = holding.get(target)
            if entry is not None and entry.standing not in _THEIRS:
                self._ours[target] = entry.value
            elif value != self._ours.get(target):
                self._lists[target] = value
        for kept in (self._lists, self._ours):
            for target in [target for target in kept if target not in values and holding.get(target) is None]:
                del kept[target]
        return dict(self._lists)
