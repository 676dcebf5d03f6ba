"""`cotenant app` on a whole local cluster: a release's life, its failures, and what a forged record cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import deployment
from tests.e2e.running import Client, Refused, Up, run
from tests.fakes.waiting import patience
from tests.unit.deploy.chart import helm_only

from cotenant.model.apps.release import Revision, RevisionState
from cotenant.services.apps.records import LABEL, TYPE, encoded

pytestmark = pytest.mark.slow
WITHIN = ("--timeout-s", round(patience(90)))
TOLD_S = 20  # what cannot be ready is given up after this long: until then the scheduler has said why


class Releases:
    """The command in one namespace."""

    def __init__(self, up: Up, api: Client, namespace: str, folder: Path) -> None:
        self.api = api
        self.namespace = namespace
        self._folder = folder
        self._where = ("--kubeconfig", up.kubeconfig, "--namespace", namespace)

    def source(self, name: str, *objects: dict[str, Any]) -> Path:
        file = self._folder / f"{name}.json"
        file.write_text("\n---\n".join(json.dumps(one) for one in objects))
        return file

    def said(self, *words: object, status: int = 0) -> str:
        done = run("app", *words, *self._where, within_s=150.0)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def show(self, name: str) -> Any:
        return json.loads(self.said("show", name, "--json"))

    def spec(self, name: str) -> Any:
        return self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")["spec"]

    def has(self, path: str) -> bool:
        try:
            self.api.get(path)
        except Refused:
            return False
        return True


@pytest.fixture
def releases(up: Up, api: Client, namespace: str, tmp_path: Path) -> Releases:
    return Releases(up, api, namespace, tmp_path)


def workload(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", **deployment(name, replicas, **more)}


def settings(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


def test_a_release_lives(releases: Releases) -> None:
    first = releases.source("first", workload("web", 2), settings("old"))
    second = releases.source("second", workload("web", 3), settings("new"))
    maps = f"/api/v1/namespaces/{releases.namespace}/configmaps"
    assert "web 2/2 ready" in releases.said("install", "shop", first, *WITHIN)
    assert "upgrade" in releases.said("install", "shop", first, status=2)
    releases.said("upgrade", "shop", second, *WITHIN)
    assert [releases.has(f"{maps}/{name}") for name in ("old", "new")] == [False, True]

    shown = releases.show("shop")
    assert (shown["revision"], shown["state"], len(shown["pods"])) == (2, "deployed", 3)
    assert all(pod["node"] and pod["guid"].startswith("app-") for pod in shown["pods"])
    assert shown["cost"]["cpu_m"] == 300

    before = releases.spec("web")
    assert "0 pods run" in releases.said("stop", "shop", *WITHIN)
    assert (releases.show("shop")["state"], releases.spec("web")["replicas"]) == ("stopped", 0)
    assert "start it first" in releases.said("upgrade", "shop", second, status=2)
    releases.said("start", "shop", *WITHIN)
    assert releases.spec("web") == before
    assert "stopped" in releases.said("start", "shop", status=2)

    releases.said("rollback", "shop", *WITHIN)
    assert (releases.show("shop")["revision"], releases.spec("web")["replicas"]) == (3, 2)
    assert [releases.has(f"{maps}/{name}") for name in ("old", "new")] == [True, False]
    assert "shop" in releases.said("list")
    releases.said("uninstall", "shop")
    assert [releases.has(f"{maps}/{name}") for name in ("old", "new")] == [False, False]
    assert "expected a release" in releases.said("show", "shop", status=2)


def test_a_failed_upgrade_says_why_in_the_scheduler_s_words_and_goes_back(releases: Releases) -> None:
    good = releases.source("good", workload("web", 1))
    huge = releases.source("huge", workload("web", 1, cpu="9000"))
    releases.said("install", "shop", good, *WITHIN)
    said = releases.said("upgrade", "shop", huge, "--timeout-s", TOLD_S, "--rollback-on-failure", status=1)
    assert f"Deployment {releases.namespace}/web: 0/1 ready" in said
    assert "Insufficient cpu" in said
    assert "shop rolled back" in said
    assert releases.spec("web")["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"
    assert (releases.show("shop")["revision"], releases.show("shop")["state"]) == (3, "deployed")


def test_a_new_release_that_fails_leaves_nothing(releases: Releases) -> None:
    huge = releases.source("huge", settings("a"), workload("web", 1, cpu="9000"))
    releases.said("install", "shop", huge, "--timeout-s", TOLD_S, "--rollback-on-failure", status=1)
    base = f"/api/v1/namespaces/{releases.namespace}"
    assert releases.api.items(f"{base}/secrets") == []
    assert not releases.has(f"{base}/configmaps/a")


def test_what_is_there_and_belongs_to_nobody_is_taken_over_only_when_told(releases: Releases) -> None:
    path = f"/api/v1/namespaces/{releases.namespace}/configmaps"
    releases.api.create(path, settings("a"))
    source = releases.source("one", settings("a"))
    assert "--adopt" in releases.said("install", "shop", source, status=1)
    releases.said("install", "shop", source, "--adopt")


def test_a_forged_record_changes_and_deletes_nothing_of_others(releases: Releases) -> None:
    """A tenant that may write Secrets names objects of another namespace in a release's record."""
    victim = {**settings("victim"), "metadata": {"name": "victim", "namespace": "default"}}
    path = "/api/v1/namespaces/default/configmaps/victim"
    releases.api.create("/api/v1/namespaces/default/configmaps", victim)
    releases.said("install", "shop", releases.source("own", settings("own")))
    changed = {**victim, "data": {"a": "forged"}}
    forged = [
        Revision(2, RevisionState.SUPERSEDED, (changed,), 0.0),
        Revision(3, RevisionState.DEPLOYED, (settings("own"), victim), 0.0),
    ]
    for one in forged:
        secret = {
            "metadata": {"name": f"cotenant.release.shop.v{one.number}", "labels": {LABEL: "shop"}},
            "type": TYPE,
            "data": {"release": encoded(one)},
        }
        releases.api.create(f"/api/v1/namespaces/{releases.namespace}/secrets", secret)
    assert "the record in namespace" in releases.said("rollback", "shop", "--to", 2, status=1)
    said = releases.said("uninstall", "shop")
    assert "ConfigMap default/victim: it stays" in said
    assert releases.api.get(path)["data"] == {"a": "1"}
    releases.api.delete(path)


def chart(folder: Path) -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 0.1.0\n")
    (folder / "values.yaml").write_text('replicas: 2\ncpu: "100m"\n')
    text = json.dumps(workload("web", 7, cpu="PLACE"), indent=1)
    text = text.replace(": 7", ": {{ .Values.replicas }}").replace("PLACE", "{{ .Values.cpu }}")
    (folder / "templates" / "web.yaml").write_text(text)
    return folder


@helm_only
def test_a_chart_is_helm_s_and_lives_the_same_way(releases: Releases, tmp_path: Path) -> None:
    source = chart(tmp_path / "chart")
    releases.said("install", "shop", source, *WITHIN)
    assert len(releases.show("shop")["pods"]) == 2
    releases.said("stop", "shop", *WITHIN)
    assert "start it first" in releases.said("upgrade", "shop", source, status=2)
    releases.said("start", "shop", *WITHIN)
    assert releases.spec("web")["replicas"] == 2
    failing = ("--set", "cpu=9000", "--timeout-s", TOLD_S, "--rollback-on-failure")
    said = releases.said("upgrade", "shop", source, *failing, status=1)
    assert "Insufficient cpu" in said
    assert releases.spec("web")["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "100m"
    assert "chart web-0.1.0" in releases.said("list")
    releases.said("uninstall", "shop")
    assert releases.api.items(f"/apis/apps/v1/namespaces/{releases.namespace}/deployments") == []
