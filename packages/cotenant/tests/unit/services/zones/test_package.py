"""Packages of zones: what was packed is what arrives, byte for byte, and a changed one is refused as a whole."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from tests.fakes.images import layer_of, save_image

from cotenant.drivers.docker.archive import digest_of
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.package import definition_file, pack, read_manifest, unpack
from cotenant.services.zones.package_manifest import MANIFEST
from cotenant.services.zones.zone_files import read_definition

SHOP = """
zone: shop
vm: {kernel: {file: vmlinux, preempt: full}}
pods:
  - {name: web, image: {archive: web.tar}, ports: [{container: 80, host: 24080}], probe: {port: 80, path: /}}
  - {name: worker, kind: batch, image: {archive: web.tar}, env: {A: "1"}}
backend: auto
start: latency
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A zone's file with the files that it names."""
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / "vmlinux").write_bytes(b"kernel")
    save_image(folder / "web.tar", [layer_of({"a": b"x"})], {"Cmd": ["/a"]})
    (folder / "shop.yaml").write_text(SHOP)
    return folder / "shop.yaml"


def test_a_package_is_the_zone_with_all_of_its_files(shop: Path, tmp_path: Path) -> None:
    package = tmp_path / "shop.zone.tar"
    packed = pack(shop, package)
    assert packed.zone == "shop"
    assert sorted(packed.files) == ["images/web.tar", "kernel/vmlinux", "zone.yaml"]  # the image once
    assert read_manifest(package) == packed
    definition = read_definition(unpack(package, tmp_path / "to"))
    assert (tmp_path / "to/images/web.tar").read_bytes() == (shop.parent / "web.tar").read_bytes()
    assert {pod.image.sha256 for pod in definition.pods} == {digest_of(shop.parent / "web.tar")}
    assert definition.vm is not None
    assert definition.vm.kernel.sha256 == digest_of(shop.parent / "vmlinux")
    original = read_definition(shop)
    assert [(pod.name, pod.ports, pod.probe, pod.env) for pod in definition.pods] == [
        (pod.name, pod.ports, pod.probe, pod.env) for pod in original.pods
    ]
    assert (definition.start, definition.backend) == (original.start, original.backend)
    again = tmp_path / "again.tar"
    pack(shop, again)
    assert digest_of(again) == digest_of(package)


def test_a_package_is_started_as_a_file_is_and_unpacked_once(shop: Path, tmp_path: Path) -> None:
    package, place = tmp_path / "shop.zone.tar", tmp_path / "zones"
    pack(shop, package)
    assert definition_file(shop, place) == shop
    first = definition_file(package, place)
    assert first.parent.name == f"shop-{digest_of(package)[:12]}"
    assert first.parent.parent == place
    inode = first.stat().st_ino
    assert definition_file(package, place).stat().st_ino == inode


def repacked(package: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """The package with each member as `change` makes it; None leaves it out."""
    changed = package.with_name("changed.tar")
    with tarfile.open(package) as old, tarfile.open(changed, "w") as new:
        for info in old:
            file = old.extractfile(info)
            assert file is not None
            found = change(info.name, file.read())
            if found is not None:
                member = tarfile.TarInfo(found[0])
                member.size = len(found[1])
                new.addfile(member, BytesIO(found[1]))
    return changed


def manifest_with(change: Callable[[dict[str, object]], object]) -> Callable[[str, bytes], tuple[str, bytes]]:
    """A change of the manifest alone."""

    def made(name: str, data: bytes) -> tuple[str, bytes]:
        if name != MANIFEST:
            return name, data
        document = json.loads(data)
        change(document)
        return name, json.dumps(document).encode()

    return made


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda name, data: (name, data.replace(b"kernel", b"KERNEL") if name == "kernel/vmlinux" else data),
            "SHA-256",
        ),
        (lambda name, data: None if name == "images/web.tar" else (name, data), "missing or of another size"),
        (lambda name, data: None if name == MANIFEST else (name, data), "zone's package"),
        (manifest_with(lambda document: document.update(version=2)), "expected 1"),
        (manifest_with(lambda document: document.update(zone="other")), "the zone other"),
        (manifest_with(lambda document: document.update(more=1)), "zone's package"),
        (
            manifest_with(lambda document: document["files"].update({"../x": {"sha256": "0", "bytes": 1}})),  # type: ignore[attr-defined]
            "files in images and kernel",
        ),
        (
            manifest_with(lambda document: document["files"].update({"images/a\0": {"sha256": "0", "bytes": 1}})),  # type: ignore[attr-defined]
            "files in images and kernel",
        ),
        (
            manifest_with(lambda document: document["files"].update({"images/a": {"sha256": "0", "bytes": -1}})),  # type: ignore[attr-defined]
            "the bytes of images/a, 0 or more",
        ),
    ],
)
def test_a_changed_package_leaves_nothing(
    shop: Path, tmp_path: Path, change: Callable[[str, bytes], tuple[str, bytes] | None], expected: str
) -> None:
    package = tmp_path / "shop.zone.tar"
    pack(shop, package)
    with pytest.raises(InvalidInput, match=expected):
        unpack(repacked(package, change), tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("zone", ["../shop", "/srv/shop", "Shop", "", "shop\n"])
def test_a_package_names_no_place_outside_the_folder_of_packages(shop: Path, tmp_path: Path, zone: str) -> None:
    package, place = tmp_path / "shop.zone.tar", tmp_path / "in/zones"
    pack(shop, package)
    changed = repacked(package, manifest_with(lambda document: document.update(zone=zone)))
    there = place / f"{zone}-{digest_of(changed)[:12]}"
    if zone == "../shop":  # a file that somebody laid there is not taken for an unpacked one
        there.mkdir(parents=True)
        (there / "zone.yaml").write_text("zone: other\n")
    with pytest.raises(InvalidInput, match="1 to 40 of a-z"):
        definition_file(changed, place)
    assert (tmp_path / "in").exists() is (zone == "../shop")  # nothing was made
    with pytest.raises(InvalidInput, match="1 to 40 of a-z"):
        read_manifest(changed)


def test_nothing_that_is_there_is_replaced(shop: Path, tmp_path: Path) -> None:
    package = tmp_path / "shop.zone.tar"
    package.write_text("mine")
    with pytest.raises(InvalidInput, match="does not exist yet"):
        pack(shop, package)
    assert package.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from", "shop.zone.tar"]
    (shop.parent / "web.tar").unlink()
    with pytest.raises(InvalidInput, match="a file of this host"):
        pack(shop, tmp_path / "other.tar")
    assert not (tmp_path / "other.tar").exists()
