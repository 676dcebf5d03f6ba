"""What a service and its neighbours take of its cards and of their PCIe root, from one reading of the GPUs.

A figure is of a card, and a card may be held by several: so it is a pod's where the pod holds the card alone, or where
every process on it has a figure and a pod. Otherwise the path is not measured, with the reason.
Limits: the host's CPUs are not in a reading of GPUs; the agent's recovery looks there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cotenant.model.devices.card_sample import CardPath, CardSample
from cotenant.model.devices.gpu_use import GpuHolder, GpuProcess, GpuUse, whole_or_instances
from cotenant.model.errors import InvalidInput

_OF_HOST = "not in a reading of GPUs; the agent finds culprits there (policies.recovery)"
_Figure = Callable[[GpuProcess], int | None]


def card_sample(
    service: str,
    uses: Sequence[GpuUse],
    pod_of_pid: Mapping[int, GpuHolder],
    roots: Callable[[str], str | None],
    at_ms: int,
    level_milli: int,
) -> CardSample:
    """One sample. `roots`: the PCIe root of a bus address. Raises `InvalidInput` where the service holds no GPU."""
    held = whole_or_instances(uses)
    own = [use for use in held if service in _pods(use)]
    if not own:
        names = ", ".join(sorted({pod for use in held for pod in _pods(use)})) or "nobody"
        raise InvalidInput("--service", service, f"a pod that holds a GPU here: {names}")
    read: dict[CardPath, dict[str, int] | str] = {
        CardPath.SM: _on_cards(
            own, pod_of_pid, "SM activity", lambda use: use.sm_active_permille, lambda process: process.sm_permille
        ),
        CardPath.MEMORY_BANDWIDTH: _on_cards(
            own,
            pod_of_pid,
            "memory bandwidth",
            lambda use: use.memory_active_permille,
            lambda process: process.memory_permille,
        ),
        CardPath.PCIE: _on_roots(own, uses, roots),
        CardPath.HOST_CPU: _OF_HOST,
    }
    return CardSample(
        at_ms,
        level_milli,
        {path: found for path, found in read.items() if isinstance(found, dict)},
        {path: why for path, why in read.items() if isinstance(why, str)},
    )


def _on_cards(
    cards: Sequence[GpuUse],
    pod_of_pid: Mapping[int, GpuHolder],
    what: str,
    of_card: Callable[[GpuUse], int | None],
    of_process: _Figure,
) -> dict[str, int] | str:
    total: dict[str, int] = {}
    for card in cards:
        name = f"GPU {card.index}{f' {card.instance}' if card.instance else ''}"
        holders = _pods(card)
        if len(holders) == 1:
            amount = of_card(card)
            if amount is None:
                return f"the source does not tell {what} of {name}"
            total[holders[0]] = total.get(holders[0], 0) + amount
            continue
        if not card.processes:
            return f"{name} is shared by {', '.join(holders)}, and no source tells its processes apart (--pmon)"
        for process in card.processes:
            pod, amount = pod_of_pid.get(process.pid), of_process(process)
            if pod is None:
                return f"{name} is shared, and process {process.pid} on it belongs to no pod that is known"
            if amount is None:
                return f"{name} is shared, and no source tells {what} of process {process.pid}"
            total[pod.pod] = total.get(pod.pod, 0) + amount
    return total


def _on_roots(
    own: Sequence[GpuUse], uses: Sequence[GpuUse], roots: Callable[[str], str | None]
) -> dict[str, int] | str:
    wanted = {roots(use.bus) for use in own}
    total: dict[str, int] = {}
    for card in (use for use in uses if not use.instance):
        root = roots(card.bus)
        if root is None or None in wanted:
            return "which cards share a root is known on their machine only (--of-this-machine)"
        if root not in wanted:
            continue
        holders = sorted({pod for use in uses if use.index == card.index for pod in _pods(use)})
        if not holders:
            continue
        if len(holders) > 1:
            return f"GPU {card.index} is shared by {', '.join(holders)}, and its PCIe bytes are of the card"
        if card.pcie_sent_bytes_per_s is None or card.pcie_received_bytes_per_s is None:
            return f"the source does not tell PCIe bytes of GPU {card.index}"
        amount = card.pcie_sent_bytes_per_s + card.pcie_received_bytes_per_s
        total[holders[0]] = total.get(holders[0], 0) + amount
    return total


def _pods(use: GpuUse) -> list[str]:
    return [holder.pod for holder in use.holders]
