"""Volumes and profiles of compose files."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.template import ContainerTemplate, Mount
from cotenant.services.fleet.templates.compose import ComposePlace
from cotenant.services.fleet.templates.group_file import read_template, template_of


def made(volumes: str, own: str = "{data: , old: {external: true}, named: {name: other}}") -> tuple[Mount, ...]:
    text = f"{{services: {{web: {{image: x, volumes: {volumes}}}}}, volumes: {own}}}"
    return template_of(text.encode(), "shop.yml", ComposePlace({}, Path("/src")), "shop").containers[0].mounts


def test_folders_of_the_host() -> None:
    home = str(Path.home())
    assert made("['/srv/a:/a', './b:/b:ro', '../c:/c:rw', '~/d:/d']") == (
        Mount("/srv/a", "/a"),
        Mount("/src/b", "/b", is_read_only=True),
        Mount("/c", "/c"),
        Mount(f"{home}/d", "/d"),
    )
    assert made("[{type: bind, source: /a, target: /b, read_only: true, bind: {create_host_path: 'yes'}}]") == (
        Mount("/a", "/b", is_read_only=True, is_made=True),
    )
    assert made("") == made("[]") == ()


def test_named_volumes_are_called_as_compose_does() -> None:
    assert made("['data:/a', 'old:/b:ro', {type: volume, source: named, target: /c}]") == (
        Mount("shop_data", "/a", is_volume=True),
        Mount("old", "/b", is_volume=True, is_read_only=True, is_external=True),
        Mount("other", "/c", is_volume=True),
    )


@pytest.mark.parametrize(
    ("volumes", "said"),
    [
        ("[/data]", "services.web.volumes: /data: expected SOURCE:TARGET or SOURCE:TARGET:ro; a volume without a name"),
        ("data:/a", "services.web.volumes: data:/a: expected a list"),
        ("[[a]]", "expected text"),
        ("['data:/a:z']", "the option z is not supported"),
        ("['dat:/a']", "dat: expected a volume of the file's `volumes`"),
        ("['/a:b']", "target of a mount: b: expected an absolute path below /"),
        ("['/a:/']", "target of a mount: /: expected an absolute path below /"),
        ("['/a:/b', '/c:/b/']", "web: volumes: /b, /b: expected a target of its own for each"),
        ("['~nobody-at-all/a:/b']", "the home folder of a user that is here"),
        ("[{type: tmpfs, target: /a}]", "services.web.volumes.type: tmpfs: expected bind or volume"),
        ("[{type: bind, target: /a}]", "expected source and target"),
        ("[{type: bind, source: /a, target: /b, volume: {}}]", "no volume beside type bind"),
        ("[{type: volume, source: data, target: /b, volume: {nocopy: true}}]", "volumes.volume: nocopy: expected"),
        ("[{type: bind, source: /a, target: /b, bind: {propagation: shared}}]", "volumes.bind: propagation: expected"),
    ],
)
def test_what_cannot_be_mounted_is_refused(volumes: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        made(volumes)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("{data: {driver: nfs}}", "volumes.data: driver: expected supported keys; supported are name, external"),
        ("{data: {name: ../x}}", "name of a volume: ../x: expected letters, digits, -, _ and ."),
        ("[data]", "volumes: ['data']: expected a mapping"),
    ],
)
def test_a_volume_that_cannot_be_had_is_refused(own: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        made("['data:/a']", own)
    assert said in str(refused.value)


def test_who_asks_without_a_file_is_held_to_the_same() -> None:
    """A volume's name that is a path would be one to Docker."""
    for wrong in (("/etc", "/a", True), ("etc", "/a", False), ("..", "/a", True), ("/a:/b", "/a", False)):
        with pytest.raises(InvalidInput):
            Mount(*wrong)


PROFILES = """
services:
  web: {image: x}
  debug: {image: x, profiles: [debug, trace], depends_on: [web]}
  load: {image: x, profiles: load, depends_on: [debug]}
"""


def on(tmp_path: Path, *profiles: str, **environment: str) -> list[str]:
    (tmp_path / "shop.yml").write_text(PROFILES)
    read = read_template(tmp_path / "shop.yml", environment, profiles=profiles)
    return [container.appkey for container in read.containers]


def test_services_of_a_profile_run_where_it_is_on(tmp_path: Path) -> None:
    assert on(tmp_path) == ["web"]
    assert on(tmp_path, "trace") == ["web", "debug"]
    assert on(tmp_path, "load", COMPOSE_PROFILES="debug, other") == ["web", "debug", "load"]
    assert on(tmp_path, "*") == ["web", "debug", "load"]
    with pytest.raises(InvalidInput, match=r"services\.load\.depends_on: debug: expected a service that is on; --prof"):
        on(tmp_path, "load")


def test_a_file_of_which_nothing_is_on_says_which_profiles_it_has(tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text("services: {a: {image: x, profiles: [one]}, b: {image: x, profiles: [two]}}")
    with pytest.raises(InvalidInput, match="services: a, b: expected a service that is on; --profile is one of one, t"):
        read_template(tmp_path / "shop.yml", {})


def test_paths_are_of_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "shop.yml").write_text("services: {web: {image: x, volumes: ['./html:/html']}}")
    assert read_template(tmp_path / "shop.yml", {}).containers == (
        ContainerTemplate("web", "x", mounts=(Mount(f"{tmp_path}/html", "/html"),)),
    )
