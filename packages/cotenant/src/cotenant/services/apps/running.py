"""Stop a release and start it again, object by object; how each was is kept on it (engine/apps/stopping)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import Conflict
from cotenant.engine.apps.ownership import why_not_believe
from cotenant.engine.apps.run import ReleaseEnd
from cotenant.engine.apps.stopping import Stop, how_to_start, how_to_stop
from cotenant.model.apps.objects import ref_of
from cotenant.model.apps.standing import Obstacle
from cotenant.model.counted import counted
from cotenant.model.json_object import JsonObject
from cotenant.services.apps.carrying import LOOK_S, Carrier
from cotenant.services.apps.workloads import pods_of

_TRIES = 5


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a stop did. `unstopped`: objects that run pods and cannot be stopped."""

    changed: int
    unstopped: tuple[Obstacle, ...]
    left: int  # pods that still run


async def stop(
    carrier: Carrier, documents: list[JsonObject], waits: bool, timeout_s: float, from_chart: bool
) -> Stopped:
    """Stop what the documents name, and wait until its pods are gone."""
    unstopped: list[Obstacle] = []
    lives: list[JsonObject] = []
    changed = 0

    def patch_of(live: JsonObject) -> JsonObject | None:
        what, patch = how_to_stop(live)
        if what is Stop.CANNOT:
            unstopped.append(Obstacle(ref_of(live), "a pod without a controller cannot be stopped"))
        return patch if what is Stop.CHANGES else None

    for document in documents:
        live, did = await _patched(carrier, document, patch_of, from_chart)
        changed += did
        if live is not None:
            lives.append(live)
    until = time.monotonic() + timeout_s
    last = -1
    while True:
        stopping = [live for live in lives if live["kind"] != "Pod"]
        owned = await pods_of(carrier.objects, stopping)
        left = sum(not _has_ended(pod) for one in owned for pod in one.pods)
        if left != last:
            carrier.say(f"{counted(left, 'pod runs', 'pods run')}")
            last = left
        if not left or not waits or time.monotonic() >= until:
            return Stopped(changed, tuple(unstopped), left)
        await asyncio.sleep(LOOK_S)


async def start(carrier: Carrier, documents: list[JsonObject], from_chart: bool) -> int:
    """Start what is stopped; how many objects were."""
    changed = 0
    for document in documents:
        _, did = await _patched(carrier, document, how_to_start, from_chart)
        changed += did
    return changed


async def _patched(
    carrier: Carrier,
    document: JsonObject,
    patch_of: Callable[[JsonObject], JsonObject | None],
    from_chart: bool,
) -> tuple[JsonObject | None, bool]:
    """Patch an object as it is now; read it again where another has written meanwhile."""
    ref = ref_of(document)
    for attempt in range(_TRIES):
        place = await carrier.place(ref, str(document["apiVersion"]))
        live = await carrier.objects.get(place, ref.namespace, ref.name) if place is not None else None
        if place is None or live is None:
            return None, False
        if not from_chart and why_not_believe(ref, live, carrier.release):
            return None, False
        patch = patch_of(live)
        if patch is None:
            return live, False
        try:
            return await carrier.objects.merge(place, ref.namespace, ref.name, patch), True
        except Conflict:
            if attempt == _TRIES - 1:
                raise
    return None, False


def _has_ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def finished_of(stopped: Stopped, timeout_s: float) -> ReleaseEnd:
    """A stop's result as a run's."""
    if stopped.left:
        left = counted(stopped.left, "pod still runs", "pods still run")
        return ReleaseEnd(f"{left} after {timeout_s:g} s", stopped.unstopped)
    return ReleaseEnd("some pods cannot be stopped" if stopped.unstopped else "", stopped.unstopped)
