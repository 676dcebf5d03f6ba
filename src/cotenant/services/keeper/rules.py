"""What the keeper grants at all: named knobs, below named groups, with values and times to live in bounds.

Problem: the keeper has privileges that its clients lack; a confused or hostile agent must not be able to starve the machine through it. Choice:
rules fixed at start, checked before anything is read. The tree's root is never written, nor a group that contains the keeper or the client (their
own groups and all above): a throttled process cannot undo its own throttling in time. Limits: within the rules the agent decides whether a group
is the right one to throttle. How a path is resolved is the port's matter (`drivers/cgroup` follows no links).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, Scope, SetKnob, Target
from cotenant.model.machine.knob_values import canonical, parse_cpu_max

_SCHEMATA = re.compile(r"[A-Z0-9]{1,8}:[0-9]{1,4}=[0-9a-f]{1,16}(;[0-9]{1,4}=[0-9a-f]{1,16}){0,63}")
_RATE = re.compile(r"[0-9]{1,13} [0-9]{1,13}")
_MOST_VALUE = 4096  # characters


@dataclass(frozen=True, slots=True)
class Requester:
    """A client of the keeper. `groups` are its own, which it cannot throttle: it could not ask to undo it."""

    name: str  # for the audit trail
    groups: tuple[str, ...] = ()


SELF = Requester("keeper")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed. `roots`: groups that may be written, with all below. `never`: groups that may not, with all above."""

    roots: tuple[str, ...]
    never: tuple[str, ...] = ()
    knobs: frozenset[Knob] = frozenset(Knob)
    longest_ttl_us: int = 600_000_000
    least_cpu_m: int = 10  # no quota below this: a group that cannot run cannot release its locks either

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root:
                raise InvalidInput("root", "", "a group below the tree's root", "the root itself is never written")
            Target(root, Knob.CPU_MAX)

    def refusal(self, request: SetKnob, requester: Requester = SELF) -> str | None:
        """Why this request is not granted; None where it is."""
        refused = self.out_of_bounds(request.target, requester)
        if refused is not None:
            return refused
        if request.lasts_us > self.longest_ttl_us:
            most = f"{self.longest_ttl_us} us, the longest that this keeper grants (--longest-ttl-s)"
            return f"a lease of {request.lasts_us} us is longer than {most}"
        return self._value_refusal(request.target.knob, request.value)

    def out_of_bounds(self, target: Target, requester: Requester = SELF) -> str | None:
        """Why this knob may not be written, whatever the value."""
        if target.knob not in self.knobs:
            return f"{target.knob} is not among the allowed knobs"
        try:
            target.group.encode()
        except UnicodeEncodeError:
            return "the group's name is not Unicode text"
        if target.knob.scope is not Scope.CGROUP:
            return None if target.group else "the root is never written"
        if not any(_within(target.group, root) for root in self.roots):
            return f"/{target.group} is not below an allowed group"
        for kept in (*self.never, *requester.groups):
            if _within(kept, target.group):
                return f"/{target.group} contains /{kept}, which is never written"
        return None

    def _value_refusal(self, knob: Knob, value: str) -> str | None:
        if len(value) > _MOST_VALUE:
            return f"a value of {len(value)} characters, the limit is {_MOST_VALUE}"
        if knob is Knob.SCHEMATA:
            is_valid = all(_SCHEMATA.fullmatch(line) for line in value.split("\n"))
            return None if is_valid else f"{value[:80]!r} is not a schemata"
        if knob is Knob.RATE:
            return None if _RATE.fullmatch(value) else f"{value[:80]!r} is not a pair of rates"
        try:
            expected = canonical(knob, value)
        except InvalidInput as error:
            return str(error)
        if expected != value:
            return f"{value!r} is not canonical; {expected!r} is"
        if knob is Knob.CPU_MAX:
            cpu_m = parse_cpu_max(value).cpu_m
            if cpu_m is not None and cpu_m < self.least_cpu_m:
                return f"{cpu_m} mCPU is below {self.least_cpu_m} mCPU"
        return None


def own_groups(lines: Iterable[str]) -> tuple[str, ...]:
    """The groups of a process, from the lines of its /proc/PID/cgroup ("HIERARCHY:CONTROLLERS:PATH"). The root is left out."""
    groups = {line.rstrip("\n").split(":", 2)[-1].strip("/") for line in lines if line.count(":") >= 2}
    return tuple(sorted(group for group in groups if group and ".." not in group.split("/")))


def _within(group: str, root: str) -> bool:
    return group == root or group.startswith(root + "/")
