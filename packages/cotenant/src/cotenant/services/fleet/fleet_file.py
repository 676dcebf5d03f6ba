"""The fleet's file (hosts, operators, controllers), and the keys and server configuration that are made from it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.nats.keys import kept_seed, public_key
from cotenant.drivers.nats.server_configuration import ServerFiles, server_configuration
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


def make_keys(fleet: FleetFile, folder: Path, server_names: tuple[str, ...], listen: str) -> MadeKeys:
    """Keys (kept where they are there), the server's certificate and its configuration in `folder`.

    Raises `Permanent`, `InvalidInput`.
    """
    folder = folder.expanduser().absolute()
    names = [
        *(host.guid for host in fleet.hosts),
        *fleet.controllers,
        *(operator.name for operator in fleet.operators),
    ]
    if len(set(names)) < len(names):
        raise InvalidInput("fleet file", ", ".join(names), "each guid, controller and operator by a name of its own")
    try:
        keys = folder / "keys"
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        seeds = {name: keys / f"{name}.nk" for name in names}
        publics = {name: public_key(kept_seed(path)) for name, path in seeds.items()}
        certificates = ensure(folder / "tls", server_names, datetime.datetime.now(datetime.UTC))
        files = ServerFiles(certificates.certificate, certificates.key, folder / "jetstream")
        configuration = folder / "nats-server.conf"
        configuration.write_text(server_configuration(fleet, publics, files, listen))
    except OSError as error:
        raise Permanent(f"{folder} cannot be written: {error.strerror}") from error
    return MadeKeys(configuration, seeds, folder / "tls" / "ca.crt")
