"""Guids: the name of an agent or a container in the whole fleet, also one token of a bus subject."""

from __future__ import annotations

import re
from hashlib import sha256

from cotenant.model.errors import InvalidInput

MAX_GUID = 80  # characters
_GUID = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_OTHER = re.compile(r"[^a-z0-9]+")
_RANDOM = 8  # hexadecimal digits of a container's guid
_MACHINE = 12


def agent_guid(machine_id: str) -> str:
    """The guid of the agent of this machine:

    The same after every restart. The machine id itself, which is confidential, cannot be read from it.
    """
    if not machine_id.strip():
        raise InvalidInput("machine id", machine_id, "the text of /etc/machine-id", "or name the agent with --guid")
    return "agent-" + sha256(b"cotenant fleet " + machine_id.strip().encode()).hexdigest()[:_MACHINE]


def container_guid(image: str, random: bytes) -> str:
    """A container's guid: the image's last name and 8 hexadecimal digits (`random`: 4 bytes)."""
    name = image.rpartition("/")[2].partition("@")[0].partition(":")[0].lower()
    return f"{_OTHER.sub('-', name).strip('-')[:40] or 'container'}-{random.hex()[:_RANDOM]}"


def check_guid(field: str, value: str) -> str:
    """The value, where it can be a guid. Raises `InvalidInput`."""
    if len(value) > MAX_GUID or not _GUID.fullmatch(value):
        raise InvalidInput(field, value, f"a guid: lower-case letters, digits, - and _, at most {MAX_GUID} characters")
    return value


def check_name(field: str, value: str) -> str:
    """The value, where it can be the name of a group, an appkey, a role, a platform or an operator.

    Raises `InvalidInput`.
    """
    if not _NAME.fullmatch(value):
        raise InvalidInput(field, value, "a name: lower-case letters, digits, - and _, at most 40 characters")
    return value
