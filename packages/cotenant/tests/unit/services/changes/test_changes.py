"""Releases and machines that are changed for callers elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fakes.processes.shop_cluster import ShopCluster, ShopMachines, deployment_text

from cotenant.model.errors import InvalidInput
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb
from cotenant.services.apps.releases import How
from cotenant.services.changes.book import ChangeBook, ChangeReport
from cotenant.services.changes.machines import Machines
from cotenant.services.changes.place import ClusterPlace
from cotenant.services.changes.releases import MAX_TIMEOUT_S, GivenApplication, Releases, how_of

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
HOW = How(5.0)


@pytest.fixture(autouse=True)
def without_helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HELM", raising=False)


async def ended(book: ChangeBook, name: str) -> ChangeReport:
    found = await book.report(name)
    while not found.is_done:
        found = await book.report(name, start=len(found.lines), wait_s=5.0)
    return await book.report(name)


def test_a_release_is_made_changed_and_removed_by_text(tmp_path: Path) -> None:
    async def play() -> None:
        place, book = ShopCluster(folder=tmp_path), ChangeBook()
        releases = Releases(place, book)
        done = await ended(book, releases.install("shop", "web", GivenApplication(CONFIG), HOW))
        assert (done.failure, done.lines[-1], done.what) == ("", "web installed", "install of release shop/web")
        changed = GivenApplication(CONFIG + "data: {k: v}\n")
        assert (await ended(book, releases.upgrade("shop", "web", changed, HOW))).failure == ""
        assert place.objects.named("configmaps", "a")["data"] == {"k": "v"}
        assert (await ended(book, releases.roll_back("shop", "web", 1, HOW))).failure == ""
        assert [(one.name, one.revision) for one in await releases.every()] == [("web", 3)]
        assert (await releases.show("shop", "web")).objects[0].name == "a"
        assert (await ended(book, releases.uninstall("shop", "web", HOW))).failure == ""
        assert place.objects.names("configmaps") == []

    asyncio.run(play())


def test_a_release_is_stopped_and_started_again(tmp_path: Path) -> None:
    async def play() -> None:
        place, book = ShopCluster(folder=tmp_path), ChangeBook()
        releases = Releases(place, book)
        given = GivenApplication(deployment_text("web", 3))
        failed = await ended(book, releases.install("shop", "web", given, How(0.01)))
        assert failed.failure == "not ready within 0.01 s"
        assert any(line.startswith("Deployment shop/web: ") for line in failed.lines)
        assert (await ended(book, releases.stop("shop", "web", HOW))).lines[-1] == "web stopped"
        assert place.objects.named("deployments", "web")["spec"]["replicas"] == 0
        started = await ended(book, releases.start("shop", "web", How(0.01)))
        assert started.failure
        assert place.objects.named("deployments", "web")["spec"]["replicas"] == 3

    asyncio.run(play())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (GivenApplication(), "neither: expected one of them"),
        (GivenApplication(CONFIG, "a/b"), "both: expected one of them"),
        (GivenApplication(CONFIG, values="a: 1"), "they are a chart's"),
        (GivenApplication(chart="/etc"), "chart: /etc"),
        (GivenApplication(chart="../charts/shop"), "chart"),
        (GivenApplication(chart="--post-renderer=/bin/sh"), "chart"),
        (GivenApplication(chart="charts/shop.tgz"), "chart"),
        (GivenApplication(chart="stable/web", version="1;x"), "version"),
        (GivenApplication(CONFIG, class_name="fast"), "fast: expected prod"),
    ],
)
def test_what_is_no_application_is_refused_before_it_begins(
    given: GivenApplication, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "shop.tgz").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=said):
        Releases(ShopCluster(folder=tmp_path), ChangeBook()).install("shop", "web", given, HOW)


def test_no_path_of_the_machine_is_read_for_a_caller(tmp_path: Path) -> None:
    async def play() -> None:
        book = ChangeBook()
        releases = Releases(ShopCluster(folder=tmp_path), book)
        (tmp_path / "secret.yaml").write_text(CONFIG)
        done = await ended(book, releases.install("shop", "web", GivenApplication(str(tmp_path / "secret.yaml")), HOW))
        assert "manifests: str: expected an object in each document" in done.failure

    asyncio.run(play())


def test_names_and_times_are_checked() -> None:
    releases, machines = Releases(ClusterPlace(), ChangeBook()), Machines(ClusterPlace(), ChangeBook())
    for namespace, name in (("a/b", "web"), ("shop", "-x"), ("-n", "web")):
        with pytest.raises(InvalidInput):
            releases.stop(namespace, name, HOW)
    for namespace, name in (("a/b", "db"), ("shop", "a/b"), ("shop", "")):
        with pytest.raises(InvalidInput):
            machines.tell(MachineVerb.STOP, namespace, name, 1.0)
    with pytest.raises(InvalidInput, match="vcpus"):
        machines.tell(MachineVerb.RESIZE, "shop", "db", 1.0, MachineSize(-1))
    for timeout_s in (0.0, float("nan"), MAX_TIMEOUT_S + 1):
        with pytest.raises(InvalidInput, match="timeout_s"):
            how_of(timeout_s)


def test_machines_are_listed_and_told_what_to_do(tmp_path: Path) -> None:
    async def play() -> None:
        db = Machine("shop", "db", "u", MachineState.RUNNING, MachineSize(2, 2048), "node-1", "i")
        place, book = ShopCluster(folder=tmp_path, vms=ShopMachines(db)), ChangeBook()
        machines = Machines(place, book)
        assert [machine.name for machine in await machines.every()] == ["db"]
        moved = await ended(book, machines.tell(MachineVerb.MIGRATE, "shop", "db", 5.0))
        assert (moved.failure, moved.lines) == ("", ("shop/db is running on node-2",))
        assert (await machines.show("shop", "db")).node == "node-2"
        refused = await ended(book, machines.tell(MachineVerb.UNPAUSE, "shop", "db", 5.0))
        assert "it is running, and unpause needs one that is paused" in refused.failure
        resized = await ended(book, machines.tell(MachineVerb.RESIZE, "shop", "db", 5.0, MachineSize(4)))
        assert resized.failure == ""
        assert (await machines.show("shop", "db")).size.vcpus == 4

    asyncio.run(play())
