"""Seals: what is right, what is wrong, and what is only checked."""

from __future__ import annotations

from datetime import timedelta
from math import nan
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fakes.seal_keys import SINCE, keys, write_pair

from cotenant.drivers.seals.making import ensure_pair
from cotenant.drivers.seals.seals import (
    BUNDLE_FILE,
    CERTIFICATE_FILE,
    GRACE_S,
    KEY_FILE,
    NO_SEALS,
    Certified,
    Seals,
    read_seal,
    read_seals,
    unsealed,
)
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.seal import SEAL, SealStanding
from cotenant.model.cpus.spec import RESOURCE_STATUS
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.errors import InvalidInput

GIVEN = {RESOURCE_STATUS: '{"cpuset":"0-1"}'}


def sealed(uid: str = "u", node: str = "a") -> dict[str, str]:
    return {**GIVEN, SEAL: keys()[0].seal(uid, node, GIVEN)}


def test_a_seal_is_of_one_pod_on_one_node_with_these_texts() -> None:
    seals, notes = keys()[1], sealed()
    assert seals.standing("u", "a", nan, notes) is SealStanding.SEALED
    assert seals.standing("u", "a", nan, {**notes, DEVICE_ALLOCATED: "", "other": "x"}) is SealStanding.SEALED
    wrong = [
        ("v", "a", notes),  # copied to another pod
        ("u", "b", notes),
        ("u", "a", {**notes, RESOURCE_STATUS: '{"cpuset":"0-2"}'}),
        ("u", "a", {**notes, DEVICE_ALLOCATED: "{}"}),
        ("u", "a", GIVEN),
        ("u", "a", {**GIVEN, SEAL: "no base64!"}),
        ("u", "a", {**GIVEN, SEAL: "AAAA"}),
        ("u", "a", {**GIVEN, SEAL: keys(2)[0].seal("u", "a", GIVEN)}),
    ]
    assert [seals.standing(uid, node, nan, entry) for uid, node, entry in wrong] == [SealStanding.REFUSED] * len(wrong)


def test_without_a_key_and_without_a_claim_there_is_nothing_to_refuse() -> None:
    assert NO_SEALS.standing("u", "a", nan, GIVEN) is SealStanding.CHECKED
    assert keys()[1].standing("u", "a", nan, {"other": "x", SEAL: "x"}) is SealStanding.CHECKED


def test_pods_from_before_the_key_are_checked(tmp_path: Path) -> None:
    write_pair(tmp_path)
    sealer, seals = read_seal(tmp_path)
    assert sealer is not None
    began_s = SINCE.timestamp()
    assert seals.standing("u", "a", began_s + GRACE_S - 1, GIVEN) is SealStanding.CHECKED
    assert seals.standing("u", "a", began_s + GRACE_S, GIVEN) is SealStanding.REFUSED
    assert seals.standing("u", "a", nan, GIVEN) is SealStanding.REFUSED
    assert seals.standing("u", "a", 0.0, {**GIVEN, SEAL: sealer.seal("u", "a", GIVEN)}) is SealStanding.SEALED


def test_a_change_of_keys_is_a_file_of_both_certificates(tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        write_pair(tmp_path / str(seed), seed)
    both = tmp_path / "both.crt"
    both.write_bytes(b"".join((tmp_path / name / CERTIFICATE_FILE).read_bytes() for name in "12"))
    seals = read_seals(both)
    for seed in (1, 2):
        assert (
            seals.standing("u", "a", nan, {**GIVEN, SEAL: keys(seed)[0].seal("u", "a", GIVEN)}) is SealStanding.SEALED
        )


def test_files_that_are_absent_count_as_none_and_wrong_ones_are_named(tmp_path: Path) -> None:
    assert read_seal(None) == read_seal(tmp_path) == (None, NO_SEALS)
    assert read_seals(None) is read_seals(tmp_path / "nothing") is NO_SEALS
    write_pair(tmp_path, 1)
    other = tmp_path / "other"
    other.mkdir()
    write_pair(other, 2)
    (tmp_path / KEY_FILE).write_bytes((other / KEY_FILE).read_bytes())
    with pytest.raises(InvalidInput, match="a certificate of the key beside it"):
        read_seal(tmp_path)
    (tmp_path / KEY_FILE).unlink()
    with pytest.raises(InvalidInput, match="a file that can be read"):
        read_seal(tmp_path)
    (tmp_path / CERTIFICATE_FILE).write_text("-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(InvalidInput, match="a certificate of an Ed25519 key"):
        Seals.of_files(tmp_path / CERTIFICATE_FILE)


def test_a_pair_is_made_once_and_anew_where_half_of_it_is_gone(tmp_path: Path) -> None:
    folder, later = tmp_path / "seal", SINCE + timedelta(days=1)
    ensure_pair(folder, SINCE)
    kept = (folder / KEY_FILE).read_text()
    assert (folder / KEY_FILE).stat().st_mode & 0o777 == 0o600
    ensure_pair(folder, later)
    assert (folder / KEY_FILE).read_text() == kept
    sealer, seals = read_seal(folder)
    assert sealer is not None
    assert seals.standing("u", "a", nan, {**GIVEN, SEAL: sealer.seal("u", "a", GIVEN)}) is SealStanding.SEALED
    (folder / CERTIFICATE_FILE).unlink()
    ensure_pair(folder, later)
    assert (folder / KEY_FILE).read_text() != kept
    assert read_seal(folder)[1].standing("u", "a", later.timestamp(), GIVEN) is SealStanding.CHECKED


def test_a_missing_certificate_is_said_with_its_file(tmp_path: Path) -> None:
    ensure_pair(tmp_path, SINCE)
    assert unsealed(tmp_path / CERTIFICATE_FILE) == ""
    assert unsealed(None).startswith("no seal key:")
    assert f"({tmp_path / 'nowhere'} is not there)" in unsealed(tmp_path / "nowhere")


def test_a_certificate_names_the_schedulers_that_state_class_and_quota(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    ensure_pair(tmp_path / "made", SINCE, ["cotenant", "batch"])
    write_pair(tmp_path)
    named, unnamed = read_seal(tmp_path / "made")[1], read_seal(tmp_path)[1]
    both = tmp_path / "both.crt"
    both.write_bytes(b"".join((path / CERTIFICATE_FILE).read_bytes() for path in (tmp_path / "made", tmp_path)))
    began_s = SINCE.timestamp() + GRACE_S

    def counts(seals: Seals, scheduler: str, created_s: float) -> object:
        return seals.settled("u", "a", scheduler, created_s, {QOS_CLASS: "LSR"}, "")

    assert [counts(named, name, began_s) for name in ("cotenant", "batch", "other", "")] == [{}, {}, None, None]
    assert (counts(named, "cotenant", began_s - 1), counts(named, "cotenant", nan)) == (None, {})
    # while keys change, one without names may be any scheduler's
    assert counts(unnamed, "cotenant", nan) is counts(read_seals(both), "cotenant", nan) is None


def certified(seed: int, since_s: float, *schedulers: str) -> Certified:
    key = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    return Certified(key.public_key(), since_s, frozenset(schedulers))


@pytest.mark.parametrize(
    ("certificates", "promised"),
    [  # of the schedulers `old` and `new`: pods created before, and after, the second certificate
        ([certified(1, 0.0, "old")], "old old"),
        ([certified(1, 0.0, "old"), certified(1, 10.0, "new")], "old new"),  # another name, the key was kept
        ([certified(1, 0.0, "old"), certified(1, 10.0, "old", "new")], "old old+new"),
        ([certified(1, 0.0), certified(1, 10.0, "new")], "- new"),
        ([certified(1, 0.0, "old"), certified(2, 10.0, "new")], "old old+new"),  # a second installation
        ([certified(1, 0.0, "old"), certified(2, 10.0, "old")], "old old"),  # a change of keys
        ([certified(1, 0.0, "old"), certified(2, 10.0)], "old -"),  # any scheduler's
    ],
)
def test_the_last_certificate_of_a_key_says_whose_pods_are_stated(certificates: list[Certified], promised: str) -> None:
    for seals in (Seals(certificates), Seals(reversed(certificates))):
        for created, names in zip((5.0, 10.0), promised.split(), strict=True):
            found = [
                name for name in ("old", "new") if seals.settled("u", "a", name, created, {QOS_CLASS: "LSR"}, "") == {}
            ]
            assert "+".join(found) == names.strip("-")
        assert seals.standing("u", "a", 5.0, GIVEN) is SealStanding.REFUSED


def test_certificates_in_a_bundle_beside_the_first_count(tmp_path: Path) -> None:
    for seed in (1, 2):
        (tmp_path / str(seed)).mkdir()
        write_pair(tmp_path / str(seed), seed)
    (tmp_path / "1" / BUNDLE_FILE).write_bytes((tmp_path / "2" / CERTIFICATE_FILE).read_bytes())
    sealer, seals = read_seal(tmp_path / "1")
    assert sealer is not None
    for believed in (seals, read_seals(tmp_path / "1" / CERTIFICATE_FILE)):
        for seed in (1, 2):
            notes = {**GIVEN, SEAL: keys(seed)[0].seal("u", "a", GIVEN)}
            assert believed.standing("u", "a", nan, notes) is SealStanding.SEALED
    (tmp_path / "1" / KEY_FILE).write_bytes((tmp_path / "2" / KEY_FILE).read_bytes())
    with pytest.raises(InvalidInput, match="a certificate of the key beside it"):
        read_seal(tmp_path / "1")  # one of the bundle is not enough
