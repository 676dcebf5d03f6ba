"""All functions of an agent, in the order in which they fill a heartbeat.

A new function gets a line here and its name in model/fleet/configuration.py.
"""

from __future__ import annotations

from pathlib import Path

from cotenant.drivers.nats.contract import Bus
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Function
from cotenant.services.fleet.functions.experiments import ExperimentFunction
from cotenant.services.fleet.functions.exporter import ExporterFunction
from cotenant.services.fleet.functions.figures import FigureFunction
from cotenant.services.fleet.functions.forwarding import ForwardFunction
from cotenant.services.fleet.functions.gateway import GatewayFunction
from cotenant.services.fleet.functions.labels import label_of
from cotenant.services.fleet.functions.limits import LimitFunction
from cotenant.services.fleet.functions.logs.function import LogFunction
from cotenant.services.fleet.functions.profiles import ProfileFunction
from cotenant.services.fleet.functions.runtime import runtime_at
from cotenant.services.fleet.functions.terminals.function import TerminalFunction


def made_functions(
    agent: str,
    docker: Path,
    state_dir: Path,
    bus: Bus,
    cri: Path | None = None,
    mount_paths: tuple[str, ...] = (),
) -> tuple[Function, ...]:
    """The functions of this agent, all off. `cri`: socket of another runtime than Docker. `mount_paths`: unless the
    configuration names some.
    """
    opened = runtime_at(docker, cri, label_of(agent))
    containers = ContainerFunction(agent, docker, state_dir, opened=opened, mount_paths=mount_paths)
    figures = FigureFunction(agent, containers)
    limits = LimitFunction(containers, state_dir)
    return (
        containers,
        figures,
        limits,
        ExperimentFunction(limits),
        TerminalFunction(containers, state_dir),
        ProfileFunction(containers.process_of),
        LogFunction(agent, containers, state_dir),
        ExporterFunction(figures),
        GatewayFunction(bus),
        ForwardFunction(),
    )
