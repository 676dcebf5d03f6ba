from typing import Any

import msgspec
import pytest

from cotenant_local.controllers.cluster.unserved_pods import GRACE_S, may_be_unserved, reconcile
from cotenant_local.controllers.runtime.actions import EmitEvent
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.pods import PodObjectView

NOW = 1_800_000_000.0
SERVED = ("cotenant", "default-scheduler")


def pod(
    scheduler: str = "theirs", spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None
) -> PodObjectView:
    meta = {"name": "p", "namespace": "default", "uid": "p", "creationTimestamp": stamp(NOW)}
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedulerName": scheduler, **(spec or {})}, "status": status or {}}, PodObjectView
    )


def test_the_event_comes_after_the_grace_period() -> None:
    early = reconcile(pod(), SERVED, False, NOW + GRACE_S - 0.1)
    assert (early.actions, early.requeue_at_s) == ((), NOW + GRACE_S)
    (event,) = reconcile(pod(), SERVED, False, NOW + GRACE_S).actions
    assert isinstance(event, EmitEvent)
    assert (event.type, event.reason) == ("Warning", "FailedScheduling")
    assert '"theirs"' in event.message
    assert "cotenant and default-scheduler" in event.message


def test_a_scheduler_that_looked_at_another_pod_of_the_name_is_running() -> None:
    assert reconcile(pod(), SERVED, True, NOW + 60).actions == ()


@pytest.mark.parametrize(
    "other",
    [
        pod("default-scheduler"),
        pod(spec={"nodeName": "n"}),
        pod(spec={"schedulingGates": [{"name": "g"}]}),
        pod(status={"nominatedNodeName": "n"}),
        pod(status={"phase": "Failed"}),
        pod(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
    ],
)
def test_pods_that_wait_for_something_else_get_no_event(other: PodObjectView) -> None:
    assert not may_be_unserved(other, SERVED)
    assert reconcile(other, SERVED, False, NOW + 60).actions == ()


def test_the_condition_of_a_gated_pod_is_no_mark_of_a_scheduler() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert may_be_unserved(pod(status={"conditions": [gated]}), SERVED)  # its gates have just been removed
