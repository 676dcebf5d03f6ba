"""ControlZones, and how each stands on its nodes.

    /api/zones   every zone: its definition, and what the agent of each node reports in the object's status

A zone runs on many nodes, and where it does not, the reason is in one entry of many. The objects are watched, the spec
is read by the parser that the agents use, and nodes without an active zone come first.
Limits: the status has what changes with the zone's state; late dispatches and the log are on the node (`cotenant zone
inspect`, `logs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.custom.control_zone import ControlZoneObject
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping
from cotenant.model.zones.state import ZoneState
from cotenant.services.zones.definition import BackendChoice, ClassRule, ZoneDefinition
from cotenant.services.zones.groups import ZoneGroup
from cotenant.services.zones.zone_files import definition_of_spec

ENDED = frozenset({ZoneState.FAILED.value, ZoneState.GONE.value, "refused", "unknown"})  # on a node: no zone runs there


@dataclass(frozen=True, slots=True)
class ZoneRule:
    """The row of the groups or pods that `applies_to` names. Zero: the scheduler's own value; `late_ms` 0: no late
    dispatches are counted.
    """

    applies_to: str
    kind: str
    weight: int
    slice_us: int
    late_ms: float


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod of a zone's machine. `ports`: as `CONTAINER` or `ADDRESS:HOST -> CONTAINER`; `exit`: of its program's last
    end, `message`: the last line that it wrote then.
    """

    name: str
    kind: str
    ready: bool
    running: bool
    restarts: int
    ports: tuple[str, ...]
    exit: int | None
    message: str


@dataclass(frozen=True, slots=True)
class ZoneCondition:
    """One of the node's entry."""

    type: str
    status: str
    reason: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class ZoneOnNode:
    """What one agent reports. `outdated`: of an earlier generation of the object; `machine`: its virtual machine in
    words, "" where it has none.
    """

    node: str
    state: str
    setting: str
    groups: int
    last_change: str
    message: str
    outdated: bool
    restarts: int
    machine: str
    pods: tuple[PodOnNode, ...]
    conditions: tuple[ZoneCondition, ...]


@dataclass(frozen=True, slots=True)
class ZoneView:
    """One zone. `only_on`: the nodes that its spec names, empty = all; `wrong`: why its spec cannot be used."""

    name: str
    backend: str
    start: str
    modes: tuple[str, ...]
    applications: tuple[str, ...]
    rules: tuple[ZoneRule, ...]
    only_on: tuple[str, ...]
    active: int
    nodes: tuple[ZoneOnNode, ...]
    wrong: str


class Zones:
    """The zones of the cluster."""

    def __init__(self) -> None:
        self._by_name: dict[str, ControlZoneObject] = {}

    def seen(self, zone: ControlZoneObject) -> None:
        """A zone was added or changed."""
        self._by_name[zone.metadata.name or ""] = zone

    def gone(self, name: str) -> None:
        """A zone was deleted."""
        self._by_name.pop(name, None)

    def nodes_of(self, name: str) -> list[str]:
        """The nodes that report a zone, in the order of its view. Raises `NotFound`."""
        if name not in self._by_name:
            raise NotFound(f"there is no zone {name}")
        return [entry.node for entry in zone_view(self._by_name[name]).nodes]

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to `/api/zones`. Raises `NotFound`."""
        if names:
            raise NotFound("there is no such page")
        return [zone_view(self._by_name[name]) for name in sorted(self._by_name)]


def zone_view(zone: ControlZoneObject) -> ZoneView:
    """The zone as a page and a command show it."""
    name = zone.metadata.name or ""
    definition, wrong = None, ""
    try:
        definition = definition_of_spec(name, zone.spec, f"ControlZone {name}")
    except InvalidInput as error:
        wrong = str(error)
    nodes = _nodes(zone)
    return ZoneView(
        name=name,
        backend=definition.backend.value if definition is not None else "",
        start=definition.start.value
        if definition is not None and definition.backend is not BackendChoice.WEIGHTS
        else "",
        modes=tuple(mode.value for mode in definition.modes) if definition is not None else (),
        applications=_applications(definition) if definition is not None else (),
        rules=_rules(definition) if definition is not None else (),
        only_on=definition.nodes if definition is not None else (),
        active=sum(node.state == ZoneState.ACTIVE for node in nodes),
        nodes=nodes,
        wrong=wrong,
    )


def _applications(definition: ZoneDefinition) -> tuple[str, ...]:
    return tuple(
        " ".join(filter(None, (application.namespace and f"{application.namespace}/", _labels(application.labels))))
        for application in definition.applications
    )


def _rules(definition: ZoneDefinition) -> tuple[ZoneRule, ...]:
    pods = (pod.group() for pod in definition.pods)
    return (*map(_rule, definition.groups), *map(_rule, pods), *map(_rule, definition.rules))


def _rule(rule: ZoneGroup | ClassRule) -> ZoneRule:
    applies_to = rule.group if isinstance(rule, ZoneGroup) else _labels(rule.labels)
    return ZoneRule(applies_to, rule.kind.value, rule.weight, rule.slice_us, rule.late_ms)


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _nodes(zone: ControlZoneObject) -> tuple[ZoneOnNode, ...]:
    """What is not active first. Anyone who may write the status may have put anything there."""
    status = zone.status if isinstance(zone.status, dict) else {}
    entries = status.get("nodes")
    found = [
        _on_node(node, entry, zone.metadata.generation or 0)
        for node, entry in (entries.items() if isinstance(entries, dict) else ())
        if isinstance(entry, dict)
    ]
    return tuple(
        sorted(found, key=lambda element: (element.state not in ENDED, element.state == ZoneState.ACTIVE, element.node))
    )


def _on_node(node: str, entry: JsonMapping, generation: int) -> ZoneOnNode:
    return ZoneOnNode(
        node=node,
        state=_text(entry, "state") or "unknown",
        setting=_text(entry, "setting"),
        groups=_whole(entry, "groups"),
        last_change=_text(entry, "lastChange"),
        message=_text(entry, "message"),
        outdated=_whole(entry, "observedGeneration") < generation,
        restarts=_whole(entry, "restarts"),
        machine=_machine(entry.get("machine")),
        pods=tuple(map(_pod, _entries(entry, "pods"))),
        conditions=tuple(map(_condition, _entries(entry, "conditions"))),
    )


def _machine(machine: object) -> str:
    if not isinstance(machine, dict):
        return ""
    kernel = ", ".join(
        filter(None, (_text(machine, "kernel"), _text(machine, "preempt"), f"{_whole(machine, 'hz')} Hz"))
    )
    size = f"{counted(_whole(machine, 'cpus'), 'CPU')}, {_whole(machine, 'memoryMib')} MiB"
    return f"Linux {kernel}; {size}, {_text(machine, 'accelerator')}"


def _pod(entry: JsonMapping) -> PodOnNode:
    status = entry.get("exit")
    return PodOnNode(
        name=_text(entry, "name"),
        kind=_text(entry, "kind"),
        ready=entry.get("ready") is True,
        running=entry.get("running") is True,
        restarts=_whole(entry, "restarts"),
        ports=tuple(map(_port, _entries(entry, "ports"))),
        exit=status if isinstance(status, int) else None,
        message=_text(entry, "message"),
    )


def _port(entry: JsonMapping) -> str:
    inner, outer = _whole(entry, "container"), _whole(entry, "host")
    return f"{_text(entry, 'address')}:{outer} -> {inner}" if outer else str(inner)


def _condition(entry: JsonMapping) -> ZoneCondition:
    return ZoneCondition(
        _text(entry, "type"),
        _text(entry, "status"),
        _text(entry, "reason"),
        _text(entry, "message"),
        _text(entry, "lastTransitionTime"),
    )


def _entries(entry: JsonMapping, field: str) -> list[JsonMapping]:
    found = entry.get(field)
    return [element for element in found if isinstance(element, dict)] if isinstance(found, list) else []


def _text(entry: JsonMapping, field: str) -> str:
    value = entry.get(field)
    return value if isinstance(value, str) else ""


def _whole(entry: JsonMapping, field: str) -> int:
    value = entry.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
