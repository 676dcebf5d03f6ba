"""Virtual machines for callers elsewhere: what `cotenant vm` does, with verbs that run on in a book."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput
from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb
from cotenant.services.changes.book import ChangeBook, Say
from cotenant.services.changes.place import ClusterPlace, check_namespace
from cotenant.services.vms import command

MAX_VCPUS = 4096
_SAME = MachineSize()


class Machines:
    """The machines of a cluster with KubeVirt, or of a cloud. Verbs return the name of their report in the book."""

    def __init__(self, place: ClusterPlace, book: ChangeBook) -> None:
        self._place, self._book = place, book

    async def every(self, namespace: str = "") -> list[Machine]:
        """Of a namespace, or of all; a cloud: of its project."""
        async with self._place.machines(check_namespace(namespace)) as platform:
            return await platform.machines(not namespace and not self._place.cloud)

    async def show(self, namespace: str, name: str) -> Machine:
        """One machine."""
        async with self._place.machines(check_namespace(namespace)) as platform:
            return await platform.machine(name)

    def tell(
        self,
        verb: MachineVerb,
        namespace: str,
        name: str,
        timeout_s: float,
        to: MachineSize = _SAME,
        by: str = "",
    ) -> str:
        """Tell a machine a verb and watch until it has come about. Raises `InvalidInput`."""
        if not 0 <= to.vcpus <= MAX_VCPUS or to.memory_mib < 0:
            raise InvalidInput("vcpus, memory_mib", f"{to.vcpus}, {to.memory_mib}", f"up to {MAX_VCPUS} vCPUs, and MiB")
        if not name or len(name) > 253 or "/" in name:
            raise InvalidInput("name", name[:64], "a machine's name")
        key = f"{check_namespace(namespace) or '(default)'}/{name}"

        async def work(say: Say) -> str:
            async with self._place.machines(namespace) as platform:
                outcome = await command.change(platform, verb, name, to, timeout_s, say)
            machine = outcome.machine
            if not outcome.failure:
                say(f"{machine.key} is {machine.state.value}" + (f" on {machine.node}" if machine.node else ""))
                if machine.pending and verb is MachineVerb.RESIZE and not self._place.cloud:
                    say(machine.pending)
            return outcome.failure

        return self._book.begin(f"machine {key}", f"{verb.value} of machine {key}", work, by)
