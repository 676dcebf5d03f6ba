"""Controllers against hostile objects and clocks, in this process: cycles of owners, finalizers, a clock that jumps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.contract import MERGE, DeletionOptions, ListOptions
from cotenant_local.apiserver.storage.store import Store
from cotenant_local.apiserver.verbs.api import Api
from cotenant_local.controllers.registry import controller_manager
from cotenant_local.controllers.runtime.informer import Informers

WITHIN_S = 60.0


async def _make(api: Api, name: str, **metadata: Any) -> str:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    answer = await api.create(api.target("", "configmaps", "default"), obj)
    uid: str = msgspec.json.decode(answer.raw)["metadata"]["uid"]
    return uid


async def _until_gone(api: Api, namespace: str = "default") -> float:
    """Seconds until no ConfigMap is left, `WITHIN_S` at most."""
    began = monotonic()
    while monotonic() < began + WITHIN_S:
        if not (await api.list(api.target("", "configmaps", namespace), ListOptions(limit=1))).items:
            break
        await asyncio.sleep(0.02)
    return monotonic() - began


async def cycles(_: Path, count: int = 100, length: int = 4) -> dict[str, Any]:
    """Cycles of owners, each with blockOwnerDeletion and half of them with a finalizer, deleted in the foreground."""
    api = assemble(Store())
    await api.bootstrap()
    informers = Informers(api)
    runner = controller_manager(informers)
    await runner.start()
    for cycle in range(count):
        uids = [await _make(api, f"c{cycle}-{at}", finalizers=["bench.io/held"] * (cycle % 2)) for at in range(length)]
        for at in range(length):
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{cycle}-{at - 1 if at else length - 1}"}
            reference = {**owner, "uid": uids[at - 1], "blockOwnerDeletion": True}
            body = msgspec.json.encode({"metadata": {"ownerReferences": [reference]}})
            await api.patch(api.target("", "configmaps", "default", f"c{cycle}-{at}"), body, MERGE)
    await runner.until_quiet()
    kept = api.store.table(("", "configmaps")).count
    for cycle in range(count):
        target = api.target("", "configmaps", "default", f"c{cycle}-0")
        await api.delete(target, DeletionOptions(propagation="Foreground"))
    await asyncio.sleep(0.5)
    held = api.store.table(("", "configmaps")).count
    for cycle in range(1, count, 2):
        for at in range(length):
            target = api.target("", "configmaps", "default", f"c{cycle}-{at}")
            finalizers = [
                name
                for name in msgspec.json.decode(await api.get(target))["metadata"].get("finalizers", [])
                if name != "bench.io/held"
            ]
            await api.patch(target, msgspec.json.encode({"metadata": {"finalizers": finalizers or None}}), MERGE)
    gone_s = await _until_gone(api)
    left = api.store.table(("", "configmaps")).count
    await runner.stop()
    await informers.stop()
    await api.close()
    return {
        "objects": count * length,
        "kept_before_deletion": kept,
        "held_by_finalizers": held,
        "gone_s": gone_s,
        "left": left,
        "ok": kept == count * length and held >= count // 2 * length and not left,
    }


async def jumping_clock(_: Path, writes: int = 2_000) -> dict[str, Any]:
    """A clock that jumps by up to a week in both directions under writes and controllers: every event arrives once,
    nothing is deleted.
    """
    now = [1_800_000_000.0]
    clock = lambda: now[0]  # noqa: E731
    api = assemble(Store(clock=clock), clock=clock)
    await api.bootstrap()
    informers = Informers(api)
    runner = controller_manager(informers, clock)
    await runner.start()
    target = api.target("", "configmaps", "default")
    watch = api.watch(target, ListOptions(resource_version=str(api.store.revision)))
    seen: list[str] = []

    async def read() -> None:
        seen.extend([msgspec.json.decode(line)["object"]["metadata"]["name"] async for line in watch])

    reading = asyncio.create_task(read())
    for at in range(writes):
        if at % 100 == 99:
            now[0] += (604_800, -1_209_600, 3_600, -60, 604_800)[at // 100 % 5]
        await _make(api, f"j{at}")
    await asyncio.sleep(0.2)
    watch.close()
    await reading
    left = api.store.table(("", "configmaps")).count
    failures = sum(counter.errors for counter in runner.counters.values())
    await runner.stop()
    await informers.stop()
    await api.close()
    return {
        "writes": writes,
        "events": len(seen),
        "left": left,
        "controller_failures": failures,
        "ok": seen == [f"j{at}" for at in range(writes)] and left == writes and not failures,
    }
