"""Many clients at once: conflicts, watchers that do not read, expired watches, and more connections than files."""

from __future__ import annotations

import asyncio
import json
import resource
import socket
import ssl
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from bench.apifaults.server import MAPS, ApiServerProcess, a_map, ask, quantile
from bench.kube.load import Server, session


async def conflicts(folder: Path, writers: int = 200, number: int = 2) -> dict[str, Any]:
    """Every writer adds to one counter by GET and PUT, again after each 409; no addition may be lost."""
    server = ApiServerProcess(folder)
    server.start()
    refused = 0
    took: list[float] = []
    began = monotonic()
    try:
        async with session(server.server, writers) as http:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counter"}, "data": {"n": "0"}}
            await ask(http, "POST", MAPS, json.dumps(body).encode())

            async def add() -> None:
                nonlocal refused
                for _ in range(number):
                    start = monotonic()
                    while True:
                        _, obj = await ask(http, "GET", f"{MAPS}/counter")
                        obj["data"]["n"] = str(int(obj["data"]["n"]) + 1)
                        status, _ = await ask(http, "PUT", f"{MAPS}/counter", json.dumps(obj).encode())
                        if status == 200:
                            break
                        refused += 1
                    took.append(monotonic() - start)

            await asyncio.gather(*(add() for _ in range(writers)))
            _, obj = await ask(http, "GET", f"{MAPS}/counter")
    finally:
        server.stop()
    total = int(obj["data"]["n"])
    seconds = monotonic() - began
    return {
        "writers": writers,
        "additions": total,
        "conflicts": refused,
        "puts_s": (total + refused) / seconds,
        "slowest_addition_s": max(took),
        "ok": total == writers * number,
    }


async def _silent_watch(server: Server, context: ssl.SSLContext) -> asyncio.StreamWriter:
    """A watch whose client reads nothing after its request."""
    where = urlsplit(server.url)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, (where.hostname, where.port))
    _, writer = await asyncio.open_connection(sock=raw, ssl=context, server_hostname="x", limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    head = f"GET {MAPS}?watch=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    return writer


async def silent_watchers(
    folder: Path, watchers: int = 1_000, seconds: float = 75.0, size: int = 60_000
) -> dict[str, Any]:
    """Watchers that never read, under writes of large objects: they are cut, memory stays bounded, and writers do
    not notice.
    """
    server = ApiServerProcess(folder)
    server.start()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    took: list[float] = []
    peak = 0.0
    try:
        async with session(server.server, 4) as http:
            before = server.rss_mib()
            open_ = []
            for _ in range(0, watchers, 50):
                open_ += await asyncio.gather(*(_silent_watch(server.server, context) for _ in range(50)))
            connected = server.rss_mib()
            until = monotonic() + seconds
            number = failed = 0
            while monotonic() < until:
                began = monotonic()
                status, _ = await ask(http, "POST", MAPS, a_map(f"w{number}", size))
                failed += status >= 300
                took.append(monotonic() - began)
                number += 1
                peak = max(peak, server.rss_mib())
                await asyncio.sleep(0.1)
            async with http.get("/metrics") as answer:
                text = await answer.text()
        left = next(
            float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("cotenant_http_connections{")
        )
        for writer in open_:
            writer.transport.abort()
    finally:
        server.stop()
    return {
        "watchers": watchers,
        "writes": number,
        "write_p99_ms": quantile(took, 0.99) * 1000.0,
        "rss_before_mib": before,
        "rss_connected_mib": connected,
        "rss_peak_mib": peak,
        "connections_left": left,
        "ok": not failed and left < watchers / 10 and peak < 2_048,
    }


async def expired_watches(folder: Path, watchers: int = 200, objects: int = 2_000) -> dict[str, Any]:
    """After a restart every watcher starts from an expired revision at once: each gets 410, lists again, and
    watches.
    """
    server = ApiServerProcess(folder)
    server.start()
    latency: list[float] = []
    try:
        async with session(server.server, 64) as http:
            for at in range(0, objects, 50):
                await asyncio.gather(*(ask(http, "POST", MAPS, a_map(f"e{n}")) for n in range(at, at + 50)))
        server.kill()
        server.start()
        gone = resumed = 0

        async def watcher(http: aiohttp.ClientSession) -> None:
            nonlocal gone, resumed
            async with http.get(f"{MAPS}?watch=true&resourceVersion=2") as answer:
                event = json.loads(await answer.content.readline())
                gone += event["object"].get("code") == 410
            _, document = await ask(http, "GET", MAPS)
            version = document["metadata"]["resourceVersion"]
            async with http.get(f"{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=60") as answer:
                event = json.loads(await answer.content.readline())
                resumed += event["type"] == "ADDED"

        async with session(server.server, watchers) as http, session(server.server, 2) as other:
            began = monotonic()
            storm = [asyncio.create_task(watcher(http)) for _ in range(watchers)]
            while gone < watchers:
                start = monotonic()
                await ask(other, "GET", "/version")
                latency.append(monotonic() - start)
                await asyncio.sleep(0.01)
            relisted_s = monotonic() - began
            number = 0
            while not all(task.done() for task in storm):
                await ask(other, "POST", MAPS, a_map(f"news{number}"))
                number += 1
                await asyncio.sleep(0.2)
    finally:
        server.stop()
    return {
        "watchers": watchers,
        "objects": objects,
        "expired": gone,
        "all_expired_s": relisted_s,
        "other_p99_ms": quantile(latency, 0.99) * 1000.0,
        "resumed": resumed,
        "ok": gone == resumed == watchers,
    }


async def no_files(folder: Path, files: int = 256, connections: int = 400) -> dict[str, Any]:
    """More connections than the process may have files: some are refused, those that are open work, and new ones
    when others close.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    server = ApiServerProcess(folder)
    server.start(limit)
    where = urlsplit(server.server.url)
    try:
        async with session(server.server, 1) as http:
            status, _ = await ask(http, "POST", MAPS, a_map("first"))
            held = []
            for _ in range(connections):
                raw = socket.socket()
                raw.setblocking(False)
                await asyncio.get_running_loop().sock_connect(raw, (where.hostname, where.port))
                held.append(raw)
            await asyncio.sleep(1.0)
            began = monotonic()
            during, _ = await ask(http, "POST", MAPS, a_map("during"))
            during_s = monotonic() - began
            for raw in held:
                raw.close()
        await asyncio.sleep(1.0)
        async with session(server.server, 4) as http:
            after, _ = await ask(http, "POST", MAPS, a_map("after"))
    finally:
        server.stop()
    return {
        "files": files,
        "connections": connections,
        "open_connection": during,
        "took_ms": during_s * 1000.0,
        "new_connection_after": after,
        "ok": (status, during, after) == (201, 201, 201),
    }
