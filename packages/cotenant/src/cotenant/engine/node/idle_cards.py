"""Cards that somebody holds and nobody uses, over the life of an agent.

Held is what the scheduler or a device plugin gave to a pod of this node, and what a process runs on. A share of time is
told by two counters, of the time in which a card was held and of the part of it in which no kernel ran, so that any
window can be looked at. A tick in which a card's use is not known counts as neither.
Limits: busy is the driver's word, whether any kernel ran in its last period; of a card that is divided by MIG it says
nothing, so such cards are held, and whether they are idle is not known. Times of a card that is gone stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from cotenant.engine.node.gpu_holding import IDLE_BELOW_PERMILLE
from cotenant.model.devices.gpu_use import IdleGpus
from cotenant.model.machine.counters import GpuCounters
from cotenant.model.machine.node_state import NodeState
from cotenant.policy.interference.attribution.cards import NO_POD, holders_of_cards

_MAX_CARDS = 256
NO_GPUS = IdleGpus(0, 0, 0, 0, ())


@dataclass(slots=True)
class HeldTime:
    """Of one card, microseconds."""

    held_us: int = 0
    idle_us: int = 0


class IdleCards:
    """What is idle now, and how long each card was."""

    def __init__(self) -> None:
        self.now = NO_GPUS
        self.times: dict[str, HeldTime] = {}  # by UUID

    def seen(self, state: NodeState) -> None:
        """A tick."""
        if not state.gpus:
            self.now = NO_GPUS
            return
        names = {entry.pod.uid: entry.pod.key for entry in state.pods} | {NO_POD: "programs outside pods"}
        holders = holders_of_cards(state)
        held = [gpu for gpu in state.gpus if holders[gpu.uuid]]
        idle = [gpu for gpu in held if _is_idle(gpu)]
        for gpu in held:
            if gpu.utilisation_percent is None or (gpu.uuid not in self.times and len(self.times) >= _MAX_CARDS):
                continue
            times = self.times.setdefault(gpu.uuid, HeldTime())
            times.held_us += state.interval_us
            times.idle_us += state.interval_us if _is_idle(gpu) else 0
        self.now = IdleGpus(
            len(held),
            len(idle),
            sum(gpu.utilisation_percent is None for gpu in held),
            sum(gpu.memory_used_bytes for gpu in idle),
            tuple(sorted({names.get(uid, f"pod {uid}") for gpu in idle for uid in holders[gpu.uuid]})),
        )


def _is_idle(gpu: GpuCounters) -> bool:
    return gpu.utilisation_percent is not None and gpu.utilisation_percent * 10 < IDLE_BELOW_PERMILLE
