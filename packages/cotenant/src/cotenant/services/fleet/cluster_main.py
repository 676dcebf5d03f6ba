"""A cluster on the bus: its releases and virtual machines as methods of a program, under a guid of its own.

A change answers at once with the name of its report, since a request lasts seconds and a change minutes; `change`
tells how far it is. Which operator may call which method is the fleet file's (`call:app-list`); what the methods can
do at all is what this process's kubeconfig may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cotenant import __version__
from cotenant.drivers.nats.contract import Bus
from cotenant.model.assess.prices import PriceTable
from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb
from cotenant.services.apps.command import ListedRelease
from cotenant.services.apps.releases import How
from cotenant.services.apps.viewing import ReleaseView
from cotenant.services.changes.book import MAX_WAIT_S, ChangeBook, ChangeReport
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.place import ClusterPlace
from cotenant.services.changes.releases import GivenApplication, Releases, how_of
from cotenant.services.fleet.places import BusOptions
from cotenant.services.fleet.programs.program import Program
from cotenant.services.logs import log_to_stderr
from cotenant.services.prices import price_table

NAME = "cotenant-cluster"
_LOOK_S = 120.0  # of a question: helm is asked, and every object read
_BEGIN_S = 10.0
_TIMEOUT_S = 300.0  # of a change


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Of one cluster. `prices`: file of prices for the cost of releases."""

    guid: str
    place: ClusterPlace
    prices: Path | None = None
    log_level: str = "info"
    log_format: str = "text"


class ServedCluster:
    """The methods."""

    def __init__(self, place: ClusterPlace, book: ChangeBook, prices: PriceTable | None = None) -> None:
        self._book, self._prices = book, prices
        self._releases, self._machines = Releases(place, book), Machines(place, book)

    def register(self, program: Program) -> None:
        """Make all of them the program's."""
        questions: dict[str, Callable[..., object]] = {
            "app-list": self.app_list,
            "app-show": self.app_show,
            "vm-list": self.vm_list,
            "vm-show": self.vm_show,
        }
        for name, question in questions.items():
            program.method(name, deadline_s=_LOOK_S)(question)
        program.method("change", deadline_s=MAX_WAIT_S + 5.0)(self.change)
        changes: dict[str, Callable[..., object]] = {
            "app-install": self._given(self._releases.install, "Install YAML, or a chart with values as YAML."),
            "app-upgrade": self._given(self._releases.upgrade, "The next revision of a release."),
            "app-rollback": self.app_rollback,
            "app-stop": self.app_stop,
            "app-start": self.app_start,
            "app-uninstall": self.app_uninstall,
            "vm-resize": self.vm_resize,
            **{f"vm-{verb.value}": self._verb(verb) for verb in MachineVerb if verb is not MachineVerb.RESIZE},
        }
        for name, change in changes.items():
            program.method(name, deadline_s=_BEGIN_S)(change)

    async def app_list(self, namespace: str = "") -> list[ListedRelease]:
        """Releases of a namespace, or of all."""
        return await self._releases.every(namespace)

    async def app_show(self, name: str, namespace: str = "") -> ReleaseView:
        """A release: objects, pods by guid with their nodes, objectives, quotas, cost."""
        return await self._releases.show(namespace, name, self._prices)

    async def app_rollback(
        self, name: str, to: int = 0, namespace: str = "", timeout_s: float = _TIMEOUT_S
    ) -> ChangeReport:
        """An earlier revision again; 0: the one before."""
        return await self._begun(self._releases.roll_back(namespace, name, to, how_of(timeout_s)))

    async def app_stop(self, name: str, namespace: str = "", timeout_s: float = _TIMEOUT_S) -> ChangeReport:
        """No pod of it runs."""
        return await self._begun(self._releases.stop(namespace, name, how_of(timeout_s)))

    async def app_start(self, name: str, namespace: str = "", timeout_s: float = _TIMEOUT_S) -> ChangeReport:
        """As it was before it was stopped."""
        return await self._begun(self._releases.start(namespace, name, how_of(timeout_s)))

    async def app_uninstall(self, name: str, namespace: str = "", timeout_s: float = _TIMEOUT_S) -> ChangeReport:
        """Remove it, but for claims, namespaces and definitions."""
        return await self._begun(self._releases.uninstall(namespace, name, how_of(timeout_s)))

    async def change(self, id: str, start: int = 0, wait_s: float = 0.0) -> ChangeReport:
        """How far a change is, with its lines from number `start` on; waits for one more, at most `wait_s` seconds."""
        return await self._book.report(id, start, wait_s)

    async def vm_list(self, namespace: str = "") -> list[Machine]:
        """Virtual machines of a namespace, or of all; of a cloud: those of its project."""
        return await self._machines.every(namespace)

    async def vm_show(self, name: str, namespace: str = "") -> Machine:
        """One machine."""
        return await self._machines.show(namespace, name)

    async def vm_resize(
        self,
        name: str,
        flavor: str = "",
        vcpus: int = 0,
        memory_mib: int = 0,
        namespace: str = "",
        timeout_s: float = _TIMEOUT_S,
    ) -> ChangeReport:
        """Another size: a flavor or instance type, or numbers."""
        to = MachineSize(vcpus, memory_mib, flavor)
        timeout_s = how_of(timeout_s).timeout_s
        return await self._begun(self._machines.tell(MachineVerb.RESIZE, namespace, name, timeout_s, to))

    def _given(self, change: Callable[[str, str, GivenApplication, How], str], words: str) -> Callable[..., object]:
        async def tell(
            name: str,
            manifests: str = "",
            chart: str = "",
            values: str = "",
            version: str = "",
            namespace: str = "",
            class_name: str = "",
            timeout_s: float = _TIMEOUT_S,
            rollback_on_failure: bool = False,
            adopt: bool = False,
        ) -> ChangeReport:
            given = GivenApplication(manifests, chart, values, version, class_name)
            return await self._begun(change(namespace, name, given, how_of(timeout_s, rollback_on_failure, adopt)))

        tell.__doc__ = words
        return tell

    def _verb(self, verb: MachineVerb) -> Callable[..., object]:
        async def tell(name: str, namespace: str = "", timeout_s: float = _TIMEOUT_S) -> ChangeReport:
            return await self._begun(self._machines.tell(verb, namespace, name, how_of(timeout_s).timeout_s))

        tell.__doc__ = f"{verb.value.capitalize()} a machine."
        return tell

    async def _begun(self, change_id: str) -> ChangeReport:
        return await self._book.report(change_id)


def run(options: ClusterOptions, bus: BusOptions) -> int:
    """Serve until a signal. Raises `InvalidInput`, `Permanent`."""
    log_to_stderr(options.log_level, options.log_format)
    program = _Closing(NAME, __version__, options.guid, bus)
    ServedCluster(options.place, program.book, price_table(options.prices)).register(program)
    return program.run()


class _Closing(Program):
    """A program with a book, whose changes end with it."""

    def __init__(self, name: str, version: str, guid: str, bus: BusOptions) -> None:
        super().__init__(name, version, guid, bus)
        self.book = ChangeBook()

    async def serve(self, bus: Bus, stop: asyncio.Event) -> None:
        try:
            await super().serve(bus, stop)
        finally:
            await self.book.close()
