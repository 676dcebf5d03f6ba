"""Who holds each GPU of a node, who borrows a part of it, and what the holders use now.

Holder and borrower are the scheduler's word, as far as it is believed: who was given `cotenant.io/lent-gpu` borrows,
who was given anything else holds. A program on a card that nobody was given it for holds it as well: it must never
look like idle room. Figures are thousandths of the card.
Limits: the driver's share of time in which a kernel ran stands for multiprocessors: it never says less than they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cotenant.model.cluster.seal import SealStanding
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, DeviceAllocation, parse_allocations
from cotenant.model.devices.card_need import GPU_NEED, parse_card_need
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import NodeState
from cotenant.model.resources import GPU_CORE, GPU_MEMORY_RATIO, LENT_GPU
from cotenant.policy.interference.attribution.cards import given_by_card

WHOLE = 1000
_PERCENT = 100
_HIDDEN = 100  # memory in use that no process is told of: beyond it somebody is there; drivers keep a few percent
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class CardHolder:
    """Who has a card, or a part of it. Use is None while it starts: then it counts by what it was given."""

    uid: str
    name: str
    given: int
    memory: int | None
    sm: int | None
    growth: int = 0  # memory beyond what it was given, into which its KV cache may grow, as it says itself


@dataclass(frozen=True, slots=True)
class CardBorrower:
    """Who has a part of a card that is lent."""

    pod: NodePod
    taken: int

    @property
    def leaves(self) -> bool:
        """Whether it is on its way out."""
        return self.pod.phase is not NodePodPhase.RUNNING


@dataclass(frozen=True, slots=True)
class HeldCard:
    """One card. `why`: why nothing of it can be lent; empty where it can. `most`: what may be lent of it
    beside holders that say how they serve, whose kernels count no more; None: what their kernels leave.
    """

    gpu: GpuCounters
    holders: tuple[CardHolder, ...]
    borrowers: tuple[CardBorrower, ...]
    why: str = ""
    most: int | None = None

    @property
    def memory(self) -> int:
        """What the holders have of its memory now, or were given."""
        return sum(holder.given if holder.memory is None else holder.memory for holder in self.holders)

    @property
    def growth(self) -> int:
        """Memory beyond what they have now, into which the holders may grow."""
        return sum(
            max(0, min(WHOLE, holder.given + holder.growth) - holder.memory)
            for holder in self.holders
            if holder.growth and holder.memory is not None
        )

    @property
    def sm(self) -> int:
        """The same of its multiprocessors."""
        if self.most is not None:
            return 0
        return sum(holder.given if holder.sm is None else holder.sm for holder in self.holders)

    @property
    def taken(self) -> int:
        """What the borrowers were given that do not leave already."""
        return sum(borrower.taken for borrower in self.borrowers if not borrower.leaves)


def held_cards(state: NodeState, known_us: Mapping[str, int], starting_us: int) -> tuple[HeldCard, ...]:
    """Every healthy card. `known_us`: since when each pod is known."""
    grants = [(entry.pod, part) for entry in state.pods for part in _given(entry.pod)]
    pods = {entry.pod.uid: entry.pod for entry in state.pods}
    by_card = given_by_card(state)
    found = []
    for gpu in state.gpus:
        if gpu.healthy and gpu.memory_total_bytes > 0:
            own = [(pod, part) for pod, part in grants if part.minor == gpu.index and part.id in ("", gpu.uuid)]
            told = {pod.uid for pod, _ in own}
            whole = [pods[uid] for uid in sorted(by_card[gpu.uuid] - told)]  # by a device plugin, which says no share
            found.append(_held(gpu, own, whole, state.at_us, known_us, starting_us))
    return tuple(found)


def borrows(pod: NodePod) -> bool:
    """Whether the pod was given a part of a card that is lent."""
    return any(part.amounts.get(LENT_GPU) for part in _given(pod))


def _held(
    gpu: GpuCounters,
    grants: list[tuple[NodePod, DeviceAllocation]],
    whole: list[NodePod],
    now_us: int,
    known_us: Mapping[str, int],
    starting_us: int,
) -> HeldCard:
    users = {use.uid: use for use in gpu.pods}
    borrowers = tuple(
        CardBorrower(pod, part.amounts.get(LENT_GPU) * WHOLE // _PERCENT)
        for pod, part in grants
        if part.amounts.get(LENT_GPU)
    )
    borrowing = {borrower.pod.uid for borrower in borrowers}
    holders = []
    given_to = [(pod, _share(part) * WHOLE // _PERCENT) for pod, part in grants if pod.uid not in borrowing]
    for pod, given in (*given_to, *((pod, WHOLE) for pod in whole)):
        use = users.pop(pod.uid, None)
        starts = use is None and now_us - known_us.get(pod.uid, now_us) < starting_us
        taken = (None, None) if starts else _used(gpu, use)
        holders.append(CardHolder(pod.uid, pod.key, given, *taken, _growth(pod)))
    for uid, use in users.items():
        if uid not in borrowing:
            name = f"pod {uid}" if uid else "a program outside pods"
            holders.append(CardHolder(uid, name, WHOLE, *_used(gpu, use)))
    return HeldCard(gpu, tuple(holders), borrowers, _why_not(gpu))


def _why_not(gpu: GpuCounters) -> str:
    """Why nobody can say what the holders leave."""
    if any(use.sm_percent is None for use in gpu.pods):
        return "its driver does not tell processes apart"
    hidden = gpu.memory_used_bytes - sum(use.memory_bytes for use in gpu.pods)
    if (gpu.utilisation_percent and not gpu.pods) or hidden * WHOLE > _HIDDEN * gpu.memory_total_bytes:
        return "it is in use, and its driver does not show by which process"
    return ""


def _given(pod: NodePod) -> tuple[DeviceAllocation, ...]:
    written = pod.annotations.get(DEVICE_ALLOCATED)
    if not written or pod.holdings is SealStanding.REFUSED or pod.phase is NodePodPhase.OVER:
        return ()
    return _gpu_parts(written)


@lru_cache(maxsize=1024)
def _gpu_parts(written: str) -> tuple[DeviceAllocation, ...]:
    """Of an annotation that stays as it is for a pod's life, and is read at every tick."""
    try:
        return tuple(part for part in parse_allocations(written) if part.type is DeviceType.GPU)
    except InvalidInput:
        return ()


def _growth(pod: NodePod) -> int:
    try:
        return parse_card_need(pod.annotations.get(GPU_NEED) or "{}").growth * WHOLE // _PERCENT
    except InvalidInput:
        return 0  # the scheduler names it on the pod, which waits


def _share(part: DeviceAllocation) -> int:
    amounts = part.amounts
    return min(_PERCENT, max(amounts.get(GPU_CORE), amounts.get(GPU_MEMORY_RATIO)) or _PERCENT)


def _used(gpu: GpuCounters, use: GpuPodUse | None) -> tuple[int | None, int | None]:
    if use is None:
        return 0, 0
    memory = min(WHOLE, use.memory_bytes * WHOLE // gpu.memory_total_bytes)
    return memory, None if use.sm_percent is None else use.sm_percent * WHOLE // _PERCENT
