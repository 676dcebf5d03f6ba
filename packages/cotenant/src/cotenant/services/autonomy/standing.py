"""What the changes of sizes have earned, by namespace, from the receipts that are stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.right_sizing import RIGHT_SIZINGS, read_right_sizing
from cotenant.engine.sizing.outcomes import judged
from cotenant.policy.autonomy.ladder import Earned, Judged, LadderSettings, earned


def earned_by_namespace(kubeconfig: Path | None, context: str) -> Mapping[str, Earned]:
    """Namespaces with a RightSizing; none where the kind is not installed."""

    async def ask() -> Mapping[str, Earned]:
        access = load_access(kubeconfig, context)
        async with Client(access, qps=50.0, burst=10, in_flight=2, user_agent="cotenant-autonomy") as client:
            try:
                objects = await client.all_of(RIGHT_SIZINGS)
            except NotFound:
                return {}
        outcomes: dict[str, list[Judged]] = {}
        for sizing in map(read_right_sizing, objects):
            outcomes.setdefault(sizing.namespace, []).extend(judged(sizing.status.receipts, time.time()))
        return {namespace: earned(found, LadderSettings()) for namespace, found in sorted(outcomes.items())}

    return asyncio.run(ask())
