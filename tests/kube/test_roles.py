"""Each process of `deploy/` with a token of its own role, through a short life of a cluster: no call is refused, and no
right is left that no call used.

The calls are recorded by a proxy. On a real server with RBAC the rights are those that SelfSubjectRulesReview tells the
process's token; on the local one, which has no RBAC, those of the files. Rights for what the scenario does not bring
about are listed with their reason; the static comparison of tests/unit/deploy/test_roles.py covers them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers import api_roles
from tests.kube.conftest import pod
from tests.kube.definitions import collection, installed
from tests.kube.installation import NAMESPACES, Child, Installation, Part, accounts, documents, reviewed, token

pytestmark = pytest.mark.slow

Obj = dict[str, Any]
SLO, KOORD = "slo.koordinator.sh/v1alpha1", "scheduling.koordinator.sh/v1alpha1"
SIGS, OLD = "scheduling.sigs.k8s.io", "scheduling.x-k8s.io"
ANY_PORT = "--listen=127.0.0.1:0"
PARTS = {
    "scheduler": Part("scheduler/deployment.yaml", (ANY_PORT, "--state-dir="), "cotenant-scheduler"),
    "manager": Part("manager/deployment.yaml", (ANY_PORT,), "cotenant-manager"),
    "webhook": Part("webhook/deployment.yaml", (ANY_PORT,), "cotenant-webhook"),
    "rebalancer": Part("rebalancer/deployment.yaml", (ANY_PORT, "--config=CONFIG", "--act"), "cotenant-rebalancer"),
    "extender": Part("extender/deployment.yaml", (ANY_PORT, "--health-listen="), "cotenant-extended"),
    "console": Part("console/deployment.yaml", (ANY_PORT,), "cotenant-console"),
    "traces": Part(
        "traces/deployment.yaml",
        ("--http=127.0.0.1:0", "--grpc=", "--token-file=-", "--send-token-file=-", "--state=-"),
        "cotenant-traces",
    ),
    "credit": Part("credit/deployment.yaml", (ANY_PORT, "--store=STORE", "--token-file=-"), "cotenant-credit"),
    "node": Part("node/daemonset.yaml", ("--config=CONFIG",), "cotenant-node", "cotenant-node"),
    "uninstall": Part("uninstall/job.yaml", (), "cotenant-uninstall"),
}
FOLDERS = tuple(PARTS)

# Rights that the scenario does not use, and what does: by part, verb and resource. Both groups of a kind have one
# entry.
_REFUSED = "the kind is not served here, so that its list is answered by 404"
_PLAIN = "where a definition has no status subresource, the status is written on the object"
_ASKED = "answers a viewer's question"
_GPU = "a machine with GPUs"
_REPORT = "reports with an agent's token: tests/kube/test_agent.py"
_REPEATED = "an event that is repeated"
_RENEWED = "a certificate that is renewed: tests/kube/test_certificates.py"
_MOVED = "a whole move, with a workload's controller: tests/e2e/test_rebalancer.py"
_CLEARS = "the Jobs after it: packages/cotenant/tests/unit/services/withdrawal/test_leftovers.py"
_SPREAD = "replicas that are spread by default: tests/kube/test_scheduler_config.py"
_KUBE = "the kube-scheduler in the extender's pod"
_CLAIMS = "a pod with claims: tests/kube/claims"
_SURGE = "a single replica that is replaced first: tests/kube/test_surging.py"
RARE: dict[tuple[str, str, str], str] = {
    ("scheduler", "create", "pods/eviction"): "a pod that is moved out of a team's guarantee: tests/e2e/test_quota.py",
    ("scheduler", "create", "tokenreviews"): _REPORT,
    ("scheduler", "delete", "reservations"): "a day after one has ended",
    ("scheduler", "get", "pods"): "a binding whose answer was lost",
    ("scheduler", "get", "reservations"): "a status whose write was refused as outdated",
    ("scheduler", "patch", "reservations"): _PLAIN,
    ("scheduler", "patch", "podgroups"): _PLAIN,
    ("scheduler", "patch", "elasticquotas"): _PLAIN,
    ("scheduler", "patch", "podgroups/status"): _REFUSED,
    ("scheduler", "patch", "events"): _REPEATED,
    ("scheduler", "patch", "persistentvolumeclaims"): "a volume that waits for its first pod: "
    "tests/kube/test_scheduler_volumes.py",
    ("scheduler", "patch", "persistentvolumes"): "the same, for a volume that exists",
    ("scheduler", "patch", "workloadprofiles/status"): "a WorkloadProfile with measured pods: "
    "tests/kube/test_our_kinds.py",
    **{
        ("scheduler", verb, resource): _SPREAD
        for verb in ("list", "watch")
        for resource in ("services", "replicationcontrollers", "replicasets", "statefulsets")
    },
    **{
        ("scheduler", verb, resource): _CLAIMS
        for verb, resource in (
            *((verb, "resourceclaims") for verb in ("create", "delete", "get", "patch")),
            ("patch", "resourceclaims/binding"),
            ("patch", "resourceclaims/status"),
        )
    },
    ("manager", "create", "events"): "a configuration in which something is wrong, or was",
    ("manager", "patch", "events"): _REPEATED,
    ("manager", "patch", "nodes"): "the reserve of the policy peak, and ratios: tests/e2e/test_manager.py",
    ("manager", "patch", "nodeslos"): "a changed configuration",
    ("manager", "patch", "configmaps"): _RENEWED,
    ("manager", "patch", "secrets"): _RENEWED,
    ("webhook", "get", "pods"): "an eviction by an agent: tests/kube/test_admission_policies.py",
    ("webhook", "list", "pods"): "a quota that is deleted: tests/kube/test_webhook_process.py",
    ("webhook", "patch", "secrets"): _RENEWED,
    ("rebalancer", "create", "pods/eviction"): _MOVED,
    ("rebalancer", "create", "podmigrationjobs"): _MOVED,
    ("rebalancer", "create", "reservations"): _MOVED,
    ("rebalancer", "delete", "reservations"): _MOVED,
    ("rebalancer", "delete", "podmigrationjobs"): "a day after one has ended",
    ("rebalancer", "delete", "pods"): "a soft or unready pod, without an eviction",
    ("rebalancer", "get", "pods"): _MOVED,
    ("rebalancer", "get", "reservations"): _MOVED,
    ("rebalancer", "patch", "pods"): "the annotation of a soft eviction",
    ("rebalancer", "patch", "podmigrationjobs"): _PLAIN,
    ("rebalancer", "patch", "events"): _REPEATED,
    ("rebalancer", "list", "serviceobjectives"): "the plugin MissedObjectives, which its configuration may name",
    ("rebalancer", "watch", "serviceobjectives"): "the same",
    **{("rebalancer", verb, "deployments"): _SURGE for verb in ("get", "list", "patch")},
    ("rebalancer", "get", "replicasets"): _SURGE,
    ("rebalancer", "list", "services"): _SPREAD,
    ("rebalancer", "watch", "services"): _SPREAD,
    ("extender", "create", "tokenreviews"): _REPORT,
    ("extender", "create", "leases"): _KUBE,
    ("extender", "get", "leases"): _KUBE,
    ("extender", "update", "leases"): _KUBE,
    ("console", "get", "configmaps"): _ASKED,
    ("console", "get", "nodes"): _ASKED,
    ("console", "get", "devices"): _ASKED,
    ("console", "get", "nodemetrics"): _ASKED,
    ("console", "get", "noderesourcetopologies"): _ASKED,
    ("console", "list", "pods"): "what pods use, where the cluster measures it (metrics.k8s.io)",
    ("traces", "patch", "serviceobjectives"): _PLAIN,
    ("traces", "create", "events"): "an incident: packages/cotenant/tests/unit/services/traces/test_incident_events.py",
    ("traces", "patch", "events"): _REPEATED,
    ("traces", "create", "tokenreviews"): "agents that come with their own tokens: "
    "packages/cotenant/tests/unit/services/traces/test_agents_tokens.py",
    ("uninstall", "delete", "daemonsets"): _REFUSED,
    ("uninstall", "get", "daemonsets"): _CLEARS,
    ("uninstall", "delete", "leases"): _CLEARS,
    ("uninstall", "delete", "secrets"): _CLEARS,
    ("credit", "create", "tokenreviews"): _REPORT,
    ("credit", "patch", "elasticquotas"): "a standing: after a period of a minute, tests/kube/test_credit_process.py",
    ("node", "create", "pods/eviction"): "mode act",
    ("node", "create", "devices"): _GPU,
    ("node", "get", "devices"): _GPU,
    ("node", "patch", "devices"): _GPU,
    ("node", "create", "nodemetrics"): "a cluster without a manager",
    ("node", "get", "nodeslos"): "cluster: {node_slo: true}",
    ("node", "patch", "noderesourcetopologies"): "CPUs that are pinned or freed",
}
# Kinds that the server may not serve.
OPTIONAL = {"replicationcontrollers", "podgroups", "csidrivers", "csistoragecapacities", "workloads"}


@dataclass(frozen=True, slots=True)
class Lived:
    """What was seen."""

    events: list[Obj]
    rights: dict[str, set[api_roles.Grant]]
    served: set[tuple[str, str]]  # group and resource


def _grants(kube: Any) -> dict[str, set[api_roles.Grant]]:
    """The rights of each part: what the server says of its token, over what any account may do; on the local server
    what its file says.
    """
    if kube.is_local:
        return {name: api_roles.granted(f"{name}/rbac.yaml") for name in PARTS}
    nobody = Part("", (), "default", "cotenant-system")
    path = "/api/v1/namespaces/cotenant-system/serviceaccounts"
    if kube.request("GET", f"{path}/default").code == 404:
        kube.create(path, {"metadata": {"name": "default"}})
    found: dict[str, set[api_roles.Grant]] = {}
    for name, part in PARTS.items():
        bearer, plain, everywhere = token(kube, part), token(kube, nobody), set[api_roles.Grant]()
        inside: dict[str, set[api_roles.Grant]] = {}
        for namespace in ("default", *NAMESPACES):
            inside[namespace] = reviewed(kube, bearer, namespace) - reviewed(kube, plain, namespace)
        everywhere = inside["default"]
        found[name] = everywhere | {
            grant._replace(namespace=namespace) for namespace in NAMESPACES for grant in inside[namespace] - everywhere
        }
    return found


def _measured(kube: Any, node: str, cpu_m: int) -> None:
    """A NodeMetric of a node without an agent, as one would write it."""
    now = kube.now()
    use = {"resources": {"cpu": f"{cpu_m}m", "memory": "1Gi"}}
    status = {"updateTime": now, "nodeMetric": {"nodeUsage": use}, "podsMetric": []}
    path = f"{collection('nodemetrics')}/{node}"
    kube.eventually(path, lambda found: found.get("kind") == "NodeMetric", 60.0)
    kube.patch(f"{path}/status", {"status": status})


class Life:
    """The scenario, step by step; each waits for the effect that it is about."""

    def __init__(self, kube: Any, run: Installation, namespace: str, folder: Path) -> None:
        self.kube, self.run, self.namespace, self.folder = kube, run, namespace, folder
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.nodes = [f"role-{namespace}-{n}" for n in range(3)]
        self.made: list[str] = []

    def make(self, path: str, obj: Obj) -> str:
        self.kube.create(path, obj)
        where = f"{path}/{obj['metadata']['name']}"
        self.made.append(where)
        return where

    def until(self, path: str, holds: Any, within_s: float = 90.0) -> Any:
        def goes_on(found: Any) -> Any:
            self.run.check()
            return holds(found)

        return self.kube.eventually(path, goes_on, within_s)

    def cluster(self) -> None:
        """Nodes, and what the cluster's owner makes: the manager's ConfigMap, the webhooks of the chart."""
        for name in self.nodes:
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
            status = {"conditions": [ready], "capacity": amounts, "allocatable": amounts}
            labels = {"kubernetes.io/hostname": name, "of": self.namespace}
            self.make("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
            # a server taints new nodes as not ready, and the controller that would take that back need not be there
            self.kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        for document in documents("webhook/configuration.yaml"):
            kind = "mutating" if document["kind"].startswith("Mutating") else "validating"
            self.make(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations", document)
        data = {"colocation-config": json.dumps({"enable": True, "metricReportIntervalSeconds": 5})}
        self.make(
            "/api/v1/namespaces/koordinator-system/configmaps",
            {"metadata": {"name": "slo-controller-config"}, "data": data},
        )

    def scheduling(self) -> None:
        """A pod that is bound, one that cannot be, a gang of each group's kind, a quota, a reservation, a profile,
        a preemption, a volume.
        """
        here = {"nodeSelector": {"of": self.namespace}, "schedulerName": "cotenant"}
        self.make(self.pods, self._pod("web", "100m", **here))
        self.until(f"{self.pods}/web", lambda found: found["spec"].get("nodeName"), 300.0)
        self.make(self.pods, self._pod("large", "100", **here))
        self.until(f"{self.pods}/large", lambda found: found["status"].get("conditions"))
        for group in (SIGS, OLD):
            plural, name = "podgroups" if group == SIGS else f"podgroups.{OLD}", f"gang-{group.split('.')[1]}"
            where = self.make(
                collection(plural, self.namespace),
                {
                    "apiVersion": f"{group}/v1alpha1",
                    "kind": "PodGroup",
                    "metadata": {"name": name},
                    "spec": {"minMember": 1},
                },
            )
            self.make(
                self.pods,
                self._pod(
                    f"{name}-0",
                    "100m",
                    {f"{group}/pod-group" if group == OLD else "pod-group.scheduling.sigs.k8s.io": name},
                    **here,
                ),
            )
            self.until(where, lambda found: found.get("status", {}).get("phase"))

    def quotas(self) -> None:
        for group in (SIGS, OLD):
            plural = "elasticquotas" if group == SIGS else f"elasticquotas.{OLD}"
            spec = {"min": {"cpu": "1"}, "max": {"cpu": "100"}}
            name = f"quota-{group.split('.')[1]}"
            where = self.make(
                collection(plural, self.namespace),
                {"apiVersion": f"{group}/v1alpha1", "kind": "ElasticQuota", "metadata": {"name": name}, "spec": spec},
            )
            self.until(where, lambda found: "used" in found.get("status", {}))

    def reservations(self) -> None:
        template = {
            "spec": self._pod("x", "100m", nodeSelector={"of": self.namespace}, schedulerName="cotenant")["spec"]
        }
        spec = {"template": template, "owners": [{"labelSelector": {"matchLabels": {"app": "none"}}}], "ttl": "1h"}
        where = self.make(
            collection("reservations"),
            {"apiVersion": KOORD, "kind": "Reservation", "metadata": {"name": f"kept-{self.namespace}"}, "spec": spec},
        )
        self.until(where, lambda found: found.get("status", {}).get("phase") == "Available")

    def preemption(self) -> None:
        """A pod of a higher class takes the room of a lower one."""
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.make(classes, {"metadata": {"name": f"high-{self.namespace}"}, "value": 1000})
        name = self.nodes[2]
        here = {"nodeSelector": {"kubernetes.io/hostname": name}, "schedulerName": "cotenant"}
        low = self.make(self.pods, self._pod("low", "3", **here, terminationGracePeriodSeconds=0))
        self.until(low, lambda found: found["spec"].get("nodeName"))
        self.make(self.pods, self._pod("high", "3", **here, priorityClassName=f"high-{self.namespace}"))
        self.until(low, lambda found: found.get("code") == 404 or found["metadata"].get("deletionTimestamp"))

    def lending(self) -> None:
        """Measured nodes lend; one that goes takes its objects along."""
        for name in self.nodes[:2]:
            _measured(self.kube, name, 200)
        self.until(
            f"/api/v1/nodes/{self.nodes[0]}", lambda found: "kubernetes.io/batch-cpu" in found["status"]["allocatable"]
        )
        self.until(f"{collection('nodeslos')}/{self.nodes[0]}", lambda found: found.get("kind") == "NodeSLO")
        profile = {
            "apiVersion": "quota.koordinator.sh/v1alpha1",
            "kind": "ElasticQuotaProfile",
            "metadata": {"name": "tree"},
            "spec": {
                "quotaName": "root",
                "quotaLabels": {"quota.scheduling.koordinator.sh/is-parent": "true"},
                "resourceRatio": "0.9",
                "nodeSelector": {"matchLabels": {"of": self.namespace}},
            },
        }
        self.make(collection("elasticquotaprofiles", self.namespace), profile)
        self.until(
            f"{collection('elasticquotas', self.namespace)}/root", lambda found: found.get("spec", {}).get("min")
        )
        self.kube.delete(f"/api/v1/nodes/{self.nodes[1]}")
        self.until(f"{collection('nodemetrics')}/{self.nodes[1]}", lambda found: found.get("code") == 404)

    def webhook(self) -> None:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/cotenant-webhook"
        self.until(path, lambda found: all(entry["clientConfig"].get("caBundle") for entry in found["webhooks"]))

    def objective(self) -> None:
        spec = {
            "service": {"name": "cart", "namespace": "shop"},
            "indicator": {"latency": {"below": "80ms"}},
            "target": 99,
            "window": "1d",
        }
        where = self.make(
            collection("serviceobjectives", self.namespace),
            {
                "apiVersion": "slo.cotenant.io/v1alpha1",
                "kind": "ServiceObjective",
                "metadata": {"name": "cart"},
                "spec": spec,
            },
        )
        self.until(where, lambda found: found.get("status", {}).get("state"))

    def move(self) -> None:
        """A requested move, which the rebalancer carries out."""
        job = {
            "apiVersion": KOORD,
            "kind": "PodMigrationJob",
            "metadata": {"name": f"move-{self.namespace}"},
            "spec": {"podRef": {"namespace": self.namespace, "name": "web"}, "mode": "EvictDirectly", "ttl": "60s"},
        }
        where = self.make(collection("podmigrationjobs"), job)
        self.until(where, lambda found: found.get("status", {}).get("phase") in ("Succeeded", "Failed", "Running"))

    def agent(self) -> None:
        where = f"{collection('nodemetrics')}/{self.nodes[0]}"
        self.until(where, lambda found: "aggregatedNodeUsages" in found["status"]["nodeMetric"])

    def withdrawal(self) -> None:
        done = self.run.start("uninstall", PARTS["uninstall"])
        self.until(f"/api/v1/nodes/{self.nodes[0]}", lambda _: done.ended(), 150.0)

    def _pod(self, name: str, cpu: str, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
        made = pod(name, **spec)
        made["metadata"]["labels"] |= labels or {}
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        return made


def _live(kube: Any, namespace: str, folder: Path) -> Lived:
    run = Installation(kube, folder)
    life = Life(kube, run, namespace, folder)
    (folder / "agent.yaml").write_text(
        f"mode: observe\nnode: {life.nodes[0]}\nlisten: ''\ncluster: {{kubeconfig: "
        f"{folder}/node.kubeconfig, node_metric_period_s: 5}}\n"
    )
    (folder / "descheduler.yaml").write_text(documents("rebalancer/config.yaml")[0]["data"]["descheduler.yaml"])
    named = {
        "rebalancer": ("--config=CONFIG", f"--config={folder}/descheduler.yaml"),
        "node": ("--config=CONFIG", f"--config={folder}/agent.yaml"),
        "credit": ("--store=STORE", f"--store={folder}/credit.db"),
    }
    try:
        life.cluster()
        rights = _grants(kube)
        children: list[Child] = []
        for name, part in PARTS.items():
            if name != "uninstall":
                old, new = named.get(name, ("", ""))
                instead = tuple(new if entry == old else entry for entry in part.instead)
                children.append(run.start(name, part._replace(instead=instead)))
        life.scheduling()
        life.quotas()
        life.reservations()
        life.preemption()
        life.lending()
        life.webhook()
        life.objective()
        life.agent()
        life.move()
        life.withdrawal()
        for child in children:
            child.said()
        served = _served(kube)
    finally:
        run.stop()
        for path in reversed(life.made):
            kube.request("DELETE", path)
    return Lived(run.proxy.events, rights, served)


def _served(kube: Any) -> set[tuple[str, str]]:
    """What the server serves, in any version, while everything that the processes need is installed."""
    found = {("", one["name"]) for one in kube.get("/api/v1")["resources"]}
    for group in kube.get("/apis")["groups"]:
        for version in group["versions"]:
            resources = kube.get(f"/apis/{version['groupVersion']}")["resources"]
            found |= {(group["name"], one["name"]) for one in resources}
    return found


@pytest.fixture(scope="module")
def lived(kube: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    if kube.is_local and not os.environ.get("COTENANT_TEST_ROLES"):
        pytest.skip(
            "it starts nine processes, which takes minutes where their kernels must be compiled; "
            "COTENANT_TEST_ROLES=1 runs it on the local API server"
        )
    namespace = f"roles-{'local' if kube.is_local else 'real'}"
    with installed(kube), accounts(kube, FOLDERS):
        kube.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        if kube.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default").code == 404:
            kube.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        try:
            yield _live(kube, namespace, tmp_path_factory.mktemp("roles"))
        finally:
            kube.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _agent(name: str) -> str:
    return "cotenant-withdraw" if name == "uninstall" else "cotenant-agent" if name == "node" else f"cotenant-{name}"


def test_nothing_is_missing(lived: Lived) -> None:
    refused = [event for event in lived.events if event["code"] in (401, 403)]
    assert refused == []
    assert api_roles.forbidden(lived.events) == []
    assert {_agent(name) for name in PARTS} <= {event["userAgent"].partition("/")[0] for event in lived.events}


def test_a_token_has_the_rights_of_its_file_and_no_others(lived: Lived) -> None:
    for name, has in lived.rights.items():
        said = api_roles.granted(f"{name}/rbac.yaml")
        # a right in one namespace beside the same everywhere: of roles that do not end at the same time
        said -= {grant for grant in said if grant.namespace and grant._replace(namespace="") in said}
        if (
            name == "extender"
        ):  # its pod runs a kube-scheduler too, with that one's roles, which hold in every namespace
            assert {grant for grant in said if not {grant, grant._replace(namespace="")} & has} == set()
        else:
            assert has == said, name


@pytest.mark.parametrize("name", PARTS)
def test_nothing_more_is_granted(lived: Lived, name: str) -> None:
    unused = api_roles.unused(lived.events, _agent(name))
    found = []
    for grant in unused:
        if (grant.group, grant.resource.partition("/")[0]) not in lived.served:
            continue  # no call can use it here: an optional kind, or one of a later version
        is_tried = api_roles.Grant("list", *grant[1:]) not in unused
        if (name, grant.verb, grant.resource) in RARE or (
            grant.verb == "watch" and is_tried and grant.resource in OPTIONAL
        ):
            continue
        found.append(f"{grant.verb} {grant.resource} of {grant.group or 'core'}")
    assert not found, f"granted, and no call used it: {', '.join(found)}"


def test_every_exception_is_a_right() -> None:
    known = {(name, grant.verb, grant.resource) for name in PARTS for grant in api_roles.granted(f"{name}/rbac.yaml")}
    assert set(RARE) <= known
