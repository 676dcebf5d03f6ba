"""Which wishes the keeper grants at all: named knobs, below named groups, with values and times to live in bounds.

Problem: the keeper has rights that whoever may talk to it has not; a confused or hostile agent must not be able to starve the machine through
it. Choice: rules fixed at start, looked at before anything is read. The tree's root is never touched, nor a group that holds the keeper or
who asks (their own and all above): who is throttled cannot undo it in time. Limits: within the rules the agent decides; whether a group is the
right one to squeeze is its judgement. How a path is followed is the port's matter (`drivers/cgroup` follows no links).
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
class Asker:
    """Who asks. `groups` are its own, which are not turned at its wish: it could not ask for them back."""

    name: str  # for the audit trail
    groups: tuple[str, ...] = ()


SELF = Asker("keeper")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed. `roots`: groups that may be turned, with all below. `never`: groups that may not, with all above."""

    roots: tuple[str, ...]
    never: tuple[str, ...] = ()
    knobs: frozenset[Knob] = frozenset(Knob)
    longest_ttl_us: int = 600_000_000
    least_cpu_m: int = 10  # no quota below this: a group that cannot run cannot leave a lock either

    def __post_init__(self) -> None:
        for root in self.roots:
            if not root:
                raise InvalidInput("root", "", "a group below the tree's root", "the root itself is never touched")
            Target(root, Knob.CPU_MAX)

    def refusal(self, wish: SetKnob, asker: Asker = SELF) -> str | None:
        """Why this wish is not granted; None where it is."""
        refused = self.out_of_bounds(wish.target, asker)
        if refused is not None:
            return refused
        if wish.lasts_us > self.longest_ttl_us:
            most = f"{self.longest_ttl_us} us, the longest that this keeper grants (--longest-ttl-s)"
            return f"a lease of {wish.lasts_us} us is longer than {most}"
        return self._value_refusal(wish.target.knob, wish.value)

    def out_of_bounds(self, target: Target, asker: Asker = SELF) -> str | None:
        """Why this knob may not be touched, whatever the value."""
        if target.knob not in self.knobs:
            return f"{target.knob} is not among the allowed knobs"
        try:
            target.group.encode()
        except UnicodeEncodeError:
            return "the group's name is no Unicode text"
        if target.knob.scope is not Scope.CGROUP:
            return None if target.group else "the root is never touched"
        if not any(_within(target.group, root) for root in self.roots):
            return f"/{target.group} is not below an allowed group"
        for kept in (*self.never, *asker.groups):
            if _within(kept, target.group):
                return f"/{target.group} holds /{kept}, which is never touched"
        return None

    def _value_refusal(self, knob: Knob, value: str) -> str | None:
        if len(value) > _MOST_VALUE:
            return f"a value of {len(value)} characters"
        if knob is Knob.SCHEMATA:
            well = all(_SCHEMATA.fullmatch(line) for line in value.split("\n"))
            return None if well else f"{value[:80]!r} is no schemata"
        if knob is Knob.RATE:
            return None if _RATE.fullmatch(value) else f"{value[:80]!r} is no pair of rates"
        try:
            told = canonical(knob, value)
        except InvalidInput as error:
            return str(error)
        if told != value:
            return f"{value!r} is not canonical; {told!r} is"
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
