"""Signed packages: who signed is found, anything else is refused, and a keeper with keys starts nothing unsigned."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.fakes.images import layer_of, save_image
from tests.unit.services.zones.test_package import manifest_with, repacked

from cotenant.cli.zone.commands import app
from cotenant.drivers.docker.archive import digest_of
from cotenant.drivers.signatures.ed25519 import Signer, TrustedKeys
from cotenant.model.errors import InvalidInput
from cotenant.services.zones.package import definition_file, pack, read_manifest, unpack, verified
from cotenant.services.zones.package_manifest import MANIFEST, SIGNATURE, signed_text
from cotenant.services.zones.package_trust import trusted
from cotenant.services.zones.zone_files import definition_of_spec, read_definition

SHOP = """
zone: shop
vm: {kernel: {file: vmlinux}, host_paths: [/usr/share]}
pods: [{name: web, image: {archive: web.tar}}]
"""


def written_key(folder: Path, name: str) -> Path:
    """A private key in `folder`, its public one as NAME.pem in the folder `keys` beside it."""
    key = Ed25519PrivateKey.generate()
    path = folder / f"{name}.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "keys").mkdir(exist_ok=True)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "keys" / f"{name}.pem").write_bytes(public)
    return path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A zone's file with the files that it names."""
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / "vmlinux").write_bytes(b"kernel")
    save_image(folder / "web.tar", [layer_of({"a": b"x"})], {"Cmd": ["/a"]})
    (folder / "shop.yaml").write_text(SHOP)
    return folder / "shop.yaml"


@pytest.fixture
def package(shop: Path, tmp_path: Path) -> Path:
    """Signed by ann."""
    package = tmp_path / "shop.zone.tar"
    pack(shop, package, Signer.of_file(written_key(tmp_path, "ann"), "--sign"))
    return package


def keys(tmp_path: Path) -> TrustedKeys:
    return TrustedKeys.of_folder(tmp_path / "keys", "--signers")


def test_who_signed_a_package_is_told_and_every_sum_is_compared(package: Path, shop: Path, tmp_path: Path) -> None:
    written_key(tmp_path, "bob")
    packed, signer = verified(package, keys(tmp_path))
    assert signer == "ann"
    assert packed == read_manifest(package)
    with tarfile.open(package) as tar:
        assert tar.getnames() == [MANIFEST, SIGNATURE, "zone.yaml", "images/web.tar", "kernel/vmlinux"]
    again = tmp_path / "again.tar"
    pack(shop, again, Signer.of_file(tmp_path / "ann.key", "--sign"))
    assert digest_of(again) == digest_of(package)
    changed = repacked(package, lambda name, data: (name, data.replace(b"kernel", b"KERNEL")))
    with pytest.raises(InvalidInput):
        verified(changed, keys(tmp_path))


def flipped(name: str, data: bytes) -> tuple[str, bytes]:
    """The signature with one bit changed."""
    if name != SIGNATURE:
        return name, data
    raw = bytearray(base64.b64decode(data))
    raw[0] ^= 1
    return name, base64.b64encode(raw)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda name, data: None if name == SIGNATURE else (name, data), "no signature"),
        (flipped, "of another key or text: expected by a key of .*: ann"),
        (lambda name, data: (name, b"~" if name == SIGNATURE else data), "of another key or text"),
        (lambda name, data: (name, b"A" * 2000 if name == SIGNATURE else data), "2000 bytes"),
        (manifest_with(lambda document: document.update(zone="shop")), "of another key or text"),  # written otherwise
        (lambda name, data: (name, data[:-1] + b"x") if name == "images/web.tar" else (name, data), "SHA-256 sum"),
    ],
)
def test_a_changed_package_is_nobodys(
    package: Path, tmp_path: Path, change: Callable[[str, bytes], tuple[str, bytes] | None], expected: str
) -> None:
    with pytest.raises(InvalidInput, match=expected):
        verified(repacked(package, change), keys(tmp_path))


def test_a_signature_by_a_key_that_does_not_count_or_of_something_else_is_none(package: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    written_key(other, "eve")
    with pytest.raises(InvalidInput, match=r"by a key of .*other/keys: eve"):
        verified(package, keys(other))
    found = read_manifest(package)
    ann = Signer.of_file(tmp_path / "ann.key", "--sign")
    assert keys(tmp_path).signer_of(signed_text(found.text), ann.sign(signed_text(found.text))) == "ann"
    assert keys(tmp_path).signer_of(signed_text(found.text), ann.sign(found.text)) is None


def test_files_that_are_no_keys_are_named(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    with pytest.raises(InvalidInput, match=r"--signers: .*a folder with 1 to 64 \*\.pem files"):
        keys(tmp_path)
    (tmp_path / "keys" / "ann.pem").write_text("no key")
    with pytest.raises(InvalidInput, match=r"ann\.pem'?: expected public Ed25519 keys.*openssl pkey"):
        keys(tmp_path)
    curve = generate_private_key(SECP256R1())
    public = curve.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "keys" / "ann.pem").write_bytes(public)
    with pytest.raises(InvalidInput, match="public Ed25519 keys"):
        keys(tmp_path)
    private = tmp_path / "key"
    with pytest.raises(InvalidInput, match="a file that can be read"):
        Signer.of_file(private, "--sign")
    for content in (b"no key", curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())):
        private.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"--sign: .*a private Ed25519 key"):
            Signer.of_file(private, "--sign")


def asked(file: Path, tmp_path: Path) -> str:
    """Whose a plain zone is for a keeper with keys."""
    return trusted(read_definition(file), file.read_text(), str(file), None, keys(tmp_path))[1]


def test_a_keeper_with_keys_starts_the_definition_of_a_signed_package_only(
    package: Path, shop: Path, tmp_path: Path
) -> None:
    file = definition_file(package, tmp_path / "zones")
    assert asked(file, tmp_path) == "ann"
    with pytest.raises(InvalidInput, match="a package signed by a key of"):
        asked(shop, tmp_path)
    file.write_text(file.read_text().replace("/usr/share", "/root"))
    with pytest.raises(InvalidInput, match=r"the zone\.yaml that ann signed, unchanged"):
        asked(file, tmp_path)
    unsigned = tmp_path / "unsigned.zone.tar"
    pack(shop, unsigned)
    with pytest.raises(InvalidInput, match="no signature"):
        asked(unpack(unsigned, tmp_path / "to"), tmp_path)
    plain = tmp_path / "plain.yaml"
    plain.write_text("zone: a\ngroups: [{group: web, kind: service}]\n")
    assert asked(plain, tmp_path) == ""  # names no file


def of_cluster(tmp_path: Path, **spec: Any) -> Any:
    """What a keeper with keys makes of a ControlZone whose files are below `files`."""
    files = tmp_path / "files"
    found = definition_of_spec("shop", {"vm": {}, **spec}, "it")
    return trusted(found, "", str(files / "zone.yaml"), files, keys(tmp_path))


def test_a_cluster_s_zone_names_files_of_signed_packages_and_has_their_sums(
    package: Path, shop: Path, tmp_path: Path
) -> None:
    unpack(package, tmp_path / "files" / "shop")
    web = {"name": "web", "image": {"archive": "shop/images/web.tar"}}
    definition, signer = of_cluster(tmp_path, pods=[web], vm={"kernel": {"file": "shop/kernel/vmlinux"}})
    assert signer == "ann"
    assert definition.pods[0].image.sha256 == digest_of(shop.parent / "web.tar")
    assert definition.vm.kernel.sha256 == digest_of(shop.parent / "vmlinux")
    with pytest.raises(InvalidInput, match=r"pods\.web\.image\.archive sha256: 0{64}: expected .* ann signed it"):
        of_cluster(tmp_path, pods=[{**web, "image": {"archive": "shop/images/web.tar", "sha256": "0" * 64}}])
    with pytest.raises(InvalidInput, match=r"vm\.hostPaths: /usr: expected no path of the node"):
        of_cluster(tmp_path, pods=[web], vm={"hostPaths": ["/usr"]})
    with pytest.raises(InvalidInput, match=r"pods\.web\.volumes\.host"):
        of_cluster(tmp_path, pods=[{**web, "volumes": [{"path": "/data", "host": "/srv"}]}])
    for name in ("web.tar", "shop/more.tar"):  # beside a package, and in its folder but not of it
        (tmp_path / "files" / name).write_bytes(b"x")
        with pytest.raises(InvalidInput, match="a file of a package signed by a key of"):
            of_cluster(tmp_path, pods=[{**web, "image": {"archive": name}}])
    listed = json.loads((tmp_path / "files/shop" / MANIFEST).read_text())
    listed["files"]["images/web.tar"]["sha256"] = "0" * 64
    (tmp_path / "files/shop" / MANIFEST).write_text(json.dumps(listed, indent=1))
    with pytest.raises(InvalidInput, match="of another key or text"):
        of_cluster(tmp_path, pods=[web])


def test_the_commands_sign_and_verify(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, package = written_key(tmp_path, "ann"), tmp_path / "shop.zone.tar"
    app(["pack", str(shop), str(package), "--sign", str(key)], result_action="return_value")
    capsys.readouterr()
    app(["verify", str(package), "--signers", str(tmp_path / "keys")], result_action="return_value")
    assert capsys.readouterr().out.splitlines()[0] == f"{package}: signed by ann"
    app(["verify", str(package), "--signers", str(tmp_path / "keys"), "--json"], result_action="return_value")
    assert json.loads(capsys.readouterr().out)["signer"] == "ann"
