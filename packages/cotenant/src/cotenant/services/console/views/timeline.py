"""What happened to a service, as one timeline: victim, culprit, action, recovery, and moves.

    /api/timeline/objectives/NAMESPACE/NAME   of an objective's replicas
    /api/timeline/pods/NAMESPACE/NAME         of one pod

An incident is known to the agent of the victim's node and, where agents report, to the trace process; a move to the API
server, the latency to NodeMetrics. They are merged here by time, each event with its node, victim and culprit; times of
an agent's monotonic clock become Unix times by the time of its story. Reported stories are read once for all viewers,
`KEPT_S` at a time; where agents can be asked, theirs are added. A source that does not answer is a sentence in
`problems`.
Limits: the last incidents only; at most `MAX_NODES` agents are asked, those with the worst replicas first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.services.console.agents import Agents, read_answer
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.sources import TRACES
from cotenant.services.console.upstream import Unanswered, Upstream
from cotenant.services.console.views.latencies import Latencies
from cotenant.services.console.views.moves import MoveBoard, MoveView

MAX_NODES = 16
KEPT_S = 3.0
MAX_EVENTS = 300
MAX_SERIES = 8
_KINDS = {
    "suspected": "victim",
    "guarded": "action",
    "own": "cause",
    "acting": "action",
    "holding": "recovery",
    "released": "release",
    "exhausted": "stuck",
    "recovered": "recovery",
    "gone": "end",
}


class _Reading(msgspec.Struct, frozen=True):
    level_ppm: int = 0
    burn_milli: int | None = None


class _Proof(msgspec.Struct, frozen=True):
    rung: str = ""
    culprit: str = ""
    at_us: int = 0
    before: _Reading = _Reading()
    during: _Reading | None = None
    after: _Reading | None = None
    helped: bool | None = None
    workload: str = ""


class _Event(msgspec.Struct, frozen=True):
    at_us: int = 0
    stage: str = ""
    text: str = ""


class _Candidate(msgspec.Struct, frozen=True):
    name: str = ""
    confidence_ppm: int = 0
    workload: str = ""


class _Incident(msgspec.Struct, frozen=True):
    number: int = 0
    stage: str = ""
    pod: str = ""
    objective: str = ""
    objective_us: int | None = None
    signal: str = ""
    threshold_ppm: int = 0
    before: _Reading = _Reading()
    cause: str = ""
    culprit: str = ""
    confidence_ppm: int = 0
    candidates: tuple[_Candidate, ...] = ()
    proofs: tuple[_Proof, ...] = ()
    opened_us: int = 0
    recovered_after_us: int | None = None
    ended_us: int | None = None
    events: tuple[_Event, ...] = ()
    workload: str = ""  # all pods of which are meant
    owner: str = ""  # of the one pod that is meant


class _Story(msgspec.Struct, frozen=True):
    now_us: int = 0
    enabled: bool = True
    incidents: tuple[_Incident, ...] = ()


class _Row(msgspec.Struct, frozen=True, rename="camel"):
    """A story of the trace process. `at_s`: Unix time of the story's `now_us`."""

    node: str = ""
    at_s: float = 0.0
    story: _Story = _Story()


class _Replica(msgspec.Struct, frozen=True):
    pod: str = ""
    node: str = ""


class _Objective(msgspec.Struct, frozen=True, rename="camel"):
    service: str = ""
    below_ms: float | None = None
    replicas: tuple[_Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class ProofView:
    """An action and the victim's level before, during and after it, as a share of its threshold."""

    rung: str
    culprit: str
    at: float
    before: float
    during: float | None
    after: float | None
    helped: bool | None
    workload: str


@dataclass(frozen=True, slots=True)
class IncidentView:
    """One incident of one replica. Times are Unix seconds; `level` and `threshold` as the signal has them. `workload`:
    all pods of it are meant; `owner`: `culprit` alone is, and this made it.
    """

    node: str
    number: int
    stage: str
    victim: str
    objective_ms: float | None
    signal: str
    level: float
    threshold: float
    burn: float | None
    cause: str
    culprit: str
    confidence: float
    candidates: tuple[tuple[str, float], ...]
    proofs: tuple[ProofView, ...]
    opened: float
    recovered: float | None
    ended: float | None
    workload: str
    owner: str


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One event. `kind`: victim, cause, action, release, recovery, stuck, end or move."""

    at: float
    kind: str
    node: str
    victim: str
    culprit: str
    text: str
    move: str = ""  # the PodMigrationJob
    workload: str = ""  # whose pods are all meant: `culprit` is one of them


@dataclass(frozen=True, slots=True)
class RecoveryAct:
    """One rung against a culprit, as a receipt. `helped`: None = not judged yet."""

    at: float
    node: str
    victim: str
    culprit: str
    rung: str
    helped: bool | None
    is_over: bool  # the incident has ended


@dataclass(frozen=True, slots=True)
class LatencySeries:
    """p99 of one replica in milliseconds over the last hour."""

    pod: str
    objective_ms: float | None
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The answer; `events` oldest first."""

    about: str
    at: float
    replicas: tuple[tuple[str, str], ...]  # pod, node
    incidents: tuple[IncidentView, ...]  # newest first
    events: tuple[TimelineEvent, ...]
    latency: tuple[LatencySeries, ...]
    problems: tuple[str, ...]


class Timelines:
    """Makes them. `now` gives Unix seconds."""

    def __init__(
        self, fleet: MeasuredFleet, agents: Agents, traces: Upstream, moves: MoveBoard, latencies: Latencies,
        now: Callable[[], float]
    ) -> None:  # fmt: skip
        self._fleet, self._agents, self._traces = fleet, agents, traces
        self._moves, self._latencies, self._now = moves, latencies, now
        self._reported: tuple[float, tuple[_Row, ...] | str] = (-KEPT_S, ())

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to a page below `/api/timeline`. Raises `NotFound`, `Unanswered`."""
        match names:
            case ["objectives", namespace, name]:
                path = f"/api/v1/objectives/{quote(namespace, safe='')}/{quote(name, safe='')}"
                found = read_answer(await self._traces.get(path), _Objective, TRACES)
                replicas = [(replica.pod, replica.node) for replica in found.replicas]
                return await self._of(f"{namespace}/{name}", replicas, found.below_ms, f"{namespace}/{name}")
            case ["pods", namespace, name]:
                key = f"{namespace}/{name}"
                row = self._fleet.pods.get(key)
                if row is None:
                    raise NotFound(f"pod {key} does not exist")
                return await self._of(key, [(key, row.node)], row.objective_p99_ms)
        raise NotFound("there is no such page")

    async def _of(
        self, about: str, replicas: Sequence[tuple[str, str]], below_ms: float | None, objective: str = ""
    ) -> TimelineView:
        now_s = self._now()
        found: dict[tuple[str, int, str], tuple[IncidentView, list[TimelineEvent]]] = {}
        problems: list[str] = []

        def take(node: str, incident: _Incident, offset_s: float) -> None:
            events = list(_events(node, incident, offset_s))
            found[node, incident.number, incident.pod] = (_incident(node, incident, offset_s), events)

        keys = {pod for pod, _ in replicas}
        reported = await self._stories()
        if isinstance(reported, str):
            problems.append(reported)
        else:
            for row in reported:
                for incident in row.story.incidents:
                    if incident.pod in keys or (objective and incident.objective == objective):
                        take(row.node, incident, row.at_s - row.story.now_us / 1e6)
        if self._agents.is_configured:
            nodes = list(dict.fromkeys(node for _, node in replicas if node))
            asked = [(pod, node) for pod, node in replicas if node in nodes[:MAX_NODES]]
            for (_, node), story in zip(
                asked, await asyncio.gather(*(self._story(node, pod) for pod, node in asked)), strict=True
            ):
                if isinstance(story, str):
                    problems.append(story)
                    continue
                for incident in story.incidents:
                    take(node, incident, now_s - story.now_us / 1e6)
            if len(nodes) > MAX_NODES:
                problems.append(f"only {MAX_NODES} of the {len(nodes)} nodes with replicas were asked")
        incidents = [incident for incident, _ in found.values()]
        events = [event for _, of in found.values() for event in of]
        pods = {pod for pod, _ in replicas} | {
            incident_view.culprit for incident_view in incidents if incident_view.culprit
        }
        events += [_moved(move) for move in self._moves.of_pods(pods)]
        series = ((pod, self._latencies.of(pod, now_s)) for pod, _ in replicas)
        latency = sorted(
            (LatencySeries(pod, self._objective_ms(pod, below_ms), points) for pod, points in series if points),
            key=lambda latency_series: -max(value for _, value in latency_series.points),
        )
        return TimelineView(
            about=about,
            at=now_s,
            replicas=tuple(replicas),
            incidents=tuple(sorted(incidents, key=lambda incident_view: -incident_view.opened)),
            events=tuple(sorted(events, key=lambda timeline_event: timeline_event.at)[-MAX_EVENTS:]),
            latency=tuple(latency[:MAX_SERIES]),
            problems=tuple(dict.fromkeys(problems)),
        )

    async def acts(self) -> tuple[list[RecoveryAct], str]:
        """What recovery did on all nodes, the newest first, as far as agents reported it; and why that is not known."""
        reported = await self._stories()
        if isinstance(reported, str):
            return [], reported
        found = []
        for row in reported:
            offset_s = row.at_s - row.story.now_us / 1e6
            for incident in row.story.incidents:
                for proof in incident.proofs:
                    at_s, culprit = offset_s + proof.at_us / 1e6, proof.workload or proof.culprit
                    is_over = incident.ended_us is not None
                    found.append(RecoveryAct(at_s, row.node, incident.pod, culprit, proof.rung, proof.helped, is_over))
        return sorted(found, key=lambda act: -act.at), ""

    async def _stories(self) -> tuple[_Row, ...] | str:
        """What agents reported to the trace process, or why it is not known."""
        at_s, kept = self._reported
        if self._now() - at_s >= KEPT_S:
            try:
                kept = read_answer(await self._traces.get("/api/v1/stories"), tuple[_Row, ...], TRACES)
            except Unanswered as error:
                kept = f"{error.source}: {error.why}"
            self._reported = (self._now(), kept)
        return kept

    async def _story(self, node: str, pod: str) -> _Story | str:
        """The incidents of a pod as its node's agent knows them, or why they are not known."""
        try:
            found = read_answer(await self._agents.get(node, "/v1/explain", [("service", pod)]), _Story)
        except Unanswered as error:
            return _Story() if error.status == 404 and "unknown service" in error.why else f"{node}: {error.why}"
        return found if found.enabled else f"{node}: the policy `recovery` is switched off"

    def _objective_ms(self, pod: str, otherwise: float | None) -> float | None:
        row = self._fleet.pods.get(pod)
        return otherwise if row is None or row.objective_p99_ms is None else row.objective_p99_ms


def _incident(node: str, incident: _Incident, offset_s: float) -> IncidentView:
    opened_s = offset_s + incident.opened_us / 1e6
    after_us = incident.recovered_after_us
    return IncidentView(
        node=node,
        number=incident.number,
        stage=incident.stage,
        victim=incident.pod,
        objective_ms=None if incident.objective_us is None else incident.objective_us / 1000,
        signal=incident.signal,
        level=incident.before.level_ppm / 1e6,
        threshold=incident.threshold_ppm / 1e6,
        burn=None if incident.before.burn_milli is None else incident.before.burn_milli / 1000,
        cause=incident.cause,
        culprit=incident.culprit,
        confidence=incident.confidence_ppm / 1e6,
        candidates=tuple(
            (candidate.workload or candidate.name, candidate.confidence_ppm / 1e6)
            for candidate in incident.candidates[:5]
        ),
        proofs=tuple(_proof(proof, offset_s) for proof in incident.proofs),
        opened=opened_s,
        recovered=None if after_us is None else opened_s + after_us / 1e6,
        ended=None if incident.ended_us is None else offset_s + incident.ended_us / 1e6,
        workload=incident.workload,
        owner=incident.owner,
    )


def _proof(proof: _Proof, offset_s: float) -> ProofView:
    return ProofView(
        rung=proof.rung,
        culprit=proof.culprit,
        at=offset_s + proof.at_us / 1e6,
        before=proof.before.level_ppm / 1e6,
        during=None if proof.during is None else proof.during.level_ppm / 1e6,
        after=None if proof.after is None else proof.after.level_ppm / 1e6,
        helped=proof.helped,
        workload=proof.workload,
    )


def _events(node: str, incident: _Incident, offset_s: float) -> Iterable[TimelineEvent]:
    for event in incident.events:
        kind = _KINDS.get(event.stage, "cause")
        culprit, workload = (incident.culprit, incident.workload) if kind in ("action", "release") else ("", "")
        at_s = offset_s + event.at_us / 1e6
        yield TimelineEvent(at_s, kind, node, incident.pod, culprit, event.text, workload=workload)


def _moved(move: MoveView) -> TimelineEvent:
    text = " ".join(filter(None, (move.phase, move.outcome or move.why, move.figures)))
    where = f"{move.node or '?'} → {move.to or '?'}"
    return TimelineEvent(move.ended or move.created, "move", move.node, move.pod, "", f"{where}: {text}", move.name)
