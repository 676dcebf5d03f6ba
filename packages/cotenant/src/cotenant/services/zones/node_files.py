"""Files of a node that a cluster's ControlZone names.

The keeper reads a zone's images as root, and whoever may write ControlZones need not be root on every node. Such a zone
names files below one folder, which the node's administrator gives the keeper (`--zone-files`) and fills; links are
followed before the place is judged. Zones from files of the host itself are created by root or name none.
Limits: the folder's owner can replace a file between the check and the read; digests in the zone say what it must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cotenant.drivers.kube.kinds.custom.control_zone import KIND
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.definition import ZoneDefinition

OF_CLUSTER = f"{KIND}/"


def place_of(definition: ZoneDefinition, source: str, folder: Path | None) -> str:
    """The file beside which the zone's files are: `source` itself, for a ControlZone one in `folder`. Raises
    `InvalidInput` where a ControlZone names a file that is not below it.
    """
    if not source.startswith(OF_CLUSTER):
        return source
    for field, path in _named(definition):
        if folder is None:
            raise InvalidInput(
                field,
                path,
                "no file of the node",
                "its keeper has no --zone-files, the folder of files for ControlZones",
            )
        if not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(field, path, f"a file below {folder}, the keeper's --zone-files")
    return str((folder or Path("/")) / "zone.yaml")


def _named(definition: ZoneDefinition) -> Iterator[tuple[str, str]]:
    vm = definition.vm
    if vm is None:
        return
    if vm.kernel.file:
        yield "vm.kernel.file", vm.kernel.file
    for path in vm.host_paths:
        yield "vm.hostPaths", path
    for pod in definition.pods:
        yield f"pods.{pod.name}.image.archive", pod.image.archive
        for volume in pod.volumes:
            if volume.host:
                yield f"pods.{pod.name}.volumes.host", volume.host
