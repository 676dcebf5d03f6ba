"""What a platform that runs virtual machines offers the commands."""

from __future__ import annotations

from typing import Protocol

from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb


class Platform(Protocol):
    """KubeVirt or OpenStack, as seen from one namespace or project."""

    async def machines(self, everywhere: bool) -> list[Machine]:
        """All machines, by name."""

    async def machine(self, name: str) -> Machine:
        """One machine. Raises `InvalidInput` where there is none, or several of the name."""

    async def tell(self, verb: MachineVerb, machine: Machine, to: MachineSize) -> None:
        """Ask for a verb. Raises `Permanent` with the reason where the platform would not do it."""

    async def confirm(self, machine: Machine) -> None:
        """Say yes where the platform asks for it before a resize stays."""

    async def failure(self) -> str:
        """Why what was told last will not come about, as far as the machine itself does not show it."""

    async def set_class(self, machine: Machine, class_name: str) -> str:
        """Give a machine a class, `""` takes it away; what has to follow for it to take hold."""
