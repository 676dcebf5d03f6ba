"""Pods that are useful only together: what a preemption would break beyond its victims.

Evicting one member of a group that needs all of its members ends the group and frees one place, and preemption must not
depend on the kind of group. A plugin reports the jobs that have members on nodes, each with the number of members that
it can spare.
Limits: a bundle of groups can spare as many as the group with the fewest spare members.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.framework.pod_state import PodInfo


@dataclass(frozen=True, slots=True)
class PlacedJob:
    """The placed members of groups that are placed together, without those that are leaving."""

    keys: tuple[str, ...]  # of the gangs
    members: tuple[PodInfo, ...]  # lowest priority first
    spare: int  # how many of them can be evicted without losing the job

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"gang {self.keys[0]}" if len(self.keys) == 1 else f"gangs {', '.join(self.keys)}"
