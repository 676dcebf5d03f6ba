"""What can be turned on a node, what a turn is asked for, and what a lease of a knob says.

Problem: policies, the process that writes, the state file and the simulated node must mean the same thing by "the quota of that group", on
cgroup v1, v2 and beside cgroups. Choice: a knob is named by its cgroup v2 interface file, and its value is that file's text in one canonical
form; drivers translate to what the machine has. What stood before is kept as the driver read it (`raw`), so that undoing is exact even
where a translation is not. Limits: knobs of other trees (resctrl, tc, the runtime) follow the same rule with names of their own.

Source of the canonical forms: Linux, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_decision import Reason

UNLIMITED = "max"
USUAL_TTL_US = 30_000_000  # of a lease for which nobody says another


class Scope(StrEnum):
    """Which tree a knob stands in; each has a driver of its own."""

    CGROUP = "cgroup"
    RESCTRL = "resctrl"
    TC = "tc"


class Knob(StrEnum):
    """A knob by its file's name, and the canonical text of its value."""

    CPU_MAX = "cpu.max"  # "QUOTA PERIOD" in microseconds; QUOTA may be "max"
    CPU_BURST = "cpu.max.burst"  # microseconds of unused quota that may be kept
    CPU_WEIGHT = "cpu.weight"  # 1..10000, 100 is usual
    CPU_IDLE = "cpu.idle"  # "1": runs only when nobody else wants the CPU; pins the weight while set
    CPUSET_CPUS = "cpuset.cpus"  # a list as "0-3,8"; "" = the parent's
    MEMORY_MIN = "memory.min"  # bytes
    MEMORY_LOW = "memory.low"  # bytes
    MEMORY_HIGH = "memory.high"  # bytes or "max"
    MEMORY_MAX = "memory.max"  # bytes or "max"
    MEMORY_RECLAIM = "memory.reclaim"  # bytes to reclaim now: done once, nothing to undo
    IO_WEIGHT = "io.weight"  # "default N", N 1..10000
    IO_MAX = "io.max"  # "MAJOR:MINOR rbps=N wbps=N riops=N wiops=N", one device; each N may be "max"
    SCHEMATA = "schemata"  # resctrl: one line a resource, as "L3:0=ff;1=ff"
    RATE = "tc.rate"  # "LEAST MOST" in bits a second for a class of the host's uplink

    @property
    def scope(self) -> Scope:
        """The tree that the knob stands in."""
        if self is Knob.SCHEMATA:
            return Scope.RESCTRL
        return Scope.TC if self is Knob.RATE else Scope.CGROUP

    @property
    def undoable(self) -> bool:
        """Whether there is something to put back."""
        return self is not Knob.MEMORY_RECLAIM


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One knob of one group. `group` is a path relative to the tree's root without slashes at its ends; "" is the root itself."""

    group: str
    knob: Knob

    def __post_init__(self) -> None:
        parts = self.group.split("/")
        if (self.group and any(part in ("", ".", "..") for part in parts)) or "\0" in self.group:
            raise InvalidInput("group", self.group, "a path below the tree's root, without empty parts, '.' or '..'")

    def __str__(self) -> str:
        return f"/{self.group}:{self.knob}"


@dataclass(frozen=True, slots=True)
class SetKnob:
    """Turn a knob and hold it for `lasts_us`; asked again before then, it is held on. After that, what stood before comes back."""

    target: Target
    value: str  # canonical
    reason: Reason
    ttl_us: int | None = None  # None: as long as the agent's leases are

    def __post_init__(self) -> None:
        if self.ttl_us is not None and self.ttl_us <= 0:
            raise InvalidInput(f"lease of {self.target}", self.ttl_us, "a time to live above 0 microseconds")

    @property
    def lasts_us(self) -> int:
        """Its time to live; what is usual where none is said."""
        return USUAL_TTL_US if self.ttl_us is None else self.ttl_us


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Put back what stood before the lease."""

    target: Target
    reason: Reason


class LeaseState(StrEnum):
    """The life of a lease. The old value is on disk before the knob is touched, and stays there until it is back."""

    INTENDED = "intended"  # old value kept; not yet written
    HELD = "held"  # written and read back
    RESTORING = "restoring"  # the old value is to be put back, and is not yet
    RESTORED = "restored"  # over: what stood before stands again
    YIELDED = "yielded"  # over: somebody else wrote the knob since; theirs was left alone
    GONE = "gone"  # over: the group no longer exists
    REFUSED = "refused"  # over: never written, or the kernel did not take the value


@dataclass(frozen=True, slots=True)
class Lease:
    """What is known of one lease; the state file has a line of it a live lease."""

    target: Target
    raw_before: str  # as the driver read it, for the driver to put back
    value: str  # canonical
    reason: Reason
    state: LeaseState
    taken_at_s: float  # Unix time
    expires_at_us: int  # on the keeper's monotonic clock
    detail: str = ""  # why it was refused, yielded or is still being restored
    before: str = ""  # canonical, for people and for the order in which values go back
    stands: str | None = None  # canonical, as read back after the last write: what the kernel made of `value`
    identity: str = ""  # which group of that path; one made anew differs. "" = not known


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """How a `SetKnob` or `GiveBack` went: the state that the lease is in now."""

    target: Target
    state: LeaseState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One line of the audit trail: what was done to a knob, or why it was not."""

    at_s: float  # Unix time
    target: Target
    cause: Reason
    who: str  # who asked, e.g. "uid 65534, pid 811"; "keeper" for its own doing
    before: str  # canonical, as it stood
    asked: str  # canonical; what was to stand
    after: str  # canonical, as read back
    result: LeaseState
    detail: str = ""


class Vanished(Permanent):
    """The group that a knob or counter belongs to does not exist any more."""
