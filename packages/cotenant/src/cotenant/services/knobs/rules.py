"""What the keeper grants at all: named knobs, below named groups, with values and times to live in bounds.

The keeper has privileges that its clients lack; a confused or hostile agent must not be able to starve the machine
through it. Rules fixed at start. Whatever a knob's kind, it must be named: a cgroup below a root, a network interface,
a resctrl class. The trees' roots are never written, nor a group that contains the keeper or the client (their own
groups and all above): a throttled process cannot undo its own throttling in time. A root's own knobs are never raised
above what stood before (`border.py`). Limits with which nothing can run are refused: a group that cannot run cannot
release its locks either, and what a memory limit kills is not restored. A freeze is granted only where that was allowed
(`freezes`): what waits for a frozen process waits until the lease ends.
Limits: within the rules the agent decides whether a group is the right one to throttle. How a path is resolved is the
port's matter (`drivers/cgroup` follows no links).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cotenant.drivers.resctrl.tree import is_group_name
from cotenant.drivers.tc.knobs import MINORS
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.kubelet.ruling import ruling
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget, SetKnob
from cotenant.model.machine.knob_values import (
    canonical,
    is_default,
    parse_bytes,
    parse_cpu_max,
    parse_io_max,
    parse_rate,
)
from cotenant.services.knobs.border import exceeds

_SCHEMATA = re.compile(r"[A-Z0-9]{1,8}:[0-9]{1,4}=[0-9a-f]{1,16}(;[0-9]{1,4}=[0-9a-f]{1,16}){0,63}")
_RATE = re.compile(r"([0-9]{1,13}) ([0-9]{1,13})")
_MPS_GROUP = {
    Knob.MPS_THREADS: re.compile(r"default|all|[1-9][0-9]{0,9}"),
    Knob.MPS_MEMORY: re.compile(r"(default|[1-9][0-9]{0,9})/[0-9A-Za-z-]{1,64}"),
}
_INTERFACE = re.compile(r"[!-.0-~]{1,15}")  # IFNAMSIZ less the closing zero; printable, without a slash
_MAX_VALUE = 4096  # characters
_MAX_GROUP = 4096  # PATH_MAX


@dataclass(frozen=True, slots=True)
class Requester:
    """A client of the keeper. `groups` are its own, which it cannot throttle: it could not ask to undo it."""

    name: str  # for the audit trail
    groups: tuple[str, ...] = ()


SELF = Requester("keeper")


@dataclass(frozen=True, slots=True)
class KnobRules:
    """What is allowed. `roots`: groups that may be written, with all below. `never`: groups that may not, with all
    above.
    """

    roots: tuple[str, ...]
    never: tuple[str, ...] = ()
    knobs: frozenset[Knob] = frozenset(Knob)
    interfaces: frozenset[str] | None = frozenset()  # network interfaces for tc.rate; None: any
    classes: frozenset[str] = frozenset()  # resctrl classes for schemata
    raises_roots: bool = False  # whether a root's own knobs may be set above what stood before
    gpus: frozenset[str] = frozenset()  # UUIDs of cards whose power and clocks may be limited
    timeslices: bool = False  # whether the time-slice of these cards may be set too
    mig: bool = False  # whether the MIG instances of these cards may be changed too
    mps: bool = False  # whether limits of MPS clients may be set
    freezes: bool = False  # whether processes of a group may be suspended
    facts: Callable[[], KubeletFacts] = KubeletFacts  # what is known of the kubelet and systemd of this node
    restores_all: bool = False  # whether leases that an earlier process left outside of the roots are restored too
    longest_ttl_us: int = 600_000_000
    min_cpu_m: int = 10
    min_memory_bytes: int = 1 << 20
    min_io_bytes: int = 1 << 16  # per second
    min_io_operations: int = 10  # per second
    min_rate_bits: int = 1_000_000  # per second
    min_network_bits: int = 64_000  # per second, of one group

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root:
                raise InvalidInput("root", "", "a group below the tree's root", "the root itself is never written")
            KnobTarget(root, Knob.CPU_MAX)
        for name in self.interfaces or ():
            if not _INTERFACE.fullmatch(name) or name in (".", ".."):
                raise InvalidInput("--interface", name, "the name of a network interface, up to 15 characters")
        for name in self.classes:
            if not is_group_name(name):
                raise InvalidInput("--resctrl-class", name, "the name of a resctrl group below the root")

    def refusal(self, request: SetKnob, requester: Requester = SELF) -> str | None:
        """Why this request is not granted, without regard to what stands; None where it is."""
        refused = self.out_of_bounds(request.target, requester)
        if refused is not None:
            return refused
        if request.lasts_us > self.longest_ttl_us:
            most = f"{self.longest_ttl_us} us, the longest that this keeper grants (--longest-ttl-s)"
            return f"a lease of {request.lasts_us} us is longer than {most}"
        owned = ruling(request.target, self.facts())
        if owned.is_refused:
            return f"left to its owner: {owned.reason}"
        return self._value_refusal(request.target.knob, request.value)

    def bound(self, target: KnobTarget, value: str, before: str) -> str | None:
        """Why a knob may not be set to this value where `before` stood; None where it may. Both canonical."""
        if target.knob is Knob.GPU_TIMESLICE and not is_default(target.knob, before):
            return f"left to who set it to {before}, such as the DRA driver for a claim that shares the card"
        return self.above_original(target, value, before) or self._below_owner(target, value, before)

    def _below_owner(self, target: KnobTarget, value: str, before: str) -> str | None:
        """Why the group's owner would fail at its next write below a smaller value."""
        owned = ruling(target, self.facts())
        if owned.raises_only and exceeds(target.knob, before, value):
            return f"left to its owner, where it had {before or 'no value'!r}: {owned.reason}"
        return None

    def above_original(self, target: KnobTarget, value: str, before: str) -> str | None:
        """Why a root's own knob may not be raised to this value."""
        if self.raises_roots or target.knob.scope is not KnobScope.CGROUP or not self._is_border(target.group):
            return None
        if not exceeds(target.knob, value, before):
            return None
        return (
            f"/{target.group} is a root: {target.knob} had {before or 'no value'!r} and may not be raised to "
            f"{value!r} (--raise-roots)"
        )

    def out_of_bounds(self, target: KnobTarget, requester: Requester = SELF) -> str | None:
        """Why this knob may not be written, whatever the value."""
        if target.knob not in self.knobs:
            return f"{target.knob} is not among the allowed knobs"
        if target.knob is Knob.CGROUP_FREEZE and not self.freezes:
            return "no group is frozen here (--freeze): a frozen process releases none of its locks"
        if target.knob is Knob.GPU_TIMESLICE and not self.timeslices:
            return "no time-slice of a GPU is set here (--gpu-timeslices): it is everybody's on the card"
        if target.knob is Knob.GPU_MIG and not self.mig:
            return "no MIG instance is changed here (--gpu-mig)"
        outside = self.outside(target)
        if outside is not None or target.knob.scope not in (KnobScope.CGROUP, KnobScope.NETWORK):
            return outside
        for kept in (*self.never, *requester.groups):
            if _within(kept, target.group):
                return f"/{target.group} contains /{kept}, which is never written"
        return None

    def outside(self, target: KnobTarget) -> str | None:
        """Why this knob's group, interface or class is not one that was named."""
        if len(target.group) > _MAX_GROUP:
            return f"a group of {len(target.group)} characters, the limit is {_MAX_GROUP}"
        try:
            target.group.encode()
        except UnicodeEncodeError:
            return "the group's name is not Unicode text"
        match target.knob.scope:
            case KnobScope.TC:
                return self._outside_interfaces(target.group)
            case KnobScope.RESCTRL if target.group not in self.classes:
                return f"{target.group or 'the root'} is not an allowed class (--resctrl-class)"
            case KnobScope.RESCTRL:
                return None
            case KnobScope.GPU:
                return None if target.group in self.gpus else f"{target.group} is not an allowed GPU (--gpu)"
            case KnobScope.MPS:
                return self._outside_mps(target)
        if not any(_within(target.group, root) for root in self.roots):
            return f"/{target.group} is not below an allowed group"
        return None

    def _outside_interfaces(self, group: str) -> str | None:
        device, _, name = group.partition("/")
        if self.interfaces is not None and device not in self.interfaces:
            return f"{device} is not an allowed network interface (--interface)"
        return None if name in MINORS else f"{name} is not a class of {device}: one of {', '.join(MINORS)}"

    def _outside_mps(self, target: KnobTarget) -> str | None:
        if not self.mps:
            return "no limit of MPS clients is set here (--mps)"
        if _MPS_GROUP[target.knob].fullmatch(target.group) is None:
            device = "/DEVICE" if target.knob is Knob.MPS_MEMORY else ""
            every = "" if device else ", all"
            return f"{target.group!r} is not default{device}{every}, or a server's process id{device}"
        return None

    def _is_border(self, group: str) -> bool:
        """Whether the group is a root that is not below another one."""
        return group in self.roots and not any(root != group and _within(group, root) for root in self.roots)

    def _value_refusal(self, knob: Knob, value: str) -> str | None:
        if len(value) > _MAX_VALUE:
            return f"a value of {len(value)} characters, the limit is {_MAX_VALUE}"
        if knob is Knob.SCHEMATA:
            is_valid = all(_SCHEMATA.fullmatch(line) for line in value.split("\n"))
            return None if is_valid else f"{value[:80]!r} is not a schemata"
        if knob is Knob.RATE:
            return self._rate_refusal(value)
        try:
            expected = canonical(knob, value)
        except InvalidInput as error:
            return str(error)
        if expected != value:
            return f"{value!r} is not canonical; {expected!r} is"
        return self._too_little(knob, value)

    def _rate_refusal(self, value: str) -> str | None:
        rates = _RATE.fullmatch(value)
        if rates is None:
            return f"{value[:80]!r} is not a pair of rates"
        least, most = map(int, rates.groups())
        if least > most:
            return f"{least} bits/s guaranteed is above the ceiling, {most} bits/s"
        if most < self.min_rate_bits:
            return f"{most} bits/s is below {self.min_rate_bits} bits/s"
        return None

    def _too_little(self, knob: Knob, value: str) -> str | None:
        """Whether nothing could run with this limit."""
        match knob:
            case Knob.CPU_MAX:
                cpu_m = parse_cpu_max(value).cpu_m
                if cpu_m is not None and cpu_m < self.min_cpu_m:
                    return f"{cpu_m} mCPU is below {self.min_cpu_m} mCPU"
            case Knob.MEMORY_HIGH | Knob.MEMORY_MAX:
                amount = parse_bytes(knob, value)
                if amount is not None and amount < self.min_memory_bytes:
                    return f"{amount} bytes is below {self.min_memory_bytes} bytes"
            case Knob.NETWORK_RATE:
                rate_bits = parse_rate(value)
                if rate_bits is not None and rate_bits < self.min_network_bits:
                    return f"{rate_bits} bits/s is below {self.min_network_bits} bits/s"
            case Knob.IO_MAX:
                for limits in parse_io_max(value):
                    for amount in (limits.rbps, limits.wbps):
                        if amount is not None and amount < self.min_io_bytes:
                            return f"{amount} bytes/s is below {self.min_io_bytes} bytes/s"
                    for amount in (limits.riops, limits.wiops):
                        if amount is not None and amount < self.min_io_operations:
                            return f"{amount} operations/s is below {self.min_io_operations} operations/s"
        return None


def own_groups(lines: Iterable[str]) -> tuple[str, ...]:
    """The groups of a process, from the lines of its /proc/PID/cgroup ("HIERARCHY:CONTROLLERS:PATH"). The root is
    left out.
    """
    groups = {line.rstrip("\n").split(":", 2)[-1].strip("/") for line in lines if line.count(":") >= 2}
    return tuple(sorted(group for group in groups if group and ".." not in group.split("/")))


def _within(group: str, root: str) -> bool:
    return group == root or group.startswith(root + "/")
