"""Validation of pods and devices beyond the conformance cases."""

from __future__ import annotations

from typing import Any

from cotenant.model.resources import Amounts
from cotenant.policy.admission.devices import default_devices
from cotenant.policy.admission.pods import check_pod


def pod(qos: str, priority: int, cpu: str = "1", **labels: str) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"labels": {"koordinator.sh/qosClass": qos} | labels},
        "spec": {"priority": priority, "containers": [container]},
    }


def test_an_illegal_pod_from_before_the_webhook_can_still_be_labelled_but_not_its_class() -> None:
    old = pod("LSR", 5500, cpu="500m")
    assert {refusal.rule for refusal in check_pod(old)} == {"LSR-requires-prod", "LSR-LSE-need-integer-cpus"}
    assert check_pod(pod("LSR", 5500, cpu="500m", app="x"), old) == []
    assert {refusal.rule for refusal in check_pod(pod("BE", 5500, cpu="500m"), old)} == {"qos-immutable"}


def test_an_unknown_class_is_refused_with_the_values() -> None:
    (refusal,) = check_pod(pod("LSX", 9500))
    assert refusal.field == "metadata.labels.koordinator.sh/qosClass"
    assert "LSE, LSR, LS, BE, SYSTEM" in refusal.message


def test_devices_of_limits_alone_are_completed_in_both() -> None:
    given: dict[str, Any] = {"spec": {"containers": [{"resources": {"limits": {"koordinator.sh/gpu": "50"}}}]}}
    assert default_devices(given)
    resources = given["spec"]["containers"][0]["resources"]
    assert (
        resources["requests"]
        == resources["limits"]
        == {
            "koordinator.sh/gpu-core": "50",
            "koordinator.sh/gpu-memory-ratio": "50",
            "koordinator.sh/gpu.shared": "1",
        }
    )
    assert not default_devices(given)


def test_names_of_the_founding_text_become_those_of_today() -> None:
    old = {"kubernetes.io/gpu-core": "50", "kubernetes.io/gpu-memory": "4Gi"}
    given = {"spec": {"containers": [{"name": "c", "resources": {"requests": dict(old), "limits": dict(old)}}]}}
    assert default_devices(given)
    now = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "4Gi", "koordinator.sh/gpu.shared": "1"}
    assert given["spec"]["containers"][0]["resources"] == {"requests": now, "limits": now}
    assert Amounts.parse(old) == Amounts.parse({name: now[name] for name in list(now)[:2]})
