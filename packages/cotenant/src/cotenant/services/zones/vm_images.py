"""What the pods of a zone are started from: their images unpacked for the guest, and each pod's program.

An image is read when its machine starts and not kept unpacked beyond that: the archive is what was packed, and its
digest is checked at each start. What a pod's file leaves out is the image's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from cotenant.drivers.docker.archive import ImageConfig, ImageLimits, digest_of, unpack_image
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonObject
from cotenant.services.zones.pods import ZonePod

IN_GUEST = "/zone/images"


def beside(path: str, source: str) -> Path:
    """A file that a zone's file names: absolute, or beside it. Raises `InvalidInput`."""
    found = Path(path)
    if found.is_absolute():
        return found
    folder = Path(source).parent
    if not folder.is_absolute():
        raise InvalidInput("file", path, "an absolute path", f"the place of {source} is not known")
    return folder / found


def checked(path: Path, sha256: str, field: str) -> Path:
    """The file, where it is what the zone's file says. Raises `InvalidInput`."""
    if not path.is_file():
        raise InvalidInput(field, str(path), "a file of this host")
    if sha256 and (found := digest_of(path)) != sha256:
        raise InvalidInput(field, str(path), f"a file with the SHA-256 sum {sha256}", f"it is {found}")
    return path


def unpack_images(
    pods: Sequence[ZonePod],
    source: str,
    place: Path,
    disk_mib: int,
    env: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> tuple[list[tuple[str, Path]], list[JsonObject], int]:
    """Unpack into `place`, at most `disk_mib` in all. The folders with their paths in the guest, what the guest's agent
    starts, and the bytes that the images take. `env`: of each pod, where neither its image nor its file says otherwise.
    Raises `InvalidInput`, with the pod.
    """
    folders, specs, used = [], [], 0
    limits = ImageLimits()
    for pod in pods:
        field = f"pods.{pod.name}.image.archive"
        archive = checked(beside(pod.image.archive, source), pod.image.sha256, field)
        try:
            most = min(limits.bytes, (disk_mib << 20) - used)
            config = unpack_image(archive, place / pod.name, replace(limits, bytes=most))
        except InvalidInput as error:
            hint = error.hint
            if most < limits.bytes and error.expected == f"at most {most}":
                hint = (
                    f"vm.disk_mib is {disk_mib}, and the images of the pods before it take {-(-used >> 20)}: raise it"
                )
            raise InvalidInput(field, f"{error.field}: {error.value}", error.expected, hint) from None
        used += config.size_bytes
        folders.append((f"{IN_GUEST}/{pod.name}", place / pod.name))
        specs.append(_spec(pod, config, env.get(pod.name, {})))
    return folders, specs, used


def _spec(pod: ZonePod, config: ImageConfig, env: Mapping[str, str]) -> JsonObject:
    command = program_of(pod, config)
    if not command:
        raise InvalidInput(f"pods.{pod.name}.command", "", "a command: the image has none")
    probe = pod.probe
    return {
        "name": pod.name,
        "kind": pod.kind.value,
        "command": command,
        "env": [*_words(env), *config.env, *_words(pod.env)],
        "user": pod.user or config.user,
        "workdir": config.workdir,
        "processes": pod.processes,
        "memoryMib": pod.memory_mib,
        "cpuMilli": pod.cpu_milli,
        "writesMib": pod.writes_mib,
        # one within another comes after it, or the outer one would hide it
        "volumes": [
            {"path": volume.path, "name": volume.name, "mib": volume.mib, "host": volume.host}
            for volume in sorted(pod.volumes, key=lambda volume: len(PurePosixPath(volume.path).parts))
        ],
        "probe": None
        if probe is None
        else {
            "port": probe.port,
            "path": probe.path,
            "periodS": probe.period_s,
            "timeoutS": probe.timeout_s,
            "failures": probe.failures,
            "restart": probe.restart,
        },
    }


def _words(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def program_of(pod: ZonePod, config: ImageConfig) -> list[str]:
    """The words of a pod's program: a command replaces the image's entrypoint and its arguments, arguments alone
    replace only the latter.
    """
    if pod.command:
        return [*pod.command, *pod.args]
    return [*config.entrypoint, *(pod.args or config.command)]
