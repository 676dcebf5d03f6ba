"""What the page shows of hosts, containers and groups, from what the fleet's controller lists.

Everything in it but states was written by hosts, which anybody may run who got a key: texts and lists are cut to what a
page can show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.fleet.figures import ContainerFigures, HostFigures
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.requests import GroupRow, HostRow
from cotenant.model.fleet.states import AgentState, ContainerState

MAX_TEXT = 200  # characters
MAX_ITEMS = 32  # tags, ports, limits, functions of one row
MAX_REGIONS = 50
MAX_TAGS = 100
STATES = {AgentState.ALIVE: "ready", AgentState.SUSPECT: "suspect", AgentState.AWAY: "away"}


@dataclass(frozen=True, slots=True)
class HostQuery:
    """Which hosts: with this text anywhere, of this region, tag and state; empty selects all."""

    text: str = ""
    region: str | None = None
    tag: str = ""
    state: str = ""

    def has_host(self, row: HostRow) -> bool:
        """Whether a host is selected, by itself or for a container on it."""
        said = row.registration
        if self.region is not None and said.region != self.region:
            return False
        if (self.tag and self.tag not in said.tags) or (self.state and STATES[row.state] != self.state):
            return False
        own = (said.guid, said.hostname, said.region, said.namespace, said.role, said.platform, said.version)
        return self.matches(*own, *said.tags) or any(self.has_container(status) for status in containers_of(row))

    def has_container(self, status: HostContainer) -> bool:
        """Whether the text is in what names a container."""
        return self.matches(status.guid, status.image, status.group, status.appkey)

    def matches(self, *texts: str) -> bool:
        """Whether the text is in one of these."""
        return not self.text or any(self.text in text.lower() for text in texts)


def containers_of(row: HostRow) -> tuple[HostContainer, ...]:
    """A host's containers as they count now."""
    return row.beat.containers if row.beat is not None else ()


def host_view(row: HostRow, node: str) -> dict[str, object]:
    """One line of the list. `node`: the Kubernetes node that this host is, or empty."""
    said, beat = row.registration, row.beat
    functions = beat.functions if beat is not None else ()
    now = beat if row.state is not AgentState.AWAY else None  # what it used then is not what it uses
    return {
        "guid": short(said.guid),
        "host": short(said.hostname),
        "state": STATES[row.state],
        "silentS": round(row.silent_s, 1),
        "isDoubled": row.is_doubled,
        "version": short(said.version),
        "role": short(said.role),
        "platform": short(said.platform),
        "region": short(said.region),
        "namespace": short(said.namespace),
        "tags": shorts(said.tags),
        "cpu": said.cpu_milli,
        "memory": said.memory_bytes,
        "usedCpu": now.cpu_milli if now is not None else None,
        "usedMemory": now.memory_bytes if now is not None else None,
        "load": now.load if now is not None else None,
        "states": counted(containers_of(row)),
        "faults": sum(bool(function.fault) for function in functions) + bool(beat is not None and beat.refused),
        "node": node,
    }


def parts_view(row: HostRow) -> dict[str, object]:
    """Health of the agent's parts, and what it refuses."""
    beat = row.beat
    if beat is None:
        return {"functions": [], "refused": [], "exporters": [], "revision": 0, "startedS": None}
    return {
        "functions": [
            {"name": short(function.name), "isOn": function.is_on, "fault": short(function.fault)}
            for function in beat.functions[:MAX_ITEMS]
        ],
        "refused": shorts(beat.refused),
        "exporters": shorts(beat.exporters),
        "revision": beat.revision,
        "startedS": beat.started_s,
    }


def container_view(row: HostRow, status: HostContainer) -> dict[str, object]:
    """One container of a list."""
    return {
        "guid": short(status.guid),
        "agent": short(row.registration.guid),
        "host": short(row.registration.hostname),
        "state": status.state.value,
        "detail": short(status.detail),
        "image": short(status.image),
        "group": short(status.group),
        "appkey": short(status.appkey),
        "cpuRequest": status.cpu_request_milli,
        "memoryRequest": status.memory_request_bytes,
        "usedCpu": status.cpu_milli,
        "usedMemory": status.memory_bytes,
        "ports": shorts(status.host_ports),
        "limits": shorts(status.limits),
    }


def group_view(row: GroupRow, there: Iterable[HostContainer]) -> dict[str, object]:
    """One line of the groups' list."""
    return {
        "name": short(row.name),
        "goal": short(row.goal),
        "isDone": row.done,
        "reason": row.reason[: 4 * MAX_TEXT],
        "containers": row.containers,
        "states": counted(there),
    }


def members_view(
    row: GroupRow, there: Sequence[tuple[HostRow, HostContainer]], hosts: Mapping[str, HostRow]
) -> list[dict[str, object]]:
    """A group's containers: those that are there, and those that it is to have or had; `hosts` are by their agents.

    A member that no host reports has no state of its own: it is not made yet while the group goes up, and was undone
    or removed where the group is to go.
    """
    found = [container_view(host, status) for host, status in there]
    known = {status.guid for _, status in there}
    for member in row.members:
        if member.guid not in known:
            state = ContainerState.UNKNOWN.value if row.goal == "up" and row.done else ""
            found.append(
                {
                    "guid": short(member.guid),
                    "agent": short(member.agent),
                    "host": short(hosts[member.agent].registration.hostname if member.agent in hosts else ""),
                    "state": state or ("undone" if row.goal == "gone" else "to-make"),
                    "detail": "",
                    "image": short(member.image),
                    "group": short(row.name),
                    "appkey": short(member.appkey),
                    "cpuRequest": 0,
                    "memoryRequest": 0,
                    "usedCpu": None,
                    "usedMemory": None,
                    "ports": [],
                    "limits": [],
                }
            )
    # whom the reason names is what failed; the controller writes "create of APPKEY (GUID) on AGENT: why"
    return [{**member, "hasFailed": f"({member['guid']})" in row.reason} for member in found]


def regions_view(rows: Iterable[HostRow]) -> list[dict[str, object]]:
    """Sums by region, the largest first; what is beyond `MAX_REGIONS` is one line without a name to choose."""
    hosts: dict[str, Counter[str]] = {}
    for row in rows:
        sums = hosts.setdefault(row.registration.region, Counter())
        sums["hosts"] += 1
        sums[STATES[row.state]] += 1
        sums["containers"] += len(containers_of(row))
    ranked = sorted(hosts.items(), key=lambda item: (-item[1]["hosts"], item[0]))
    shown = [_region(short(name), sums) for name, sums in ranked[:MAX_REGIONS]]
    others = Counter[str]()
    for _, sums in ranked[MAX_REGIONS:]:
        others.update(sums)
    return [*shown, {**_region("", others), "others": len(ranked) - MAX_REGIONS}] if others else shown


def _region(name: str, sums: Counter[str]) -> dict[str, object]:
    return {"name": name, "others": 0} | {key: sums[key] for key in ("hosts", "ready", "suspect", "away", "containers")}


def tags_view(rows: Iterable[HostRow]) -> list[tuple[str, int]]:
    """How many hosts have each tag, the most frequent first."""
    sums = Counter(tag for row in rows for tag in set(row.registration.tags[:MAX_ITEMS]) if len(tag) <= MAX_TEXT)
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:MAX_TAGS]


def figures_view(figures: HostFigures | ContainerFigures | None) -> dict[str, object] | None:
    """Figures by the page's names; what a host does not have is null."""
    if figures is None:
        return None
    names = (
        ("cpu_milli", "cpu"),
        ("system_milli", "system"),
        ("throttled_permille", "held"),
        ("memory_bytes", "memory"),
        ("load_1", "load1"),
        ("load_5", "load5"),
        ("load_15", "load15"),
        ("received_bytes", "received"),
        ("sent_bytes", "sent"),
        ("read_bytes", "read"),
        ("written_bytes", "written"),
        ("tasks", "tasks"),
        ("oom_kills", "oomKills"),
        ("restarts", "restarts"),
    )
    return {shown: getattr(figures, name, None) for name, shown in names}


def counted(containers: Iterable[HostContainer]) -> dict[str, int]:
    """How many are in each state."""
    return dict(Counter(status.state.value for status in containers))


def short(text: str) -> str:
    """As much of it as a page shows."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def shorts(texts: Sequence[str]) -> list[str]:
    """The first of them."""
    return [short(text) for text in texts[:MAX_ITEMS]]
