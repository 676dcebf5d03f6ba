"""The hub's file: which clusters belong to the federation, by which key each signs, and how large each may claim to be.

    clusters:
      east: {key: UABC..., cpu: 640, memory: 2Ti, gpus: 16}

And where hub and joiners keep their keys on a machine.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cotenant.drivers.nats.keys import check_public_key
from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, parse_amount
from cotenant.policy.federation.statement import MAX_AMOUNT, Vector, check_name
from cotenant.services.fleet.places import fleet_state_dir

HUB_SEED, HUB_KEY = "hub.nk", "hub.pub"
MIB = 1 << 20


class _Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    cpu: str | int
    memory: str | int
    gpus: int = 0


class _MembersFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    clusters: dict[str, _Cluster]


class MemberKey(msgspec.Struct, frozen=True):
    """A registered cluster."""

    key: str
    capacity: Vector


def read_members(path: Path) -> dict[str, MemberKey]:
    """Clusters by name. Raises `InvalidInput`."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InvalidInput("--members", str(path), "a readable file", error.strerror or "") from None
    found: dict[str, MemberKey] = {}
    by_key: dict[str, str] = {}
    for name, cluster in read_struct(_MembersFile, text, str(path), "a federation's members").clusters.items():
        check_name("clusters", name)
        field = f"clusters.{name}"
        check_public_key(f"{field}.key", cluster.key)
        if cluster.key in by_key:
            raise InvalidInput(f"{field}.key", cluster.key, "a key of its own", f"{by_key[cluster.key]} has it too")
        by_key[cluster.key] = name
        if not 0 <= cluster.gpus <= MAX_AMOUNT:
            raise InvalidInput(f"{field}.gpus", cluster.gpus, "0 or more")
        cpu = parse_amount(CPU_NAME, cluster.cpu, f"{field}.cpu")
        memory = parse_amount(MEMORY_NAME, cluster.memory, f"{field}.memory")
        found[name] = MemberKey(cluster.key, (cpu, memory // MIB, cluster.gpus))
    if not found:
        raise InvalidInput(str(path), "", "one cluster or more")
    return found


def federation_dir(given: Path | None) -> Path:
    """The folder that was given, else `federation` beside the fleet's."""
    return given.expanduser().absolute() if given is not None else fleet_state_dir(None).parent / "federation"


def hub_key(given: str, state_dir: Path) -> str:
    """The hub's public key: as given, else that of a hub of this user on this machine. Raises `InvalidInput`."""
    if not given:
        try:
            given = (state_dir / HUB_KEY).read_text().strip()
        except (OSError, UnicodeDecodeError):
            hint = "`cotenant federate hub` prints it when it starts"
            raise InvalidInput("--hub-key", "", "the hub's public key (U...)", hint) from None
    check_public_key("--hub-key", given)
    return given
