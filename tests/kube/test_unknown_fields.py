"""A scheduler that meets a field that it does not know names it on the pod: an ordinary field is hidden from its table
for that.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kube.test_scheduler_kinds import Scheduler, pod, waits

from cotenant.drivers.kube.kinds.pod import coverage

pytestmark = pytest.mark.slow  # a scheduler


def test_the_table_has_every_field_of_the_server(kube: Any) -> None:
    document = kube.get("/openapi/v3/api/v1")["components"]["schemas"]
    found = coverage.unknown_fields(msgspec.convert(document, dict[str, coverage.Definition], strict=False))
    assert [str(one) for one in found] == []


def test_a_field_about_scheduling_that_is_not_known(
    kube: Any, pods: str, namespace: str, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server describes it with the word node."""
    monkeypatch.delitem(coverage.FIELDS["PodSpec"], "activeDeadlineSeconds")  # type: ignore[arg-type]
    with Scheduler(kube) as scheduler:
        here = {
            "schedulerName": scheduler.name,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
        }
        kube.create(pods, pod("plain", here))
        kube.create(pods, pod("sets-it", here | {"activeDeadlineSeconds": 600}))
        kube.eventually(f"{pods}/plain", lambda obj: obj["spec"].get("nodeName"))
        says = "spec.activeDeadlineSeconds: this version does not know the field"
        kube.eventually(f"{pods}/sets-it", lambda obj: says in waits(obj))

        def told(found: Any) -> bool:
            about = [one for one in found["items"] if one["involvedObject"]["name"] == "sets-it"]
            return any(one["reason"] == "FailedScheduling" and says in one["message"] for one in about)

        kube.eventually(f"/api/v1/namespaces/{namespace}/events", told)
