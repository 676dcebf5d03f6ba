"""What an agent lets containers mount of its host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.configuration import AgentConfiguration
from cotenant.model.fleet.template import ContainerTemplate, Mount
from cotenant.services.fleet.functions.mounts import mounted


def sources(*mounts: Mount, allowed: tuple[str, ...]) -> list[str]:
    return [mount.source for mount in mounted(ContainerTemplate("web", "x", mounts=mounts), allowed).mounts]


def test_what_lies_below_an_allowed_folder_is_mounted_as_it_is_here(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    assert sources(
        Mount(f"{tmp_path}/data", "/a"), Mount(f"{tmp_path}/link", "/b"), Mount(root, "/c"), allowed=(str(tmp_path),)
    ) == [f"{root}/data", f"{root}/data", root]
    assert sources(Mount("/proc/version", "/v"), allowed=("/",)) == ["/proc/version"]


def test_nothing_is_allowed_that_is_not_named_and_no_link_leads_out(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    for wrong in ("/etc", f"{tmp_path}/out", f"{tmp_path}/out/../etc", f"{tmp_path}-beside"):
        with pytest.raises(Permanent, match="may not be mounted: this host's agent lets containers mount /"):
            sources(Mount(wrong, "/a"), allowed=(str(tmp_path),))
    with pytest.raises(Permanent, match="/etc may not be mounted: this host's agent lets containers mount nothing"):
        sources(Mount("/etc", "/a"), allowed=())


def test_what_is_not_there_is_made_only_where_that_is_said(tmp_path: Path) -> None:
    wanted = f"{os.path.realpath(tmp_path)}/new/folder"
    with pytest.raises(Permanent, match="new/folder is not there on this host: make it, or say"):
        sources(Mount(wanted, "/a"), allowed=("/",))
    assert sources(Mount(wanted, "/a", is_made=True), allowed=("/",)) == [wanted]
    assert Path(wanted).is_dir()
    (tmp_path / "file").touch()
    assert sources(Mount(f"{tmp_path}/file", "/a", is_made=True), allowed=("/",))
    with pytest.raises(Permanent, match="file/below cannot be made on this host: Not a directory"):
        sources(Mount(f"{tmp_path}/file/below", "/a", is_made=True), allowed=("/",))


def test_volumes_are_no_paths() -> None:
    assert sources(Mount("data", "/a", is_volume=True), allowed=()) == ["data"]


def test_folders_of_the_configuration_are_absolute() -> None:
    assert AgentConfiguration(mount_paths=("/srv",)).mount_paths == ("/srv",)
    with pytest.raises(InvalidInput, match="mount_paths: srv: expected an absolute path"):
        AgentConfiguration(mount_paths=("srv",))
