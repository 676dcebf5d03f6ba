"""Where a fleet's files are on this machine, and how a command finds the bus."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.drivers.http.private_files import write_private
from cotenant.drivers.nats.client import BusAccess
from cotenant.model.errors import InvalidInput

BUS_FILE = "bus.json"
LOCAL_OPERATOR = "local"


@dataclass(frozen=True, slots=True)
class BusOptions:
    """What a command was told: empty fields are looked up."""

    url: str = ""
    key: Path | None = None
    ca: Path | None = None
    name: str = ""
    state_dir: Path | None = None


class _BusFile(msgspec.Struct):
    url: str
    token: str
    pid: int


def fleet_state_dir(given: Path | None) -> Path:
    """The folder that was given, else $STATE_DIRECTORY, else ~/.local/state/cotenant, each with `fleet` below."""
    if given is not None:
        return given.expanduser().absolute()
    named = os.environ.get("STATE_DIRECTORY", "")
    if named:
        return Path(named) / "fleet"
    home = os.environ.get("XDG_STATE_HOME", "") or "~/.local/state"
    return Path(home).expanduser() / "cotenant" / "fleet"


def write_bus_file(state_dir: Path, url: str, token: str) -> Path:
    """Tell commands of this user where the bus is, and its token."""
    path = state_dir / BUS_FILE
    write_private(path, msgspec.json.encode(_BusFile(url, token, os.getpid())).decode())
    return path


def access_of(options: BusOptions) -> BusAccess:
    """How to reach the bus:

    As told, by $COTENANT_BUS, else that of a `cotenant fleet serve --embedded` of this user. Raises `InvalidInput`.
    """
    url = options.url or os.environ.get("COTENANT_BUS", "")
    name = options.name or LOCAL_OPERATOR
    if url:
        return BusAccess(url, name, seed=options.key, ca=options.ca)
    path = fleet_state_dir(options.state_dir) / BUS_FILE
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_BusFile)
    except (OSError, msgspec.DecodeError):
        raise InvalidInput(
            "--bus", "", "nats://HOST:PORT", "or start a fleet of this machine: cotenant fleet serve --embedded"
        ) from None
    return BusAccess(found.url, name, token=found.token)
