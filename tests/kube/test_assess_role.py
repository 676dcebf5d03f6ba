"""`cotenant assess` on kube-apiserver, as an account that has exactly the role that we ship, and less."""

from __future__ import annotations

import asyncio
import datetime
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.waiting import eventually
from tests.kube.claims.upstream import Upstream, upstream, why_not
from tests.kube.conftest import Kube
from tests.kube.definitions import installed
from tests.kube.test_assess import ROLE

from cotenant.cli.main import main
from cotenant.drivers.http.certificates import ensure
from cotenant.drivers.kube.client.access import load_access
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.snapshot.archive import read_archive
from cotenant.drivers.kube.snapshot.kinds import COPIED
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindReading
from cotenant.drivers.kube.snapshot.snapshot_reading import read_snapshot

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not())]

NAME = "cotenant-assess"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NEEDED = {"nodes", "pods"}


class Account:
    """A service account, and its role as the server has it."""

    def __init__(self, server: Upstream) -> None:
        self.kube = server.client()
        self.role: dict[str, Any] = yaml.safe_load(ROLE.read_text())
        self.kube.create(ROLES, self.role)
        self.kube.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": NAME}})
        subject = {"kind": "ServiceAccount", "name": NAME, "namespace": "default"}
        binding = {
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [subject],
        }
        self.kube.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        asked = {"spec": {"expirationSeconds": 3600}}
        path = f"/api/v1/namespaces/default/serviceaccounts/{NAME}/token"
        document = yaml.safe_load(server.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": self.kube.create(path, asked)["status"]["token"]}
        self.kubeconfig = server.folder / "assess.yaml"
        self.kubeconfig.write_text(yaml.safe_dump(document))
        self.own = Kube(self.kubeconfig, is_local=False)
        self.granted(self.role["rules"])

    def granted(self, rules: list[dict[str, Any]]) -> None:
        """Give the role these rules, and wait until the authorizer has them."""
        self.kube.patch(f"{ROLES}/{NAME}", {"rules": rules})
        wanted = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
        every = {(kind.kind.group, kind.kind.plural) for kind in COPIED.values()}

        def settled() -> bool:
            body = {"spec": {"namespace": "default"}}
            found = self.own.ok("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)
            has = {
                (group, name)
                for rule in found["status"]["resourceRules"]
                if "list" in rule["verbs"]
                for group in rule["apiGroups"]
                for name in rule["resources"]
            }
            return has & every == wanted & every

        eventually("the authorizer has the role", settled, interval_s=0.05)

    def without(self, group: str, resource: str) -> None:
        """Take one resource away."""
        rules = []
        for rule in self.role["rules"]:
            left = [name for name in rule["resources"] if (rule["apiGroups"], name) != ([group], resource)]
            if left:
                rules.append({**rule, "resources": left})
        self.granted(rules)

    def read(self) -> ClusterSnapshot:
        async def read() -> ClusterSnapshot:
            async with Client(load_access(self.kubeconfig), qps=1000.0, burst=1, in_flight=1) as client:
                return await read_snapshot(client, 0.0)

        return asyncio.run(read())


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with upstream(tmp_path_factory.mktemp("assess")) as server:
        kube = server.client()
        with installed(kube):
            amounts = {"cpu": "8", "memory": "16Gi", "pods": "20"}
            ready = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": amounts, "allocatable": amounts}
            for name in ("a", "b"):
                kube.create("/api/v1/nodes", {"metadata": {"name": name}, "status": ready})
            container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "2"}}}
            spec = {"nodeName": "a", "automountServiceAccountToken": False, "containers": [container]}
            kube.create("/api/v1/namespaces/default/pods", {"metadata": {"name": "app"}, "spec": spec})
            yield Account(server)


def test_the_role_is_enough(account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    account.granted(account.role["rules"])
    page, copy = tmp_path / "page.html", tmp_path / "copy.zip"
    options = ["--kubeconfig", str(account.kubeconfig), "--limit-qps", "1000"]
    assert main(["assess", *options, "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "2 nodes with 16 cores, of which 2 cores are allocated" in text
    assert "not read" not in text
    assert page.read_text().startswith("<!doctype html>")
    assert main(["assess", "dump", str(copy), *options]) == 0
    snapshot, _ = read_archive(copy)
    assert snapshot.lacking == ()
    assert snapshot.server.startswith("v1.")
    read = {kind.key for kind in snapshot.kinds if kind.reading is KindReading.READ}
    assert {"v1/pods", "apps/v1/replicasets", "scheduling.koordinator.sh/v1alpha1/reservations"} <= read
    assert "slo.koordinator.sh/v1alpha1/nodemetrics" in read
    # and nothing beside it
    for path in ("/api/v1/secrets", "/api/v1/configmaps", "/api/v1/events", "/api/v1/services"):
        assert account.own.request("GET", path).code == 403
    assert account.own.request("GET", "/api/v1/pods", watch="1").code == 403
    assert account.own.request("DELETE", "/api/v1/nodes/a").code == 403


def test_a_right_that_is_missing_is_named_and_the_rest_is_read(account: Account) -> None:
    account.granted(account.role["rules"])
    whole = account.read()
    served = {kind.key for kind in whole.kinds if kind.reading is KindReading.READ}
    for group, resource in sorted({(c.kind.group, c.kind.plural) for c in COPIED.values()}):
        if resource in NEEDED:
            continue
        account.without(group, resource)
        found = account.read()
        keys = {key for key, copied in COPIED.items() if (copied.kind.group, copied.kind.plural) == (group, resource)}
        assert {kind.key for kind in found.lacking} == keys & served, resource
        assert all(kind.reading is KindReading.DENIED and resource in kind.why for kind in found.lacking)
        assert {kind.key for kind in found.kinds if kind.reading is KindReading.READ} == served - keys


def test_the_command_ends_with_3_and_says_what_it_lacks(account: Account, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--kubeconfig", str(account.kubeconfig), "--limit-qps", "1000"]
    account.without("policy", "poddisruptionbudgets")
    assert main(["assess", *options]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "not read: poddisruptionbudgets: denied" in text
    assert "2 nodes with 16 cores" in text
    account.without("", "pods")
    assert main(["assess", *options]) == 1
    assert "pods" in capsys.readouterr().err


class MetricsServer(http.server.BaseHTTPRequestHandler):
    """metrics.k8s.io, and the discovery that an aggregator asks for."""

    def do_GET(self) -> None:
        usage = {"cpu": "500m", "memory": "1Gi"}
        now = {"timestamp": "2026-01-01T00:00:00Z", "window": "15s"}
        answers: dict[str, dict[str, Any]] = {
            "pods": {
                "items": [
                    {"metadata": {"name": "app", "namespace": "default"}, **now, "containers": [{"usage": usage}]}
                ]
            },
            "nodes": {"items": [{"metadata": {"name": name}, **now, "usage": usage} for name in ("a", "b")]},
        }
        body = json.dumps(answers.get(self.path.rpartition("/")[2], {"kind": "APIResourceList", "resources": []}))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def metrics_server(folder: Path) -> Iterator[int]:
    made = ensure(folder, ("localhost",), datetime.datetime.now(datetime.UTC))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), MetricsServer) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made.certificate, made.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_use_is_sampled_through_the_aggregator(
    account: Account, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account.granted(account.role["rules"])
    options = ["--kubeconfig", str(account.kubeconfig), "--limit-qps", "1000", "--watch", "30s"]
    assert main(["assess", *options]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "metrics.k8s.io: " in text
    assert "all figures are by requests" in text
    with metrics_server(tmp_path) as port:
        kube = account.kube
        service = {"type": "ExternalName", "externalName": "localhost"}
        kube.create("/api/v1/namespaces/default/services", {"metadata": {"name": "metrics"}, "spec": service})
        spec = {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"namespace": "default", "name": "metrics", "port": port},
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        }
        path = "/apis/apiregistration.k8s.io/v1/apiservices"
        kube.create(path, {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": spec})
        kube.eventually("/apis/metrics.k8s.io/v1beta1/pods", lambda found: len(found.get("items", ())) == 1)
        assert main(["assess", *options]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "Use by metrics.k8s.io, sampled every 30 s" in text
        assert "Cores, used at the last measurement 1 cores" in text
        account.without("metrics.k8s.io", "pods")
        assert main(["assess", *options]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "pods.metrics.k8s.io is forbidden" in text
        kube.delete(f"{path}/v1beta1.metrics.k8s.io")
