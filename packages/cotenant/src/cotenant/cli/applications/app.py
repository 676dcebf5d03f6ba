"""`cotenant app`: applications from charts, kustomizations and YAML, installed, stopped and seen as one thing.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

if TYPE_CHECKING:
    from cotenant.services.apps.command import AppLocation
    from cotenant.services.apps.releases import How

app = App(
    name="app",
    help="Install, upgrade, stop and start applications from a chart (by the helm on the path), a kustomization or "
    "YAML, and see their pods, objectives and cost.",
    help_format="plaintext",
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ChartOptions:
    """What a chart is rendered with, and the class of what comes out."""

    values: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--values", "-f"], negative=(), show_default=False, help="A chart's file of values; repeatable."
        ),
    ] = ()
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", negative=(), show_default=False, help="A chart's value, KEY=VALUE; repeatable."),
    ] = ()
    version: Annotated[str, Parameter(help="A chart's version. Default: the newest.")] = ""
    class_: Annotated[
        str,
        Parameter(
            name="--class",
            help="Class of its pods: prod, mid, batch or free, by a ClusterColocationProfile for each workload, which "
            "`cotenant webhook` acts on. Default: none.",
        ),
    ] = ""

    def helm_options(self) -> list[str]:
        """The options that helm gets."""
        options = [f"--values={file}" for file in self.values] + [f"--set={one}" for one in self.set_]
        return [*options, f"--version={self.version}"] if self.version else options


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WaitOptions:
    """How long a change is waited for."""

    wait: Annotated[bool, Parameter(help="Wait until everything is ready, and say why it is not.")] = True
    timeout_s: Annotated[float, Parameter(name="--timeout-s", help="Seconds to wait until everything is ready.")] = (
        300.0
    )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Failing:
    """What happens where a change fails, or meets what is there."""

    rollback_on_failure: Annotated[
        bool,
        Parameter(negative=(), help="Where it fails, go back to what was there before; of a new release, remove it."),
    ] = False
    adopt: Annotated[
        bool, Parameter(negative=(), help="Take over objects that are there and belong to no release.")
    ] = False


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """Where a release is."""

    namespace: Annotated[str, Parameter(name=["--namespace", "-n"], help="Default: the kubeconfig's.")] = ""
    kubeconfig: Kubeconfig = None
    context: Context = ""

    def where(self) -> AppLocation:
        """The same for what carries commands out."""
        from cotenant.services.apps.command import AppLocation

        return AppLocation(self.kubeconfig, self.context, self.namespace)


_CHART, _WAITING, _FAILING, _CLUSTER = ChartOptions(), WaitOptions(), Failing(), ReleaseOptions()


def _how(waiting: WaitOptions, failing: Failing = _FAILING) -> How:
    from cotenant.cli.applications import app_running

    return app_running.how(waiting.timeout_s, waiting.wait, failing.rollback_on_failure, failing.adopt)


@app.command
def install(
    name: str,
    source: Annotated[str, Parameter(help="A file or folder of YAML, a kustomization, a chart, or - for stdin.")],
    /,
    *,
    chart: ChartOptions = _CHART,
    create_namespace: Annotated[bool, Parameter(negative=(), help="Make the namespace where it is not there.")] = False,
    waiting: WaitOptions = _WAITING,
    failing: Failing = _FAILING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Install a new release.

    Exit status: 0 ready, 1 not ready or refused, with the objects and why, 2 bad input.
    """
    from cotenant.cli.applications import app_running

    return app_running.install(
        cluster.where(), name, source, chart.helm_options(), _how(waiting, failing), chart.class_, create_namespace
    )


@app.command
def upgrade(
    name: str,
    source: Annotated[str, Parameter(help="As of install, and of the same form.")],
    /,
    *,
    chart: ChartOptions = _CHART,
    waiting: WaitOptions = _WAITING,
    failing: Failing = _FAILING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Apply a release's next revision; what it no longer names is deleted once the rest is ready.

    Exit status: as of install.
    """
    from cotenant.cli.applications import app_running

    return app_running.upgrade(
        cluster.where(), name, source, chart.helm_options(), _how(waiting, failing), chart.class_
    )


@app.command
def rollback(
    name: str,
    /,
    *,
    to: Annotated[int, Parameter(help="A revision's number. Default: the one that was deployed before.")] = 0,
    waiting: WaitOptions = _WAITING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Apply an earlier revision of a release again.

    Exit status: as of install.
    """
    from cotenant.cli.applications import app_running

    return app_running.roll_back(cluster.where(), name, to, _how(waiting))


@app.command
def uninstall(
    name: str,
    /,
    *,
    data: Annotated[
        bool, Parameter(negative=(), help="Also volume claims, namespaces and definitions, with all that is in them.")
    ] = False,
    waiting: WaitOptions = _WAITING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Delete a release; what holds data stays, and is named.

    Exit status: as of install.
    """
    from cotenant.cli.applications import app_running

    return app_running.uninstall(cluster.where(), name, _how(waiting), data)


@app.command
def stop(
    name: str,
    /,
    *,
    waiting: WaitOptions = _WAITING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Let no pod of a release run; how many there were is kept on each object.

    Exit status: 0 stopped, 1 pods still run, 2 bad input.
    """
    from cotenant.cli.applications import app_running

    return app_running.stop(cluster.where(), name, _how(waiting))


@app.command
def start(
    name: str,
    /,
    *,
    waiting: WaitOptions = _WAITING,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Start a stopped release as it was.

    Exit status: as of install.
    """
    from cotenant.cli.applications import app_running

    return app_running.start(cluster.where(), name, _how(waiting))


@app.command(name="list")
def list_(
    *,
    everywhere: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], negative=(), help="Of every namespace.")
    ] = False,
    json: Json = False,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """List releases: ours, and Helm's where helm is on the path.

    Exit status: 0 printed, 1 the server refuses, 2 bad input.
    """
    from cotenant.cli.applications import app_running

    return app_running.every(cluster.where(), everywhere, json)


@app.command
def show(
    name: str,
    /,
    *,
    prices: Annotated[Path | None, Parameter(help="A file of prices: what its running pods request costs.")] = None,
    json: Json = False,
    cluster: ReleaseOptions = _CLUSTER,
) -> int:
    """Show a release: objects, pods by guid with their nodes, objectives, quotas and cost.

    Exit status: 0 printed, 1 the server refuses, 2 bad input.
    """
    from cotenant.cli.applications import app_running

    return app_running.show(cluster.where(), name, prices, json)
