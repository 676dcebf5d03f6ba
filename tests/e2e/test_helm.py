"""Helm itself installs, upgrades, rolls back and removes our chart on a local cluster. Needs helm; skipped visibly
where there is none.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.e2e.running import Up
from tests.unit.deploy.chart import helm_only
from tools.manifests import CHART, helm

pytestmark = pytest.mark.slow
GROUPS = "/apis/{}.k8s.io/v1/{}"
STORED = {
    "network policies": GROUPS.format("networking", "networkpolicies"),
    "roles": GROUPS.format("rbac.authorization", "roles"),
    "role bindings": GROUPS.format("rbac.authorization", "rolebindings"),
    "cluster roles": GROUPS.format("rbac.authorization", "clusterroles"),
    "cluster role bindings": GROUPS.format("rbac.authorization", "clusterrolebindings"),
    "admission policies": GROUPS.format("admissionregistration", "validatingadmissionpolicies"),
    "their bindings": GROUPS.format("admissionregistration", "validatingadmissionpolicybindings"),
    "webhooks": GROUPS.format("admissionregistration", "mutatingwebhookconfigurations"),
    "deployments": "/apis/apps/v1/deployments",
    "daemon sets": "/apis/apps/v1/daemonsets",
}
EVERYTHING = (  # what Prometheus' operator defines is not there
    f"--values={CHART / 'everything.yaml'}",
    "--set=monitoring.serviceMonitors=false,monitoring.rules=false",
)


@helm_only
def test_helm_installs_upgrades_rolls_back_and_removes_the_chart(tmp_path: Path) -> None:
    up = Up(tmp_path / "up", "--bare")
    with up:
        api = up.ready()

        def run(*words: str) -> str:
            command = [helm(), *words, "--namespace=cotenant-system", f"--kubeconfig={tmp_path / 'up' / 'kubeconfig'}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        def replicas() -> int:
            path = "/apis/apps/v1/namespaces/cotenant-system/deployments/cotenant-scheduler"
            return int(api.get(path)["spec"]["replicas"])

        run("install", "cotenant", str(CHART), "--create-namespace", *EVERYTHING)
        before = replicas()
        assert {name: bool(api.items(path)) for name, path in STORED.items()} == dict.fromkeys(STORED, True)
        run("upgrade", "cotenant", str(CHART), *EVERYTHING, f"--set=scheduler.replicas={before + 1}")
        assert replicas() == before + 1
        run("test", "cotenant")
        run("rollback", "cotenant", "1")
        assert replicas() == before
        run("uninstall", "cotenant", "--no-hooks")  # its Jobs need nodes
        assert {name: api.items(path) for name, path in STORED.items()} == {name: [] for name in STORED}
        assert api.items(
            "/apis/scheduling.k8s.io/v1/priorityclasses", labelSelector="app.kubernetes.io/managed-by=Helm"
        )
