"""A cluster whose releases are kept in a mapping and whose virtual machines do what they are told after one look."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.fakes.processes.kept_objects import KeptObjects

from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.model.errors import InvalidInput, Unsupported
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb
from cotenant.services.apps.command import AppLocation, Apps
from cotenant.services.changes.book import Say
from cotenant.services.changes.place import ClusterPlace
from cotenant.services.vms.platform import Platform

_AFTER = {MachineVerb.STOP: MachineState.STOPPED, MachineVerb.PAUSE: MachineState.PAUSED}


class ShopMachines:
    """A `Platform` over a mapping. `lacks`: what is said where there are no machines at all."""

    def __init__(self, *machines: Machine, lacks: str = "") -> None:
        self.by_name = {machine.name: machine for machine in machines}
        self.lacks = lacks

    async def machines(self, everywhere: bool) -> list[Machine]:
        if self.lacks:
            raise Unsupported("a list of virtual machines", self.lacks)
        return list(self.by_name.values())

    async def machine(self, name: str) -> Machine:
        if name not in self.by_name:
            raise InvalidInput("NAME", name, "a machine")
        return self.by_name[name]

    async def tell(self, verb: MachineVerb, machine: Machine, to: MachineSize) -> None:
        is_, memory_mib = machine.size, to.memory_mib or machine.size.memory_mib
        size = MachineSize(to.vcpus or is_.vcpus, memory_mib, to.flavor or is_.flavor)
        node = "node-2" if verb is MachineVerb.MIGRATE else machine.node
        state = _AFTER.get(verb, MachineState.RUNNING)
        incarnation = machine.incarnation + "+" if verb is MachineVerb.RESTART else machine.incarnation
        self.by_name[machine.name] = replace(machine, state=state, size=size, node=node, incarnation=incarnation)

    async def confirm(self, machine: Machine) -> None:
        """Nothing asks."""

    async def failure(self) -> str:
        return ""

    async def set_class(self, machine: Machine, class_name: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ShopCluster(ClusterPlace):
    """`folder`: for a kubeconfig that leads nowhere."""

    folder: Path = Path()
    objects: KeptObjects = field(default_factory=KeptObjects)
    vms: ShopMachines = field(default_factory=ShopMachines)

    @asynccontextmanager
    async def releases(self, namespace: str, say: Say) -> AsyncIterator[Apps]:
        config = self.folder / "kubeconfig"
        config.write_text(
            "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}],"
            " contexts: [{name: x, context: {cluster: c, user: u, namespace: shop}}], current-context: x}"
        )
        client = Client(load_access(config, ""), qps=1.0, burst=1, in_flight=1, user_agent="t")
        apps = Apps(client, AppLocation(config, "", namespace), say)
        apps.objects = self.objects
        yield apps

    @asynccontextmanager
    async def machines(self, namespace: str) -> AsyncIterator[Platform]:
        yield self.vms


def deployment_text(name: str, replicas: int, image: str = "registry.example/web:1") -> str:
    """A Deployment as text."""
    labels = {"app": name}
    document: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}},
        },
    }
    return json.dumps(document)
