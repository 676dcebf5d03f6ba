"""What the scheduling cycle gives to plugins that place pods themselves (`PluginHost.cycle`).

A plugin that places whole groups, or reserves resources for future pods, works on the same ledger, queue and
nominations as the cycle. One value with the components, and the calls by which a decision becomes an instruction. If
one plugin reserves resources and another places whole groups, the first offers a `GroupPlacer` to the second, and
neither knows the other.
Limits: for plugins only; the engine's owner uses `Cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cotenant.engine.cycle.components import ClusterComponents
from cotenant.engine.cycle.placing import PodJudgement
from cotenant.engine.cycle.pods import Pods
from cotenant.engine.cycle.waiting_pods import WaitingPods
from cotenant.engine.framework.outbox import Outbox
from cotenant.engine.framework.plugin import Cycle, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup
from cotenant.model.arrays import Mask
from cotenant.model.resources import Amounts


class GroupPlacer(Protocol):
    """Places the members of a group that is judged as a whole; what it writes can be taken back until they are
    assumed.
    """

    @property
    def drew(self) -> bool:
        """Whether any member was last placed on reserved resources."""
        ...

    def prepare(self) -> None:
        """A group is about to be placed: what is reserved is taken first."""
        ...

    def place(self, entries: Sequence[PodInfo], now_s: float, only: Mask, drawing: bool) -> list[PodJudgement]:
        """As `Placing.place`; without `drawing` no member uses reserved resources."""
        ...

    def undo(self, now_s: float) -> None:
        """The members were taken back."""
        ...

    def offered(self, entry: PodInfo, only: Mask) -> AbstractContextManager[Mask | None]:
        """A context for a search for victims: reserved resources that the pod may use are hidden, on the rows that
        are given; None = there are none.
        """
        ...

    def usable(self, entries: Sequence[PodInfo]) -> Amounts:
        """The reserved resources that any of the pods may use, in total."""
        ...

    def insists(self, entry: PodInfo) -> bool:
        """Whether the pod may use reserved resources only."""
        ...

    def refusal(self, entry: PodInfo) -> PodRefused | None:
        """Why a member that insists was not placed; None for one that does not insist."""
        ...


@runtime_checkable
class PlacesGroups(Protocol):
    """For plugins that reserve resources for pods."""

    def group_placer(self) -> GroupPlacer:
        """The placer of whole groups that respects reserved resources."""
        ...


@dataclass(frozen=True, slots=True)
class CycleAccess(Cycle):
    """The parts of one engine's cycle."""

    components: ClusterComponents
    pods: Pods
    outbox: Outbox
    waiting: WaitingPods
    placer: GroupPlacer
    assume: Callable[
        [PodInfo, QueuedGroup, PodJudgement, int, float], None
    ]  # bind a placed pod; the int: number of pods bound in this step
    schedulers: tuple[str, ...]  # spec.schedulerName of the pods that this engine schedules


def group_placer(components: ClusterComponents) -> GroupPlacer:
    """The placer of the plugin that reserves resources; every engine has one."""
    return next(plugin.group_placer() for plugin in components.roster.plugins if isinstance(plugin, PlacesGroups))
