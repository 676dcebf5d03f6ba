"""Requests of simulated services, as spans for the trace process.

Objectives are measured from spans, and a simulated replica answers nobody. Each period the requests of every traced
replica are drawn from the law by which the world judges it (M/M/c, cotenant_lab/world/latency.py: stretched service
times, an exponential wait with the probability of Erlang C) and sent as OTLP, from this process's one random generator.
Limits: at most `MAX_EACH` requests a second of a replica are sent and `MOST` in all, as a head sampler would; no calls
between services, so a trace is one span.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

import aiohttp
import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from cotenant_lab.world.latency import OVERLOAD, erlang_c
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.observations import ReplicaQueue
from cotenant_local.nodes.world import LiveWorld

PERIOD_S = 0.5
MAX_EACH, MOST = 150.0, 1_800.0  # requests a second
SERVICE = "app"  # the label of a pod that names its service
_log = logging.getLogger(__name__)


def drawn(queue: ReplicaQueue, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Seconds that so many requests take at a replica."""
    load = min(queue.busy, OVERLOAD * queue.workers)
    took = rng.exponential(queue.request_s, count)
    waits = rng.random(count) < erlang_c(queue.workers, load)
    took[waits] += rng.exponential(queue.request_s / (queue.workers - load), int(waits.sum()))
    return took


def exported(
    replicas: Iterable[tuple[PodObjectView, NDArray[np.float64]]], now_s: float, rng: np.random.Generator
) -> bytes:
    """An export request with the requests of each replica, all of which end now."""
    request = ExportTraceServiceRequest()
    now_ns = int(now_s * 1e9)
    for pod, took_s in replicas:
        meta = pod.metadata
        of = request.resource_spans.add()
        for key, value in (
            ("service.name", meta.labels.get(SERVICE, meta.name)),
            ("k8s.namespace.name", meta.namespace),
            ("k8s.pod.name", meta.name),
            ("k8s.pod.uid", meta.uid),
            ("k8s.node.name", pod.spec.node_name),
        ):
            of.resource.attributes.add(key=key).value.string_value = value
        spans = of.scope_spans.add().spans
        ids = rng.bytes(24 * len(took_s))
        for k, took in enumerate(took_s.tolist()):
            at = 24 * k
            spans.add(
                name="request",
                kind=Span.SPAN_KIND_SERVER,
                trace_id=ids[at : at + 16],
                span_id=ids[at + 16 : at + 24],
                start_time_unix_nano=now_ns - int(took * 1e9),
                end_time_unix_nano=now_ns,
            )
    return request.SerializeToString()


class SimulatedRequests:
    """Sends them to a trace process; `start` and `stop`. `pods`: the traced replicas."""

    def __init__(
        self,
        world: LiveWorld,
        pods: Callable[[], Sequence[PodObjectView]],
        url: str,
        clock: Callable[[], float],
        seed: int,
    ) -> None:
        self._world, self._pods, self._url, self._clock = world, pods, url, clock
        self._rng = np.random.default_rng(seed)
        self._owed: dict[str, float] = {}  # parts of a request, by replica
        self._task: asyncio.Task[None] | None = None
        self.failed = 0

    async def start(self) -> None:
        """Begin to send."""
        self._task = asyncio.create_task(self._run(), name="requests of simulated services")

    async def stop(self) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    def window(self, length_s: float) -> list[tuple[PodObjectView, NDArray[np.float64]]]:
        """The requests that every replica answers in a time of this length."""
        queues = [(pod, queue) for pod in self._pods() if (queue := self._world.queue(pod.metadata.uid)) is not None]
        most = min(MAX_EACH, MOST / max(1, len(queues)))
        before, self._owed = self._owed, {}
        found = []
        for pod, queue in queues:
            uid = pod.metadata.uid
            exact = before.get(uid, 0.0) + min(most, queue.requests_per_s) * length_s
            self._owed[uid] = exact % 1.0
            if count := int(exact):
                found.append((pod, drawn(queue, count, self._rng)))
        return found

    async def _run(self) -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            while True:
                await asyncio.sleep(PERIOD_S)
                if not (requests := self.window(PERIOD_S)):
                    continue
                body = exported(requests, self._clock(), self._rng)
                headers = {"Content-Type": "application/x-protobuf"}
                try:
                    async with http.post(f"{self._url}/v1/traces", data=body, headers=headers) as answer:
                        answer.raise_for_status()
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    self.failed += 1
                    if self.failed == 1:
                        _log.warning("spans of simulated services: %s", error)
