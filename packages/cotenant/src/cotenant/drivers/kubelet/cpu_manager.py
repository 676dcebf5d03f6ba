"""The state of the kubelet's CPU manager: its policy, and the CPUs assigned to pods.

CPUs that the kubelet's static policy assigns to Guaranteed pods must not be assigned again. The checkpoint that the
kubelet itself starts from, read whole.
Limits: reserved CPUs are not in it (they are part of the default set); an unreadable file counts as empty.

Source: Kubernetes, pkg/kubelet/cm/cpumanager/state (cpu_manager_state, JSON).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import InvalidInput

STATE = Path("/var/lib/kubelet/cpu_manager_state")
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CpuManager:
    """`given`: CPUs by pod UID. A policy of "" is not known."""

    policy: str = ""
    given: tuple[tuple[str, tuple[int, ...]], ...] = ()


class _State(msgspec.Struct, frozen=True, rename="camel"):
    policy_name: str = ""
    entries: Mapping[str, Mapping[str, str]] = {}


def read_cpu_manager(path: Path = STATE) -> CpuManager:
    """Read the checkpoint; empty where there is no readable file."""
    try:
        with path.open("rb") as file:
            state = msgspec.json.decode(file.read(_MAX_BYTES), type=_State)
        given = tuple(
            (uid, tuple(sorted({cpu for text in containers.values() for cpu in parse_cpus(text, str(path))})))
            for uid, containers in sorted(state.entries.items())
        )
    except (OSError, msgspec.DecodeError, InvalidInput, RecursionError):
        return CpuManager()
    return CpuManager(state.policy_name, given)
