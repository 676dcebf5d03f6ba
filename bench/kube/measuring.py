"""What the cases of this folder measure: CPU of processes, pods seen bound, and the binds that a server takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import numpy as np

from bench.kube.load import Bindings
from bench.kube.processes import Usage, usage

PODS = "/api/v1/namespaces/default/pods"
STALLED_S = 30.0  # a run ends if no pod is bound for this time
_LEAST_S = 1e-3  # few pods may all be told of in one piece of a watch


class Meter:
    """CPU of several processes between two instants."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before: dict[str, Usage] = {name: usage(pid) for name, pid in pids.items()}

    def read(self, pods: int) -> dict[str, float]:
        """CPU by the pod since then, and what is resident."""
        figures: dict[str, float] = {}
        for name, pid in self._pids.items():
            now = usage(pid)
            figures[f"{name}_cpu_ms_per_pod"] = round((now.cpu_s - self._before[name].cpu_s) * 1000 / max(1, pods), 3)
            figures[f"{name}_rss_mib"] = round(now.rss_mib)
        return figures


async def all_bound(bindings: Bindings, pods: int, log: Path) -> None:
    """Wait until so many pods were seen bound; SystemExit with the end of the log where none is for a while."""
    seen, since = 0, perf_counter()
    while len(bindings.at) < pods:
        await asyncio.sleep(0.02)
        if len(bindings.at) > seen:
            seen, since = len(bindings.at), perf_counter()
        elif perf_counter() - since > STALLED_S:
            tail = log.read_text()[-2000:] if log.exists() else ""
            raise SystemExit(f"bench.kube: {seen} of {pods} pods bound, none for {STALLED_S:g} s\n{tail}")


def rates(bindings: Bindings) -> dict[str, Any]:
    """Pods bound per second, of all and without the first and last tenth."""
    at = np.sort(np.fromiter(bindings.at.values(), dtype=np.float64))
    low, high = len(at) // 10, len(at) - 1 - len(at) // 10

    def rate(first: int, last: int) -> int:
        return round((last - first) / max(at[last] - at[first], _LEAST_S))

    return {"bound_per_s": rate(0, len(at) - 1), "bound_per_s_middle": rate(low, high)}


async def bind_plainly(http: aiohttp.ClientSession, pods: int, nodes: int, in_flight: int) -> float:
    """Bind pods that exist, deciding nothing: the server's limit. The seconds taken."""
    gate = asyncio.Semaphore(in_flight)

    async def bind(number: int) -> None:
        body = (
            b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":"pod-%d"},'
            b'"target":{"kind":"Node","name":"node-%05d"}}' % (number, number % nodes)
        )
        async with gate, http.post(f"{PODS}/pod-{number}/binding", data=body) as answer:
            if answer.status >= 300:
                raise SystemExit(f"bench.kube: bind: {answer.status} {(await answer.text())[:300]}")
            await answer.read()

    begin = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(pods):
            group.create_task(bind(number))
    return perf_counter() - begin
