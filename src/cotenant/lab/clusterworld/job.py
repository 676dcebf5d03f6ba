"""A training job as its controller sees it: its members, whether they all run, how far it has come.

Problem: a job of many pods makes progress only while all of them run, and begins again at its last checkpoint when one is lost. Choice: one mutable
record a job, changed by the world alone; members are replaced by pods with new names and UIDs after an interruption. Limits: all or nothing: a job
does not run with fewer members.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan

from cotenant.lab.workloads.training import JobPlan
from cotenant.model.cluster.observed import ObservedPod


@dataclass(slots=True, eq=False)
class Member:
    """One pod of a job, as the API server has it."""

    seen: ObservedPod
    job: Job
    started: bool = False

    @property
    def bound(self) -> bool:
        """Whether the API server knows it on a node."""
        return bool(self.seen.node)


@dataclass(slots=True, eq=False)
class Job:
    """One job and what became of it."""

    plan: JobPlan
    members: dict[str, Member] = field(default_factory=dict)  # uid -> present members, those that terminate aside
    attempt: int = 0  # how often its pods were made
    alive: bool = False  # its pods of the present attempt are wanted
    requeued: int = 0  # times it gave all back because it was not complete in time
    done_s: float = 0.0  # of its duration alone, up to its last checkpoint
    running_since_s: float = nan
    speed: float = 1.0  # of the present run
    first_bound_s: float = nan  # of the present attempt
    first_run_s: float = nan
    ended_s: float = nan
    lost_s: float = 0.0  # of its duration, computed in vain
    runs: int = 0
    crossed: int = 0  # runs whose members were not all in one rack, though one rack could have held them
    interruptions: int = 0

    @property
    def running(self) -> bool:
        """Whether all of its members run."""
        return self.running_since_s == self.running_since_s

    @property
    def ended(self) -> bool:
        """Whether it has done its work."""
        return self.ended_s == self.ended_s

    @property
    def name(self) -> str:
        """As its pods and its group carry it."""
        return f"job-{self.plan.number}"

    def remaining_s(self) -> float:
        """Of its duration alone, from its last checkpoint."""
        return self.plan.duration_s - self.done_s

    def stop(self, now_s: float, checkpoint_s: float) -> None:
        """It runs no more; what it did since its last checkpoint is lost."""
        if not self.running:
            return
        reached = self.done_s + (now_s - self.running_since_s) * self.speed
        kept = reached // checkpoint_s * checkpoint_s
        kept = max(self.done_s, kept)
        self.lost_s += reached - kept
        self.done_s = kept
        self.running_since_s = nan
