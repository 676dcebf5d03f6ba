"""A training job as its controller sees it: its members, whether they all run, and its progress.

A job of many pods makes progress only while all of them run, and restarts from its last checkpoint when one is lost.
One mutable record per job, changed by the world only; after an interruption, members are replaced by pods with new
names and UIDs.
Limits: all or nothing: a job does not run with fewer members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from cotenant.model.cluster.observed import ObservedPod
from cotenant_lab.workloads.training import JobPlan


@dataclass(slots=True, eq=False)
class JobMember:
    """One pod of a job, as the API server has it."""

    seen: ObservedPod
    job: WorldJob
    started: bool = False

    @property
    def bound(self) -> bool:
        """Whether it is bound."""
        return bool(self.seen.node)


@dataclass(slots=True, eq=False)
class WorldJob:
    """One job and its history."""

    plan: JobPlan
    members: dict[str, JobMember] = field(default_factory=dict)  # uid -> current members, without terminating ones
    attempt: int = 0  # how often its pods were created
    alive: bool = False  # whether the pods of the current attempt should exist
    requeued: int = 0  # how often it was requeued because it was incomplete at the time-out
    done_s: float = 0.0  # work up to its last checkpoint, in seconds of its duration alone
    running_since_s: float = nan
    speed: float = 1.0  # of the current run
    first_bound_s: float = nan  # of the current attempt
    first_run_s: float = nan
    ended_s: float = nan
    lost_s: float = 0.0  # work lost by interruptions, in seconds of its duration
    runs: int = 0
    crossed: int = 0  # runs whose members were not all in one rack, though one rack could have held them
    interruptions: int = 0

    @property
    def running(self) -> bool:
        """Whether all of its members run."""
        return self.running_since_s == self.running_since_s

    @property
    def ended(self) -> bool:
        """Whether it has completed."""
        return self.ended_s == self.ended_s

    @property
    def name(self) -> str:
        """The name in its pods and its gang."""
        return f"job-{self.plan.number}"

    def remaining_s(self) -> float:
        """Remaining work from its last checkpoint, in seconds of its duration alone."""
        return self.plan.duration_s - self.done_s

    def stop(self, now_s: float, checkpoint_s: float) -> None:
        """Stop running; work since the last checkpoint is lost."""
        if not self.running:
            return
        reached = self.done_s + (now_s - self.running_since_s) * self.speed
        kept = reached // checkpoint_s * checkpoint_s
        kept = max(self.done_s, kept)
        self.lost_s += reached - kept
        self.done_s = kept
        self.running_since_s = nan
