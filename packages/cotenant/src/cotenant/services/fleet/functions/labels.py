"""Labels by which a container tells, after any restart, what it is."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.fleet.group import PlannedContainer
from cotenant.model.fleet.requests import Fence

PREFIX = "cotenant.io/"
GUID, AGENT, GROUP, APPKEY = f"{PREFIX}guid", f"{PREFIX}agent", f"{PREFIX}group", f"{PREFIX}appkey"
CREDENTIALS = "COTENANT_CREDENTIALS"
_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES"
AFTER, CPU, MEMORY, PORTS = f"{PREFIX}after", f"{PREFIX}cpu-milli", f"{PREFIX}memory-bytes", f"{PREFIX}ports"


def label_of(agent: str) -> str:
    """What all containers of this agent have."""
    return f"{AGENT}={agent}"


def labels_of(container: PlannedContainer, fence: Fence) -> dict[str, str]:
    """The template's own labels, and ours."""
    template = container.template
    return {
        **template.labels,
        GUID: container.guid,
        AGENT: container.agent,
        GROUP: fence.group,
        APPKEY: template.appkey,
        AFTER: ",".join(template.after),
        CPU: str(template.cpu_milli),
        MEMORY: str(template.memory_bytes),
        PORTS: ",".join(port.taken for port in template.ports),
    }


def environment_of(container: PlannedContainer, ours: Mapping[str, str], credentials: str = "") -> dict[str, str]:
    """The agent's environment for all containers, the identity of this one, and what the template says, which wins.

    Attributes of its telemetry are joined, so that whoever adds one keeps the guid.
    """
    identity = {"COTENANT_GUID": container.guid, "OTEL_SERVICE_NAME": container.template.appkey}
    if credentials:
        identity[CREDENTIALS] = credentials
    said = container.template.environment
    attributes = _joined(ours.get(_ATTRIBUTES, ""), f"service.instance.id={container.guid}", said.get(_ATTRIBUTES, ""))
    return {**ours, **identity, **said, _ATTRIBUTES: attributes}


def _joined(*given: str) -> str:
    """KEY=VALUE,... of which the last of a key stands."""
    pairs = (pair.strip().partition("=") for text in given for pair in text.split(",") if pair.strip())
    return ",".join(f"{key}={value}" for key, value in {key: value for key, _, value in pairs}.items())


def number(labels: Mapping[str, str], name: str) -> int:
    """A label's whole number; 0 where it is none."""
    text = labels.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def ports(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Ports of the host that it takes, as 8080/tcp."""
    return tuple(port for port in labels.get(PORTS, "").split(",") if port)
