"""Lending as receipts: the PoolLendings of a cluster, an approval, an undo.

An approval names the suggestion that was read; it ends when the pool's rules change, and after a fall or an undo. Both
are patches of the spec with the rights of whoever asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import MERGE_PATCH, Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS, read_pool_lending
from cotenant.model.autonomy.pool_lending import LendingOutcome, LendMode, PoolLending
from cotenant.model.errors import InvalidInput

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LendingReceipts:
    """Of one cluster."""

    kubeconfig: Path | None = None
    context: str = ""

    def all(self) -> Sequence[PoolLending]:
        """Every pool, by name; empty where the kind is not installed."""

        async def ask(client: Client) -> Sequence[PoolLending]:
            try:
                return sorted(map(read_pool_lending, await client.all_of(POOL_LENDINGS)), key=lambda pool: pool.name)
            except NotFound:
                return ()

        return self._ask(ask)

    def approve(self, pool: str, id_: str, by: str) -> str:
        """Allow a pool to lend by the rules that stand; `id_` "" = whichever they are. Returns their id."""
        return self._ask(lambda client: approve_lending(client, pool, id_, by))

    def undo(self, pool: str, id_: str) -> str:
        """Take lending back by one of its days; `id_` "" = the newest. Returns the day."""
        return self._ask(lambda client: undo_lending(client, pool, id_))

    def _ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        access = load_access(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-receipts") as client:
                return await question(client)

        return asyncio.run(run())


async def approve_lending(client: Client, pool: str, id_: str, by: str) -> str:
    """Allow a pool to lend by the rules that stand; `id_` "" = whichever they are. Returns their id. Raises
    `InvalidInput`.
    """
    found = await _get(client, pool)
    stands = found.status.suggestion
    if stands is None or (id_ and stands.id != id_):
        now = f"it has {stands.id}" if stands is not None else f"it has none ({found.status.state or 'not seen'})"
        raise InvalidInput("ID", id_ or "none", "the suggestion that stands", now)
    if found.status.mode in (LendMode.SHADOW, LendMode.SUGGEST):
        hint = "lendMode of the ConfigMap says what may be done"
        raise InvalidInput(pool, f"lendMode {found.status.mode}", "approve, act or earned", hint)
    await _patch(client, found, {"approved": stands.id, "approvedBy": by})
    return stands.id


async def undo_lending(client: Client, pool: str, id_: str) -> str:
    """Take lending back by one of its days; `id_` "" = today, or the newest that was not taken back yet. Returns the
    day. Raises `InvalidInput`.
    """
    found, today = await _get(client, pool), datetime.now(UTC).date().isoformat()
    known = {today: LendingOutcome.HELD} | {receipt.id: receipt.outcome for receipt in found.status.receipts}
    left = [day for day, outcome in known.items() if outcome is not LendingOutcome.UNDONE]
    day = id_ or max(left, default=today)
    if day in known and day not in left:
        hint = f"{max(left)} can be" if left else "`lendMode` of the ConfigMap ends what is lent"
        raise InvalidInput("ID", day, "a day that was not taken back already", hint)
    if day not in known:
        raise InvalidInput("ID", day, "today, or a day that has a receipt", f"such as {max(known)}")
    if found.status.state != "lent":
        raise InvalidInput(pool, found.status.state or "not seen", "a pool that lends", "nothing is lent there")
    await _patch(client, found, {"undo": day})
    return day


async def _get(client: Client, pool: str) -> PoolLending:
    try:
        return read_pool_lending(await client.get(POOL_LENDINGS, "", pool))
    except NotFound as error:
        raise InvalidInput("POOL", pool, "a pool with a lendMode", "`cotenant receipts` has them") from error


async def _patch(client: Client, found: PoolLending, spec: dict[str, str]) -> None:
    await client.patch(POOL_LENDINGS, "", found.name, {"spec": spec}, content_type=MERGE_PATCH)
