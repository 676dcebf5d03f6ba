"""The settings of a node's agent: how often it acts, how far it may go, and within which bounds.

An agent that acts on a machine by default, or anywhere, is a danger. One frozen value, checked when built; without
roots it holds nothing, evictions are off until a policy that evicts is switched on, and the mode says whether it acts
at all.
Limits: the settings of each policy are separate (`policies.PolicySettings`).

Source of the defaults: Koordinator's koordlet (period 1 s; evictions off).
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.model.errors import InvalidInput

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class EvictionLimits:
    """How many pods may be evicted, whatever the policies want: requests that were refused do not count. A tenant
    is `NodePod.tenant` within one namespace, else the namespace.
    """

    per_minute: int = 2
    per_hour: int = 20
    per_tenant_per_hour: int = 5
    outstanding: int = 2  # requested and still running
    refused_per_minute: int = 10  # after so many refusals within a minute nothing is requested
    answer_us: int = 60 * SECOND_US  # without an answer for this long: may be requested again
    leave_us: int = 600 * SECOND_US  # accepted and still running after this long: may be requested again
    retry_us: int = 20 * SECOND_US  # after a refusal; doubles up to `retry_most_us`
    retry_most_us: int = 160 * SECOND_US  # so that an API server that was away is asked soon after it is back

    def __post_init__(self) -> None:
        for name in ("per_minute", "per_hour", "per_tenant_per_hour", "outstanding", "refused_per_minute"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"evictions.{name}", getattr(self, name), "0 or more")
        for name in ("answer_us", "leave_us", "retry_us", "retry_most_us"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"evictions.{name}", getattr(self, name), "a time above 0")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """One node's agent. Times in microseconds."""

    mode: AgentMode = AgentMode.ACT
    policies: PolicySettings = DEFAULT_POLICIES
    roots: tuple[str, ...] = ()  # groups at or below which knobs of cgroups may be held; none = nothing is held
    best_effort_group: str | None = (
        None  # None: derived from the best-effort pods' groups, if they share one without other pods
    )
    watch_groups: tuple[str, ...] = ()  # read in addition to those of the pods
    period_us: int = SECOND_US  # intended interval between samples
    lease_us: int = 30 * SECOND_US  # longest time to live of a lease
    knob_age_us: int = 20 * SECOND_US  # maximum age of a knob's reading
    answer_us: int = 5 * SECOND_US  # a keeper's answer that is later counts as lost
    refused_us: int = 5 * SECOND_US  # back-off after a refused knob; doubles up to `refused_most_us`
    refused_most_us: int = 300 * SECOND_US
    stand_off_us: int = 60 * SECOND_US  # back-off after another process wrote a knob of ours
    pressed_gap_us: int = 100_000  # minimum time between two reactions to pressure
    health_us: int = 30 * SECOND_US  # how long a service's report is valid
    report_window_us: int = 60 * SECOND_US  # the window of a node report
    reserved_cpu_m: int = 0  # kept for the system and kubelet
    reserved_memory_bytes: int = 0
    reserved_cpus: tuple[int, ...] = ()
    evictions: EvictionLimits = EvictionLimits()
    decisions_kept: int = 2048
    series_points: int = 1800  # of the node's series; a group's has a sixth
    max_series: int = 8192  # each of at most a sixth of the points, 8 bytes a point

    def __post_init__(self) -> None:
        for name in (
            "period_us",
            "lease_us",
            "knob_age_us",
            "answer_us",
            "refused_us",
            "stand_off_us",
            "health_us",
            "report_window_us",
            "decisions_kept",
            "series_points",
            "max_series",
        ):
            if getattr(self, name) <= 0:
                raise InvalidInput(name, getattr(self, name), "a number above 0")
        if self.lease_us < 3 * self.period_us:
            raise InvalidInput(
                "lease_us",
                self.lease_us,
                f"three periods or more, {3 * self.period_us}",
                "a lease is renewed after a third of its time",
            )
        if self.refused_most_us < self.refused_us:
            raise InvalidInput("refused_most_us", self.refused_most_us, f"{self.refused_us} or more")
        for root in (*self.roots, *self.watch_groups, *filter(None, (self.best_effort_group,))):
            if root.startswith("/") or root.endswith("/") or any(part in (".", "..") for part in root.split("/")):
                raise InvalidInput("roots", root, "a path below the tree's root, without slashes at its ends")
        for name in ("reserved_cpu_m", "reserved_memory_bytes", "pressed_gap_us"):
            if getattr(self, name) < 0:
                raise InvalidInput(name, getattr(self, name), "0 or more")
