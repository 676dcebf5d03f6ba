"""Who is on a card already, and how ill a newcomer fits beside them.

Shares that fit by memory may both want the multiprocessors, or the bandwidth, of one card; and a prefill stops every
answer that is written beside it. Choice: points for each card, fewer are better, before the strategy's own order.

- What both want, added up over the card: percent beyond `PERCENT` of multiprocessors, and of bandwidth.
- Prefill beside decode: `_APART`, more than any sum of the former.
- Room that a KV cache may grow into, of the newcomer or of who is there: `_GROWTH` where it would be taken.

A card whose holders say nothing has no points, and a pod that says nothing is placed as before.
Limits: means, not their peaks in time; PCIe and the links between cards are not counted. Two that together want no more
than a card are equal to an empty one, so that cards are still filled.

Source: the idea of co-locating jobs whose bottlenecks differ is Gavel's and Antman's (OSDI'20); the rule is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cotenant.model.devices.card_need import NO_NEED, PERCENT, CardNeed, ServingPhase

_GROWTH, _APART = 201, 1000  # more than both sums; more than these and growth


@dataclass(frozen=True, slots=True)
class CardNeighbours:
    """What the holders of one card need together."""

    sm: int = 0
    bandwidth: int = 0
    growth: int = 0
    prefill: int = 0  # holders in that phase
    decode: int = 0

    def with_holder(self, need: CardNeed) -> CardNeighbours:
        """One more."""
        return CardNeighbours(
            self.sm + need.sm,
            self.bandwidth + need.bandwidth,
            self.growth + need.growth,
            self.prefill + (need.phase is ServingPhase.PREFILL),
            self.decode + (need.phase is ServingPhase.DECODE),
        )


ALONE = CardNeighbours()


def neighbours(needs: Iterable[CardNeed]) -> CardNeighbours:
    """What these holders need together."""
    found = ALONE
    for need in needs:
        found = found.with_holder(need)
    return found


def points(need: CardNeed, beside: CardNeighbours, memory_left: int) -> int:
    """How ill a pod fits on a card; 0: nothing speaks against it. `memory_left`: percent, beside its share."""
    return sum(part for part, _ in _reasons(need, beside, memory_left))


def sentence(need: CardNeed, beside: CardNeighbours, memory_left: int) -> str:
    """What speaks against a card; empty where nothing does."""
    return "; ".join(words for _, words in _reasons(need, beside, memory_left))


def without(beside: CardNeighbours, need: CardNeed) -> CardNeighbours:
    """Those beside a holder that is counted among them."""
    if need == NO_NEED:
        return beside
    return replace(
        beside,
        sm=beside.sm - need.sm,
        bandwidth=beside.bandwidth - need.bandwidth,
        growth=beside.growth - need.growth,
        prefill=beside.prefill - (need.phase is ServingPhase.PREFILL),
        decode=beside.decode - (need.phase is ServingPhase.DECODE),
    )


def memory_left(total: Sequence[int], used: Sequence[int], column: int) -> int:
    """Percent of a card's memory that nobody has; `column` is that of memory in these rows, -1: there is none."""
    return max(0, (total[column] - used[column]) * PERCENT // total[column]) if column >= 0 and total[column] else 0


def _reasons(need: CardNeed, beside: CardNeighbours, memory_left: int) -> list[tuple[int, str]]:
    found = []
    for what, own, others in (
        ("multiprocessors", need.sm, beside.sm),
        ("memory bandwidth", need.bandwidth, beside.bandwidth),
    ):
        beyond = min(own, own + others - PERCENT)  # what the others want beyond a card is not this pod's doing
        if beyond > 0:
            found.append((beyond, f"{own + others} % of its {what} are wanted"))
    if (need.phase is ServingPhase.PREFILL and beside.decode) or (need.phase is ServingPhase.DECODE and beside.prefill):
        found.append((_APART, "prefill beside decode"))
    wanted = need.growth + beside.growth
    if wanted > memory_left:
        found.append((_GROWTH, f"{memory_left} % of its memory is left, KV caches may grow by {wanted} %"))
    return found
