"""A client that loads an API server: nodes and pods created with many requests in flight, and a watch that times when
pods are bound.

It is independent of the project's own client: the measured code must not measure itself. Bodies are built once and
filled in by name. The watch searches for the bytes it needs and decodes nothing, so that it uses little of the shared
machine.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import aiohttp
import msgspec

SCHEDULER = "cotenant"
_NAME = re.compile(rb'"name":"(pod-\d+)"')
_NODE = re.compile(rb'"nodeName":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Server:
    """Address and credentials."""

    url: str
    token: str

    @classmethod
    def of(cls, kubeconfig: Path) -> Server:
        """From a kubeconfig whose user has a token; the server's certificate is not checked (loopback)."""
        config = msgspec.yaml.decode(kubeconfig.read_bytes())
        return cls(config["clusters"][0]["cluster"]["server"], config["users"][0]["user"]["token"])


@asynccontextmanager
async def session(server: Server, connections: int = 64) -> AsyncIterator[aiohttp.ClientSession]:
    """Keep-alive connections to the server."""
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    connector = aiohttp.TCPConnector(limit=connections, ssl=unchecked)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(server.url, connector=connector, headers=headers) as made:
        yield made


def node(number: int) -> bytes:
    """A minimal node of 32 cores and 256 GiB."""
    name = f"node-{number:05d}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    }
    return json.dumps(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    ).encode()


def pod(number: int, scheduler: str = SCHEDULER) -> bytes:
    """A pod that requests 100m CPU and 500 MiB, as in scheduler_perf."""
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
    }
    spec = {"schedulerName": scheduler, "containers": [container]}
    metadata = {"name": f"pod-{number}", "labels": {"app": f"app-{number % 50}"}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


async def create(
    http: aiohttp.ClientSession,
    path: str,
    body: Callable[[int], bytes],
    numbers: range,
    in_flight: int = 32,
    per_s: float = 0.0,
    created: dict[int, float] | None = None,
) -> float:
    """Create objects; returns the seconds taken. `per_s` creates them at a steady rate; `created` receives the time
    of acceptance of each.
    """
    gate = asyncio.Semaphore(in_flight)
    begin = perf_counter()

    async def one(number: int) -> None:
        async with gate:
            async with http.post(path, data=body(number)) as answer:
                if answer.status >= 300:
                    raise SystemExit(f"bench.kube: POST {path}: {answer.status} {(await answer.text())[:300]}")
                await answer.read()
            if created is not None:
                created[number] = perf_counter()

    async with asyncio.TaskGroup() as group:
        for i, number in enumerate(numbers):
            if per_s:
                await asyncio.sleep(max(0.0, begin + i / per_s - perf_counter()))
            group.create_task(one(number))
    return perf_counter() - begin


@dataclass(slots=True)
class Bindings:
    """The time at which each pod was seen bound."""

    at: dict[int, float] = field(default_factory=dict)
    on: dict[int, bytes] = field(default_factory=dict)  # the node on which it was first seen
    moved: int = 0  # events that show a pod on another one
    events: int = 0
    _rest: bytes = b""

    def feed(self, chunk: bytes, now_s: float) -> None:
        """Process bytes of a watch."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self.events += 1
            name = _NAME.search(line)
            host = _NODE.search(line)
            if name is not None and host is not None:
                number = int(name[1][4:])
                self.at.setdefault(number, now_s)
                self.moved += self.on.setdefault(number, host[1]) != host[1]


async def watch(http: aiohttp.ClientSession, bindings: Bindings, path: str = "/api/v1/pods") -> None:
    """Follow a collection from now on until cancelled; restarts when the server ends the watch."""
    async with http.get(path, params={"limit": "1"}) as answer:
        version = (await answer.json())["metadata"]["resourceVersion"]
    while True:
        timeout = aiohttp.ClientTimeout(total=None)
        async with http.get(path, params={"watch": "1", "resourceVersion": version}, timeout=timeout) as answer:
            async for chunk in answer.content.iter_any():
                bindings.feed(chunk, perf_counter())
