"""What `cotenant app` does with releases of manifests, without Helm on the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from tests.fakes.processes.kept_objects import KeptObjects

from cotenant.drivers.kube.client.access import Access, load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.drivers.kube.client.objects import ServedKind
from cotenant.model.apps.release import Revision, RevisionState
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.apps.command import AppLocation, Apps, ListedRelease
from cotenant.services.apps.releases import How

T = TypeVar("T")
HOW = How(0.0)
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
WEB = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    "spec: {replicas: 3, selector: {matchLabels: {app: web}}}\n"
)


class Shop:
    """A server, and files to install from."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, namespace: str = "shop") -> None:
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.delenv("HELM", raising=False)
        self.folder = folder
        self.objects = KeptObjects()
        config = folder / "kubeconfig"
        config.write_text(
            "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}],"
            " contexts: [{name: x, context: {cluster: c, user: u, namespace: of-the-file}}], current-context: x}"
        )
        self.said: list[str] = []
        access: Access = load_access(config, "")
        client = Client(access, qps=1.0, burst=1, in_flight=1, user_agent="t")
        self.apps = Apps(client, AppLocation(config, "", namespace), self.said.append)
        self.apps.objects = self.objects

    def file(self, text: str) -> str:
        path = self.folder / "app.yaml"
        path.write_text(text)
        return str(path)

    def install(self, text: str, class_name: str = "", creates_namespace: bool = False, how: How = HOW) -> str:
        work = self.apps.install("web", self.file(text), (), how, class_name, creates_namespace)
        return run(work).failure

    def upgrade(self, text: str, class_name: str = "") -> str:
        return run(self.apps.upgrade("web", self.file(text), (), HOW, class_name)).failure


def run(work: Coroutine[object, object, T]) -> T:
    return asyncio.run(work)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


def test_a_namespace_is_the_one_that_is_named_or_the_kubeconfigs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Shop(tmp_path, monkeypatch).apps.namespace == "shop"
    assert Shop(tmp_path, monkeypatch, "").apps.namespace == "of-the-file"


def test_a_release_is_installed_upgraded_rolled_back_and_removed(shop: Shop) -> None:
    assert shop.install(CONFIG) == ""
    assert shop.upgrade(CONFIG + "data: {k: v}\n") == ""
    assert shop.objects.named("configmaps", "a")["data"] == {"k": "v"}
    assert run(shop.apps.roll_back("web", 1, HOW)).failure == ""
    page = run(shop.apps.show("web", None))
    assert (page.source, page.revision, page.state, page.objects[0].name) == ("manifests", 3, "deployed", "a")
    assert run(shop.apps.uninstall("web", HOW, False)).failure == ""
    with pytest.raises(InvalidInput, match="`cotenant app list` has them"):
        run(shop.apps.show("web", None))


def test_a_release_is_stopped_and_started(shop: Shop) -> None:
    shop.install(WEB, how=How(0.0, waits=False))
    assert run(shop.apps.stop("web", HOW)).failure == ""
    assert shop.objects.named("deployments", "web")["spec"]["replicas"] == 0
    assert run(shop.apps.show("web", None)).state == "stopped"
    assert run(shop.apps.start("web", How(0.0, waits=False))).failure == ""
    assert shop.objects.named("deployments", "web")["spec"]["replicas"] == 3
    with pytest.raises(InvalidInput, match="a release that is stopped"):
        run(shop.apps.start("web", HOW))
    run(shop.apps.stop("web", HOW))
    assert run(shop.apps.start("web", HOW)).failure == "not ready within 0 s"
    assert run(shop.apps.show("web", None)).revision == 1  # a start is no revision


def test_a_stop_that_is_not_waited_for_does_not_fail_by_pods_that_run(shop: Shop) -> None:
    shop.install(WEB.replace("Deployment", "StatefulSet"), how=How(0.0, waits=False))
    owner = {"uid": "uid-web", "controller": True}
    pod: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "ownerReferences": [owner]}}
    shop.objects.put(pod, phase="Running")
    assert run(shop.apps.stop("web", How(0.0, waits=False))).failure == ""
    assert run(shop.apps.stop("web", HOW)).failure == "1 pod still runs after 0 s"


def test_a_failed_first_release_is_shown_with_what_may_be_there(shop: Shop) -> None:
    assert shop.install(WEB).startswith("not ready")
    page = run(shop.apps.show("web", None))
    assert (page.state, page.message, [one.name for one in page.objects]) == ("failed", "not ready within 0 s", ["web"])


def test_a_class_needs_its_kind_and_makes_a_profile(shop: Shop) -> None:
    shop.objects.unserved.add("ClusterColocationProfile")
    for change in (shop.install, shop.upgrade):
        with pytest.raises(InvalidInput, match="a server with ClusterColocationProfiles"):
            change(WEB, "batch")
    shop.objects.unserved.clear()
    shop.install(WEB, "batch", how=How(0.0, waits=False))
    assert len(shop.objects.names("clustercolocationprofiles")) == 1
    assert run(shop.apps.show("web", None)).class_name == "batch"
    with pytest.raises(InvalidInput, match="--class"):
        shop.install(WEB, "best")


def test_options_of_charts_and_empty_sources_are_refused(shop: Shop) -> None:
    with pytest.raises(InvalidInput, match="--values, --set and --version are for charts"):
        run(shop.apps.install("web", shop.file(CONFIG), ["--set=a=b"], HOW, "", False))
    with pytest.raises(InvalidInput, match="are for charts"):
        run(shop.apps.upgrade("web", shop.file(CONFIG), ["--set=a=b"], HOW, ""))
    with pytest.raises(InvalidInput, match="at least one object"):
        shop.install("---\n")
    with pytest.raises(InvalidInput, match="NAME"):
        run(shop.apps.install("Web", shop.file(CONFIG), (), HOW, "", False))


def test_a_chart_needs_helm_and_is_no_upgrade_of_manifests(shop: Shop) -> None:
    with pytest.raises(Unsupported, match="helm"):
        run(shop.apps.install("web", "oci://charts/web", (), HOW, "", False))
    shop.install(CONFIG)
    with pytest.raises(InvalidInput, match="what the release was installed from"):
        run(shop.apps.upgrade("web", "oci://charts/web", (), HOW, ""))


def test_a_namespace_is_made_where_that_was_asked_for(shop: Shop) -> None:
    shop.install(CONFIG)
    assert shop.objects.names("namespaces") == []
    run(shop.apps.uninstall("web", HOW, False))
    shop.install(CONFIG, creates_namespace=True)
    assert shop.objects.names("namespaces") == ["shop"]
    run(shop.apps.uninstall("web", HOW, False))
    assert shop.install(CONFIG, creates_namespace=True) == ""  # it is there already

    async def refused(place: ServedKind, namespace: str, document: JsonMapping) -> JsonObject:
        raise Forbidden("not yours")

    shop.objects.create = refused  # type: ignore[method-assign]
    with pytest.raises(Permanent, match="the namespace cannot be made: not yours"):
        run(shop.apps.install("other", shop.file(CONFIG), (), HOW, "", True))


def test_releases_are_listed_with_their_latest_revision(shop: Shop) -> None:
    shop.install(CONFIG)
    shop.upgrade(CONFIG)
    run(shop.apps.install("app", shop.file(WEB), (), HOW, "", False))
    run(shop.apps.carrier("app").records.write("app", Revision(2, RevisionState.PENDING, (), 0.0), True))
    expected = [
        ListedRelease("shop", "app", "manifests", 2, "pending"),
        ListedRelease("shop", "web", "manifests", 2, "deployed"),
    ]
    assert run(shop.apps.every(False)) == expected
    elsewhere = dict(shop.objects.named("secrets", "cotenant.release.web.v2"))
    shop.objects.put({**elsewhere, "metadata": {**elsewhere["metadata"], "namespace": "other"}})
    assert run(shop.apps.every(False)) == expected
    assert run(shop.apps.every(True)) == [ListedRelease("other", "web", "manifests", 2, "deployed"), *expected]
