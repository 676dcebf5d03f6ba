"""Who is in the fleet: agents by their heartbeats, containers by what their agents say of them.

A guid is found in one look-up. An agent that falls silent becomes suspect, then away; its containers are Unknown from
then on, and are never started elsewhere by themselves. Everything here is rebuilt from heartbeats within a second of a
controller's start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cotenant.model.errors import Permanent
from cotenant.model.fleet.host import Heartbeat, HostContainer, Registration
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.states import AgentState, ContainerState, is_legal

SUSPECT_AFTER, AWAY_AFTER = 3, 10  # missed heartbeats
MAX_AGENTS = 20_000
FORGOTTEN_AFTER_S = 86_400.0
_RESTART_S = 10.0  # a heartbeat of the process before may come so late


@dataclass(slots=True)
class RegisteredHost:
    """One agent. `beat` is its last heartbeat, `heard_s` when it came."""

    registration: Registration
    heard_s: float
    state: AgentState = AgentState.ALIVE
    beat: Heartbeat | None = None
    began_s: float = 0.0  # when this start of the agent was first heard
    is_doubled: bool = False  # an agent that was started earlier speaks under the same guid

    @property
    def containers(self) -> tuple[HostContainer, ...]:
        """With the state Unknown where the agent is away."""
        reported = self.beat.containers if self.beat is not None else ()
        if self.state is not AgentState.AWAY:
            return reported
        return tuple(replace(status, state=ContainerState.UNKNOWN) for status in reported)


@dataclass(frozen=True, slots=True)
class AgentChange:
    """An agent's state changed."""

    guid: str
    before: AgentState
    after: AgentState


class HostRegistry:
    """The controller's index. Times are seconds of the owner's clock."""

    def __init__(self, max_agents: int = MAX_AGENTS) -> None:
        self._hosts: dict[str, RegisteredHost] = {}
        self._agent_of: dict[str, str] = {}  # container -> agent
        self._by_tag: dict[str, set[str]] = {}
        self._max_agents = max_agents
        self.counts: Counter[str] = Counter()  # anomalies by name

    def __len__(self) -> int:
        return len(self._hosts)

    def register(self, registration: Registration, now_s: float) -> None:
        """An agent joined, or joined again. Raises `Permanent` above the limit."""
        known = self._hosts.get(registration.guid)
        if known is None:
            if len(self._hosts) >= self._max_agents:
                self.counts["agents refused"] += 1
                raise Permanent(f"this controller knows {self._max_agents} agents, which is its limit")
            self._hosts[registration.guid] = RegisteredHost(registration, now_s)
        else:
            self._untag(known.registration)
            known.registration, known.heard_s, known.state = registration, now_s, AgentState.ALIVE
        for tag in registration.tags:
            self._by_tag.setdefault(tag, set()).add(registration.guid)

    def beat(self, beat: Heartbeat, now_s: float) -> bool:
        """A heartbeat came; False where the agent is not registered here and must be asked who it is."""
        host = self._hosts.get(beat.guid)
        if host is None:
            return False
        last = host.beat
        if last is not None and beat.started_s != last.started_s and self._is_newer(beat, last, now_s - host.heard_s):
            host.began_s, host.is_doubled = now_s, False
        elif last is not None and (beat.started_s, beat.number) <= (last.started_s, last.number):
            self.counts["late heartbeats"] += 1
            host.is_doubled = host.is_doubled or (beat.started_s < last.started_s and now_s - host.began_s > _RESTART_S)
            return True
        host.beat, host.heard_s, host.state = beat, now_s, AgentState.ALIVE
        if last is None or last.containers != beat.containers:
            self._index(beat.guid, last.containers if last is not None else (), beat.containers)
        return True

    @staticmethod
    def _is_newer(beat: Heartbeat, last: Heartbeat, silent_s: float) -> bool:
        """Whether a start of an agent follows the last one: by its clock, or, where that may have gone back, because
        the last one is silent.
        """
        return beat.started_s > last.started_s or silent_s >= SUSPECT_AFTER * last.every_s

    def leave(self, guid: str) -> None:
        """The agent said that it stops: what its containers do is unknown from now on."""
        host = self._hosts.get(guid)
        if host is not None:
            host.state = AgentState.AWAY

    def tick(self, now_s: float) -> tuple[AgentChange, ...]:
        """What silence makes of agents. One that was away for a day and had no container is forgotten."""
        changes = []
        for guid, host in list(self._hosts.items()):
            missed = (now_s - host.heard_s) / (host.beat.every_s if host.beat is not None else 1.0)
            after = host.state
            if missed >= AWAY_AFTER:
                after = AgentState.AWAY
            elif missed >= SUSPECT_AFTER and host.state is AgentState.ALIVE:
                after = AgentState.SUSPECT
            if after is not host.state:
                changes.append(AgentChange(guid, host.state, after))
                host.state = after
            if now_s - host.heard_s > FORGOTTEN_AFTER_S and not host.containers:
                self._untag(host.registration)
                del self._hosts[guid]
        return tuple(changes)

    def host(self, guid: str) -> RegisteredHost:
        """The agent's host. Raises `NoSuchGuid`."""
        try:
            return self._hosts[guid]
        except KeyError:
            raise NoSuchGuid(f"no agent of this fleet has the guid {guid}") from None

    def has(self, guid: str) -> bool:
        """Whether this is the guid of an agent."""
        return guid in self._hosts

    def agent_for(self, guid: str) -> str:
        """The agent that answers for this agent or container. Raises `NoSuchGuid` at once."""
        if guid in self._hosts:
            return guid
        try:
            return self._agent_of[guid]
        except KeyError:
            raise NoSuchGuid(f"nothing in this fleet has the guid {guid}") from None

    def status(self, guid: str) -> HostContainer | None:
        """The container's last status; None for an agent. Raises `NoSuchGuid`."""
        agent = self.agent_for(guid)
        return next((container for container in self._hosts[agent].containers if container.guid == guid), None)

    def hosts(self) -> Iterator[RegisteredHost]:
        """All, in the order in which they joined."""
        return iter(self._hosts.values())

    def select(self, tags: Iterable[str] = (), namespace: str = "", name: str = "") -> list[RegisteredHost]:
        """Hosts with all of these tags, of this namespace and name; an empty one selects all."""
        wanted = list(tags)
        guids: Iterable[str] = self._hosts
        if wanted:
            guids = set.intersection(*(self._by_tag.get(tag, set()) for tag in wanted))
        found = [self._hosts[guid] for guid in self._hosts if guid in guids] if wanted else list(self._hosts.values())
        return [
            host
            for host in found
            if (not namespace or host.registration.namespace == namespace)
            and (not name or name in (host.registration.hostname, host.registration.guid))
        ]

    def of_group(self, group: str) -> dict[str, tuple[str, HostContainer]]:
        """The group's containers that agents report: guid -> (agent, status)."""
        return {
            status.guid: (host.registration.guid, status)
            for host in self._hosts.values()
            for status in host.containers
            if status.group == group
        }

    def _index(self, agent: str, before: tuple[HostContainer, ...], after: tuple[HostContainer, ...]) -> None:
        states = {entry.guid: entry.state for entry in before}
        for status in after:
            owner = self._agent_of.setdefault(status.guid, agent)
            if owner != agent and owner in self._hosts:
                self.counts["guids on two hosts"] += 1
            self._agent_of[status.guid] = agent
            was = states.pop(status.guid, None)
            if was is not None and not is_legal(was, status.state):
                self.counts["illegal changes"] += 1
        for guid in states:
            if self._agent_of.get(guid) == agent:
                del self._agent_of[guid]

    def _untag(self, registration: Registration) -> None:
        for tag in registration.tags:
            self._by_tag.get(tag, set()).discard(registration.guid)
