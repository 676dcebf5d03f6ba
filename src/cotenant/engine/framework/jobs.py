"""Pods that are of use only together: what a preemption would cost beyond its victims.

Problem: to evict one member of a group that needs all of its members ends the group and frees one place, and preemption must not know what kind of group it is.
Choice: a plugin tells the jobs that have members on nodes, each with how many members it can spare. Limits: a bundle of groups can spare what the scarcest of
them can.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.framework.pod_state import PodInfo


@dataclass(frozen=True, slots=True)
class Job:
    """The placed members of groups that are placed together, without those that are leaving."""

    keys: tuple[str, ...]  # of the gangs
    members: tuple[PodInfo, ...]  # the least important first
    spare: int  # so many of them can go without the job being lost

    @property
    def name(self) -> str:
        """For people."""
        return f"gang {self.keys[0]}" if len(self.keys) == 1 else f"gangs {', '.join(self.keys)}"
