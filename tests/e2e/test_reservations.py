"""Reservations in `cotenant up`: they hold resources for their owner, expire, and let a pod migrate without a gap."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.e2e.manifests import deployment, is_running, pod, pod_spec
from tests.e2e.running import Client, eventually

from cotenant.drivers.kube.kinds.custom.reservation_writing import manifest
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.policy.placement.reservations.migration import reservation_for

pytestmark = pytest.mark.slow

RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


def reserve(api: Client, name: str, cpu: str, **spec: Any) -> str:
    """Create one for pods labelled app=NAME; where it is."""
    template = {"spec": pod_spec(cpu, **spec.pop("template", {}))}
    owners = [{"labelSelector": {"matchLabels": {"app": name}}}]
    made = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name},
        "spec": {"template": template, "owners": owners, **spec},
    }
    api.create(RESERVATIONS, made)
    return f"{RESERVATIONS}/{name}"


def phase(api: Client, where: str) -> str:
    found: str = api.get(where).get("status", {}).get("phase", "")
    return found


def test_resources_are_held_for_the_owner(api: Client, namespace: str) -> None:
    node = next(n for n in api.items("/api/v1/nodes") if not n["spec"].get("unschedulable"))
    name, cores = node["metadata"]["name"], int(node["status"]["allocatable"]["cpu"])
    here = {"nodeSelector": {"kubernetes.io/hostname": name}}
    where = reserve(api, "kept", str(cores // 2), template=here)
    eventually("it is available", lambda: phase(api, where) == "Available")
    assert api.get(where)["status"]["nodeName"] == name
    most = f"{cores * 3 // 4}"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(pods, pod("stranger", most, **here))
    told = eventually("it is told", lambda: api.get(f"{pods}/stranger").get("status", {}).get("conditions"))
    assert "Insufficient cpu" in told[0]["message"]
    api.create(pods, pod("kept", most, **here))
    owner = eventually("the owner runs", lambda: [p for p in [api.get(f"{pods}/kept")] if is_running(p)])[0]
    assert json.loads(owner["metadata"]["annotations"][ALLOCATED])["name"] == "kept"
    eventually("it has served", lambda: phase(api, where) == "Succeeded")
    status = api.get(where)["status"]
    assert [entry["name"] for entry in status["currentOwners"]] == ["kept"]
    assert status["allocated"]["cpu"] == str(cores // 2)
    assert not api.get(f"{pods}/stranger")["spec"].get("nodeName")
    api.delete(where)


def test_an_expired_and_an_invalid_reservation_report_why(api: Client, namespace: str) -> None:
    short = reserve(api, "short", "100m", ttl="1s")
    bad = reserve(api, "bad", "100m", ttl="soon")
    eventually("it has failed", lambda: phase(api, short) == "Failed")
    assert {c["type"]: c["reason"] for c in api.get(short)["status"]["conditions"]}["Ready"] == "Expired"
    (told,) = eventually("it is told", lambda: api.get(bad).get("status", {}).get("conditions"))
    assert told["type"] == "Scheduled"
    assert "spec.ttl" in told["message"]
    api.delete(short)
    api.delete(bad)


def test_a_pod_migrates_to_reserved_resources(api: Client, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 1))
    (old,) = eventually("it runs", lambda: [p for p in api.items(pods) if is_running(p)])
    read = msgspec.convert(old, PodObject, strict=False)
    wanted = manifest(reservation_for(PodReader().pod(read), "move-web", 0.0), read)
    api.create(RESERVATIONS, wanted)
    where = f"{RESERVATIONS}/move-web"
    eventually("there is room elsewhere", lambda: phase(api, where) == "Available")
    node = api.get(where)["status"]["nodeName"]
    assert node != old["spec"]["nodeName"]
    name = old["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    api.create(f"{pods}/{name}/eviction", eviction)
    (new,) = eventually(
        "another runs", lambda: [p for p in api.items(pods) if is_running(p) and p["metadata"]["name"] != name]
    )
    assert new["spec"]["nodeName"] == node
    eventually("it has served", lambda: phase(api, where) == "Succeeded")
    api.delete(where)
