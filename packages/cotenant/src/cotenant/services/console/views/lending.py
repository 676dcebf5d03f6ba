"""Pools that lend by leave, for the page.

    /api/lending   every pool: how far it may go, what it offers, what it has earned, and its days

The objects are watched; what was earned is replayed from their days, as the manager does it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.model.autonomy.pool_lending import LendingReceipt, LendingSuggestion, PoolLending
from cotenant.policy.autonomy.lending import standing


@dataclass(frozen=True, slots=True)
class LendingDayView:
    """One day that was judged. Offers are of a node in the mean."""

    day: str
    outcome: str
    why: str
    rung: str
    allowed_by: str
    is_lent: bool
    cpu_m: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class LendingView:
    """One pool. `earned` is the rung that its days lead to, whatever its mode allows; `approve`: the id that can be
    approved now, empty = none.
    """

    pool: str
    mode: str
    rung: str
    state: str
    message: str
    suggestion: LendingSuggestion | None
    earned: str
    hits: int
    trials: int
    low: float  # of the interval of its hit rate
    days: tuple[LendingDayView, ...]
    wrong: tuple[str, ...]
    approve: str
    may_undo: bool


class LendingPools:
    """The pools of the cluster."""

    def __init__(self) -> None:
        self._by_name: dict[str, PoolLending] = {}

    def seen(self, pool: PoolLending) -> None:
        """A pool was added or changed."""
        self._by_name[pool.name] = pool

    def gone(self, name: str) -> None:
        """A pool was deleted."""
        self._by_name.pop(name, None)

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/lending`. Raises `NotFound`."""
        if names:
            raise NotFound("there is no such page")
        return list(self.views())

    @property
    def pools(self) -> tuple[PoolLending, ...]:
        """All of them, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def views(self) -> tuple[LendingView, ...]:
        """The same, as the page gets them."""
        return tuple(map(_view, self.pools))


def _view(pool: PoolLending) -> LendingView:
    status, stands = pool.status, standing(pool.status.receipts)
    return LendingView(
        pool.name,
        status.mode,
        status.rung,
        status.state,
        status.message,
        status.suggestion,
        stands.rung.name.lower(),
        stands.hits,
        stands.trials,
        stands.low,
        tuple(map(_day, status.receipts)),
        pool.wrong,
        _to_approve(pool),
        status.state == "lent",
    )


def _to_approve(pool: PoolLending) -> str:
    """The id of what stands, where nothing but an approval of it is missing."""
    status = pool.status
    if status.suggestion is None or status.state not in ("suggested", "stopped") or status.rung in ("", "suggest"):
        return ""
    return status.suggestion.id if pool.approved != status.suggestion.id else ""


def _day(receipt: LendingReceipt) -> LendingDayView:
    day, hours = receipt.day, max(1, receipt.day.hours)
    return LendingDayView(
        receipt.id,
        receipt.outcome.value,
        receipt.why,
        receipt.rung,
        receipt.allowed_by,
        day.lent > 0,
        day.cpu_m_hours // hours,
        (day.memory_mib_hours // hours) << 20,
    )
