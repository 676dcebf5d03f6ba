"""`cotenant fleet keys` and `guid`: what a fleet's file needs and what is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from cotenant.cli.fleet.commands import app


@app.command
def keys(
    file: Annotated[
        Path,
        Parameter(help="The fleet's file (YAML): hosts by guid with tags, operators with verbs and tags, controllers."),
    ],
    /,
    *,
    out: Annotated[
        Path,
        Parameter(
            help="Folder for the keys, the server's certificate and nats-server.conf; keys that are there are kept."
        ),
    ] = Path("fleet-keys"),
    server: Annotated[
        tuple[str, ...], Parameter(help="A name or address by which the server is reached; may be given several times.")
    ] = ("localhost", "127.0.0.1"),
    listen: Annotated[str, Parameter(help="Where the server listens.")] = "0.0.0.0:4222",
    leaf_listen: Annotated[
        str, Parameter(help="Where it listens for the servers of `lans`, where the file has any.")
    ] = "0.0.0.0:7422",
    jwt: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Credentials (NATS's JWTs) instead of keys in the server's file: programs get theirs at run time.",
        ),
    ] = False,
) -> int:
    """Make keys for hosts, operators and controllers, and the configuration of a NATS server that holds each of them to
    its own subjects.
    """
    import time

    from cotenant.services.fleet.fleet_file import make_credentials, make_keys, read_fleet_file

    fleet = read_fleet_file(file)
    if jwt:
        made = make_credentials(fleet, out, server, listen, int(time.time()), leaf_listen)
    else:
        made = make_keys(fleet, out, server, listen, leaf_listen)
    print(f"nats-server -c {made.configuration}")
    print(f"authority of its certificate: {made.authority}")
    for name, path in made.seeds.items():
        print(f"  {name}: {path}")
    if made.programs is not None:
        print(f"for controllers, to issue credentials to programs: {made.programs}")
    for name, path in made.leaves.items():
        print(f"in {name}: nats-server -c {path}; authority of its certificate: {path.parent / 'tls' / 'ca.crt'}")
    return 0


@app.command(name="guid")
def show_guid() -> int:
    """This machine's guid, for the fleet's file."""
    from cotenant.services.fleet.agent_main import guid_of

    print(guid_of(""))
    return 0
