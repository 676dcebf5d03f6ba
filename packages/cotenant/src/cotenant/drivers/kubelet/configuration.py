"""A kubelet's configuration, as far as it decides who writes what: from its file, or from what it says of itself.

Whether the kubelet gives CPUs and protects memory decides which knobs are ours, and no one source is always there. The
same fields from `/configz`, which has what the kubelet runs with, and from the configuration file; a field that is
absent, or that cannot be read, is not known.
Limits: of a file, defaults, drop-ins and command-line arguments are not known; `/configz` has them all. CPUs that are
reserved by number have no names in either.

Source: Kubernetes, KubeletConfiguration v1beta1; pkg/kubelet/server (configz: {"kubeletconfig": ...}).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.document import parse
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts

CONFIG_NAME, MEMORY_STATE_NAME = "config.yaml", "memory_manager_state"  # beside the CPU manager's checkpoint
_MAX_BYTES = 1 << 20


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    cpu_manager_policy: str | None = None
    cpu_manager_policy_options: dict[str, str] | None = None
    reserved_system_cpus: str | None = msgspec.field(default=None, name="reservedSystemCPUs")
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    memory_manager_policy: str | None = None
    cgroup_driver: str | None = None
    feature_gates: dict[str, bool] | None = None


class _Configz(msgspec.Struct, frozen=True):
    kubeletconfig: _Config


class _State(msgspec.Struct, frozen=True, rename="camel"):
    policy_name: str = ""


def config_of_file(path: Path) -> KubeletFacts:
    """From a configuration file; nothing is known where it cannot be read."""
    try:
        with path.open("rb") as file:
            return _config(msgspec.convert(parse(file.read(_MAX_BYTES), str(path)), _Config))
    except (OSError, InvalidInput, msgspec.ValidationError):
        return KubeletFacts()


def config_of_configz(body: bytes) -> KubeletFacts:
    """From an answer of `/configz`. Raises `InvalidInput` for one that is not a kubelet's."""
    try:
        answer = msgspec.json.decode(body, type=_Configz)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidInput("configz", body[:60].decode("utf-8", "replace"), "a kubelet's configuration") from error
    return _config(answer.kubeletconfig)


def memory_manager_of(path: Path) -> str:
    """The policy in the memory manager's checkpoint; "" where there is none."""
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=_State).policy_name
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def _config(written: _Config) -> KubeletFacts:
    try:
        reserved = parse_cpus(written.reserved_system_cpus or "", "reservedSystemCPUs")
    except InvalidInput:
        reserved = ()
    return KubeletFacts(
        cpu_manager=written.cpu_manager_policy or "",
        cpu_options=tuple(sorted((written.cpu_manager_policy_options or {}).items())),
        reserved_cpus=tuple(reserved),
        topology_manager=written.topology_manager_policy or "",
        topology_scope=written.topology_manager_scope or "",
        memory_manager=written.memory_manager_policy or "",
        cgroup_driver=written.cgroup_driver or "",
        memory_qos=(written.feature_gates or {}).get("MemoryQoS"),
    )
