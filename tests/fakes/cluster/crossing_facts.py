"""A crossing world in plain words: all that the reference may look at (plain_evictions.py)."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.claims.devices import DeviceId


@dataclass(slots=True)
class Member:
    """A pod of the world, in plain words."""

    name: str
    cpu: int
    priority: int
    claims: tuple[str, ...] = ()
    gang: str = ""
    quota: str = ""
    node: str = ""
    covered: bool = False  # by the budget
    preemptible: bool = True
    preempts: bool = True
    started_s: float = 0.0
    nominated: str = ""

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"


@dataclass(slots=True)
class Wanted:
    """A claim, in plain words."""

    count: int
    model: str  # empty = any
    owner: str = ""  # the pod that it was made for
    devices: tuple[DeviceId, ...] = ()
    users: set[str] = field(default_factory=set)  # names of pods that it is reserved for
    is_kept: bool = False  # reserved for something that is no pod, too


@dataclass(slots=True)
class Facts:
    """Everything that the reference may look at."""

    cpu: dict[str, int] = field(default_factory=dict)  # by node
    devices: dict[str, dict[DeviceId, str]] = field(default_factory=dict)  # by node, empty name = all; -> model
    pods: dict[str, Member] = field(default_factory=dict)
    claims: dict[str, Wanted] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)  # gang -> minimum
    quotas: dict[str, tuple[int, int]] = field(default_factory=dict)  # -> minimum, maximum
    allowed: int | None = None  # of the budget
    reserved: dict[str, int] = field(default_factory=dict)  # by node: CPU of a reservation that nobody here may use

    def used(self, quota: str) -> int:
        return sum(pod.cpu for pod in self.pods.values() if pod.node and pod.quota == quota)

    def members(self, gang: str) -> list[Member]:
        return [pod for pod in self.pods.values() if pod.gang == gang]
