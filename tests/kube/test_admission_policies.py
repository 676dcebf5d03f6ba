"""The admission policies of `deploy/` on a real API server: who may write what a pod holds, what of a pod is settled,
and that an agent writes its own node's objects only.

The local server stores policies and does not evaluate them, so these cases need COTENANT_TEST_KUBECONFIG.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fakes import waiting
from tests.kube.conftest import MERGE, Kube, Response, pod
from tests.kube.definitions import collection, installed
from tests.kube.installation import accounts, documents
from tests.kube.test_webhook_process import webhook

from cotenant.model.cluster.annotations import EXPECTED_ROOM
from cotenant.model.cluster.seal import BY_SCHEDULER

pytestmark = pytest.mark.slow
POLICIES = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOLDINGS = (*BY_SCHEDULER, EXPECTED_ROOM)
CLASS, QUOTA = "koordinator.sh/qosClass", "quota.scheduling.koordinator.sh/name"
SCHEDULER = "system:serviceaccount:cotenant-system:cotenant-scheduler"


class As:
    """Requests in another's name."""

    def __init__(self, kube: Kube, user: str) -> None:
        self._kube = kube
        self._headers = {"impersonate-user": user, "impersonate-group": "system:authenticated"}

    def request(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Response:
        return self._kube.request(method, path, body, content_type=content_type, headers=self._headers)

    def refusal(self, method: str, path: str, body: Any, content_type: str = "application/json") -> str:
        """The policy that refuses a request; "" where it is allowed."""
        answer = self.request(method, path, body, content_type)
        if answer.code < 300:
            return ""
        assert answer.code == 403, answer.body
        return next(name for name in ("cotenant-pods", "cotenant-node") if f"'{name}'" in answer.message)


def annotated(**notes: str) -> dict[str, Any]:
    return {"metadata": {"annotations": notes}}


@pytest.fixture(scope="module")
def governed(kube: Kube) -> Iterator[Kube]:
    """The server with the roles and policies of `deploy/`, in force."""
    if kube.is_local:
        pytest.skip(
            "the local API server does not evaluate admission policies: COTENANT_TEST_KUBECONFIG names a real one"
        )
    made = [document for part in ("scheduler", "node") for document in documents(f"{part}/admission-policy.yaml")]
    plural = {
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
        "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    }
    grant = {
        "metadata": {"name": "cases-owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name} for name in ("owner", SCHEDULER)
        ],
    }
    with installed(kube), accounts(kube, ("scheduler", "node")):
        kube.create(f"{RBAC}/clusterrolebindings", grant)
        for entry in made:
            kube.request("DELETE", f"{POLICIES}/{plural[entry['kind']]}/{entry['metadata']['name']}")
            kube.create(f"{POLICIES}/{plural[entry['kind']]}", entry, fieldValidation="Strict")
        trial = pod("trial") | {"metadata": {"name": "trial", "annotations": {HOLDINGS[0]: "{}"}}}
        waiting.eventually(
            "the policy is in force",
            lambda: As(kube, "owner").request("POST", "/api/v1/namespaces/default/pods?dryRun=All", trial).code == 403,
            30.0,
            interval_s=0.2,
        )
        yield kube
        for entry in made:
            kube.request("DELETE", f"{POLICIES}/{plural[entry['kind']]}/{entry['metadata']['name']}")
        kube.request("DELETE", f"{RBAC}/clusterrolebindings/cases-owner")


@pytest.mark.parametrize("name", HOLDINGS)
def test_an_owner_writes_nothing_about_what_a_pod_holds(governed: Kube, pods: str, node: str, name: str) -> None:
    owner = As(governed, "owner")
    forged = pod("forged")
    forged["metadata"]["annotations"] = {name: "{}"}
    assert owner.refusal("POST", pods, forged) == "cotenant-pods"
    assert owner.refusal("POST", pods, pod("p")) == ""
    for path in (f"{pods}/p", f"{pods}/p/status"):
        assert owner.refusal("PATCH", path, annotated(**{name: "{}"}), MERGE) == "cotenant-pods"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
    noted = binding | {"metadata": {"name": "p", "annotations": {name: "{}"}}}
    assert owner.refusal("POST", f"{pods}/p/binding", noted) == "cotenant-pods"
    assert owner.refusal("POST", pods.removesuffix("pods") + "bindings", noted) == "cotenant-pods"
    assert owner.refusal("PATCH", f"{pods}/p", annotated(**{"other.example/note": "x"}), MERGE) == ""
    for part in ("ephemeralcontainers", "resize"):  # these change nothing of the metadata, or are refused
        owner.request("PATCH", f"{pods}/p/{part}", annotated(**{name: "{}"}), MERGE)
    assert name not in governed.get(f"{pods}/p")["metadata"]["annotations"]


def test_the_scheduler_writes_it_with_the_bind_and_its_owner_keeps_off_it(governed: Kube, pods: str, node: str) -> None:
    owner, scheduler = As(governed, "owner"), As(governed, SCHEDULER)
    assert owner.refusal("POST", pods, pod("p")) == ""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    notes = {HOLDINGS[0]: '{"cpuset":"0-1"}', "cotenant.io/seal": "x"}
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "annotations": notes}, "target": target}
    assert scheduler.refusal("POST", f"{pods}/p/binding", bind) == ""
    held = governed.get(f"{pods}/p")
    assert held["metadata"]["annotations"] == notes
    for change in ('{"cpuset":"0-3"}', None):
        body = {"metadata": {"annotations": {HOLDINGS[0]: change}}}
        assert owner.refusal("PATCH", f"{pods}/p", body, MERGE) == "cotenant-pods"
    assert owner.refusal("PATCH", f"{pods}/p", {"metadata": {"labels": {"team": "x"}}}, MERGE) == ""


def test_class_and_quota_are_settled(governed: Kube, pods: str, node: str) -> None:
    owner = As(governed, "owner")
    made = pod("p")
    made["metadata"]["labels"] |= {CLASS: "BE", QUOTA: "ours"}
    assert owner.refusal("POST", pods, made) == ""

    def relabelled(name: str, value: str | None) -> str:
        return owner.refusal("PATCH", f"{pods}/p", {"metadata": {"labels": {name: value}}}, MERGE)

    for value in ("LSR", None):
        assert relabelled(CLASS, value) == "cotenant-pods"
    assert relabelled("koordinator.sh/priority-class", "koord-prod") == "cotenant-pods"
    assert relabelled("koordinator.sh/priority", "9000") == "cotenant-pods"
    assert relabelled(QUOTA, "another") == ""  # it waits: another quota may have room
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    governed.create(
        f"{pods}/p/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    )
    for value in ("third", None):
        assert relabelled(QUOTA, value) == "cotenant-pods"


def agent_token(kube: Kube, node: str, name: str) -> str:
    """A token of the agents' account, bound to a pod on the node; "" for no node: bound to nothing."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if node:
        made = pod(name, nodeName=node, serviceAccountName="cotenant-node")
        uid = kube.create("/api/v1/namespaces/cotenant-node/pods", made)["metadata"]["uid"]
        spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = "/api/v1/namespaces/cotenant-node/serviceaccounts/cotenant-node/token"
    return str(kube.create(path, asked)["status"]["token"])


def test_an_agent_writes_its_own_nodes_objects(governed: Kube, node: str) -> None:
    other, name = f"other-{uuid.uuid4().hex[:6]}", f"agent-{uuid.uuid4().hex[:6]}"
    path = collection("nodemetrics")
    own = agent_token(governed, node, name)
    try:
        for bearer, about, code in ((own, node, 201), (own, other, 403), (agent_token(governed, "", ""), node, 403)):
            body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": about}}
            answer = governed.request("POST", path, body, headers={"authorization": f"Bearer {bearer}"})
            assert answer.code == code, (about, answer.body)
            assert code == 201 or "'cotenant-node'" in answer.message
    finally:
        governed.request("DELETE", f"{path}/{node}")
        governed.request("DELETE", f"/api/v1/namespaces/cotenant-node/pods/{name}", {"gracePeriodSeconds": 0})


def test_an_agent_evicts_pods_of_its_own_node(governed: Kube, namespace: str, pods: str, node: str) -> None:
    """A policy does not see where the pod is: the webhook does, and for everybody else's evictions it is not even
    asked.
    """
    other, name = f"other-{uuid.uuid4().hex[:6]}", f"agent-{uuid.uuid4().hex[:6]}"
    bearer = {"authorization": f"Bearer {agent_token(governed, node, name)}"}

    def evict(pod_name: str, headers: dict[str, str] | None = None) -> Response:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod_name, "namespace": namespace}}
        return governed.request("POST", f"{pods}/{pod_name}/eviction", body, headers=headers)

    try:
        for made, where in (("here", node), ("there", other), ("third", other)):
            governed.create(pods, pod(made, nodeName=where))
        with webhook(governed, namespace, agent_account="cotenant-node/cotenant-node"):
            refused = evict("there", bearer)
            assert (refused.code, "its own node only" in refused.message) == (403, True), refused.body
            assert evict("here", bearer).code == 201
            assert evict("there").code == 201
        assert evict("third").code == 201  # the webhook is gone, and is not in an administrator's way
    finally:
        governed.request("DELETE", f"/api/v1/namespaces/cotenant-node/pods/{name}", {"gracePeriodSeconds": 0})
