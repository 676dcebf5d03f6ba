"""Whose programs a host's zones may run: files of packages that a trusted key signed.

The keeper starts images and kernels as root, and its socket and a cluster's ControlZones are ways in for whoever may
use them. With keys given, a plain zone that names files is the definition of a signed package, word for word, and a
ControlZone names files of signed packages that were unpacked below the keeper's folder. The signed list has each file's
sum, which becomes part of the zone, so what is read later is what was signed.
Limits: zones that name no file need no package: their kernel is Debian's, or was built here. Paths of the host that
such a package shows to its guest are its signer's choice; a ControlZone has none then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cotenant.drivers.signatures.ed25519 import TrustedKeys
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.definition import ZoneDefinition
from cotenant.services.zones.package_manifest import ZONE, Packed, unpacked_list
from cotenant.services.zones.vm_images import beside

_HOW = "cotenant zone pack --sign KEY, then cotenant zone create PACKAGE"


def trusted(
    definition: ZoneDefinition, text: str, place: str, files: Path | None, keys: TrustedKeys
) -> tuple[ZoneDefinition, str]:
    """The zone with the signed sum of each file that it names, and who signed, "" where it names none. `place`: the
    file beside which its files are; `files`: for a ControlZone, the folder below which they are. Raises `InvalidInput`
    for what nobody signed.
    """
    if not definition.reads_host_files:
        return definition, ""
    if files is None:
        return definition, _signer_of_text(definition, text, place, keys)
    for field, path in _host_paths(definition):
        raise InvalidInput(field, path, "no path of the node", f"its keeper takes signed packages only ({keys.place})")
    signers: dict[str, None] = {}

    def sum_of(field: str, name: str, stated: str) -> str:
        digest, signer = _signed_sum(field, beside(name, place), files, keys)
        if stated not in ("", digest):
            raise InvalidInput(f"{field} sha256", stated, f"{digest}, as {signer} signed it")
        signers[signer] = None
        return digest

    pods = []
    for pod in definition.pods:
        sha256 = sum_of(f"pods.{pod.name}.image.archive", pod.image.archive, pod.image.sha256)
        pods.append(replace(pod, image=replace(pod.image, sha256=sha256)))
    vm = definition.vm
    assert vm is not None
    if vm.kernel.file:
        sha256 = sum_of("vm.kernel.file", vm.kernel.file, vm.kernel.sha256)
        vm = replace(vm, kernel=replace(vm.kernel, sha256=sha256))
    return replace(definition, pods=tuple(pods), vm=vm), ", ".join(signers)


def _signer_of_text(definition: ZoneDefinition, text: str, place: str, keys: TrustedKeys) -> str:
    file = Path(place)
    packed = unpacked_list(file.parent) if file.name == ZONE else None
    if packed is None:
        raise InvalidInput("zone", place, f"a package signed by a key of {keys.place}", _HOW)
    signer = packed.signer(keys, str(file.parent))
    digest = packed.files[ZONE][0]
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise InvalidInput("zone", place, f"the {ZONE} that {signer} signed, unchanged", _HOW)
    for field, stated in _sums(definition):
        if not stated:
            raise InvalidInput(field, "no sha256", "the sum of each file, as cotenant zone pack writes it", _HOW)
    return signer


def _signed_sum(field: str, path: Path, files: Path, keys: TrustedKeys) -> tuple[str, str]:
    """A file's sum as a package's list has it, and whose key signed the list."""
    real, top = path.resolve(), files.resolve()
    found: tuple[Path, Packed] | None = None
    for folder in real.parents:
        packed = unpacked_list(folder) if folder.is_relative_to(top) else None
        if packed is not None:
            found = folder, packed
            break
    name = "" if found is None else str(real.relative_to(found[0]))
    if found is None or name not in found[1].files:
        raise InvalidInput(
            *(field, str(path), f"a file of a package signed by a key of {keys.place}"),
            f"cotenant zone unpack PACKAGE {files}/NAME",
        )
    return found[1].files[name][0], found[1].signer(keys, str(found[0]))


def _sums(definition: ZoneDefinition) -> Iterator[tuple[str, str]]:
    for pod in definition.pods:
        yield f"pods.{pod.name}.image.sha256", pod.image.sha256
    if definition.vm is not None and definition.vm.kernel.file:
        yield "vm.kernel.sha256", definition.vm.kernel.sha256


def _host_paths(definition: ZoneDefinition) -> Iterator[tuple[str, str]]:
    for path in definition.vm.host_paths if definition.vm is not None else ():
        yield "vm.hostPaths", path
    for pod in definition.pods:
        for volume in pod.volumes:
            if volume.host:
                yield f"pods.{pod.name}.volumes.host", volume.host
