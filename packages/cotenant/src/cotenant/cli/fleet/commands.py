"""`cotenant fleet`: run an agent or a controller, start and stop groups of containers, find and limit them by guid.

Only signatures, help texts and the printing of answers are here; what a command does is imported when it runs, so that
`--help` stays fast.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json
from cotenant.services.options import LogFormat, LogLevel

if TYPE_CHECKING:
    from cotenant.services.fleet.agent_main import AgentOptions
    from cotenant.services.fleet.places import BusOptions

app = App(
    name="fleet",
    help="Hosts and their containers as one fleet: who is there, what runs, start, stop and limit by guid.",
    help_format="plaintext",
)


@Parameter(name="*")
@dataclass(frozen=True)
class BusAddress:
    """Where the bus is."""

    bus: Annotated[
        str,
        Parameter(
            help="nats://HOST:PORT or tls://HOST:PORT; default: $COTENANT_BUS, else this machine's `serve --embedded`.",
            show_default=False,
        ),
    ] = ""
    key: Annotated[
        Path | None,
        Parameter(help="File with the seed of an nkey, or with credentials, as `cotenant fleet keys` makes."),
    ] = None
    ca: Annotated[Path | None, Parameter(help="Authority of the server's certificate, as PEM.")] = None
    name: Annotated[
        str, Parameter(help="Name that the key is for: an operator's or a controller's.", show_default=False)
    ] = ""
    state_dir: Annotated[
        Path | None,
        Parameter(
            help="Folder of the fleet's files; default: $STATE_DIRECTORY/fleet, else ~/.local/state/cotenant/fleet."
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True)
class HostOptions:
    """What an agent says of its host."""

    guid: Annotated[
        str, Parameter(help="The agent's guid; default: made from this machine's id.", show_default=False)
    ] = ""
    role: Annotated[str, Parameter(help="Its configuration is that of its role and platform.")] = "edge"
    platform: Annotated[str, Parameter(help="See --role.")] = "docker"
    region: Annotated[str, Parameter(help="Where it is.", show_default=False)] = ""
    namespace: Annotated[str, Parameter(help="Whose it is.")] = "default"
    tag: Annotated[tuple[str, ...], Parameter(help="A tag to find it by; may be given several times.")] = ()
    config: Annotated[Path | None, Parameter(help="Settings of this agent (YAML), which win over the registry's.")] = (
        None
    )
    docker: Annotated[Path, Parameter(help="Socket of Docker's API, of dockerd or podman.")] = Path(
        "/var/run/docker.sock"
    )
    cri: Annotated[
        Path | None,
        Parameter(help="Socket of a runtime by CRI instead, as /run/containerd/containerd.sock.", show_default=False),
    ] = None


_BUS, _HOST = BusAddress(), HostOptions()
Name = Annotated[str, Parameter(help="The group's file or name.")]
Guid = Annotated[str, Parameter(help="Guid of a container or an agent.")]
Wait = Annotated[str, Parameter(help="How long to wait for a bus, and for a controller that can do it, to be there.")]
Timeout = Annotated[
    str, Parameter(help="How long to wait for the outcome; the group goes on its way also where nobody waits.")
]


@app.command
def serve(
    *,
    embedded: Annotated[
        bool,
        Parameter(negative=(), help="Bring a bus and an agent of this host along: a fleet of one host in one process."),
    ] = False,
    rights: Annotated[
        Path | None,
        Parameter(
            help="The fleet's file: hosts with tags, operators with verbs. Default: whoever reaches the bus may do all."
        ),
    ] = None,
    program_key: Annotated[
        Path | None,
        Parameter(
            help="keys/programs.json of `fleet keys --jwt`: containers get credentials to speak as their own guid."
        ),
    ] = None,
    port: Annotated[int, Parameter(help="With --embedded: port of the bus on loopback; 0: any free one.")] = 0,
    connection: BusAddress = _BUS,
    host: HostOptions = _HOST,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Run a controller: it hears agents, answers operators, brings groups up and down. Several may run on one bus."""
    from cotenant.services.fleet import serve_main

    if embedded:
        return serve_main.run_embedded(
            serve_main.EmbeddedOptions(_agent_options(host, connection), port, log_level, log_format)
        )
    return serve_main.run(serve_main.ServeOptions(bus_options(connection), rights, log_level, log_format, program_key))


@app.command
def agent(
    *,
    connection: BusAddress = _BUS,
    host: HostOptions = _HOST,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Run this host's agent.

    It connects outwards, so it needs no open port, and keeps trying while there is no bus; its containers run on when
    it ends.
    """
    from cotenant.services.fleet import agent_main

    return agent_main.run(_agent_options(host, connection), bus_options(connection), log_level, log_format)


@app.command
def up(
    file: Annotated[
        Path,
        Parameter(
            help="A compose file, or a list of containers with appkey, image, parent, child, portmap, envskey, cmd."
        ),
    ],
    /,
    *,
    group: Annotated[
        str, Parameter(help="The group's name; default: the file's `name`, else its file name.", show_default=False)
    ] = "",
    profile: Annotated[
        tuple[str, ...],
        Parameter(help="Services of this profile too; may be given several times. Beside $COMPOSE_PROFILES."),
    ] = (),
    dry_run: Annotated[
        bool, Parameter(negative=(), help="Read the file and show the order of starts; start nothing.")
    ] = False,
    wait: Wait = "5s",
    timeout: Timeout = "15m",
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Start a group of containers, all or none: a failure of one takes all back and says which.

    Exit status: 0 all ready (also where they were before), 1 none is left or what is, or nobody answered, 2 a wrong
    file.
    """
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import Up
    from cotenant.model.fleet.template import start_order
    from cotenant.services.fleet.bringing import GroupWait, bring_group
    from cotenant.services.fleet.templates.group_file import read_template

    template = read_template(file, os.environ, group, profile)
    if dry_run:
        print(f"group {template.name}: {' -> '.join(start_order(template.containers))}")
        return 0
    outcome = bring_group(bus_options(connection), "up", Up(template), GroupWait.read(wait, timeout))
    return showing.show_outcome(outcome, "up", json)


@app.command
def down(
    name: Name,
    /,
    *,
    wait: Wait = "5s",
    timeout: Timeout = "5m",
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Remove a group's containers, those first that were started last.

    Exit status 1 where something is left; it is removed when its host is back.
    """
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import Down
    from cotenant.services.fleet.bringing import GroupWait, bring_group
    from cotenant.services.fleet.operator import group_name

    outcome = bring_group(bus_options(connection), "down", Down(group_name(name)), GroupWait.read(wait, timeout))
    return showing.show_outcome(outcome, "down", json)


@app.command
def restart(
    name: Name,
    /,
    *,
    wait: Wait = "5s",
    timeout: Timeout = "15m",
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Remove a group's containers and make them again, on the same hosts with the same guids. All or none."""
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import Restart
    from cotenant.services.fleet.bringing import GroupWait, bring_group
    from cotenant.services.fleet.operator import group_name

    outcome = bring_group(bus_options(connection), "restart", Restart(group_name(name)), GroupWait.read(wait, timeout))
    return showing.show_outcome(outcome, "up", json)


@app.command
def ps(
    group: Annotated[str, Parameter(help="Containers of this group only.", show_default=False)] = "",
    /,
    *,
    tag: Annotated[tuple[str, ...], Parameter(help="On hosts with all of these tags.")] = (),
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Containers of the fleet: state, CPU and memory used now, limits."""
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import List
    from cotenant.services.fleet.operator import group_name, list_all

    wanted = List(group_name(group) if group else "", tag)
    return showing.show_containers(list_all(bus_options(connection), wanted), json)


@app.command
def hosts(
    *,
    tag: Annotated[tuple[str, ...], Parameter(help="With all of these tags.")] = (),
    namespace: Annotated[str, Parameter(help="Of this namespace.", show_default=False)] = "",
    host: Annotated[str, Parameter(help="Of this host name or guid.", show_default=False)] = "",
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Hosts of the fleet: state of the agent, its functions, load."""
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import List
    from cotenant.services.fleet.operator import list_all

    return showing.show_hosts(list_all(bus_options(connection), List("", tag, namespace, host)), json)


@app.command
def inspect(
    guid: Annotated[str, Parameter(help="Guid of a container or an agent, or a group's file or name.")],
    /,
    *,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """All that is known of a container, an agent or a group."""
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.refusal import NoSuchGuid
    from cotenant.model.fleet.requests import Inspect, Inspected, List
    from cotenant.services.fleet.operator import ask_controller, group_name, list_all

    group = group_name(guid)
    try:
        if group != guid:
            raise NoSuchGuid(f"nothing in this fleet is called {group}")
        answer = ask_controller(bus_options(connection), "inspect", Inspect(guid), Inspected)
        return showing.show_inspected(guid, answer, json)
    except NoSuchGuid:
        listed = list_all(bus_options(connection), List(group))
        if not listed.groups:
            found = showing.group_of_labels(group, listed)
            if found is None:
                raise
            listed = replace(listed, groups=(found,))
    return showing.show_group(listed, json)


@app.command
def limit(
    guid: Annotated[str, Parameter(help="A container's guid; without one: all limits of the fleet.")] = "",
    limits: Annotated[
        tuple[str, ...],
        Parameter(
            help="cpu=2, cpus=0-3, weight=50, idle=1, memory=512Mi, "
            "io-read=10Mi, io-write@vda=10Mi, io-write-ops=100, net-up=20Mbit, "
            "delay=20ms, loss=1%; an empty value (cpu=) gives one back at once. None: show what stands."
        ),
    ] = (),
    /,
    *,
    lasts: Annotated[
        str, Parameter(name="--for", help="How long; then what stood before is restored, whoever is still there.")
    ] = "10m",
    lift: Annotated[bool, Parameter(negative=(), help="Give back all limits of the container first.")] = False,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Limit a container for a time, by leases of its host's keeper, or show what is limited.

    A memory limit below what is used may end processes. delay and loss need the function `experiments`.
    """
    from cotenant.cli.fleet import showing
    from cotenant.model.errors import InvalidInput
    from cotenant.model.fleet.durations import duration_s
    from cotenant.model.fleet.limits import EXPERIMENTS
    from cotenant.model.fleet.requests import Limit, Limited, List
    from cotenant.services.fleet.operator import ask_controller, list_all

    if not guid:
        return showing.show_all_limits(list_all(bus_options(connection), List()), json)
    pairs: dict[str, dict[str, str]] = {"limit": {}, "experiment": {}}
    for written in limits:
        name, equals, value = written.partition("=")
        if not equals:
            raise InvalidInput("LIMITS", written, "NAME=VALUE, as cpu=2")
        pairs["experiment" if name in EXPERIMENTS else "limit"][name] = value
    lasts_s = duration_s("--for", lasts)
    answer = None
    if lift or pairs["limit"] or not pairs["experiment"]:
        request = Limit(guid, pairs["limit"], lasts_s, lift)
        answer = ask_controller(bus_options(connection), "limit", request, Limited, 20.0)
    if pairs["experiment"]:
        request = Limit(guid, pairs["experiment"], lasts_s)
        answer = ask_controller(bus_options(connection), "experiment", request, Limited, 20.0)
    return showing.show_limits(guid, answer or Limited(()), json)


@app.command
def configure(
    role: Annotated[str, Parameter(help="Of the agents that are to use it.")],
    platform: Annotated[str, Parameter(help="The same.")],
    file: Annotated[Path, Parameter(help="Settings of agents (YAML): functions, heartbeat_s, environment, keeper.")],
    /,
    *,
    connection: BusAddress = _BUS,
    json: Json = False,
) -> int:
    """Store what agents of a role and platform use, and bring it to them while they run.

    Exit status 1 where an agent refuses; it says why and changes nothing.
    """
    from cotenant.cli.fleet import showing
    from cotenant.model.fleet.requests import SetConfiguration, Spread
    from cotenant.services.fleet.agent_main import read_agent_file
    from cotenant.services.fleet.operator import ask_controller

    settings, _ = read_agent_file(file)
    answer = ask_controller(
        bus_options(connection), "configure", SetConfiguration(role, platform, settings), Spread, 20.0
    )
    return showing.show_spread(role, platform, answer, json)


def bus_options(given: BusAddress) -> BusOptions:
    """As the services take it."""
    from cotenant.services.fleet.places import BusOptions

    return BusOptions(given.bus, given.key, given.ca, given.name, given.state_dir)


def _agent_options(given: HostOptions, bus: BusAddress) -> AgentOptions:
    from cotenant.services.fleet.agent_main import AgentOptions

    return AgentOptions(
        given.guid,
        given.role,
        given.platform,
        given.region,
        given.namespace,
        given.tag,
        given.config,
        given.docker,
        bus.state_dir,
        given.cri,
    )
