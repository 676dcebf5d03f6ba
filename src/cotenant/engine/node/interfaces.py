"""What the node's engine and its process need of the world. Drivers, the simulated node and fakes offer the same.

Problem: the agent must be the same code over cgroup v1, v2, a recording and the lab's plant. Choice: four small Protocols; whoever has the
methods fits, drivers import nothing from here. Limits: none of them may judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from cotenant.model.machine.counters import Gap, NodeSample
from cotenant.model.machine.knob import GiveBack, Knob, Lease, LeaseAnswer, SetKnob, Target
from cotenant.model.machine.node_pod import NodePod


class KnobPort(Protocol):
    """Reads and writes knobs of one scope. Blocking, fast (a file or two).

    Errors of all but `supported`: `Vanished` where the group is gone; `Unsupported` where the machine lacks the knob; `InvalidInput` where
    the kernel refuses the value; `Permanent` where it may not be written at all (EPERM, EROFS); `Transient` for EBUSY, EINTR, ENOMEM.
    """

    def supported(self, knob: Knob) -> Gap | None:
        """None where this machine has the knob, else what it lacks."""
        ...

    def read(self, target: Target) -> str:
        """The value that stands, in canonical form."""
        ...

    def raw(self, target: Target) -> str:
        """What `restore` needs to put exactly this back."""
        ...

    def write(self, target: Target, value: str) -> None:
        """Turn the knob to a canonical value. What is read back may be rounded by the kernel."""
        ...

    def restore(self, target: Target, raw: str) -> None:
        """Put back what `raw` gave."""
        ...


@runtime_checkable
class KnobIdentity(Protocol):
    """Tells a group from one made later under the same path. A `KnobPort` offers it where its groups can come and go."""

    def identity(self, target: Target) -> str:
        """The same text as long as it is the same group, e.g. its directory's inode. Raises `Vanished`."""
        ...


class Keeper(Protocol):
    """Holds leases: in this process, or in the privileged one behind a socket. Answers come in the order of the wishes.

    Raises `Transient` where the keeper cannot be reached. Wishes are carried out in the order given, each as far as it goes: one that is
    refused does not stop the others.
    """

    async def hold(self, wishes: Sequence[SetKnob]) -> tuple[LeaseAnswer, ...]:
        """Turn and hold; a target already held with the same value is only held on for its new time to live. What is done once and takes
        long is answered by INTENDED."""
        ...

    async def give_back(self, requests: Sequence[GiveBack]) -> tuple[LeaseAnswer, ...]:
        """End leases before their time. A target that is not held answers RESTORED."""
        ...

    async def leases(self) -> tuple[Lease, ...]:
        """All that are not over."""
        ...


class Sensor(Protocol):
    """Reads the node. Blocking; costs about what its files cost."""

    def sample(self, groups: Sequence[str]) -> NodeSample:
        """The machine and these groups now."""
        ...


class Discovery(Protocol):
    """Who runs here."""

    async def pods(self) -> tuple[NodePod, ...]:
        """All pods and host applications with their cgroups. Raises `Transient` where the source is away: the last answer stands."""
        ...
