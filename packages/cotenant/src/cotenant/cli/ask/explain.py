"""`cotenant explain`: why a pod waits or was placed on its node, what a quota may use and why, what a gang waits for,
what a node lends.

Only signatures and help texts are here; implementations are imported when a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.model.errors import InvalidInput
from cotenant.services.options import Context, Kubeconfig

app = App(
    name="explain",
    help="Why a pod waits or is on its node, a quota's runtime, a gang's state, from the running scheduler; what a "
    "node lends; a service's incidents; a Control Zone's changes; what a shadow found.",
    help_format="plaintext",
)

Scheduler = Annotated[
    str,
    Parameter(
        help="URL of the scheduler; default: the one beside $KUBECONFIG, that of `cotenant up`, or 127.0.0.1:10261."
    ),
]
TokenFile = Annotated[
    Path | None,
    Parameter(help="File with the token of the scheduler's --debug-token-file; not needed on its machine."),
]


@app.command
def pod(
    name: Annotated[str, Parameter(help="NAMESPACE/NAME; without a slash: of the namespace default.")],
    /,
    *,
    what_if: Annotated[
        tuple[str, ...],
        Parameter(
            name="--if",
            negative=(),
            help="What-if: cpu=500m, memory=1Gi, priority=1000, another resource=AMOUNT, selector.KEY=VALUE (- drops "
            "it), or node=NAME; may be repeated.",
        ),
    ] = (),
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    kubeconfig: Annotated[
        Path | None,
        Parameter(
            help="Read the pod's annotations and events from the API server of this file, instead of asking a "
            "scheduler."
        ),
    ] = None,
    context: Annotated[str, Parameter(help="With --kubeconfig; default: the file's current context.")] = "",
    json: Json = False,
) -> int:
    """Why a pod waits: filters with counts, the nearest miss, what would help, the next attempt; or why it is on its
    node.

    Exit status: 0 answered, 1 no scheduler, or the pod is not known, 2 bad input.
    """
    from cotenant.cli.ask import explain_showing

    return explain_showing.pod(name, what_if, scheduler, token_file, kubeconfig, context, json)


@app.command
def quota(
    name: Annotated[str, Parameter(help="The quota's name.")],
    /,
    *,
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """What a quota may use now, and the terms of that value."""
    from cotenant.cli.ask import explain_showing

    return explain_showing.quota(name, scheduler, token_file, json)


@app.command
def gang(
    name: Annotated[str, Parameter(help="NAMESPACE/NAME; without a slash: of the namespace default.")],
    /,
    *,
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """The state of a gang: its members, its minimum, and what it waits for."""
    from cotenant.cli.ask import explain_showing

    return explain_showing.gang(name, scheduler, token_file, json)


@app.command
def shadow(
    *,
    last: Annotated[int, Parameter(help="Show so many of the newest differences.")] = 10,
    scheduler: Scheduler = "",
    token_file: TokenFile = None,
    json: Json = False,
) -> int:
    """How a shadow's choices compare with those of the scheduler that it watches: agreement, differences with their
    reasons, and what came of both nodes.

    Exit status: 0 answered, 1 nothing answers, or what answers is no shadow, 2 bad input.
    """
    from cotenant.cli.ask import explain_shadow

    if not 0 <= last <= 256:
        raise InvalidInput("--last", last, "0 to 256")
    return explain_shadow.shadow(scheduler, token_file, last, json)


@app.command
def node(
    name: Annotated[str, Parameter(help="The node's name.")],
    /,
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    config_namespace: Annotated[str, Parameter(help="Namespace of the manager's ConfigMap.")] = "koordinator-system",
    config_name: Annotated[str, Parameter(help="Name of the manager's ConfigMap.")] = "slo-controller-config",
    seal_certificate: Annotated[Path | None, Parameter(help="As of `cotenant manager`, where that has it.")] = None,
    json: Json = False,
) -> int:
    """The batch and mid resources that a node offers, with the terms that each amount is the sum of. Read from the API
    server.

    Exit status: 0 answered, 1 no answer or no such node, 2 bad input.
    """
    from cotenant.cli.ask import explain_node

    return explain_node.node(name, kubeconfig, context, config_namespace, config_name, seal_certificate, json)


@app.command
def service(
    name: Annotated[
        str, Parameter(help="NAMESPACE/NAME of the workload (label app.kubernetes.io/name or app), or of a pod.")
    ],
    /,
    *,
    agent: Annotated[
        tuple[str, ...],
        Parameter(help="Where a node's agent listens: HOST:PORT or unix:/PATH; may be repeated.", negative=()),
    ] = (),
    traces: Annotated[
        str,
        Parameter(help="URL of `cotenant traces`, which knows the incidents of every node whose agent reports to it."),
    ] = "",
    token_file: Annotated[Path | None, Parameter(help="With --traces: file with its token.")] = None,
    ca: Annotated[
        Path | None, Parameter(help="With --traces: certificate authority of its certificate, as PEM.")
    ] = None,
    json: Json = False,
) -> int:
    """A service's incidents from objective to recovery: burn, victim replica, cause with evidence, actions with proofs,
    seconds.

    Without --agent and --traces the trace process of the `cotenant up` in use is asked, where there is one, else the
    agent of this machine (127.0.0.1:10262).

    Exit status: 0 answered, 1 nothing answers, or no incident of the service is known, 2 bad input.
    """
    from cotenant.cli.ask import explain_service

    if not traces and not agent:
        from cotenant.cli.local_directory import default_directory
        from cotenant.services.traces.finding import written_url

        traces = written_url(default_directory())
    if not traces:
        return explain_service.service(name, agent or ("127.0.0.1:10262",), json)
    if agent:
        raise InvalidInput("--agent", ", ".join(agent), "not together with --traces")
    return explain_service.service_of_cluster(name, traces, token_file, ca, json)


@app.command
def zone(
    name: Annotated[str, Parameter(help="The zone's name.")],
    /,
    *,
    state_dir: Annotated[
        Path,
        Parameter(
            name=("--zone-state-dir", "--state-dir"),
            help="Folder with the state of each zone, as of `cotenant keeper`.",
        ),
    ] = Path("/run/cotenant/zones"),
    kubeconfig: Annotated[
        Path | None,
        Parameter(help="Of a ControlZone: how it stands on each node, from the API server of this file, instead."),
    ] = None,
    context: Annotated[str, Parameter(help="With --kubeconfig; default: the file's current context.")] = "",
    json: Json = False,
) -> int:
    """A Control Zone of this host: what runs its groups and pods now, and each change with its event, rule and result.
    With --kubeconfig a ControlZone on its nodes: state, machine, pods with their ports, conditions.

    Exit status: 0 answered, 1 no answer, 2 no such zone.
    """
    from cotenant.cli.zone.commands import explain_zone

    if kubeconfig is None:
        return explain_zone(name, state_dir, json)
    from cotenant.cli.zone.of_cluster import zone_of_cluster

    return zone_of_cluster(name, kubeconfig, context, json)
