"""The containers of a host as other functions of its agent see them, without a runtime behind them."""

from __future__ import annotations

from pathlib import Path

from cotenant.model.errors import Permanent
from cotenant.model.fleet.containers import FleetContainer
from cotenant.model.fleet.host import HostContainer
from cotenant.model.fleet.refusal import NoSuchGuid
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.functions.containers import ContainerFunction
from cotenant.services.fleet.functions.contract import Beat


def container(guid: str, pid: int = 1, **more: object) -> FleetContainer:
    """A running one, or without `pid` one that has ended; its id begins with its guid."""
    status = "running" if pid else "exited"
    made: dict[str, object] = {"log_driver": "json-file", "started_s": 1.0, "restarts": 0, **more}
    return FleetContainer(
        guid, f"{guid}{'0' * 60}", "web:1", status, "", "", 0, "", pid, out_of_memory=False, **made  # type: ignore[arg-type]
    )  # fmt: skip


class ListedContainers(ContainerFunction):
    """`known`: by guid; what is put there is there at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__("host-1", folder / "no.sock", folder)
        self.known: dict[str, FleetContainer] = {}

    @property
    def is_listed(self) -> bool:
        return True

    def ids(self) -> dict[str, str]:
        return {guid: found.id for guid, found in self.known.items() if found.pid}

    def guids(self) -> tuple[str, ...]:
        return tuple(self.known)

    async def inspected(self, guid: str) -> FleetContainer | None:
        return self.known.get(guid)

    async def process_of(self, guid: str) -> FleetContainer:
        if guid not in self.known:
            raise NoSuchGuid(f"no container of this host has the guid {guid}")
        if not self.known[guid].pid:
            raise Permanent(f"{guid} does not run: it is {self.known[guid].status}")
        return self.known[guid]

    async def add_to(self, beat: Beat) -> None:
        for guid, found in self.known.items():
            state = ContainerState.READY if found.pid else ContainerState.TERMINATED
            beat.containers[guid] = HostContainer(guid, state, found.image, "shop", "web")
