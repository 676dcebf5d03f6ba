"""OpenStack's servers as machines.

Limits: a class is a server's metadata, which the list shows; no agent reads it there.
"""

from __future__ import annotations

from cotenant.drivers.openstack.compute import Compute
from cotenant.engine.vms.nova import CLASS_KEY, action_of, machine_of_server, why_nova_not
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.json_object import JsonMapping
from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb


class OpenStack:
    """The servers of a cloud, as seen from one project."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    async def machines(self, everywhere: bool) -> list[Machine]:
        """All servers; `everywhere`: of all projects, which needs an administrator."""
        groups = await self._compute.groups()
        servers = await self._compute.servers(everywhere=everywhere)
        return sorted((machine_of_server(server, groups) for server in servers), key=lambda machine: machine.key)

    async def machine(self, name: str) -> Machine:
        """By name or id."""
        return machine_of_server(await self._server(name), await self._compute.groups())

    async def tell(self, verb: MachineVerb, machine: Machine, to: MachineSize) -> None:
        """One action."""
        server = await self._server(machine.uid)
        why = why_nova_not(verb, server)
        if why:
            raise Permanent(f"{machine.key}: {why}")
        flavor = await self._flavor(to.flavor) if verb is MachineVerb.RESIZE else ""
        await self._compute.act(machine.uid, action_of(verb, flavor, str(server.get("status"))))

    async def confirm(self, machine: Machine) -> None:
        """Keep the new size."""
        await self._compute.act(machine.uid, {"confirmResize": None})

    async def failure(self) -> str:
        """A server shows it: its status is ERROR, with a fault."""
        return ""

    async def set_class(self, machine: Machine, class_name: str) -> str:
        """A key of the server's metadata."""
        if class_name or machine.class_name:
            await self._compute.set_metadata(machine.uid, CLASS_KEY, class_name)
        return "it stands in the server's metadata"

    async def _server(self, name: str) -> JsonMapping:
        found = [one for one in await self._compute.servers() if name in (one.get("name"), one.get("id"))]
        if len(found) != 1:
            expected = "a server of the project" if not found else f"one server, not {len(found)}: give its id"
            raise InvalidInput("NAME", name, expected, "`cotenant vm list --cloud` has them")
        return found[0]

    async def _flavor(self, name: str) -> str:
        if not name:
            raise InvalidInput("--flavor", name, "a flavor's name", "OpenStack has no sizes in numbers")
        flavors = await self._compute.flavors()
        for flavor in flavors:
            if name in (flavor.get("name"), flavor.get("id")):
                return str(flavor["id"])
        names = ", ".join(sorted(str(flavor.get("name")) for flavor in flavors))
        raise InvalidInput("--flavor", name, f"one of {names}")
