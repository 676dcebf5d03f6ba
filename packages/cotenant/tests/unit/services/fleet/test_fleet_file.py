"""Keys and credentials from a fleet's file: who has some, that they stay, and what the servers' configurations name."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.rights import FleetFile, FleetOperator, HostEntry, Lan, ProgramEntry
from cotenant.services.fleet.fleet_file import MadeKeys, issuer, make_credentials, make_keys, read_fleet_file

pytest.importorskip("nkeys", reason="nkeys is not installed")
FLEET = FleetFile(
    (HostEntry("host-a", ("edge",)), HostEntry("host-b")),
    (FleetOperator("alice", ("*",)),),
    lans=(Lan("plant", ("host-b",), "0.0.0.0:4333", ("plant.example", "10.0.0.1")),),
    programs=(ProgramEntry("program-p"),),
)
WHO = {"host-a", "host-b", "program-p", "controller", "alice"}
ISSUED_S = 1_700_000_000


def keys(folder: Path, fleet: FleetFile = FLEET) -> MadeKeys:
    return make_keys(fleet, folder, ("fleet.example", "127.0.0.1"), "0.0.0.0:4222", "0.0.0.0:7423")


def jwts(folder: Path, fleet: FleetFile = FLEET) -> MadeKeys:
    return make_credentials(fleet, folder, ("fleet.example",), "0.0.0.0:4222", ISSUED_S, "0.0.0.0:7423")


def text(path: Path | None) -> str:
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # nobody else reads it
    return path.read_text()


def test_a_file_is_read_or_its_fault_named(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("hosts: [{guid: host-a, tags: [edge]}]\noperators: [{name: alice, verbs: ['*']}]")
    found = read_fleet_file(path)
    assert (found.hosts, found.operators[0].name) == ((HostEntry("host-a", ("edge",)),), "alice")
    with pytest.raises(InvalidInput, match="No such file"):
        read_fleet_file(tmp_path / "none")
    path.write_text("hosts: 3")
    with pytest.raises(InvalidInput, match=r"fleet\.yaml:.*hosts"):
        read_fleet_file(path)


def test_each_has_a_key_of_its_own_that_stays(tmp_path: Path) -> None:
    made = keys(tmp_path / "f")
    assert set(made.seeds) == WHO
    seeds = {name: text(path) for name, path in made.seeds.items()}
    assert len(set(seeds.values())) == len(WHO)
    assert made.authority == tmp_path / "f/tls/ca.crt"
    assert made.programs is None
    leaf = text(made.leaves["plant"])
    again = keys(tmp_path / "f")
    assert {name: text(path) for name, path in again.seeds.items()} == seeds
    assert text(again.leaves["plant"]) == leaf  # its password, too
    assert stat.S_IMODE((tmp_path / "f/keys").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "f/leaf-plant").stat().st_mode) == 0o700


def test_a_lans_server_reaches_the_fleets_by_its_first_name_and_the_leaves_port(tmp_path: Path) -> None:
    made = keys(tmp_path)
    password = (tmp_path / "keys/plant.leaf").read_text().strip()
    assert len(password) == 48
    leaf, own = text(made.leaves["plant"]), text(made.configuration)
    assert f"tls://plant:{password}@fleet.example:7423" in leaf
    assert password in own
    assert "0.0.0.0:7423" in own
    assert str(tmp_path / "leaf-plant/tls") in leaf
    assert str(tmp_path / "tls/ca.crt") in leaf
    assert "0.0.0.0:4222" in own
    assert str(tmp_path / "jetstream") in own


def test_without_lans_no_leaf_is_listened_for(tmp_path: Path) -> None:
    alone = replace(FLEET, lans=())
    assert "7423" not in text(keys(tmp_path / "a", alone).configuration)
    assert "7423" not in text(jwts(tmp_path / "b", alone).configuration)
    assert keys(tmp_path / "a", alone).leaves == jwts(tmp_path / "b", alone).leaves == {}


@pytest.mark.parametrize("make", [keys, jwts])
def test_two_of_one_name_are_refused(make: object, tmp_path: Path) -> None:
    twice = replace(FLEET, controllers=("host-a",))
    assert callable(make)
    with pytest.raises(InvalidInput, match="a name of its own"):
        make(tmp_path, twice)


@pytest.mark.parametrize("make", [keys, jwts])
def test_a_folder_that_cannot_be_written_is_one_line(make: object, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert callable(make)
    with pytest.raises(Permanent, match="cannot be written: Not a directory"):
        make(tmp_path / "file")


def test_credentials_are_issued_for_each_and_the_programs_key(tmp_path: Path) -> None:
    made = jwts(tmp_path)
    assert set(made.seeds) == WHO  # not for the leaf, whose file its server's configuration names
    creds = {name: text(path) for name, path in made.seeds.items()}
    assert len(set(creds.values())) == len(WHO)
    assert all("BEGIN NATS USER JWT" in found for found in creds.values())
    leaf = text(made.leaves["plant"])
    assert str(tmp_path / "keys/leaf-plant.creds") in leaf
    assert "tls://fleet.example:7423" in leaf
    assert "0.0.0.0:7423" in text(made.configuration)
    signing = json.loads(text(made.programs))
    assert set(signing) == {"seed", "account"}
    assert jwts(tmp_path).configuration.read_text() == made.configuration.read_text()  # nothing new without a change
    assert made.programs is not None
    issue = issuer(made.programs, now=lambda: ISSUED_S + 0.5)
    assert "BEGIN NATS USER JWT" in issue("guid-1")
    assert issue("guid-1") != issue("guid-2")


def test_who_is_no_longer_in_the_file_is_revoked(tmp_path: Path) -> None:
    before = jwts(tmp_path).configuration.read_text()
    fewer = replace(FLEET, hosts=FLEET.hosts[1:])
    after = jwts(tmp_path, fewer).configuration.read_text()
    assert before != after
    assert len(after) > len(before)  # the account names the revoked key
    assert "host-a" not in jwts(tmp_path, fewer).seeds


@pytest.mark.parametrize("content", [None, "{}", "nothing"])
def test_a_file_that_is_no_programs_key_is_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "programs.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInput, match="--program-key"):
        issuer(path)
