"""What was acknowledged is there: after kill -9 under load, across a restart in the middle of a list, and when the
disk is full.
"""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp

from bench.apifaults.server import MAPS, ApiServerProcess, a_map, ask, names, quantile
from bench.kube.load import session
from cotenant_local.apiserver.assembly import assemble
from cotenant_local.apiserver.storage.sqlite import Database
from cotenant_local.apiserver.storage.store import Store


async def _write(http: aiohttp.ClientSession, rate: float, prefix: str, acknowledged: dict[str, int]) -> None:
    """Create and rewrite maps at a rate from 16 tasks, until the server goes away."""
    began, sent = monotonic(), 0

    async def writer() -> None:
        nonlocal sent
        while True:
            number, sent = sent, sent + 1
            await asyncio.sleep(max(0.0, began + number / rate - monotonic()))
            name = f"{prefix}-{number - number % 2}"  # every second write is an update
            method, path = ("POST", MAPS) if number % 2 == 0 else ("PUT", f"{MAPS}/{name}")
            try:
                status, document = await ask(http, method, path, a_map(name))
            except (aiohttp.ClientError, ValueError):
                return
            if status < 300:
                version = int(document["metadata"]["resourceVersion"])
                acknowledged[name] = max(version, acknowledged.get(name, 0))

    await asyncio.gather(*(writer() for _ in range(16)))


async def kills(folder: Path, rounds: int = 20, rate: float = 500.0, seed: int = 1) -> dict[str, Any]:
    """kill -9 at a random moment under writes, again and again; every acknowledged write must be there afterwards."""
    rng = random.Random(seed)
    server = ApiServerProcess(folder)
    acknowledged: dict[str, int] = {}
    lost = backwards = newest = 0
    starts: list[float] = []
    writing_s = 0.0
    server.start()
    try:
        for number in range(rounds):
            async with session(server.server, 32) as http:
                writing = asyncio.create_task(_write(http, rate, f"r{number}", acknowledged))
                runs_s = rng.uniform(0.5, 2.0)
                await asyncio.sleep(runs_s)
                writing_s += runs_s
                await asyncio.to_thread(server.kill)
                await writing
            starts.append(await asyncio.to_thread(server.start))
            async with session(server.server, 8) as http:
                found = await names(http)
                lost += sum(found.get(name, 0) < version for name, version in acknowledged.items())
                newest = max([newest, *acknowledged.values()])
                _, made = await ask(http, "POST", MAPS, a_map(f"after-{number}"))
                backwards += int(made["metadata"]["resourceVersion"]) <= newest
    finally:
        server.stop()
    writes = len(acknowledged)
    return {
        "kills": rounds,
        "objects": writes,
        "objects_s": writes / writing_s,
        "lost": lost,
        "revisions_reused": backwards,
        "restart_s": quantile(starts, 0.5),
        "ok": not lost and not backwards,
    }


def fill(folder: Path, count: int) -> None:
    """Write ConfigMaps straight into the database of a server that does not run."""

    async def write() -> None:
        store = Store(Database(folder))
        api = assemble(store)
        await api.bootstrap()
        table = store.table(("", "configmaps"))
        for at in range(count):
            name = f"m{at:06d}"
            metadata = {"name": name, "namespace": "default", "uid": f"uid-{at}"}
            obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "y" * 100}}
            store.put(table, ("default", name), obj, None)
            if at % 1000 == 0:
                await store.settled(store.revision)
        await store.close()

    asyncio.run(write())


async def long_list(folder: Path, count: int = 100_000, page: int = 500) -> dict[str, Any]:
    """A paged list over three kills: the first without a write, the others around one, which ends the snapshot
    (410).
    """
    await asyncio.to_thread(fill, folder / "up", count)
    server = ApiServerProcess(folder)
    restarts = [await asyncio.to_thread(server.start)]
    seen: list[str] = []
    slowest = 0.0
    token, expired = "", 0
    third = count // page // 3
    try:
        for part, pages in enumerate((third, third, 10 * third)):
            if part:
                await asyncio.to_thread(server.kill)
                restarts.append(await asyncio.to_thread(server.start))
            async with session(server.server, 2) as http:
                if part == 2:
                    await ask(http, "DELETE", f"{MAPS}/m{count - 1:06d}")
                    await asyncio.to_thread(server.kill)  # the history of this write ends with the process
                    restarts.append(await asyncio.to_thread(server.start))
            async with session(server.server, 2) as http:
                for _ in range(pages):
                    began = monotonic()
                    path = f"{MAPS}?limit={page}" + (f"&continue={token}" if token else "")
                    status, document = await ask(http, "GET", path)
                    slowest = max(slowest, monotonic() - began)
                    if status == 410:
                        expired += 1
                    else:
                        seen += [entry["metadata"]["name"] for entry in document["items"]]
                    token = document["metadata"].get("continue", "")
                    if not token:
                        break
    finally:
        server.stop()
    objects = [name for name in seen if name.startswith("m")]
    missing = count - 1 - len({name for name in objects if name != f"m{count - 1:06d}"})
    return {
        "objects": count,
        "pages": len(seen) // page,
        "restarts": len(restarts) - 1,
        "slowest_page_ms": slowest * 1000.0,
        "restart_s": max(restarts),
        "expired": expired,
        "missing": missing,
        "doubled": len(objects) - len(set(objects)),
        "ok": not missing and len(objects) == len(set(objects)) and expired == 1,
    }


async def full_disk(folder: Path, room_mib: int = 3) -> dict[str, Any]:
    """The database file may not grow: writes fail with a Status, reads go on; with room again writes succeed, and
    none is lost.
    """
    server = ApiServerProcess(folder)
    server.start()
    acknowledged: dict[str, int] = {}
    refused: list[int] = []
    try:
        async with session(server.server, 8) as http:

            async def write(numbers: Iterator[int]) -> None:
                for number in numbers:
                    name = f"d{number}"
                    status, document = await ask(http, "POST", MAPS, a_map(name, 2_000))
                    if status < 300:
                        acknowledged[name] = int(document["metadata"]["resourceVersion"])
                    else:
                        refused.append(status)

            await write(iter(range(200)))
            server.limit(resource.RLIMIT_FSIZE, room_mib << 20)
            await write(iter(range(200, 2_500)))
            during = len(refused)
            visible = set(await names(http))
            server.limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
            await write(iter(range(3_000, 3_200)))
            after = len(refused) - during
        server.kill()
        server.start()
        async with session(server.server, 8) as http:
            found = await names(http)
    finally:
        server.stop()
    lost = sum(found.get(name, 0) != version for name, version in acknowledged.items())
    ghosts = len({name for name in visible | found.keys() if name.startswith("d")} - acknowledged.keys())
    return {
        "acknowledged": len(acknowledged),
        "refused_while_full": during,
        "codes": ",".join(sorted({str(entry) for entry in refused})),
        "refused_after": after,
        "lost": lost,
        "refused_and_visible": ghosts,
        "ok": during > 0 and not after and not lost and not ghosts,
    }
