"""The webhook process against an API server that calls it over TLS: profiles, refusals, its certificates, and what
happens while it is down.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from tests.fakes import waiting
from tests.fakes.waiting import patience
from tests.kube.definitions import collection, installed

from cotenant.services.webhook.webhook_arguments import NAME, WebhookSettings
from cotenant.services.webhook.webhook_process import serve

pytestmark = pytest.mark.slow

GROUP = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = [f"{GROUP}/{kind}webhookconfigurations/{NAME}" for kind in ("mutating", "validating")]
PROFILES = collection("clustercolocationprofiles")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

# Written from the fields that Koordinator documents: a profile that makes labelled pods of labelled namespaces
# best-effort, and its priority class.
EXAMPLE = """
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata:
  name: colocation-profile-example
spec:
  namespaceSelector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  selector:
    matchLabels:
      koordinator.sh/enable-colocation: "true"
  qosClass: BE
  priorityClassName: koord-batch-of-case
  koordinatorPriority: 1000
  schedulerName: koord-scheduler
  labels:
    koordinator.sh/mutated: "true"
  annotations:
    koordinator.sh/intercepted: "true"
  patch:
    spec:
      terminationGracePeriodSeconds: 30
"""


class Running:
    """The process in a thread."""

    def __init__(self, kube: Any, **settings: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.url = ""
        self._failure: BaseException | None = None
        self._settings = WebhookSettings(
            listen="127.0.0.1:0",
            kubeconfig=kube.kubeconfig,
            namespace="default",
            register=True,
            leader_elect=False,
            inject_every_s=0.2,
            **settings,
        )
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._thread.start()
        waiting.eventually("it listens", lambda: self.url or self._failure, 30.0)
        assert self._failure is None

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(serve(self._settings, self._stop, lambda url: setattr(self, "url", url)))
        except BaseException as error:
            self._failure = error
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(patience(15))


@contextmanager
def webhook(kube: Any, namespace: str, **settings: Any) -> Iterator[Running]:
    """A webhook that the server calls: registered, and a pod that it must refuse is refused."""
    running = Running(kube, **settings)
    probe = pod("probe", {"koordinator.sh/qosClass": "BE"})
    path = f"/api/v1/namespaces/{namespace}/pods"
    try:
        waiting.eventually("it is called", lambda: kube.request("POST", path, probe, dryRun="All").code == 403, 20.0)
        yield running
    finally:
        running.stop()
        for configuration in CONFIGURATIONS:
            kube.request("DELETE", configuration)
        kube.request("DELETE", f"/api/v1/namespaces/default/secrets/{NAME}")


@pytest.fixture(scope="module")
def kinds(kube: Any) -> Iterator[None]:
    with installed(kube):
        yield


def pod(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "3456Mi"}, "limits": {"cpu": "1", "memory": "3456Mi"}}
    containers = [{"name": "app", "image": "registry.example/app:1", "resources": resources}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers, **spec}}


@pytest.fixture
def example(kube: Any, kinds: None, namespace: str) -> Iterator[str]:
    """The documented example; the namespace it selects."""
    profile = yaml.safe_load(EXAMPLE)
    kube.patch(
        f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"koordinator.sh/enable-colocation": "true"}}}
    )
    kube.create(CLASSES, {"metadata": {"name": "koord-batch-of-case"}, "value": 5500})
    kube.create(PROFILES, profile, fieldValidation="Strict")
    yield namespace
    kube.request("DELETE", f"{PROFILES}/{profile['metadata']['name']}")
    kube.request("DELETE", f"{CLASSES}/koord-batch-of-case")


def test_the_documented_example_makes_a_best_effort_pod(kube: Any, example: str, pods: str) -> None:
    with webhook(kube, example) as running:
        made = kube.create(pods, pod("spark", {"koordinator.sh/enable-colocation": "true"}))
        assert made["spec"]["containers"][0]["resources"]["requests"] == {
            "kubernetes.io/batch-cpu": "1k",
            "kubernetes.io/batch-memory": "3456Mi",
        }
        assert (made["spec"]["priority"], made["spec"]["schedulerName"]) == (5500, "koord-scheduler")
        assert made["spec"]["terminationGracePeriodSeconds"] == 30
        assert made["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE"
        assert made["metadata"]["annotations"]["koordinator.sh/intercepted"] == "true"
        assert "terminationGracePeriodSeconds" in made["spec"]
        plain = kube.create(pods, pod("web", {}))
        assert plain["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "3456Mi"}
        changed = {"metadata": {"labels": {"koordinator.sh/qosClass": "LS"}}}
        answer = kube.request("PATCH", f"{pods}/spark", changed, content_type="application/merge-patch+json")
        assert answer.code == 403
        assert "QoS class cannot change" in answer.message
        running.stop()
        answer = kube.request("POST", pods, pod("late", {"koordinator.sh/qosClass": "BE"}))
        assert answer.code == 201  # failurePolicy Ignore: created, and not changed


def test_with_failure_policy_fail_nothing_is_created_while_it_is_down(
    kube: Any, kinds: None, namespace: str, pods: str
) -> None:
    with webhook(kube, namespace, failure_policy="Fail") as running:
        kube.create(pods, pod("first", {}))
        running.stop()
        answer = kube.request("POST", pods, pod("second", {}))
        assert answer.code == 500
        assert "mutate-pod.cotenant.io" in answer.message


def test_a_node_with_a_bad_ratio_can_still_say_that_it_is_dead(kube: Any, kinds: None, namespace: str) -> None:
    annotations = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":0.5}'}
    nodes, name = "/api/v1/nodes", f"ratio-{namespace}"
    kube.create(nodes, {"metadata": {"name": name, "annotations": annotations}})
    try:
        with webhook(kube, namespace, failure_policy="Fail", amplify_nodes=True) as running:
            for ready in ("True", "Unknown"):
                conditions = [{"type": "Ready", "status": ready}]
                status = {"status": {"allocatable": {"cpu": "4"}, "capacity": {"cpu": "4"}, "conditions": conditions}}
                made = kube.patch(f"{nodes}/{name}/status", status)
                assert made["status"]["conditions"][0]["status"] == ready
                assert made["status"]["allocatable"]["cpu"] == "4"
            running.stop()  # and while no webhook answers, under failurePolicy Fail
            made = kube.patch(f"{nodes}/{name}/status", {"status": {"allocatable": {"cpu": "3"}}})
            assert made["status"]["allocatable"]["cpu"] == "3"
    finally:
        kube.request("DELETE", f"{nodes}/{name}")


def test_a_bundle_that_was_removed_comes_back(kube: Any, kinds: None, namespace: str, pods: str) -> None:
    with webhook(kube, namespace):
        for path in CONFIGURATIONS:
            kube.patch(
                path, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], "application/json-patch+json"
            )
        for path in CONFIGURATIONS:
            kube.eventually(path, lambda found: found["webhooks"][0]["clientConfig"].get("caBundle"), 30.0)
        assert kube.request("POST", pods, pod("bad", {"koordinator.sh/qosClass": "BE"})).code == 403


def test_quotas_are_completed_and_guarded(kube: Any, kinds: None, namespace: str, pods: str) -> None:
    path = collection("elasticquotas", namespace)
    prefix = "quota.scheduling.koordinator.sh/"
    name = f"{namespace}-team"
    with webhook(kube, namespace, quota_admission=True):
        made = kube.create(
            path,
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "ElasticQuota",
                "metadata": {"name": name},
                "spec": {"max": {"cpu": "1"}, "min": {"cpu": "1"}},
            },
        )
        assert made["metadata"]["labels"][prefix + "parent"] == "koordinator-root-quota"
        assert made["metadata"]["annotations"][prefix + "shared-weight"] == '{"cpu":"1"}'
        kube.create(pods, pod("one", {prefix + "name": name}))
        answer = kube.request("POST", pods, pod("two", {prefix + "name": name}))
        assert (answer.code, "no room for 1 of cpu" in answer.message) == (403, True)
        answer = kube.request("DELETE", f"{path}/{name}")
        assert (answer.code, "it has pods" in answer.message) == (403, True)
        kube.delete(f"{pods}/one", {"gracePeriodSeconds": 0})
        kube.eventually(pods, lambda found: not found.get("items"))
        kube.delete(f"{path}/{name}")
