"""The values that a container starts with: its cgroup's knobs, its environment, its devices.

A container runs from its first instruction, and whoever acts on groups that exist comes later. What a runtime should be
asked for at a container's creation is one value, in the units of the knobs that hold it afterwards, so that both can be
compared.
Limits: there is no field for cpu.idle: while it stands the kernel refuses every weight, and a runtime writes the weight
again at each update.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.machine.knob_values import CpuMax
from cotenant.model.machine.node_decision import Reason


class FirstValueRefusal(StrEnum):
    """Why something that a pod asked for was left out."""

    UNTRUSTED = "untrusted"  # an annotation that any owner of a pod can write, in a namespace that is not believed
    MALFORMED = "malformed"
    UNKNOWN_DEVICE = "unknown-device"  # this node does not have it, or its devices are not known
    ILL_DEVICE = "ill-device"
    OTHER_OWNER = "other-owner"  # the kubelet assigns CPUs itself, or its policy is not known
    OUTSIDE = "outside"  # CPUs that the pod's group may not use
    TOO_SMALL = "too-small"  # a container could hardly start with it; its lease sets it
    NO_CLASS = "no-class"  # a class of the cache that does not exist
    NO_DAEMON = "no-daemon"  # of MPS: a program that is sent to one that does not answer runs without limits
    OWN_LIMITS = "own-limits"  # the image or the pod sets a variable of MPS itself


@dataclass(frozen=True, slots=True)
class BindMount:
    """A folder of the host in a container."""

    source: str
    destination: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One thing that was left out, and why."""

    cause: FirstValueRefusal
    reason: Reason


@dataclass(frozen=True, slots=True)
class FirstValues:
    """None, "" and () = as the runtime was told."""

    weight: int | None = None  # cpu.weight
    quota: CpuMax | None = None
    memory_bytes: int | None = None
    cpus: tuple[int, ...] = ()
    cache_class: str = ""  # a group of resctrl
    environment: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()  # by their CDI names
    mounts: tuple[BindMount, ...] = ()
    reasons: tuple[Reason, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the container starts as the runtime was told."""
        return not (
            self.cpus
            or self.cache_class
            or self.environment
            or self.devices
            or self.mounts
            or any(value is not None for value in (self.weight, self.quota, self.memory_bytes))
        )


NOTHING = FirstValues()
