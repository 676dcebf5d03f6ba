"""What changes of sizes and moves have earned by namespace, and lending by pool, from the receipts that are stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from cotenant.drivers.kube.cache.cache import ApiObject
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.migration_job import MIGRATION_JOBS
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS, read_pool_lending
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS
from cotenant.drivers.kube.kinds.kind import Kind
from cotenant.engine.migration.outcomes import outcome_of
from cotenant.engine.sizing.outcomes import judged
from cotenant.model.autonomy.autonomy import Action
from cotenant.model.autonomy.pool_lending import PoolLending
from cotenant.model.groups.migration import MigrationJob
from cotenant.model.sizes.right_sizing import RightSizing
from cotenant.policy.autonomy.ladder import Earned, JudgedChange, LadderSettings, earned
from cotenant.policy.autonomy.lending import standing
from cotenant.services.autonomy.moves import read_jobs
from cotenant.services.autonomy.sizes import read_sizings

T = TypeVar("T", bound=ApiObject)


def earned_by_namespace(kubeconfig: Path | None, context: str) -> Mapping[Action, Mapping[str, Earned]]:
    """Namespaces with a RightSizing, those with a move that was judged, and pools with a day that was; none where a
    kind is not installed.
    """

    async def ask() -> Mapping[Action, Mapping[str, Earned]]:
        access = load_access(kubeconfig, context)
        async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-autonomy") as client:
            sizings = read_sizings(await _installed(client, RIGHT_SIZINGS))
            jobs = read_jobs(await _installed(client, MIGRATION_JOBS))
            pools = [read_pool_lending(found) for found in await _installed(client, POOL_LENDINGS)]
        return earned_of(sizings, jobs, pools, time.time())

    return asyncio.run(ask())


def earned_of(
    sizings: Iterable[RightSizing], jobs: Iterable[MigrationJob], pools: Iterable[PoolLending], now_s: float
) -> Mapping[Action, Mapping[str, Earned]]:
    """The same of objects that are known."""
    sizes: dict[str, list[JudgedChange]] = {}
    for sizing in sizings:
        sizes.setdefault(sizing.namespace, []).extend(judged(sizing.status.receipts, now_s))
    moved: dict[str, list[JudgedChange]] = {}
    for job in jobs:
        if (found := outcome_of(job)) is not None:
            moved.setdefault(job.pod.namespace, []).append(found)
    lent = {pool.name: standing(pool.status.receipts) for pool in pools if pool.status.receipts}
    return {Action.SIZES: _earned(sizes), Action.MOVES: _earned(moved), Action.LENDING: dict(sorted(lent.items()))}


def _earned(outcomes: Mapping[str, Sequence[JudgedChange]]) -> Mapping[str, Earned]:
    return {namespace: earned(found, LadderSettings()) for namespace, found in sorted(outcomes.items())}


async def _installed(client: Client, kind: Kind[T]) -> Sequence[T]:
    try:
        return await client.all_of(kind)
    except NotFound:
        return ()
