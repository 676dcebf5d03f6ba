"""What pods take of the cards of a service, by the path on which they could disturb it.

A figure of a card is a pod's where the driver tells the processes of the card apart, which is so for multiprocessors
and memory bandwidth, or where the card is one pod's alone, as bytes over PCIe need. Otherwise the path is not measured,
and why is said: a neighbour that nobody measures is neither blamed nor acquitted, nor is somebody else blamed for it.
A card that failed is a cause of its own.
Limits: shares of time in which a kernel ran, not of multiprocessors; whose a card is, is known from its processes and
from what the scheduler wrote or the kubelet's device plugins gave, so that a client of MPS whose driver shows the
server alone is one of no pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cotenant.model.cluster.seal import SealStanding
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, parse_allocations
from cotenant.model.devices.card_sample import CardPath
from cotenant.model.devices.device import DeviceType
from cotenant.model.devices.gpu_use import device_names, replicated
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import GpuCounters, GpuPodUse
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.model.machine.node_state import NodeState

FULL_PERMILLE = 1000
_OF_PERCENT = 10
ON_CARD = (CardPath.SM, CardPath.MEMORY_BANDWIDTH)
NO_POD = ""  # the uid of processes outside pods


@dataclass(frozen=True, slots=True)
class CardLoad:
    """One card over one interval. Amounts by the uid of the pod: thousandths of the card's time."""

    uuid: str
    called: str  # for people
    root: str
    uids: frozenset[str]  # whose it is; `NO_POD` among them where a process on it is nobody's
    taken: Mapping[CardPath, Mapping[str, int]]  # of `ON_CARD`, without those that are not measured
    pcie_bps: int | None = None
    fault: str = ""
    why: str = ""  # a path of `ON_CARD` is not measured


@dataclass(frozen=True, slots=True)
class BesideCards:
    """What pods took of one service's cards, and of the root that these share with others; by uid, or workload."""

    taken: Mapping[CardPath, Mapping[str, int]]
    gaps: Mapping[CardPath, str]
    fullest: Mapping[CardPath, int]  # of the service's cards, the one that is used most, thousandths


NO_CARDS = BesideCards({}, {}, {})


def card_loads(state: NodeState) -> tuple[CardLoad, ...]:
    """All cards of the node."""
    if not state.gpus:
        return ()
    given = given_by_card(state)
    return tuple(_card(gpu, given[gpu.uuid]) for gpu in state.gpus)


def given_by_card(state: NodeState) -> Mapping[str, set[str]]:
    """To which pods each card was given, or a part of it: by the scheduler, or by a device plugin of the kubelet. By
    the card's UUID, the pods' uids.
    """
    found: dict[str, set[str]] = {gpu.uuid: set() for gpu in state.gpus}
    pods = [entry.pod for entry in state.pods if entry.pod.phase is not NodePodPhase.OVER]
    for pod in pods:
        for uuid in given_cards(pod, state.gpus):
            found[uuid].add(pod.uid)
    if state.kubelet.given_devices:
        uids = {pod.key: pod.uid for pod in pods}
        cards = {name: gpu.uuid for gpu in state.gpus for name in names_of_card(gpu)}
        for device, key in state.kubelet.given_devices:
            card, uid = cards.get(replicated(device)), uids.get(key)
            if card is not None and uid is not None:
                found[card].add(uid)
    return found


def names_of_card(gpu: GpuCounters) -> tuple[str, ...]:
    """What device plugins call a card and its MIG instances."""
    names = device_names(gpu.index, gpu.uuid, gpu.bus)
    for instance in gpu.instances:
        names += device_names(gpu.index, gpu.uuid, gpu.bus, str(instance.number), instance.uuid)
    return names


def holders_of_cards(state: NodeState) -> Mapping[str, frozenset[str]]:
    """Who holds each card: to whom it was given, and whose processes are on it."""
    given = given_by_card(state)
    return {gpu.uuid: frozenset(given[gpu.uuid] | {use.uid for use in gpu.pods}) for gpu in state.gpus}


def given_cards(pod: NodePod, gpus: Sequence[GpuCounters]) -> frozenset[str]:
    """The cards of which the scheduler gave the pod something, by UUID, as far as it is believed."""
    written = pod.annotations.get(DEVICE_ALLOCATED)
    if not written or pod.holdings is SealStanding.REFUSED:
        return frozenset()
    try:
        parts = [part for part in parse_allocations(written) if part.type is DeviceType.GPU]
    except InvalidInput:
        return frozenset()
    return frozenset(
        gpu.uuid for gpu in gpus for part in parts if part.minor == gpu.index and part.id in ("", gpu.uuid)
    )


def beside(cards: Sequence[CardLoad], uid: str) -> BesideCards:
    """What pods, the service included, took of the cards of this service; `NO_CARDS` where it has none."""
    own = [card for card in cards if uid in card.uids]
    if not own:
        return NO_CARDS
    taken: dict[CardPath, Mapping[str, int]] = {}
    gaps: dict[CardPath, str] = {}
    for path in ON_CARD:
        lacking = next((card for card in own if path not in card.taken), None)
        if lacking is not None:
            gaps[path] = f"{lacking.called} {lacking.why}"
            continue
        taken[path] = _added(card.taken[path] for card in own)
    pcie = _on_root(cards, own)
    if isinstance(pcie, str):
        gaps[CardPath.PCIE] = pcie
    else:
        taken[CardPath.PCIE] = pcie
    fullest = {path: max(sum(card.taken[path].values()) for card in own) for path in taken if path in ON_CARD}
    return BesideCards(taken, gaps, fullest)


def faults(cards: Sequence[CardLoad], uuids: Iterable[str]) -> tuple[str, ...]:
    """What is wrong with these cards now: that they failed, or are no longer there."""
    here = {card.uuid: card for card in cards}
    found = []
    for uuid in sorted(uuids):
        card = here.get(uuid)
        if card is None:
            found.append(f"{uuid} is no longer there")
        elif card.fault:
            found.append(f"{card.called}: {card.fault}")
    return tuple(found)


def renamed(cards: Sequence[CardLoad], name: Callable[[str], str | None]) -> tuple[CardLoad, ...]:
    """With pods under other names, such as their workload's; what has None took nothing."""

    def amounts(taken: Mapping[str, int]) -> Mapping[str, int]:
        return _added({new: amount} for uid, amount in taken.items() if (new := name(uid)) is not None)

    return tuple(
        replace(
            card,
            uids=frozenset(new for uid in card.uids if (new := name(uid)) is not None),
            taken={path: amounts(taken) for path, taken in card.taken.items()},
        )
        for card in cards
    )


def _card(gpu: GpuCounters, given: set[str]) -> CardLoad:
    users = frozenset(use.uid for use in gpu.pods)
    taken: dict[CardPath, Mapping[str, int]] = {}
    why = _why_not(gpu)
    if not why:
        taken = {
            CardPath.SM: _of(gpu.pods, lambda use: use.sm_percent),
            CardPath.MEMORY_BANDWIDTH: _of(gpu.pods, lambda use: use.bandwidth_percent),
        }
    fault = "" if gpu.healthy else gpu.fault or "it is not healthy"
    return CardLoad(gpu.uuid, f"GPU {gpu.index}", gpu.root, users | given, taken, gpu.pcie_bps, fault, why)


def _why_not(gpu: GpuCounters) -> str:
    if gpu.divided:
        return "is divided (MIG), and its driver tells nothing of processes"
    if any(use.sm_percent is None or use.bandwidth_percent is None for use in gpu.pods):
        return "has a driver that does not tell its processes apart"
    if gpu.utilisation_percent and not gpu.pods:
        return "is in use, and its driver shows no process"
    return ""


def _of(uses: Iterable[GpuPodUse], amount: Callable[[GpuPodUse], int | None]) -> dict[str, int]:
    return {use.uid: (amount(use) or 0) * _OF_PERCENT for use in uses}


def _on_root(cards: Sequence[CardLoad], own: Sequence[CardLoad]) -> Mapping[str, int] | str:
    roots = {card.root for card in own}
    if "" in roots:
        return "which cards share a root is not known"
    found: list[Mapping[str, int]] = []
    for card in cards:
        if card.root not in roots or not card.uids:
            continue
        if len(card.uids) > 1:
            return f"{card.called} is shared, and its PCIe bytes are of the card"
        if card.pcie_bps is None:
            return f"the driver does not tell PCIe bytes of {card.called}"
        found.append(dict.fromkeys(card.uids, card.pcie_bps))
    return _added(found)


def _added(parts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for part in parts:
        for uid, amount in part.items():
            total[uid] += amount
    return total
