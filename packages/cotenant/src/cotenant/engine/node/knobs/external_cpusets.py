"""The CPU lists that other parties set on groups: the current ones, or the ones from before ours.

A policy that gives a group CPUs must not give it more than its owner (kubelet, runtime) did, and what is read of a
group that we hold is our own value. A list counts as external while nothing of ours is held there; from then on it is
remembered, and after a restart the keeper's leases supply it.
Limits: an external change while we hold the group is seen after we have yielded; CPU lists only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.engine.node.knobs.knob_entry import KnobStatus
from cotenant.engine.node.knobs.knob_tracker import KnobTracker
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget

_FOREIGN = frozenset({KnobStatus.YIELDED, KnobStatus.GONE})


class ExternalCpusets:
    """By target, for the knobs that are read."""

    def __init__(self) -> None:
        self._lists: dict[KnobTarget, str] = {}
        self._ours: dict[KnobTarget, str] = {}  # our last value: reading it again is not an external change

    def leases_found(self, leases: Sequence[KnobLease]) -> None:
        """The keeper's leases, with the values from before."""
        for lease in leases:
            if lease.target.knob is Knob.CPUSET_CPUS:
                self._lists[lease.target] = lease.before
                self._ours[lease.target] = lease.value

    def seen(self, values: Mapping[KnobTarget, str], tracker: KnobTracker) -> Mapping[KnobTarget, str]:
        """Update from the last readings and the held knobs. Returns the external lists now."""
        for target, value in values.items():
            if target.knob is not Knob.CPUSET_CPUS:
                continue
            entry = tracker.get(target)
            if entry is not None and entry.status not in _FOREIGN:
                self._ours[target] = entry.value
            elif value != self._ours.get(target):
                self._lists[target] = value
        for kept in (self._lists, self._ours):
            for target in [target for target in kept if target not in values and tracker.get(target) is None]:
                del kept[target]
        return dict(self._lists)
