"""Files that a cluster's zones name are below the keeper's folder, whatever links lead out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.zones.node_files import place_of
from cotenant.services.zones.vm_images import beside
from cotenant.services.zones.zone_files import definition_of_spec

SOURCE = "ControlZone/box@1:u"


def zone(vm: dict[str, Any] | None = None, **pod: Any) -> Any:
    pods = [{"name": "web", "image": {"archive": "web.tar"}, **pod}]
    return definition_of_spec("box", {"vm": vm or {}, "pods": pods}, "it")


def test_names_are_beside_the_folder_and_a_hosts_own_zone_is_as_its_file_says(tmp_path: Path) -> None:
    place = place_of(zone(), SOURCE, tmp_path)
    assert beside("web.tar", place) == tmp_path / "web.tar"
    assert place_of(zone(image={"archive": "/etc/shadow"}), "/root/box.yaml", tmp_path) == "/root/box.yaml"
    groups = definition_of_spec("box", {"vm": {}, "groups": [{"group": "web", "kind": "service"}]}, "it")
    assert place_of(groups, SOURCE, None)  # names none


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (zone(image={"archive": "/etc/shadow"}), "pods.web.image.archive"),
        (zone(image={"archive": "../shadow"}), "pods.web.image.archive"),
        (zone(image={"archive": "link/shadow"}), "pods.web.image.archive"),
        (zone({"hostPaths": ["/etc"]}), "vm.hostPaths"),
        (zone({"kernel": {"file": "/boot/vmlinuz"}}), "vm.kernel.file"),
        (zone(volumes=[{"path": "/data", "host": "/root"}]), "pods.web.volumes.host"),
    ],
)
def test_what_is_elsewhere_is_refused(tmp_path: Path, wrong: Any, field: str) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(InvalidInput, match="the keeper's --zone-files") as error:
        place_of(wrong, SOURCE, tmp_path)
    assert error.value.field == field
    with pytest.raises(InvalidInput, match="no --zone-files"):
        place_of(wrong, SOURCE, None)


def test_paths_of_the_folder_itself_may_be_seen(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    assert place_of(zone({"hostPaths": [data]}, volumes=[{"path": "/data", "host": data}]), SOURCE, tmp_path)
