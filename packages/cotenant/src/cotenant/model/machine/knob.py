"""Knobs of a node, requests to set them, and leases of knobs.

Policies, the process that writes, the state file and the simulated node must identify "the quota of that group" alike,
on cgroup v1, v2 and outside cgroups. A knob is named by its cgroup v2 interface file, and its value is that file's text
in one canonical form; drivers translate to what the machine has. The previous value is kept as the driver read it
(`raw`), so that restoring is exact even where a translation is not.
Limits: knobs of other trees (resctrl, tc, the runtime) follow the same rule under names of their own.

Source of the canonical forms: Linux, Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.node_decision import Reason
from cotenant.model.printable import printable

UNLIMITED = "max"
ALL_SERVERS = "all"  # the group of a limit that clients of every server of an MPS daemon get, and of those to come
USUAL_TTL_US = 30_000_000  # of a lease without a time to live of its own


class KnobScope(StrEnum):
    """The tree that contains a knob; each has its own driver."""

    CGROUP = "cgroup"
    RESCTRL = "resctrl"
    TC = "tc"
    NETWORK = "network"  # of the network namespace of a cgroup's processes
    GPU = "gpu"  # of a card, by NVML; the group is its UUID
    MPS = "mps"  # of an MPS control daemon; the group is a server's process id, "default" for servers to come, or "all"


class Knob(StrEnum):
    """A knob by its file's name, with the canonical text of its value."""

    _value_: str
    scope: KnobScope  # the tree that contains it
    undoable: bool  # there is a previous value to restore

    CPU_MAX = "cpu.max"  # "QUOTA PERIOD" in microseconds; QUOTA may be "max"
    CPU_BURST = "cpu.max.burst"  # microseconds of unused quota that may be kept
    CPU_WEIGHT = "cpu.weight"  # 1..10000, 100 is usual
    CPU_IDLE = "cpu.idle"  # "1": runs only when no other task wants the CPU; fixes the weight while set
    CPUSET_CPUS = "cpuset.cpus"  # a list as "0-3,8"; "" = the parent's
    MEMORY_MIN = "memory.min"  # bytes
    MEMORY_LOW = "memory.low"  # bytes
    MEMORY_HIGH = "memory.high"  # bytes or "max"
    MEMORY_MAX = "memory.max"  # bytes or "max"
    MEMORY_RECLAIM = (
        "memory.reclaim",
        KnobScope.CGROUP,
        False,
    )  # bytes to reclaim now: a one-time action, nothing to restore
    CGROUP_FREEZE = "cgroup.freeze"  # "1": no process of the group runs, and all keep what they hold
    IO_WEIGHT = "io.weight"  # "default N", N 1..10000
    IO_MAX = "io.max"  # "MAJOR:MINOR rbps=N wbps=N riops=N wiops=N", one device; each N may be "max"
    SCHEMATA = "schemata", KnobScope.RESCTRL  # resctrl: one line per resource, as "L3:0=ff;1=ff"
    RATE = "tc.rate", KnobScope.TC  # "MIN MAX" in bits per second for a traffic class of the host's uplink
    NETWORK_RATE = "network.rate", KnobScope.NETWORK  # bits per second that leave a group's network namespace, or "max"
    NETWORK_DELAY = (
        "network.delay",
        KnobScope.NETWORK,
    )  # microseconds that each packet from there is delayed, "0" is usual
    NETWORK_LOSS = "network.loss", KnobScope.NETWORK  # of a million packets from there so many are lost, "0" is usual
    GPU_POWER = "gpu.power", KnobScope.GPU  # milliwatts at most
    GPU_CLOCKS = "gpu.clocks", KnobScope.GPU  # "MIN MAX" of the graphics clock in MHz, or "max" without a lock
    GPU_TIMESLICE = "gpu.timeslice", KnobScope.GPU  # of each process in turn: default, short, medium or long
    GPU_MIG = "gpu.mig", KnobScope.GPU  # profiles of a divided card's instances in order, as "1g.10gb 3g.40gb"; "none"
    # of clients that start from now on; those that run keep what they have
    MPS_THREADS = "mps.threads", KnobScope.MPS  # percent of a card's threads for each client
    MPS_MEMORY = "mps.memory", KnobScope.MPS  # MiB of a device for each client; the group is SERVER/DEVICE

    def __new__(cls, file: str, scope: KnobScope = KnobScope.CGROUP, undoable: bool = True) -> Knob:
        """A knob of this file."""
        made = str.__new__(cls, file)
        made._value_ = file
        made.scope, made.undoable = scope, undoable
        return made


@dataclass(frozen=True, slots=True, order=True)
class KnobTarget:
    """One knob of one group. `group` is a path relative to the tree's root without slashes at its ends; "" is the
    root itself.
    """

    group: str
    knob: Knob

    def __post_init__(self) -> None:
        parts = self.group.split("/")
        if (self.group and any(part in ("", ".", "..") for part in parts)) or "\0" in self.group:
            raise InvalidInput("group", self.group, "a path below the tree's root, without empty parts, '.' or '..'")

    def __str__(self) -> str:
        # A group's name is any bytes: a log line or an error must neither break on them nor let them forge a second
        # line.
        return f"/{printable(self.group)}:{self.knob}"


@dataclass(frozen=True, slots=True)
class SetKnob:
    """Set a knob and hold it for `lasts_us`; a repeated request extends the lease. When it ends, the previous value
    is restored.
    """

    target: KnobTarget
    value: str  # canonical
    reason: Reason
    ttl_us: int | None = None  # None: the agent's default

    def __post_init__(self) -> None:
        if self.ttl_us is not None and self.ttl_us <= 0:
            raise InvalidInput(f"lease of {self.target}", self.ttl_us, "a time to live above 0 microseconds")

    @property
    def lasts_us(self) -> int:
        """The time to live; the default where none is set."""
        return USUAL_TTL_US if self.ttl_us is None else self.ttl_us


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Restore the value from before the lease."""

    target: KnobTarget
    reason: Reason


class LeaseState(StrEnum):
    """States of a lease. The previous value is on disk before the knob is written, and stays there until it is
    restored.
    """

    INTENDED = "intended"  # previous value saved; not yet written
    HELD = "held"  # written and read back
    RESTORING = "restoring"  # the previous value is to be restored, and is not yet
    RESTORED = "restored"  # over: the previous value is in place again
    YIELDED = "yielded"  # over: another writer changed the knob since; its value was left alone
    GONE = "gone"  # over: the group no longer exists
    REFUSED = "refused"  # over: never written, or the kernel rejected the value


@dataclass(frozen=True, slots=True)
class KnobLease:
    """One lease; the state file has one line per active lease."""

    target: KnobTarget
    raw_before: str  # the previous value as the driver read it, for the driver to restore
    value: str  # canonical
    reason: Reason
    state: LeaseState
    taken_at_s: float  # Unix time
    expires_at_us: int  # on the keeper's monotonic clock
    detail: str = ""  # why it was refused, has yielded or is still being restored
    before: str = ""  # canonical, for display and for the order in which values are restored
    stands: str | None = None  # canonical, as read back after the last write: what the kernel made of `value`
    identity: str = ""  # identity of the group at that path; a recreated group differs. "" = unknown
    weight_before: str = (
        ""  # of cpu.idle: the raw cpu.weight, which the kernel forgets. "" = unknown, or idle stood before
    )


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """The outcome of a `SetKnob` or `GiveBack`: the lease's current state."""

    target: KnobTarget
    state: LeaseState
    detail: str = ""


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One line of the audit trail: a change of a knob, or why it was not made."""

    at_s: float  # Unix time
    target: KnobTarget
    cause: Reason
    who: str  # the requester, e.g. "uid 65534, pid 811"; "keeper" for its own actions
    before: str  # canonical, the value before
    asked: str  # canonical, the requested value
    after: str  # canonical, as read back
    result: LeaseState
    detail: str = ""


class Vanished(Permanent):
    """The group of a knob or counter no longer exists."""
