"""The configuration of a NATS server for a fleet: who may speak where, enforced by the server itself.

A host may publish as its own guid only (`hb.GUID`, `fleet.register.GUID`, answers to requests that it got) and hears
only what is asked of its own guid; a program hears that, and answers. A controller may ask every agent; an operator
may ask controllers, under a subject that has the operator's name, which is how controllers know who asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.drivers.nats.jwt import NAME, SubjectPermissions
from cotenant.model.fleet.rights import FleetFile, Lan


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths that the configuration names. `store`: JetStream's folder."""

    certificate: Path
    key: Path
    store: Path


@dataclass(frozen=True, slots=True)
class LeafListening:
    """Where servers of LANs connect to, and the password of each by its name."""

    listen: str
    passwords: Mapping[str, str]


def server_configuration(
    fleet: FleetFile,
    public_keys: Mapping[str, str],
    files: ServerFiles,
    listen: str = "0.0.0.0:4222",
    leaves: LeafListening | None = None,
) -> str:
    """The text of nats-server.conf. `public_keys`: by guid and by name."""
    users = [_user(public_keys[host.guid], *_host(host.guid, host.gateway)) for host in fleet.hosts]
    users += [_user(public_keys[program.guid], *_program(program.guid)) for program in fleet.programs]
    users += [_user(public_keys[name], *_controller(name)) for name in fleet.controllers]
    users += [_user(public_keys[operator.name], *_operator(operator.name)) for operator in fleet.operators]
    if leaves is not None:
        users += [_lan_user(fleet, lan, leaves.passwords[lan.name]) for lan in fleet.lans]
    lines = [
        "# Made by `cotenant fleet keys`: make it anew after a change of the fleet's file, and reload.",
        f"listen: {_quoted(listen)}",
        "max_payload: 1MB",
        "jetstream {",
        f"  store_dir: {_quoted(str(files.store))}",
        "}",
        *_tls(files),
        *_authorization(users),
    ]
    if leaves is not None:
        lines += ["leafnodes {", f"  listen: {_quoted(leaves.listen)}", *_indented(_tls(files)), "}"]
    return "\n".join(lines) + "\n"


def rights_of(fleet: FleetFile) -> dict[str, SubjectPermissions]:
    """What each host, program, controller and operator may publish and hear, by guid and name."""
    return {
        **{host.guid: SubjectPermissions(*_host(host.guid, host.gateway)) for host in fleet.hosts},
        **{program.guid: SubjectPermissions(*_program(program.guid)) for program in fleet.programs},
        **{name: SubjectPermissions(*_controller(name)) for name in fleet.controllers},
        **{operator.name: SubjectPermissions(*_operator(operator.name)) for operator in fleet.operators},
    }


def program_template() -> SubjectPermissions:
    """What a program may whose guid is its user's name."""
    return SubjectPermissions(*_program(NAME))


@dataclass(frozen=True, slots=True)
class CredentialTrust:
    """Whose credentials are good. `operator` and `accounts`, by public key, are JWTs."""

    operator: str
    system_account: str
    accounts: Mapping[str, str]


def trusting_configuration(trust: CredentialTrust, files: ServerFiles, listen: str, leaf_listen: str = "") -> str:
    """The text of nats-server.conf for users with credentials. `leaf_listen`: where there are LANs."""
    lines = [
        "# Made by `cotenant fleet keys --jwt`: make it anew after a change of the fleet's file, and reload.",
        f"listen: {_quoted(listen)}",
        "max_payload: 1MB",
        "jetstream {",
        f"  store_dir: {_quoted(str(files.store))}",
        "}",
        *_tls(files),
        *_trusting(trust),
    ]
    if leaf_listen:
        lines += ["leafnodes {", f"  listen: {_quoted(leaf_listen)}", *_indented(_tls(files)), "}"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class TrustedRemote:
    """The fleet's server as a LAN's one reaches it, with credentials of this account."""

    url: str
    account: str
    credentials: Path
    authority: Path


def trusting_leaf_configuration(trust: CredentialTrust, lan: Lan, files: ServerFiles, remote: TrustedRemote) -> str:
    """As `leaf_configuration`, for hosts with credentials."""
    server = f"url: {_quoted(remote.url)}, account: {remote.account}, credentials: {_quoted(str(remote.credentials))}"
    lines = [
        "# Made by `cotenant fleet keys --jwt`: the server of one LAN, a leaf node of the fleet's.",
        f"listen: {_quoted(lan.listen)}",
        "max_payload: 1MB",
        *_tls(files),
        *_trusting(trust),
        "leafnodes {",
        "  reconnect: 1",
        f"  remotes: [ {{ {server}, tls {{ ca_file: {_quoted(str(remote.authority))} }} }} ]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def leaf_configuration(
    fleet: FleetFile, lan: Lan, public_keys: Mapping[str, str], files: ServerFiles, remote: str, authority: Path
) -> str:
    """The text of the configuration of a LAN's server. `remote`: URL of the fleet's server, with name and password;
    `authority`: of that one's certificate.
    """
    hosts = [host for host in fleet.hosts if host.guid in lan.hosts]
    lines = [
        "# Made by `cotenant fleet keys`: the server of one LAN, a leaf node of the fleet's.",
        f"listen: {_quoted(lan.listen)}",
        "max_payload: 1MB",
        *_tls(files),
        *_authorization([_user(public_keys[host.guid], *_host(host.guid, host.gateway)) for host in hosts]),
        "leafnodes {",
        "  reconnect: 1",
        f"  remotes: [ {{ url: {_quoted(remote)}, tls {{ ca_file: {_quoted(str(authority))} }} }} ]",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _trusting(trust: CredentialTrust) -> list[str]:
    return [
        f"operator: {trust.operator}",
        f"system_account: {trust.system_account}",
        "resolver: MEMORY",
        "resolver_preload: {",
        *(f"  {account}: {jwt}" for account, jwt in trust.accounts.items()),
        "}",
    ]


def _tls(files: ServerFiles) -> list[str]:
    certificate, key = _quoted(str(files.certificate)), _quoted(str(files.key))
    return ["tls {", f"  cert_file: {certificate}", f"  key_file: {key}", "}"]


def _authorization(users: list[str]) -> list[str]:
    return ["authorization {", "  users: [", *(f"    {user}" for user in users), "  ]", "}"]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def lan_rights(fleet: FleetFile, lan: Lan) -> SubjectPermissions:
    """A LAN's server may do what its hosts may, and bring their answers, which go to inboxes whose names only the asker
    and the asked know.
    """
    publish, hears = ["_INBOX.*.>"], []
    for host in fleet.hosts:
        if host.guid in lan.hosts:
            may_publish, may_hear = _host(host.guid, host.gateway)
            publish += may_publish
            hears += may_hear
    return SubjectPermissions(list(dict.fromkeys(publish)), list(dict.fromkeys(hears)))


def _lan_user(fleet: FleetFile, lan: Lan, password: str) -> str:
    rights = lan_rights(fleet, lan)
    permissions = f"publish: {_list(rights.publish)}, subscribe: {_list(rights.subscribe)}"
    return f"{{ user: {_quoted(lan.name)}, password: {_quoted(password)}, permissions: {{ {permissions} }} }}"


def _host(guid: str, is_gateway: bool = False) -> tuple[list[str], list[str]]:
    publish = [f"hb.{guid}", f"fleet.register.{guid}", f"fleet.leave.{guid}"]
    hears = [f"guid.{guid}.rpc.*", f"_INBOX.{guid}.>", "$SRV.>"]
    if is_gateway:
        return [*publish, "guid.*.rpc.describe"], [*hears, "hb.*", "fleet.leave.*"]
    return publish, hears


def _program(guid: str) -> tuple[list[str], list[str]]:
    """It may answer what it is asked, and else say something to itself only: no list at all would allow all."""
    return [f"_INBOX.{guid}.>"], [f"guid.{guid}.rpc.*", f"_INBOX.{guid}.>", "$SRV.>"]


def _controller(name: str) -> tuple[list[str], list[str]]:
    publish = ["guid.*.rpc.*", "fleet.controller.*", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$KV.>", "$SRV.>"]
    hears = ["hb.*", "fleet.register.*", "fleet.leave.*", "fleet.controller.*", "fleet.*.rpc.*", f"_INBOX.{name}.>"]
    return publish, [*hears, "$SRV.>"]


def _operator(name: str) -> tuple[list[str], list[str]]:
    return [f"fleet.{name}.rpc.*"], [f"_INBOX.{name}.>"]


def _user(key: str, publish: list[str], subscribe: list[str]) -> str:
    return (
        f"{{ nkey: {key}, permissions: {{ publish: {_list(publish)}, subscribe: {_list(subscribe)}, "
        'allow_responses: { max: 1, expires: "10m" } } }'
    )


def _list(subjects: Sequence[str]) -> str:
    return "[" + ", ".join(_quoted(subject) for subject in subjects) + "]"


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
