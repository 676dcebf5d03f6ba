"""`cotenant federate`: the hub of several clusters, the joiner beside each of them, and questions to the hub.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.access import check_access
from cotenant.cli.options import Json
from cotenant.model.counted import counted
from cotenant.services.options import Context, Kubeconfig, LogFormat, LogLevel

if TYPE_CHECKING:
    from cotenant.services.fleet.places import BusOptions

app = App(
    name="federate",
    help="Several clusters as one for fairness: a hub, a joiner beside each cluster, and where a new job should run.",
    help_format="plaintext",
)


@Parameter(name="*")
@dataclass(frozen=True)
class FederationBus:
    """Where the bus is."""

    bus: Annotated[
        str,
        Parameter(
            help="nats://HOST:PORT or tls://HOST:PORT; default: $COTENANT_BUS, else this machine's `hub --embedded`.",
            show_default=False,
        ),
    ] = ""
    key: Annotated[
        Path | None, Parameter(help="File with the seed of an nkey, or with credentials, that the bus admits.")
    ] = None
    ca: Annotated[Path | None, Parameter(help="Authority of the bus's certificate, as PEM.")] = None
    name: Annotated[str, Parameter(help="Name on the bus that the key is for.", show_default=False)] = ""
    state_dir: Annotated[
        Path | None,
        Parameter(
            help="Folder of keys and of an embedded bus's address; default: federation in $STATE_DIRECTORY, else in "
            "~/.local/state/cotenant."
        ),
    ] = None


_BUS = FederationBus()
HubKey = Annotated[
    str,
    Parameter(
        help="The hub's public key, which `federate hub` prints; default: that of this machine's hub.",
        show_default=False,
    ),
]
Cluster = Annotated[str, Parameter(help="The cluster's name, as the hub's file has it.")]


@app.command
def key(cluster: Cluster, /, *, state_dir: Path | None = None) -> int:
    """Print the public key of a cluster, for the hub's file; its seed is made where there is none.

    Exit status: 0 printed, 1 the folder cannot be written, 2 bad input.
    """
    from cotenant.drivers.nats.keys import public_key
    from cotenant.services.fleet.federation.joining import key_of
    from cotenant.services.fleet.federation.members import federation_dir

    print(public_key(key_of(cluster, federation_dir(state_dir))))
    return 0


@app.command
def hub(
    members: Annotated[
        Path, Parameter(help="File (YAML) of the clusters: name, and of each key, cpu, memory, gpus at most.")
    ],
    /,
    *,
    embedded: Annotated[bool, Parameter(negative=(), help="Bring a bus of this machine along.")] = False,
    port: Annotated[int, Parameter(help="With --embedded: port of the bus on loopback; 0: any free one.")] = 0,
    round_s: Annotated[float, Parameter(help="Weights change at most once in so many seconds.")] = 10.0,
    connection: FederationBus = _BUS,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Hear the statements of clusters and answer with the weights of their tenants.

    Exit status: 0 after SIGTERM or Ctrl-C, 1 no bus, 2 bad input.
    """
    from cotenant.services.fleet.federation import hub_main

    return hub_main.run(
        hub_main.HubOptions(_options(connection), members, embedded, port, round_s, log_level, log_format)
    )


@app.command
def join(
    cluster: Cluster,
    /,
    *,
    hub_key: HubKey = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    period_s: Annotated[
        float, Parameter(help="Seconds between two statements; weights expire after three without an answer.")
    ] = 30.0,
    epsilon: Annotated[float, Parameter(help="Of the noise on tenants' sums, for one statement; 0: exact sums.")] = 1.0,
    price: Annotated[float, Parameter(help="Of a core-hour here, for `where`; 0: not stated.")] = 0.0,
    predictions: Annotated[
        str,
        Parameter(
            help="NAMESPACE/NAME of the ConfigMap by which the manager's `--share-predictions` learns from other "
            "clusters; default: predictions are not shared.",
            show_default=False,
        ),
    ] = "",
    connection: FederationBus = _BUS,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """State a cluster's sums by tenant to the hub, and weigh its ElasticQuotas by the answer until that expires.

    Exit status: 0 after SIGTERM or Ctrl-C, when all weights are given back, 2 bad input.
    """
    check_access(kubeconfig, context)
    from cotenant.services.fleet.federation import joining

    return joining.run(
        joining.JoinOptions(
            _options(connection),
            cluster,
            hub_key,
            kubeconfig,
            context,
            period_s,
            epsilon,
            price,
            predictions,
            log_level,
            log_format,
        )
    )


@app.command
def leave(*, kubeconfig: Kubeconfig = None, context: Context = "") -> int:
    """Give back the weights that a joiner left which was killed.

    Exit status: 0 given back, 1 the API server does not answer, 2 bad input.
    """
    check_access(kubeconfig, context)
    from cotenant.services.fleet.federation.joining import leave as give_back

    print(f"{counted(give_back(kubeconfig, context), 'weight')} given back")
    return 0


@app.command
def show(*, hub_key: HubKey = "", connection: FederationBus = _BUS, json: Json = False) -> int:
    """Print the clusters that the hub hears, and the tenants' shares of all of them with their weights.

    Exit status: 0 printed, 1 no hub answers, 2 bad input.
    """
    from cotenant.cli.fleet import federate_showing
    from cotenant.services.fleet.federation.asking import ask_view

    return federate_showing.show(ask_view(_options(connection), hub_key), json)


@app.command
def where(
    file: Annotated[Path, Parameter(help="A Pod, Job, Deployment or StatefulSet (YAML).")],
    /,
    *,
    hub_key: HubKey = "",
    connection: FederationBus = _BUS,
    json: Json = False,
) -> int:
    """Say in which cluster a new job should run, the best first, with a reason for each.

    Exit status: 0 a cluster has room, 1 none has or no hub answers, 2 bad input.
    """
    from cotenant.cli.fleet import federate_showing
    from cotenant.services.fleet.federation.asking import ask_view, read_job

    needs = read_job(file)
    return federate_showing.show_where(needs, ask_view(_options(connection), hub_key), json)


def _options(given: FederationBus) -> BusOptions:
    from cotenant.services.fleet.places import BusOptions

    return BusOptions(given.bus, given.key, given.ca, given.name, given.state_dir)
