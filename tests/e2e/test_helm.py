"""Helm itself installs, upgrades, rolls back and removes our chart on a local cluster. Needs helm; skipped visibly
where there is none.
"""

from __future__ import annotations

import subprocess
from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.x509 import DNSName, SubjectAlternativeName, load_pem_x509_certificates
from tests.e2e.running import Up
from tests.unit.deploy.chart import helm_only
from tools.manifests import CHART, helm

from cotenant.drivers.seals.seals import BUNDLE_FILE, read_seal

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


@helm_only
def test_helm_takes_over_what_a_lending_cluster_of_ours_has_made(tmp_path: Path) -> None:
    with Up(tmp_path / "up", "--nodes=1", "--manager", "--lend=peak") as up:
        up.ready()
        access = [f"--kubeconfig={tmp_path / 'up' / 'kubeconfig'}", "--namespace=cotenant-system", "--create-namespace"]
        done = subprocess.run(
            [helm(), "install", "cotenant", str(CHART), *access], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@helm_only
def test_the_key_of_seals_stays_and_its_certificates_follow_the_schedulers_names(tmp_path: Path) -> None:
    up = Up(tmp_path / "up", "--bare")
    with up:
        api = up.ready()

        def run(*words: str) -> None:
            command = [helm(), *words, "--namespace=cotenant-system", f"--kubeconfig={tmp_path / 'up' / 'kubeconfig'}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr

        def stored(*namespaces: str) -> tuple[str, list[list[str]]]:
            path = "/api/v1/namespaces/{}/{}/cotenant-seal"
            secret = api.get(path.format("cotenant-system", "secrets"))["data"]
            bundles = [
                api.get(path.format(name, "configmaps"))["data"]["tls.crt"]
                for name in (namespaces or ("cotenant-system", "cotenant-node"))
            ]
            assert len(set(bundles)) == 1
            folder = tmp_path / "folder"
            folder.mkdir(exist_ok=True)
            for name, text in secret.items():
                (folder / name).write_bytes(b64decode(text))
            (folder / BUNDLE_FILE).write_text(bundles[0])
            assert read_seal(folder)[0] is not None
            found = load_pem_x509_certificates(bundles[0].encode())
            assert len({certificate.public_key().public_bytes_raw() for certificate in found}) == 1
            kind = SubjectAlternativeName
            names = [certificate.extensions.get_extension_for_class(kind).value for certificate in found]
            return secret["tls.key"], [names_of.get_values_for_type(DNSName) for names_of in names]

        run("install", "cotenant", str(CHART), "--create-namespace")
        key, names = stored()
        assert names == [["cotenant"]]
        run("upgrade", "cotenant", str(CHART))
        assert stored() == (key, [["cotenant"]])
        for _ in range(2):  # the second changes nothing
            run("upgrade", "cotenant", str(CHART), "--set=scheduler.names={cotenant,batch=binpack}")
            assert stored() == (key, [["cotenant"], ["cotenant", "batch"]])
        run("uninstall", "cotenant", "--no-hooks")
        kept = "--set=manager.createConfigNamespace=false,priorityClasses.create=false"
        # without agents: nothing here ends their namespace
        run("install", "renamed", str(CHART), kept, "--set=node.enabled=false", "--set=scheduler.names={other}")
        assert stored("cotenant-system") == (key, [["cotenant"], ["other"]])
