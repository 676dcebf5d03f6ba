"""A whole local cluster on a fleet's bus: its releases are installed, stopped and rolled back by the cluster's guid."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.manifests import deployment
from tests.e2e.running import ENVIRONMENT, Client, Up, eventually, run
from tests.fakes.waiting import patience

from cotenant.services.fleet.places import BUS_FILE

pytestmark = pytest.mark.slow
GUID = "local-cluster"


@contextmanager
def process(folder: Path, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "cotenant", "fleet", *map(str, words), "--state-dir", str(folder)]
    with (folder / f"{words[0]}.log").open("wb") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT)
        try:
            yield running
        finally:
            running.terminate()
            running.wait(patience(30))


@pytest.fixture
def folder(up: Up, tmp_path: Path) -> Iterator[Path]:
    docker = ("--docker", tmp_path / "no-docker.sock", "--guid", "agent-bus")
    with process(tmp_path, "serve", "--embedded", *docker), ExitStack() as started:
        eventually("there is a bus", (tmp_path / BUS_FILE).exists, 60.0)
        started.enter_context(process(tmp_path, "cluster", "--guid", GUID, "--kubeconfig", up.kubeconfig))
        eventually(
            "the cluster answers", lambda: not run("fleet", "methods", GUID, "--state-dir", tmp_path).returncode, 60.0
        )
        yield tmp_path


def asked(folder: Path, method: str, *arguments: str, status: int = 0) -> Any:
    words = ("fleet", "call", GUID, method, *arguments, "--timeout", "60s", "--json", "--state-dir", folder)
    done = run(*words, within_s=90.0)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout) if not status else done.stderr


def done(folder: Path, report: Any) -> Any:
    def ended() -> Any:
        found = asked(folder, "change", f"id={report['id']}", "wait_s=10")
        return found if found["is_done"] else None

    return eventually("the change ends", ended, 120.0)


def test_a_cluster_s_releases_are_changed_by_its_guid(api: Client, namespace: str, folder: Path) -> None:
    web = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("web", 2)}
    huge = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("web", 2, cpu="9000")}
    for name, document in (("web", web), ("huge", huge)):
        (folder / f"{name}.json").write_text(json.dumps(document))
    of = ("name=shop", f"namespace={namespace}")
    installed = done(folder, asked(folder, "app-install", *of, f"manifests=@{folder / 'web.json'}"))
    assert (installed["failure"], installed["lines"][-1]) == ("", "shop installed")
    assert "Deployment " + namespace + "/web 2/2 ready" in installed["lines"]

    page = asked(folder, "app-show", *of)
    assert len(page["pods"]) == 2
    assert all(pod["node"] and pod["guid"].startswith("app-") for pod in page["pods"])
    listed = asked(folder, "app-list", f"namespace={namespace}")
    assert [(one["name"], one["state"]) for one in listed] == [("shop", "deployed")]

    upgrade = ("app-upgrade", *of, f"manifests=@{folder / 'huge.json'}", "timeout_s=20", "rollback_on_failure=true")
    failed = done(folder, asked(folder, *upgrade))
    assert failed["failure"] == "not ready within 20 s"
    assert any("Insufficient cpu" in line for line in failed["lines"])
    assert failed["lines"][-1] == "shop rolled back"

    assert done(folder, asked(folder, "app-stop", *of))["failure"] == ""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    assert api.get(path)["spec"]["replicas"] == 0
    assert done(folder, asked(folder, "app-start", *of))["failure"] == ""
    assert api.get(path)["spec"]["replicas"] == 2
    assert done(folder, asked(folder, "app-uninstall", *of))["failure"] == ""
    assert asked(folder, "app-list", f"namespace={namespace}") == []

    assert "a release of namespace" in asked(folder, "app-show", *of, status=2)
    assert "chart: /etc: expected oci://" in asked(folder, "app-install", *of, "chart=/etc", status=2)
    assert "KubeVirt" in asked(folder, "vm-list", status=1)
