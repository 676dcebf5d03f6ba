"""`cotenant vm`: virtual machines of KubeVirt or OpenStack, listed, told what to do, and watched.

Only signatures and help texts are here; the implementation is imported when a command runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

if TYPE_CHECKING:
    from cotenant.services.vms.command import Where

app = App(
    name="vm",
    help="List, start, stop, pause, migrate and resize virtual machines of KubeVirt, or with --cloud of OpenStack.",
    help_format="plaintext",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Platform:
    """Where the machines are."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Default: the kubeconfig's.")] = ""
    cloud: Annotated[str, Parameter(help="A cloud of OpenStack's clouds.yaml, in place of a cluster.")] = ""
    kubeconfig: Kubeconfig = None
    context: Context = ""

    def where(self) -> Where:
        """The same for what carries commands out."""
        from cotenant.services.vms.command import Where

        return Where(self.kubeconfig, self.context, self.namespace, self.cloud)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a change is waited for."""

    wait: Annotated[bool, Parameter(help="Wait until it has come about.")] = True
    timeout_s: Annotated[float, Parameter(name="--timeout-s", help="Seconds to wait.")] = 300.0


_PLATFORM, _WAITING = Platform(), Waiting()


@app.command(name="list")
def list_(
    *,
    all_: Annotated[
        bool, Parameter(name=["--all", "-A"], negative=(), help="Of all namespaces, or with --cloud all projects.")
    ] = False,
    platform: Platform = _PLATFORM,
    json: Json = False,
) -> int:
    """All machines with state, node, size and class."""
    from cotenant.cli.cluster import vm_running

    return vm_running.every(platform.where(), all_, json)


@app.command
def show(name: str, /, *, platform: Platform = _PLATFORM, json: Json = False) -> int:
    """One machine: its state and why, its node and pod, what has not taken hold."""
    from cotenant.cli.cluster import vm_running

    return vm_running.show(platform.where(), name, json)


@app.command
def start(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Start a machine that is stopped.

    Exit status, here and below: 0 it came about, 1 it did not, with the reason, 2 bad input.
    """
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "start", name, waiting.wait, waiting.timeout_s)


@app.command
def stop(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Stop a machine."""
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "stop", name, waiting.wait, waiting.timeout_s)


@app.command
def restart(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Stop it and start it again; changes that wait for a start take hold."""
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "restart", name, waiting.wait, waiting.timeout_s)


@app.command
def pause(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Freeze its vCPUs; it keeps its memory and its node."""
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "pause", name, waiting.wait, waiting.timeout_s)


@app.command
def unpause(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Let it go on."""
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "unpause", name, waiting.wait, waiting.timeout_s)


@app.command
def migrate(name: str, /, *, waiting: Waiting = _WAITING, platform: Platform = _PLATFORM) -> int:
    """Move it to another node while it runs."""
    from cotenant.cli.cluster import vm_running

    return vm_running.change(platform.where(), "migrate", name, waiting.wait, waiting.timeout_s)


@app.command
def resize(
    name: str,
    /,
    *,
    flavor: Annotated[str, Parameter(help="An instance type (KubeVirt) or flavor (OpenStack).")] = "",
    vcpus: Annotated[int, Parameter(help="vCPUs of a KubeVirt machine without an instance type.")] = 0,
    memory: Annotated[str, Parameter(help="Its memory, such as 4Gi.")] = "",
    waiting: Waiting = _WAITING,
    platform: Platform = _PLATFORM,
) -> int:
    """Give it another size, and say when that takes hold."""
    from cotenant.cli.cluster import vm_running

    return vm_running.resize(platform.where(), name, flavor, vcpus, memory, waiting.wait, waiting.timeout_s)


@app.command(name="class")
def class_(
    name: str,
    class_name: Annotated[str, Parameter(name="CLASS", help="prod, mid, batch, free, or none.")],
    /,
    *,
    platform: Platform = _PLATFORM,
) -> int:
    """Give it a class: KubeVirt's launcher pods by a profile, OpenStack's servers in their metadata."""
    from cotenant.cli.cluster import vm_running

    return vm_running.set_class(platform.where(), name, class_name)
