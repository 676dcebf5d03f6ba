"""Recording and replay of an agent's engine: every input and output, event by event.

That the agent behaves in the lab as on a node can only be tested by the engine's own inputs and outputs. A recorder
wraps the engine and stores each call and its answer; a replay makes the same calls on a fresh engine. Instructions are
compared as the bytes of their JSON.
Limits: a recording holds the engine's inputs, not how they were measured.

One JSON object per line. Knobs are pairs, since a target cannot be a JSON key; blame without a culprit group has a
field of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.instructions import Instructions
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.counters import Gap, GpuCounters, GroupCounters, HostCounters, LogicalCpu, NodeSample
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseAnswer
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import PPM, Allocatable, ServiceHealth
from cotenant.model.machine.run_queue import Blame, GroupWaits, NoCulprit, RunQueueReading


@dataclass(frozen=True, slots=True)
class StoredBlame:
    """`Blame`; `culprit` is "" where `nobody` is set."""

    victim: str
    culprit: str
    nobody: NoCulprit | None
    ran_us: int


@dataclass(frozen=True, slots=True)
class StoredRunQueue:
    """`RunQueueReading`."""

    at_us: int
    groups: tuple[GroupWaits, ...]
    blame: tuple[StoredBlame, ...]
    unshared_us: int
    untold: int


@dataclass(frozen=True, slots=True)
class StoredSample:
    """`NodeSample`, field by field."""

    at_us: int
    wall_s: float
    host: HostCounters
    groups: tuple[GroupCounters, ...]
    gpus: tuple[GpuCounters, ...]
    gaps: tuple[Gap, ...]
    run_queue: StoredRunQueue | None
    best_effort_sent_bytes: int | None = None

    @classmethod
    def of(cls, sample: NodeSample) -> StoredSample:
        """The form stored as JSON."""
        values, reading = {field.name: getattr(sample, field.name) for field in fields(sample)}, sample.run_queue
        if reading is not None:
            blame = tuple(
                StoredBlame(b.victim, "", b.culprit, b.ran_us)
                if isinstance(b.culprit, NoCulprit)
                else StoredBlame(b.victim, b.culprit, None, b.ran_us)
                for b in reading.blame
            )
            stored = StoredRunQueue(reading.at_us, reading.groups, blame, reading.unattributed_us, reading.dropped)
            values["run_queue"] = stored
        return cls(**values)

    def sample(self) -> NodeSample:
        """The original sample."""
        values, stored = {field.name: getattr(self, field.name) for field in fields(self)}, self.run_queue
        if stored is not None:
            blame = tuple(Blame(b.victim, b.nobody or b.culprit, b.ran_us) for b in stored.blame)
            values["run_queue"] = RunQueueReading(stored.at_us, stored.groups, blame, stored.unshared_us, stored.untold)
        return NodeSample(**values)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call of the engine: its name, its time, and its arguments."""

    call: str
    at_us: int
    said: str = ""  # the returned Instructions, as JSON
    pods: tuple[NodePod, ...] = ()
    supported: tuple[Knob, ...] = ()
    allocatable: Allocatable | None = None
    leases: tuple[KnobLease, ...] = ()
    pod: str = ""
    health: ServiceHealth | None = None
    sample: StoredSample | None = None
    knobs: tuple[tuple[KnobTarget, str], ...] = ()
    cpus: tuple[LogicalCpu, ...] = ()
    group: str = ""
    what: str = ""
    stall_ppm: int = 0
    answers: tuple[LeaseAnswer, ...] = ()
    accepted: bool = False
    detail: str = ""


def encoded(instructions: Instructions) -> str:
    """Instructions as JSON: equal ones give equal text."""
    return msgspec.json.encode(instructions, order="deterministic").decode()


@dataclass(slots=True)
class EngineRecorder:
    """Wraps the engine: forwards every call, and records it."""

    agent: Agent
    events: list[RecordedCall] = field(default_factory=list)

    def pods_seen(self, pods: Sequence[NodePod], at_us: int) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("pods_seen", at_us, pods=tuple(pods)))
        self.agent.pods_seen(pods, at_us)

    def machine_seen(self, supported: frozenset[Knob]) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("machine_seen", 0, supported=tuple(sorted(supported))))
        self.agent.machine_seen(supported)

    def allocatable_seen(self, allocatable: Allocatable | None) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("allocatable_seen", 0, allocatable=allocatable))
        self.agent.allocatable_seen(allocatable)

    def found(self, leases: Sequence[KnobLease], at_us: int) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("found", at_us, leases=tuple(leases)))
        self.agent.leases_found(leases, at_us)

    def health_reported(self, pod: str, health: ServiceHealth, at_us: int) -> bool:
        """As `Agent`."""
        self.events.append(RecordedCall("health_reported", at_us, pod=pod, health=health))
        return self.agent.health_reported(pod, health, at_us)

    def sampled(
        self, sample: NodeSample, knobs: Mapping[KnobTarget, str], cpus: Sequence[LogicalCpu] = ()
    ) -> Instructions:
        """As `Agent`."""
        # The set of knobs to read is part of the engine's state: a replay must ask for it at the same point.
        answer = self.agent.sampled(sample, knobs, cpus)
        pairs = tuple(sorted(knobs.items()))
        self.events.append(
            RecordedCall(
                "sampled", sample.at_us, encoded(answer), sample=StoredSample.of(sample), knobs=pairs, cpus=tuple(cpus)
            )
        )
        return answer

    def pressed(self, at_us: int, group: str, what: str, stall_ppm: int = PPM) -> Instructions:
        """As `Agent`."""
        answer = self.agent.pressed(at_us, group, what, stall_ppm)
        self.events.append(RecordedCall("pressed", at_us, encoded(answer), group=group, what=what, stall_ppm=stall_ppm))
        return answer

    def answered(self, answers: Sequence[LeaseAnswer], at_us: int) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("answered", at_us, answers=tuple(answers)))
        self.agent.answered(answers, at_us)

    def unreachable(self, at_us: int) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("unreachable", at_us))
        self.agent.unreachable(at_us)

    def evicted(self, uid: str, accepted: bool, detail: str, at_us: int) -> None:
        """As `Agent`."""
        self.events.append(RecordedCall("evicted", at_us, pod=uid, accepted=accepted, detail=detail))
        self.agent.evicted(uid, accepted, detail, at_us)

    def stopping(self, at_us: int) -> Instructions:
        """As `Agent`."""
        answer = self.agent.stopping(at_us)
        self.events.append(RecordedCall("stopping", at_us, encoded(answer)))
        return answer

    def __getattr__(self, name: str) -> Any:
        """Read-only members (`groups`, `knobs_to_read`, `state`, `held_knobs`, ...) are forwarded to the engine."""
        return getattr(self.agent, name)


def dump(events: Iterable[RecordedCall]) -> bytes:
    """One line per event."""
    return b"".join(msgspec.json.encode(event, order="deterministic") + b"\n" for event in events)


def load(lines: bytes) -> tuple[RecordedCall, ...]:
    """The inverse of `dump`. Raises `InvalidInput` naming the line."""
    found = []
    for number, line in enumerate(lines.splitlines(), 1):
        try:
            found.append(msgspec.json.decode(line, type=RecordedCall))
        except (msgspec.MsgspecError, InvalidInput) as error:
            raise InvalidInput(f"recording, line {number}", line[:80], f"an event ({error})") from error
    return tuple(found)


def replay(events: Iterable[RecordedCall], agent: Agent) -> Iterator[tuple[RecordedCall, str]]:
    """Make the same calls on this engine; yields each event with the instructions now returned."""
    for event in events:
        yield event, _again(event, agent)


def _again(event: RecordedCall, agent: Agent) -> str:
    match event.call:
        case "pods_seen":
            agent.pods_seen(event.pods, event.at_us)
        case "machine_seen":
            agent.machine_seen(frozenset(event.supported))
        case "allocatable_seen":
            agent.allocatable_seen(event.allocatable)
        case "found":
            agent.leases_found(event.leases, event.at_us)
        case "health_reported" if event.health is not None:
            agent.health_reported(event.pod, event.health, event.at_us)
        case "sampled" if event.sample is not None:
            agent.knobs_to_read()
            return encoded(agent.sampled(event.sample.sample(), dict(event.knobs), event.cpus))
        case "pressed":
            return encoded(agent.pressed(event.at_us, event.group, event.what, event.stall_ppm))
        case "answered":
            agent.answered(event.answers, event.at_us)
        case "unreachable":
            agent.unreachable(event.at_us)
        case "evicted":
            agent.evicted(event.pod, event.accepted, event.detail, event.at_us)
        case "stopping":
            return encoded(agent.stopping(event.at_us))
        case _:
            raise InvalidInput("call", event.call, "one of the engine's, with its arguments")
    return ""
