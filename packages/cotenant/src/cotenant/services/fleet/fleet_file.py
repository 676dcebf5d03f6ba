"""The fleet's file (hosts, operators, controllers), and the keys and server configuration that are made from it."""

from __future__ import annotations

import datetime
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.nats.keys import kept_seed, public_key
from cotenant.drivers.nats.server_configuration import (
    LeafListening,
    ServerFiles,
    leaf_configuration,
    server_configuration,
)
from cotenant.model.document import build, parse
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.rights import FleetFile


def read_fleet_file(path: Path) -> FleetFile:
    """The file. Raises `InvalidInput` that names the field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("fleet file", str(path), "a readable file", error.strerror or "") from error
    return build(FleetFile, parse(text, str(path)), f"{path}:")


@dataclass(frozen=True, slots=True)
class MadeKeys:
    """What was written. `seeds`: file by guid and name."""

    configuration: Path
    seeds: dict[str, Path]
    authority: Path
    leaves: dict[str, Path] = field(default_factory=dict)  # configuration of each LAN's server, by the LAN's name


def make_keys(
    fleet: FleetFile, folder: Path, server_names: tuple[str, ...], listen: str, leaf_listen: str = "0.0.0.0:7422"
) -> MadeKeys:
    """Keys (kept where they are there), the server's certificate and its configuration in `folder`, and those of each
    LAN's own server.

    Raises `Permanent`, `InvalidInput`.
    """
    folder = folder.expanduser().absolute()
    names = [
        *(host.guid for host in fleet.hosts),
        *(program.guid for program in fleet.programs),
        *fleet.controllers,
        *(operator.name for operator in fleet.operators),
    ]
    if len(set(names)) < len(names):
        raise InvalidInput(
            "fleet file", ", ".join(names), "each host, program, controller and operator by a name of its own"
        )
    try:
        keys = folder / "keys"
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        seeds = {name: keys / f"{name}.nk" for name in names}
        publics = {name: public_key(kept_seed(path)) for name, path in seeds.items()}
        certificates = ensure(folder / "tls", server_names, datetime.datetime.now(datetime.UTC))
        files = ServerFiles(certificates.certificate, certificates.key, folder / "jetstream")
        configuration = folder / "nats-server.conf"
        authority = folder / "tls" / "ca.crt"
        passwords = {lan.name: _kept_password(keys / f"{lan.name}.leaf") for lan in fleet.lans}
        listening = LeafListening(leaf_listen, passwords) if fleet.lans else None
        write_private(configuration, server_configuration(fleet, publics, files, listen, listening))
        leaves = {}
        for lan in fleet.lans:
            place = folder / f"leaf-{lan.name}"
            place.mkdir(exist_ok=True, mode=0o700)
            own = ensure(place / "tls", lan.server, datetime.datetime.now(datetime.UTC))
            leaves[lan.name] = place / "nats-server.conf"
            remote = f"tls://{lan.name}:{passwords[lan.name]}@{server_names[0]}:{leaf_listen.rpartition(':')[2]}"
            own_files = ServerFiles(own.certificate, own.key, place)
            write_private(leaves[lan.name], leaf_configuration(fleet, lan, publics, own_files, remote, authority))
    except OSError as error:
        raise Permanent(f"{folder} cannot be written: {error.strerror}") from error
    return MadeKeys(configuration, seeds, authority, leaves)


def _kept_password(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_hex(24))
    return path.read_text().strip()
