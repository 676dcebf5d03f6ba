"""The agent's process: its identity, its file, its bus."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from cotenant import __version__
from cotenant.drivers.docker.client import SOCKET
from cotenant.drivers.nats.contract import Bus
from cotenant.drivers.proc.host import HostReader
from cotenant.model.document import build, parse
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.host import Registration
from cotenant.model.fleet.identity import agent_guid, check_guid, check_name
from cotenant.services.fleet.agent.agent import FleetAgent
from cotenant.services.fleet.connected import run_connected
from cotenant.services.fleet.functions.made import made_functions
from cotenant.services.fleet.places import BusOptions, access_of, fleet_state_dir
from cotenant.services.logs import log_to_stderr

_MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Of this host. `guid` empty:

    Made from the machine's id. `file`: settings of its own, which win over the registry's. `cri`: socket of a runtime
    that is used instead of Docker.
    """

    guid: str = ""
    role: str = "edge"
    platform: str = "docker"
    region: str = ""
    namespace: str = "default"
    tags: tuple[str, ...] = ()
    file: Path | None = None
    docker: Path = SOCKET
    state_dir: Path | None = None
    cri: Path | None = None


def run(options: AgentOptions, bus: BusOptions, log_level: str, log_format: str) -> int:
    """Serve until a signal. Raises `InvalidInput`, `Unsupported`, `Permanent`."""
    log_to_stderr(log_level, log_format)
    guid = guid_of(options.guid)
    access = access_of(BusOptions(bus.url, bus.key, bus.ca, guid, bus.state_dir))

    async def work(opened: Bus, stop: asyncio.Event) -> None:
        await made_agent(options, opened).run(stop)

    run_connected(access, work)
    return 0


def made_agent(options: AgentOptions, bus: Bus, mount_paths: tuple[str, ...] = ()) -> FleetAgent:
    """The agent of this host on a bus. `mount_paths`: unless its configuration names some."""
    local, overridden = read_agent_file(options.file)
    guid = guid_of(options.guid)
    state_dir = fleet_state_dir(options.state_dir)
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    host = HostReader()
    try:
        counters = host.read()
    finally:
        host.close()
    registration = Registration(
        guid=guid,
        hostname=socket.gethostname(),
        version=__version__,
        role=check_name("--role", options.role),
        platform=check_name("--platform", options.platform),
        region=options.region,
        namespace=options.namespace,
        tags=tuple(check_name("--tag", tag) for tag in options.tags),
        cpu_milli=counters.cpus * 1000,
        memory_bytes=counters.memory_total_bytes,
    )
    functions = made_functions(guid, options.docker, state_dir, bus, options.cri, mount_paths)
    return FleetAgent(registration, bus, functions, local, overridden)


def guid_of(given: str) -> str:
    """The agent's guid: what was given, else this machine's. Raises `InvalidInput`."""
    if given:
        return check_guid("--guid", given)
    try:
        return agent_guid(_MACHINE_ID.read_text())
    except OSError as error:
        raise InvalidInput("--guid", "", "a guid", f"{_MACHINE_ID} cannot be read: {error.strerror}") from error


def read_agent_file(path: Path | None) -> tuple[AgentConfiguration, tuple[str, ...]]:
    """The settings of an agent's own file (YAML), and which ones it has. Raises `InvalidInput`."""
    if path is None:
        return AgentConfiguration(), ()
    try:
        given = parse(path.read_bytes(), str(path))
    except OSError as error:
        raise InvalidInput(
            "--config", str(path), "a readable file", error.strerror or os.strerror(error.errno or 0)
        ) from error
    return configuration_of(given, f"{path}:"), tuple(given) if isinstance(given, Mapping) else ()


def configuration_of(given: object, where: str) -> AgentConfiguration:
    """An agent's settings from a document. Raises `InvalidInput` that names the field."""
    given = {} if given is None else given
    if isinstance(given, Mapping) and isinstance(given.get("environment"), Mapping):
        plain = {name: value for name, value in given.items() if name != "environment"}
        found = build(AgentConfiguration, plain, where)
        environment = {str(name): str(value) for name, value in given["environment"].items()}
        return AgentConfiguration(
            **{field.name: getattr(found, field.name) for field in fields(found) if field.name != "environment"},
            environment=environment,
        )
    return build(AgentConfiguration, given, where)
