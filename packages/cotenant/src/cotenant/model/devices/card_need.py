"""What a pod takes of a GPU beside memory that it requests: multiprocessors, memory bandwidth, the phase it serves.

Two pods whose shares fit on one card may both want its bandwidth, and a scheduler that reads requests alone puts them
together. Percent of one card. What a pod says of itself moves no other pod's limits: it only chooses between cards on
which it fits anyway.

Source of the roles: llm-d's label of disaggregated model servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from json import dumps

from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object

GPU_NEED = "cotenant.io/gpu-need"  # annotation of a pod
ROLE = "llm-d.ai/role"  # label of a pod; read where the annotation names no phase
PERCENT = 100
_SM, _BANDWIDTH, _PHASE, _GROWTH = "sm", "memoryBandwidth", "phase", "cacheGrowth"


class ServingPhase(StrEnum):
    """What a model server does with a request. One that does both has no phase."""

    PREFILL = "prefill"  # reads the prompt: bound by multiprocessors, in bursts that decoding waits for
    DECODE = "decode"  # writes the answer: bound by memory bandwidth


@dataclass(frozen=True, slots=True)
class CardNeed:
    """Percent of each card that the pod is given."""

    sm: int = 0
    bandwidth: int = 0
    phase: ServingPhase | None = None
    growth: int = 0  # memory beyond what it requests, into which its KV cache may grow


NO_NEED = CardNeed()


def parse_card_need(text: str) -> CardNeed:
    """The annotation: `{"sm": 30, "memoryBandwidth": 85, "phase": "decode", "cacheGrowth": 10}`, each part left out
    where it is not known. Raises `InvalidInput`.
    """
    data = json_object(GPU_NEED, text)
    for name in data:
        if name not in (_SM, _BANDWIDTH, _PHASE, _GROWTH):
            raise InvalidInput(GPU_NEED, name, f"{_SM}, {_BANDWIDTH}, {_PHASE} or {_GROWTH}")
    phase = data.get(_PHASE)
    if phase is not None and phase not in tuple(ServingPhase):
        raise InvalidInput(f"{GPU_NEED}: {_PHASE}", phase, " or ".join(ServingPhase))
    sm, bandwidth, growth = (_percent(data.get(name), f"{GPU_NEED}: {name}") for name in (_SM, _BANDWIDTH, _GROWTH))
    return CardNeed(sm, bandwidth, ServingPhase(phase) if phase is not None else None, growth)


def format_card_need(need: CardNeed) -> str:
    """The annotation's text, without what is not known."""
    parts = {_SM: need.sm, _BANDWIDTH: need.bandwidth, _PHASE: need.phase and need.phase.value, _GROWTH: need.growth}
    return dumps({name: value for name, value in parts.items() if value})


def phase_of(labels: Labels) -> ServingPhase | None:
    """The phase that a pod's role says; None for another role, or none."""
    role = labels.get(ROLE)
    return ServingPhase(role) if role in tuple(ServingPhase) else None


def _percent(value: object, field: str) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= PERCENT:
        raise InvalidInput(field, value, "percent of one card, a whole number from 0 to 100")
    return value
