"""The two contracts beside `Plugin`: for plugins that place pods together, and for those that know who may be evicted.

A plugin has a contract by deriving from it too. Answers are neutral, so it overrides what it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from cotenant.engine.framework.jobs import PlacedJob
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.queueing import QueuedGroup, Segment
from cotenant.model.errors import Permanent

IsGoing = Callable[[PodInfo], bool]  # whether a pod is ending, or is being evicted


class Together(NamedTuple):
    """What a pod is placed with."""

    keys: tuple[str, ...] = ()  # of the groups that are placed together with its own, that included
    lacks: int = 1  # how many pods must be placed together for it to run, itself counted


ALONE = Together()


class Grouping(Plugin):
    """Placing a whole group: which pods are placed together, in which order, and on what."""

    def start_round(self, now_s: float) -> bool:
        """Deadlines of pods that wait for others. Whether any pod left a node."""
        return False

    def rows_changed(self, rows: Collection[int], now_s: float) -> None:
        """These rows changed in a way that may help pods which wait for this plugin."""

    def divide(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """The runs of pods, some perhaps divided; what must hold while a run is placed holds until the next is
        requested.
        """
        yield from segments

    def place_group(self, group: QueuedGroup, now_s: float) -> None:
        """Place a group whose key is `WholeGroup` and names this plugin: all of it, or nothing is changed."""
        raise Permanent(f"group {group.key} is keyed as whole by a plugin that does not place it")

    def settle_groups(self, now_s: float) -> None:
        """The pods of the round were evaluated: queue the groups that were rejected."""

    def end_round(self, now_s: float) -> None:
        """The round is over."""

    def allowed_with(self, entry: PodInfo) -> Sequence[PodInfo]:
        """Waiting pods that may be bound now that this one is."""
        return ()

    def allowed(self, entry: PodInfo) -> None:
        """A waiting pod is bound from now on."""

    def together(self, entry: PodInfo) -> Together:
        """What a pod is placed with."""
        return ALONE


class Evicting(Plugin):
    """Who may be evicted, and what an eviction breaks."""

    def jobs(self, is_going: IsGoing) -> tuple[PlacedJob, ...]:
        """Pods on nodes that are of use only together."""
        return ()

    def job_of(self, entry: PodInfo, is_going: IsGoing) -> PlacedJob | None:
        """The job of a placed pod."""
        return None

    def is_leaving(self, uid: str) -> bool:
        """Whether this plugin is evicting the pod."""
        return False
