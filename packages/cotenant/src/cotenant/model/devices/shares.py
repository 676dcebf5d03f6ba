"""A share of a GPU as NVIDIA's Multi-Process Service (MPS) limits it, and what is known of how shares are held.

A scheduler gives a part of a card in percent and bytes; MPS limits a program by its environment. The translation never
gives more than the share: with several cards the least of the amounts counts for each, since the order in which a
program numbers its cards is its own.
Limits: MPS limits each process, so a container with two has its share twice; a program can change its environment.

Source: NVIDIA, Multi-Process Service, "Environment Variables" (`CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` is ordinal=amount
for each card that the program sees).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, LENT_GPU

PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
THREAD_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
MPS_VARIABLES = (PIPE_DIRECTORY, THREAD_PERCENTAGE, MEMORY_LIMIT)
HELD_BY_MPS = "cotenant-mps"  # value of the label `NODE_ISOLATION` that the agent writes, and takes back
_WHOLE = 100
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class MpsShare:
    """The limits of each process of a container. None: no limit of that kind is part of the share."""

    gpus: int
    threads_percent: int | None
    memory_mib: int | None

    def variables(self, pipe: str) -> tuple[tuple[str, str], ...]:
        """The environment, in the order of `MPS_VARIABLES`."""
        found = [(PIPE_DIRECTORY, pipe)]
        if self.threads_percent is not None:
            found.append((THREAD_PERCENTAGE, str(self.threads_percent)))
        if self.memory_mib is not None:
            found.append((MEMORY_LIMIT, ",".join(f"{ordinal}={self.memory_mib}M" for ordinal in range(self.gpus))))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class HookedShares:
    """What the runtime hook knows of shares of GPUs on its node."""

    pipe: str = ""  # the MPS daemon's directory that it was told; empty: it limits no shares
    answers: bool = False  # whether the daemon answered when it was last asked
    unlimited: tuple[str, ...] = ()  # containers with a share that run without these limits: the first few
    unlimited_count: int = 0


def lent_threads_percent(lent: int, beside: int) -> int:
    """The multiprocessors of who borrows so much of a card, percent. With a part `beside` model servers, who fits
    beside one has that part, and who takes more of a card has all of it, since nobody is there beside whom it stays.
    """
    if not beside:
        return lent
    return beside if lent <= beside else _WHOLE


def share_of(
    allocations: Sequence[DeviceAllocation], memory_bytes: Mapping[int, int], beside: int = 0
) -> MpsShare | None:
    """The share; None where every GPU is given whole, or none is. `memory_bytes`: of the node's GPUs, by index;
    `beside`: as `lent_threads_percent` has it.
    """
    cores: list[int] = []
    memory: list[int] = []
    parts = [allocation for allocation in allocations if allocation.type is DeviceType.GPU]
    is_share = False
    for part in parts:
        total = memory_bytes.get(part.minor, 0)
        core, ratio, amount = (part.amounts.get(name) for name in (GPU_CORE, GPU_MEMORY_RATIO, GPU_MEMORY))
        lent = part.amounts.get(LENT_GPU)
        if lent:  # percent of memory, never more than is written, and always a share
            core, ratio = lent_threads_percent(lent, beside), lent
            is_share = True
        if ratio and total:
            of_ratio = ratio * total // _WHOLE
            amount = min(amount, of_ratio) if amount else of_ratio
        is_share = is_share or core < _WHOLE or (ratio < _WHOLE if ratio else amount > 0 and not 0 < total <= amount)
        if core:
            cores.append(min(_WHOLE, core))
        if amount:
            memory.append(amount)
    if not is_share:
        return None
    mebibytes = max(1, min(memory) // _MIB) if memory else None
    return MpsShare(len({part.minor for part in parts}), min(cores, default=None), mebibytes)
