"""`cotenant vm`: virtual machines of KubeVirt or OpenStack, listed, told what to do, and watched.

Only signatures and help texts are here; the implementation is imported when a command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.applications.app import WaitOptions
from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

if TYPE_CHECKING:
    from cotenant.services.vms.command import MachineLocation

app = App(
    name="vm",
    help="List, start, stop, pause, migrate and resize virtual machines of KubeVirt, or with --cloud of OpenStack.",
    help_format="plaintext",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class MachineOptions:
    """Where the machines are."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Default: the kubeconfig's.")] = ""
    cloud: Annotated[str, Parameter(help="A cloud of OpenStack's clouds.yaml, in place of a cluster.")] = ""
    kubeconfig: Kubeconfig = None
    context: Context = ""

    def where(self) -> MachineLocation:
        """The same for what carries commands out."""
        from cotenant.services.vms.command import MachineLocation

        return MachineLocation(self.kubeconfig, self.context, self.namespace, self.cloud)


_MACHINES, _WAITING = MachineOptions(), WaitOptions()


@app.command(name="list")
def list_(
    *,
    all_: Annotated[
        bool, Parameter(name=["--all", "-A"], negative=(), help="Of all namespaces, or with --cloud all projects.")
    ] = False,
    machines: MachineOptions = _MACHINES,
    json: Json = False,
) -> int:
    """All machines with state, node, size and class."""
    from cotenant.cli.applications import vm_running

    return vm_running.every(machines.where(), all_, json)


@app.command
def show(name: str, /, *, machines: MachineOptions = _MACHINES, json: Json = False) -> int:
    """One machine: its state and why, its node and pod, what has not taken hold."""
    from cotenant.cli.applications import vm_running

    return vm_running.show(machines.where(), name, json)


@app.command
def start(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Start a machine that is stopped.

    Exit status, here and below: 0 it came about, 1 it did not, with the reason, 2 bad input.
    """
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "start", name, waiting.wait, waiting.timeout_s)


@app.command
def stop(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Stop a machine."""
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "stop", name, waiting.wait, waiting.timeout_s)


@app.command
def restart(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Stop it and start it again; changes that wait for a start take hold."""
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "restart", name, waiting.wait, waiting.timeout_s)


@app.command
def pause(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Freeze its vCPUs; it keeps its memory and its node."""
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "pause", name, waiting.wait, waiting.timeout_s)


@app.command
def unpause(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Let it go on."""
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "unpause", name, waiting.wait, waiting.timeout_s)


@app.command
def migrate(name: str, /, *, waiting: WaitOptions = _WAITING, machines: MachineOptions = _MACHINES) -> int:
    """Move it to another node while it runs."""
    from cotenant.cli.applications import vm_running

    return vm_running.change(machines.where(), "migrate", name, waiting.wait, waiting.timeout_s)


@app.command
def resize(
    name: str,
    /,
    *,
    flavor: Annotated[str, Parameter(help="An instance type (KubeVirt) or flavor (OpenStack).")] = "",
    vcpus: Annotated[int, Parameter(help="vCPUs of a KubeVirt machine without an instance type.")] = 0,
    memory: Annotated[str, Parameter(help="Its memory, such as 4Gi.")] = "",
    waiting: WaitOptions = _WAITING,
    machines: MachineOptions = _MACHINES,
) -> int:
    """Give it another size, and say when that takes hold."""
    from cotenant.cli.applications import vm_running

    return vm_running.resize(machines.where(), name, flavor, vcpus, memory, waiting.wait, waiting.timeout_s)


@app.command(name="class")
def class_(
    name: str,
    class_name: Annotated[str, Parameter(name="CLASS", help="prod, mid, batch, free, or none.")],
    /,
    *,
    machines: MachineOptions = _MACHINES,
) -> int:
    """Give it a class: KubeVirt's launcher pods by a profile, OpenStack's servers in their metadata."""
    from cotenant.cli.applications import vm_running

    return vm_running.set_class(machines.where(), name, class_name)
