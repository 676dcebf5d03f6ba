"""The interfaces that the node's engine and its process require. Drivers, the simulated node and fakes provide them.

The agent must be the same code over cgroup v1, v2, a recording and the lab's plant. Four small Protocols; drivers
satisfy them structurally and import nothing from here.
Limits: implementations make no decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cotenant.model.machine.counters import Gap, NodeSample
from cotenant.model.machine.knob import GiveBack, Knob, KnobLease, KnobTarget, LeaseAnswer, SetKnob
from cotenant.model.machine.node_pod import NodePod


class KnobPort(Protocol):
    """Reads and writes knobs of one scope. Blocking, fast (one or two files).

    Errors of all but `supported`: `Vanished` where the group is gone; `Unsupported` where the machine lacks the knob;
    `InvalidInput` where the kernel refuses the value; `Permanent` where it may not be written at all (EPERM, EROFS);
    `Transient` for EBUSY, EINTR, ENOMEM.
    """

    def supported(self, knob: Knob) -> Gap | None:
        """None where this machine has the knob, else what is missing."""
        ...

    def read(self, target: KnobTarget) -> str:
        """The current value, in canonical form."""
        ...

    def raw(self, target: KnobTarget) -> str:
        """What `restore` needs to write exactly this value back."""
        ...

    def write(self, target: KnobTarget, value: str) -> None:
        """Set the knob to a canonical value. The kernel may round it."""
        ...

    def restore(self, target: KnobTarget, raw: str) -> None:
        """Write back what `raw` returned."""
        ...


@runtime_checkable
class KnobIdentity(Protocol):
    """Distinguishes a group from a later one of the same path. Implemented by a `KnobPort` whose groups can come
    and go.
    """

    def identity(self, target: KnobTarget) -> str:
        """A text that is constant for the life of the group, e.g. its directory's inode. Raises `Vanished`."""
        ...


class Keeper(Protocol):
    """Holds leases: in this process, or in the privileged one behind a socket. Answers come in the order of the
    requests.

    Raises `Transient` where the keeper cannot be reached. Requests are executed in order and independently: one that is
    refused does not stop the others.
    """

    async def hold(self, wanted: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """Write and hold; a target already held at the same value is only renewed. A one-shot write that takes long
        is answered by INTENDED.
        """
        ...

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """End leases early. A target that is not held answers RESTORED."""
        ...

    async def leases(self) -> tuple[KnobLease, ...]:
        """All live leases."""
        ...


class Sensor(Protocol):
    """Reads the node. Blocking; costs about as much as reading its files."""

    def sample(self, groups: Sequence[str]) -> NodeSample:
        """The machine and these groups now."""
        ...


class PodDiscovery(Protocol):
    """The pods of this node."""

    async def pods(self) -> tuple[NodePod, ...]:
        """All pods and host applications with their cgroups. Raises `Transient` where the source is unavailable:
        the last answer remains in force.
        """
        ...
