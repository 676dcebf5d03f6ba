"""`cotenant app`: applications from charts, kustomizations and YAML, installed, stopped and seen as one thing.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import Context, Kubeconfig

app = App(
    name="app",
    help="Install, upgrade, stop and start applications from a chart (by the helm on the path), a kustomization or "
    "YAML, and see their pods, objectives and cost.",
    help_format="plaintext",
)
Namespace = Annotated[str, Parameter(name=["--namespace", "-n"], help="Default: the kubeconfig's.")]
Timeout = Annotated[float, Parameter(name="--timeout-s", help="Seconds to wait until everything is ready.")]
Wait = Annotated[bool, Parameter(help="Wait until everything is ready, and say why it is not.")]
RollsBack = Annotated[
    bool, Parameter(negative=(), help="Where it fails, go back to what was there before; of a new release, remove it.")
]
Adopt = Annotated[bool, Parameter(negative=(), help="Take over objects that are there and belong to no release.")]
Class = Annotated[
    str,
    Parameter(
        name="--class",
        help="Class of its pods: prod, mid, batch or free, by a ClusterColocationProfile for each workload, which "
        "`cotenant webhook` acts on. Default: none.",
    ),
]
Values = Annotated[
    tuple[str, ...],
    Parameter(name=["--values", "-f"], negative=(), show_default=False, help="A chart's file of values; repeatable."),
]
Set = Annotated[
    tuple[str, ...],
    Parameter(name="--set", negative=(), show_default=False, help="A chart's value, KEY=VALUE; repeatable."),
]
Version = Annotated[str, Parameter(help="A chart's version. Default: the newest.")]


@app.command
def install(
    name: str,
    source: Annotated[str, Parameter(help="A file or folder of YAML, a kustomization, a chart, or - for stdin.")],
    /,
    *,
    values: Values = (),
    set_: Set = (),
    version: Version = "",
    class_: Class = "",
    create_namespace: Annotated[bool, Parameter(negative=(), help="Make the namespace where it is not there.")] = False,
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    rollback_on_failure: RollsBack = False,
    adopt: Adopt = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Install a new release.

    Exit status: 0 ready, 1 not ready or refused, with the objects and why, 2 bad input.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    how = app_running.manner(timeout_s, wait, rollback_on_failure, adopt)
    return app_running.install(
        where, name, source, app_running.helm_options(values, set_, version), how, class_, create_namespace
    )


@app.command
def upgrade(
    name: str,
    source: Annotated[str, Parameter(help="As of install, and of the same form.")],
    /,
    *,
    values: Values = (),
    set_: Set = (),
    version: Version = "",
    class_: Class = "",
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    rollback_on_failure: RollsBack = False,
    adopt: Adopt = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Apply a release's next revision; what it no longer names is deleted once the rest is ready.

    Exit status: as of install.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    how = app_running.manner(timeout_s, wait, rollback_on_failure, adopt)
    return app_running.upgrade(where, name, source, app_running.helm_options(values, set_, version), how, class_)


@app.command
def rollback(
    name: str,
    /,
    *,
    to: Annotated[int, Parameter(help="A revision's number. Default: the one that was deployed before.")] = 0,
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Apply an earlier revision of a release again.

    Exit status: as of install.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    return app_running.roll_back(where, name, to, app_running.manner(timeout_s, wait))


@app.command
def uninstall(
    name: str,
    /,
    *,
    data: Annotated[
        bool, Parameter(negative=(), help="Also volume claims, namespaces and definitions, with all that is in them.")
    ] = False,
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Delete a release; what holds data stays, and is named.

    Exit status: as of install.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    return app_running.uninstall(where, name, app_running.manner(timeout_s, wait), data)


@app.command
def stop(
    name: str,
    /,
    *,
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Let no pod of a release run; how many there were is kept on each object.

    Exit status: 0 stopped, 1 pods still run, 2 bad input.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    return app_running.stop(where, name, app_running.manner(timeout_s, wait))


@app.command
def start(
    name: str,
    /,
    *,
    wait: Wait = True,
    timeout_s: Timeout = 300.0,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Start a stopped release as it was.

    Exit status: as of install.
    """
    from cotenant.cli.cluster import app_running

    where = app_running.place(kubeconfig, context, namespace)
    return app_running.start(where, name, app_running.manner(timeout_s, wait))


@app.command(name="list")
def list_(
    *,
    everywhere: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], negative=(), help="Of every namespace.")
    ] = False,
    json: Json = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """List releases: ours, and Helm's where helm is on the path.

    Exit status: 0 printed, 1 the server refuses, 2 bad input.
    """
    from cotenant.cli.cluster import app_running

    return app_running.every(app_running.place(kubeconfig, context, namespace), everywhere, json)


@app.command
def show(
    name: str,
    /,
    *,
    prices: Annotated[Path | None, Parameter(help="A file of prices: what its running pods request costs.")] = None,
    json: Json = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
) -> int:
    """Show a release: objects, pods by guid with their nodes, objectives, quotas and cost.

    Exit status: 0 printed, 1 the server refuses, 2 bad input.
    """
    from cotenant.cli.cluster import app_running

    return app_running.show(app_running.place(kubeconfig, context, namespace), name, prices, json)
