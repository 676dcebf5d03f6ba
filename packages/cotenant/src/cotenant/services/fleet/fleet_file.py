"""The fleet's file (hosts, operators, controllers), and the keys or credentials and the server configuration that are
made from it.
"""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.nats.jwt import account_jwt, credentials, issued_credentials, operator_jwt
from cotenant.drivers.nats.keys import KeyKind, kept_seed, public_key
from cotenant.drivers.nats.server_configuration import (
    CredentialTrust,
    LeafListening,
    ServerFiles,
    TrustedRemote,
    lan_rights,
    leaf_configuration,
    program_template,
    rights_of,
    server_configuration,
    trusting_configuration,
    trusting_leaf_configuration,
)
from cotenant.model.document import build, parse
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.rights import FleetFile, Lan

PROGRAMS = "programs.json"


class ProgramKey(msgspec.Struct, frozen=True):
    """A signing key of the account, and the account's public key."""

    seed: str
    account: str


def read_fleet_file(path: Path) -> FleetFile:
    """The file. Raises `InvalidInput` that names the field."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("fleet file", str(path), "a readable file", error.strerror or "") from error
    return build(FleetFile, parse(text, str(path)), f"{path}:")


@dataclass(frozen=True, slots=True)
class MadeKeys:
    """What was written. `seeds`: file by guid and name, of a key or of credentials."""

    configuration: Path
    seeds: dict[str, Path]
    authority: Path
    leaves: dict[str, Path] = field(default_factory=dict)  # configuration of each LAN's server, by the LAN's name
    programs: Path | None = None  # key by which controllers issue credentials to programs


def make_keys(
    fleet: FleetFile, folder: Path, server_names: tuple[str, ...], listen: str, leaf_listen: str = "0.0.0.0:7422"
) -> MadeKeys:
    """Keys (kept where they are there), the server's certificate and its configuration in `folder`, and those of each
    LAN's own server.

    Raises `Permanent`, `InvalidInput`.
    """
    folder = folder.expanduser().absolute()
    names = _names(fleet)
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
            own_files, leaves[lan.name] = _leaf_place(folder, lan)
            remote = f"tls://{lan.name}:{passwords[lan.name]}@{server_names[0]}:{leaf_listen.rpartition(':')[2]}"
            write_private(leaves[lan.name], leaf_configuration(fleet, lan, publics, own_files, remote, authority))
    except OSError as error:
        raise Permanent(f"{folder} cannot be written: {error.strerror}") from error
    return MadeKeys(configuration, seeds, authority, leaves)


def make_credentials(
    fleet: FleetFile,
    folder: Path,
    server_names: tuple[str, ...],
    listen: str,
    issued_s: int,
    leaf_listen: str = "0.0.0.0:7422",
) -> MadeKeys:
    """As `make_keys`, with JWTs: credentials for each, and a key by which controllers may issue some to programs.

    Keys that are there and not in the file any more are revoked. Raises `Permanent`, `InvalidInput`.
    """
    folder = folder.expanduser().absolute()
    names = _names(fleet)
    try:
        keys, own = folder / "keys", folder / "operator"
        for place in (keys, own):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        operator = kept_seed(own / "operator.nk", KeyKind.OPERATOR)
        system, account, signing = (
            kept_seed(own / f"{name}.nk", KeyKind.ACCOUNT) for name in ("system", "fleet", "programs")
        )
        lans = {f"leaf-{lan.name}": lan_rights(fleet, lan) for lan in fleet.lans}
        seeds = {name: kept_seed(keys / f"{name}.nk") for name in (*names, *lans)}
        revoked = sorted(
            public_key(kept_seed(path)) for path in keys.glob("*.nk") if path.stem not in seeds and path.is_file()
        )
        files = {name: keys / f"{name}.creds" for name in seeds}
        for name, rights in (rights_of(fleet) | lans).items():
            write_private(files[name], credentials(seeds[name], name, account, rights, issued_s))
        write_private(keys / PROGRAMS, msgspec.json.encode(ProgramKey(signing, public_key(account))).decode() + "\n")
        certificates = ensure(folder / "tls", server_names, datetime.datetime.now(datetime.UTC))
        accounts = {
            public_key(system): account_jwt(public_key(system), "system", operator, issued_s),
            public_key(account): account_jwt(
                public_key(account),
                "fleet",
                operator,
                issued_s,
                {public_key(signing): program_template()},
                revoked,
                stores=True,
            ),
        }
        configuration = folder / "nats-server.conf"
        trust = CredentialTrust(operator_jwt(operator, public_key(system), issued_s), public_key(system), accounts)
        server_files = ServerFiles(certificates.certificate, certificates.key, folder / "jetstream")
        text = trusting_configuration(trust, server_files, listen, leaf_listen if fleet.lans else "")
        write_private(configuration, text)
        url = f"tls://{server_names[0]}:{leaf_listen.rpartition(':')[2]}"
        leaves = {}
        for lan in fleet.lans:
            leaf_files, leaves[lan.name] = _leaf_place(folder, lan)
            remote = TrustedRemote(url, public_key(account), files[f"leaf-{lan.name}"], folder / "tls" / "ca.crt")
            write_private(leaves[lan.name], trusting_leaf_configuration(trust, lan, leaf_files, remote))
    except OSError as error:
        raise Permanent(f"{folder} cannot be written: {error.strerror}") from error
    made = {name: files[name] for name in names}
    return MadeKeys(configuration, made, folder / "tls" / "ca.crt", leaves, keys / PROGRAMS)


def _leaf_place(folder: Path, lan: Lan) -> tuple[ServerFiles, Path]:
    """The files of a LAN's server, and its configuration's path."""
    place = folder / f"leaf-{lan.name}"
    place.mkdir(exist_ok=True, mode=0o700)
    own = ensure(place / "tls", lan.server, datetime.datetime.now(datetime.UTC))
    return ServerFiles(own.certificate, own.key, place), place / "nats-server.conf"


def issuer(path: Path, now: Callable[[], float] = time.time) -> Callable[[str], str]:
    """Credentials for a guid, by the key for programs in this file. Raises `InvalidInput`."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=ProgramKey)
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(
            "--program-key", str(path), f"the file {PROGRAMS} that `cotenant fleet keys --jwt` makes", str(error)
        ) from error
    public_key(found.seed)
    return lambda guid: issued_credentials(guid, found.seed, found.account, int(now()))


def _names(fleet: FleetFile) -> list[str]:
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
    return names


def _kept_password(path: Path) -> str:
    if not path.exists():
        write_private(path, secrets.token_hex(24))
    return path.read_text().strip()
