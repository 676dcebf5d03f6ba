"""What one RightSizing is decided by, and what comes of a decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cotenant.model.autonomy.autonomy import FREE, AutonomyRung, Permission
from cotenant.model.sizes.container import ContainerSize, SizedPod
from cotenant.model.sizes.right_sizing import RightSizing, SizingMode, SizingStatus
from cotenant.policy.assess.container_sizes import HeldResources
from cotenant.policy.sizing.proof import Sign

_RUNGS = {
    SizingMode.SUGGEST: AutonomyRung.SUGGEST,
    SizingMode.APPROVE: AutonomyRung.APPROVE,
    SizingMode.ACT: AutonomyRung.ACT,
}
_MODES = {rung: mode for mode, rung in _RUNGS.items()} | {AutonomyRung.SHADOW: SizingMode.OFF}


@dataclass(frozen=True, slots=True)
class SizingScene:
    """Facts of now. `reported`: replicas with a report that was not seen before. `may_size`: a new size may be worked
    out. `refusal`: what the API server said to the last resize, "" = nothing.
    """

    sizing: RightSizing
    pods: Mapping[str, SizedPod]  # running replicas by UID
    signs: Mapping[str, Sign]
    reported: frozenset[str] = frozenset()
    objective_burns: bool | None = None  # None = none is named, or nothing is known of it
    held: HeldResources = field(default_factory=HeldResources)
    may_size: bool = True
    refusal: str = ""
    permission: Permission = FREE
    earned: AutonomyRung = AutonomyRung.APPROVE  # by the changes of the namespace; counts in mode `earned`

    @property
    def mode(self) -> SizingMode:
        """What its owner, the cluster's Autonomy objects and past changes allow together."""
        own = self.sizing.mode
        if own is SizingMode.OFF:
            return own
        allowed = min(self.earned if own is SizingMode.EARNED else _RUNGS[own], self.permission.rung)
        return _MODES[allowed]

    @property
    def may_begin(self) -> bool:
        """Whether something new may be begun now."""
        return self.permission.may_begin and not self.permission.is_frozen


class ResizePod(NamedTuple):
    """Set the amounts of a pod's only container through its subresource."""

    sizing: str  # key of the RightSizing
    namespace: str
    pod: str
    uid: str
    container: str
    size: ContainerSize
    undoes: bool = False  # gives back what the pod had: not stopped by a freeze

    @property
    def key(self) -> tuple[str, str]:
        """What a newer one replaces."""
        return ("resize", self.uid)


class WriteSizing(NamedTuple):
    """Store a status."""

    sizing: str
    uid: str
    status: SizingStatus

    @property
    def key(self) -> tuple[str, str]:
        """What a newer one replaces."""
        return ("sizing", self.sizing)


@dataclass(frozen=True, slots=True)
class SizingStep:
    """A status to store, and pods to resize; resizes follow from what is stored already."""

    status: SizingStatus
    resizes: tuple[ResizePod, ...] = ()
