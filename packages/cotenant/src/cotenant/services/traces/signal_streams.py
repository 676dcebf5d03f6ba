"""The streams of replica signals to agents.

Thousands of replicas, and each agent needs those of its node within a second. An agent's subscription names its pods;
every `PERIOD_S` the figures of pairs that have counted requests since they were last sent, and of all others once a
second, go into one line. A replica is matched by pod UID, else by namespace/name, else by the pod's name on the
subscribing node. An agent that does not read gets the newest line only.
Limits: a span source without a pod name (k8s.pod.name, or service.instance.id) reaches no agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cotenant.drivers.http.messages import Receive, Send
from cotenant.engine.traces.objectives import Tracked, TrackedObjectives
from cotenant.model.machine.replica_signal import MaxAction, ReplicaSignal
from cotenant.model.traces.spans import EVERYBODY, SpanSource
from cotenant.services.reporting.signals import SignalLine, SignalSubscription, encode_line, from_signal

PERIOD_S = 0.25
HEARTBEAT_S = 1.0
MAX_STREAMS = 10_000
_Pair = tuple[str, SpanSource]


@dataclass(slots=True)
class _Stream:
    """One agent. Pairs that have been sent, with the time and the pod they belong to."""

    node: str
    by_uid: dict[str, tuple[str, str]]
    by_key: dict[str, tuple[str, str]]
    by_name: dict[str, tuple[str, str]]
    sent: dict[_Pair, float] = field(default_factory=dict)
    matched: dict[_Pair, tuple[str, str]] = field(default_factory=dict)
    line: bytes = b""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    line_s: float = 0.0

    def pod_of(self, source: SpanSource) -> tuple[str, str] | None:
        """Key and UID of the subscribed pod that the spans are of."""
        if source.sender not in ("", EVERYBODY):  # a sender speaks for pods of its own namespace only
            found = self._pod_of(source)
            return found if found is not None and found[0].startswith(f"{source.sender}/") else None
        return self._pod_of(source)

    def _pod_of(self, source: SpanSource) -> tuple[str, str] | None:
        if source.pod_uid:
            return self.by_uid.get(source.pod_uid)
        found = self.by_key.get(f"{source.pod_namespace or source.namespace}/{source.pod}")
        if found is None and source.host == self.node:
            found = self.by_name.get(source.pod)
        return found


class SignalStreams:
    """All subscribed agents. `now` gives Unix seconds."""

    def __init__(self, objectives: TrackedObjectives, now: Callable[[], float]) -> None:
        self._objectives, self._now = objectives, now
        self._streams: list[_Stream] = []
        self._closing = False
        self.lines = 0
        self.signals = 0

    def __len__(self) -> int:
        return len(self._streams)

    async def run(self) -> None:
        """Publish, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self.publish()

    def publish(self) -> None:
        """Put what is due into the line of each stream."""
        if not self._streams:
            return
        now_s, signals = self._now(), dict[_Pair, ReplicaSignal | None]()
        pairs = list(self._objectives.replicas.all())
        for stream in self._streams:
            self._publish_to(stream, pairs, signals, now_s)

    async def serve(self, asked: SignalSubscription, receive: Receive, send: Send) -> None:
        """Stream to one agent until it disconnects or `close`. The caller has read the body."""
        stream = self._subscribe(asked)
        gone = asyncio.create_task(_disconnected(receive), name="signal stream")
        headers = [(b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-store")]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            while not gone.done() and not self._closing:
                waiting = asyncio.create_task(stream.ready.wait())
                await asyncio.wait((gone, waiting), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if stream.ready.is_set():
                    line, stream.line = stream.line, b""
                    stream.ready.clear()
                    if line:
                        await send({"type": "http.response.body", "body": line, "more_body": True})
            if not gone.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            self._streams.remove(stream)

    def burns(self, node: str, objective: str, pod: str) -> bool:
        """Whether a pod (namespace/name) that an agent of the node has named burns the objective's budget now."""
        now_s = self._now()
        pairs = {
            pair
            for stream in self._streams
            if stream.node == node
            for pair, (key, _) in stream.matched.items()
            if pair[0] == objective and key == pod
        }
        return any(signal is not None and signal.burns for signal in (self._signal(pair, now_s) for pair in pairs))

    def close(self) -> None:
        """End every stream."""
        self._closing = True
        for stream in self._streams:
            stream.ready.set()

    def _subscribe(self, asked: SignalSubscription) -> _Stream:
        pods = [(pod.key, pod.uid) for pod in asked.pods]
        stream = _Stream(
            asked.node,
            {uid: (key, uid) for key, uid in pods if uid},
            {key: (key, uid) for key, uid in pods},
            {key.rpartition("/")[2]: (key, uid) for key, uid in pods},
        )
        self._streams.append(stream)
        return stream

    def _publish_to(
        self, stream: _Stream, pairs: list[_Pair], signals: dict[_Pair, ReplicaSignal | None], now_s: float
    ) -> None:
        due: list[ReplicaSignal] = []
        present: set[_Pair] = set()
        for pair in pairs:
            pod = stream.matched.get(pair) or stream.pod_of(pair[1])
            if pod is None:
                continue
            stream.matched[pair] = pod
            present.add(pair)
            last_s = stream.sent.get(pair, 0.0)
            seen_s = self._objectives.replicas.seen_s(*pair)
            if now_s - last_s < HEARTBEAT_S and seen_s <= last_s:
                continue
            if pair not in signals:
                signals[pair] = self._signal(pair, now_s)
            signal = signals[pair]
            if signal is not None:
                due.append(_of_pod(signal, pod))
                stream.sent[pair] = now_s
        over = [(stream.matched[pair][0], pair[0]) for pair in list(stream.sent) if pair not in present]
        for pair in [pair for pair in stream.sent if pair not in present]:
            del stream.sent[pair], stream.matched[pair]
        if due or over or now_s - stream.line_s >= HEARTBEAT_S:
            stream.line_s = now_s
            self.lines += 1
            self.signals += len(due)
            unread = stream.line if over or stream.line.find(b'"withdrawn"') >= 0 else b""
            stream.line = unread + encode_line(SignalLine(tuple(map(from_signal, due)), tuple(over)))
            stream.ready.set()

    def _signal(self, pair: _Pair, now_s: float) -> ReplicaSignal | None:
        tracked = self._objectives.get(pair[0])
        if tracked is None:
            return None
        return replica_signal(self._objectives, tracked, pair[1], now_s)


def replica_signal(
    objectives: TrackedObjectives, tracked: Tracked, source: SpanSource, now_s: float
) -> ReplicaSignal | None:
    """The signal of one replica now; None where it is not known."""
    objective = tracked.objective
    found = objectives.replicas.figures(objective.key, source, objective.target, now_s)
    if found is None:
        return None
    may_act = objectives.may_act(tracked)
    return ReplicaSignal(
        objective=objective.key,
        service=objective.qualified_service,
        pod=f"{source.namespace}/{source.pod}",
        pod_uid=source.pod_uid,
        threshold_us=objective.threshold_us,
        budget_ppm=objective.budget_ppm,
        max_action=objective.max_action if may_act else MaxAction.OBSERVE,
        guard=may_act,
        window_us=round(found.window_s * 1_000) * 1_000,
        requests=found.requests,
        bad=found.bad,
        p99_us=found.p99_us,
        at_target_us=found.at_target_us,
        self_p99_us=found.self_p99_us,
    )


def _of_pod(signal: ReplicaSignal, pod: tuple[str, str]) -> ReplicaSignal:
    return replace(signal, pod=pod[0], pod_uid=pod[1])


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
