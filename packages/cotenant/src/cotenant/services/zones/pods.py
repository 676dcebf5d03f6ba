"""Pods of a zone in a virtual machine, as a zone's file has them: an image, its program, ports, a probe, volumes, and
most of what it may use.

A pod is a group of the zone of its own name, with a row like a listed group; its program sees the image's root and its
volumes and nothing else. All pods of a zone have one network, the guest's, as containers of one Kubernetes pod do, so
no two may listen on one port.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import PurePosixPath

from cotenant.model.errors import InvalidInput
from cotenant.services.zones.groups import GroupClass, ZoneGroup, ZoneThreads

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
DIGEST = re.compile(r"[0-9a-f]{64}")
ANY_ADDRESS = "0.0.0.0"
MAX_PODS = 32
MAX_WORDS = 256
MAX_TEXT = 4096
MIN_CPU_MILLI = 10  # the kernel takes no quota below 1 ms, of the 100 ms that a pod's is of
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_digest(field_name: str, sha256: str) -> None:
    """Refuse what is not empty and no digest."""
    if sha256 and not DIGEST.fullmatch(sha256):
        raise InvalidInput(field_name, sha256, "64 hexadecimal digits, as sha256sum prints them")


def check_host_path(field_name: str, path: str) -> None:
    """Refuse a path that a guest cannot see, or that is another than it looks like."""
    if not path.startswith("/") or path.startswith("//") or ".." in path.split("/") or "\0" in path:
        raise InvalidInput(field_name, path, "an absolute path without ..")
    if PurePosixPath(path).parts[1:2] in (("proc",), ("sys",), ("dev",), ("run",)):
        raise InvalidInput(field_name, path, "a path that is not the guest's own: /proc, /sys, /dev and /run are")


def is_whole(path: str) -> bool:
    """Whether a path is all of this host, however it is written."""
    return PurePosixPath(path) == PurePosixPath("/")


@dataclass(frozen=True, slots=True)
class PodImage:
    """A saved image: `docker save -o ARCHIVE IMAGE`. `archive`: beside the zone's file, or absolute; `sha256`: of the
    archive, "": not checked.
    """

    archive: str
    sha256: str = ""

    def __post_init__(self) -> None:
        if not self.archive or "\0" in self.archive:
            raise InvalidInput("archive", self.archive, "a file, as in web.tar")
        check_digest("sha256", self.sha256)


@dataclass(frozen=True, slots=True)
class PodPort:
    """`container`: the TCP port on which the program listens; `host`: this host's that is forwarded to it, 0: none;
    `address`: of this host.
    """

    container: int
    host: int = 0
    address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if not 1 <= self.container <= 65535:
            raise InvalidInput("container", self.container, "1 to 65535")
        if self.host and not 1 <= self.host <= 65535:
            raise InvalidInput("host", self.host, "0 to 65535")
        try:
            IPv4Address(self.address)
        except ValueError:
            raise InvalidInput("address", self.address, "an IPv4 address of this host, as in 127.0.0.1") from None

    def takes(self, other: PodPort) -> bool:
        """Whether both are one port of this host, which one socket can listen on: 0.0.0.0 is every address."""
        same = self.address == other.address or ANY_ADDRESS in (self.address, other.address)
        return bool(self.host) and self.host == other.host and same


@dataclass(frozen=True, slots=True)
class PodProbe:
    """The pod is ready while this holds: a connection to `port`, where `path` is given an HTTP answer of 200 to 399.
    After `failures` failed ones in a row it is not, and with `restart` its program is started again.
    """

    port: int
    path: str = ""
    period_s: float = 1.0
    timeout_s: float = 1.0
    failures: int = 3
    restart: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise InvalidInput("port", self.port, "1 to 65535")
        if self.path and (not self.path.startswith("/") or any(ord(sign) <= 32 for sign in self.path)):
            raise InvalidInput("path", self.path, "a path that begins with /")
        for name, value in (("period_s", self.period_s), ("timeout_s", self.timeout_s)):
            if not 0.1 <= value <= 300:
                raise InvalidInput(name, value, "0.1 to 300 seconds")
        if not 1 <= self.failures <= 100:
            raise InvalidInput("failures", self.failures, "1 to 100")


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A folder in the pod. `host`: one of this host, read-only; "": an empty one of at most `mib` in the guest's
    memory, which pods with the same `name` share.
    """

    path: str
    name: str = ""
    mib: int = 16
    host: str = ""

    def __post_init__(self) -> None:
        place = PurePosixPath(self.path)
        if not place.is_absolute() or ".." in place.parts or len(place.parts) < 2 or "\0" in self.path:
            raise InvalidInput("path", self.path, "an absolute path below /, as in /data")
        if place.parts[1] in ("proc", "dev"):
            raise InvalidInput("path", self.path, "a path that is not the pod's own: /proc and /dev are")
        if bool(self.name) == bool(self.host):
            raise InvalidInput("name", self.name, "a name, or host: a folder of this host")
        if self.name and not NAME.fullmatch(self.name):
            raise InvalidInput("name", self.name, "1 to 40 of a-z, 0-9 and -")
        if self.host:
            check_host_path("host", self.host)
            if is_whole(self.host):
                raise InvalidInput("host", self.host, "a folder below /", "a pod's root is its image's")
        if not 1 <= self.mib <= 4096:
            raise InvalidInput("mib", self.mib, "1 to 4096")


@dataclass(frozen=True, slots=True)
class ZonePod:
    """One pod. `command`, `args`: instead of the image's entrypoint and command, as in Kubernetes; `user`: instead of
    the image's, UID[:GID]; `kind`, `weight`, `late_ms`, `slice_us`, `threads`: as of a group; `memory_mib`,
    `cpu_milli`: most that it uses, 0: no limit but the machine's; `processes`, `writes_mib`: most processes and changed
    files.
    """

    name: str
    image: PodImage
    kind: GroupClass = GroupClass.SERVICE
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    ports: tuple[PodPort, ...] = ()
    probe: PodProbe | None = None
    volumes: tuple[PodVolume, ...] = ()
    late_ms: float = 0.0
    slice_us: int = 0
    weight: int = 0
    threads: tuple[ZoneThreads, ...] = ()
    memory_mib: int = 0
    cpu_milli: int = 0
    processes: int = 256
    writes_mib: int = 64

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidInput("name", self.name, "1 to 40 of a-z, 0-9 and -")
        for name, words in (("command", self.command), ("args", self.args)):
            if len(words) > MAX_WORDS or any(len(word) > MAX_TEXT or "\0" in word for word in words):
                raise InvalidInput(name, len(words), f"at most {MAX_WORDS} words of {MAX_TEXT} characters")
        for key, value in self.env.items():
            if not _ENV.fullmatch(key) or len(value) > MAX_TEXT or "\0" in value or len(self.env) > MAX_WORDS:
                raise InvalidInput("env", key, f"at most {MAX_WORDS} names of letters, digits and _ with text")
        if self.user and not re.fullmatch(r"\d{1,9}(:\d{1,9})?", self.user):
            raise InvalidInput("user", self.user, "numbers, UID or UID:GID")
        places = [PurePosixPath(volume.path).parts[1:] for volume in self.volumes]
        if len(set(places)) < len(places) or len(places) > MAX_PODS:
            raise InvalidInput("volumes", len(places), f"at most {MAX_PODS}, each at another path")
        for name, amount, most in (
            ("memory_mib", self.memory_mib, 16_384),
            ("cpu_milli", self.cpu_milli, 64_000),
            ("processes", self.processes, 65_536),
            ("writes_mib", self.writes_mib, 16_384),
        ):
            if not (1 if name in ("processes", "writes_mib") else 0) <= amount <= most:
                raise InvalidInput(name, amount, f"at most {most}")
        if 0 < self.cpu_milli < MIN_CPU_MILLI:
            raise InvalidInput(
                "cpu_milli", self.cpu_milli, f"0: no limit, or {MIN_CPU_MILLI} or more, as the kernel has it"
            )
        self.group()

    def group(self) -> ZoneGroup:
        """The group of the zone that it is."""
        return ZoneGroup(self.name, self.kind, self.late_ms, self.slice_us, self.weight, self.threads)


def check_pods(pods: tuple[ZonePod, ...]) -> None:
    """What holds among the pods of a zone. Raises `InvalidInput`."""
    if len(pods) > MAX_PODS:
        raise InvalidInput("pods", len(pods), f"at most {MAX_PODS}")
    ports = [(pod.name, port) for pod in pods for port in pod.ports]
    for at, (name, port) in enumerate(ports):
        for before, taken in ports[:at]:
            if port.takes(taken):
                hint = f"pod {before} has {taken.address}:{taken.host}"
                raise InvalidInput(
                    *(f"pods.{name}.ports.host", f"{port.address}:{port.host}"),
                    *("ports of this host that no other pod has", hint),
                )
    sizes: dict[str, int] = {}
    for pod in pods:
        for volume in pod.volumes:
            if volume.name and sizes.setdefault(volume.name, volume.mib) != volume.mib:
                said = f"{sizes[volume.name]}, as where {volume.name} is named before"
                raise InvalidInput(f"pods.{pod.name}.volumes.mib", volume.mib, said, "volumes of one name are one")
    listening = [port.container for pod in pods for port in pod.ports]
    for number in listening:
        if listening.count(number) > 1:
            raise InvalidInput("ports", number, "ports that no other pod has", "all pods of a zone share one network")
