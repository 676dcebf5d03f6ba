"""`cotenant scheduler` and the Workload API on an API server: in whichever versions it serves PodGroup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kube.test_scheduler_kinds import Scheduler, pod, waits

from cotenant.drivers.kube.kinds.custom.workload_pod_group import POD_GROUP_VERSIONS, scheduled_condition

pytestmark = pytest.mark.slow  # a scheduler

GROUP = "scheduling.k8s.io"


@pytest.fixture(scope="module")
def version(kube: Any) -> str:
    """The newest version of PodGroup that we read and the server serves."""
    served = {one["version"] for one in kube.get(f"/apis/{GROUP}")["versions"]}
    for found in POD_GROUP_VERSIONS:
        if found in served and any(
            one["name"] == "podgroups" for one in kube.get(f"/apis/{GROUP}/{found}")["resources"]
        ):
            return found
    pytest.skip("this server does not serve PodGroup (feature gate GenericWorkload)")


@pytest.fixture(scope="module")
def scheduler(kube: Any, version: str) -> Iterator[Scheduler]:
    with Scheduler(kube) as running:
        yield running


@pytest.fixture
def here(scheduler: Scheduler, node: str) -> dict[str, Any]:
    return {
        "schedulerName": scheduler.name,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 0,
    }


@pytest.fixture
def groups(namespace: str, version: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/podgroups"


def a_group(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def gang(least: int) -> dict[str, Any]:
    return {"schedulingPolicy": {"gang": {"minCount": least}}}


def condition(version: str) -> Any:
    def read(obj: Any) -> str:
        found = obj.get("status", {}).get("conditions") or ()
        return next((one["status"] for one in found if one["type"] == scheduled_condition(version)), "")

    return read


MEMBER = {"schedulingGroup": {"podGroupName": "g"}}


def test_a_gang_waits_for_its_group_and_its_members(
    kube: Any, pods: str, namespace: str, groups: str, version: str, here: dict[str, Any]
) -> None:
    kube.create(pods, pod("w0", here | MEMBER))
    why = f"there is no PodGroup {namespace}/g of {GROUP}"
    kube.eventually(f"{pods}/w0", lambda obj: why in waits(obj))
    kube.create(groups, a_group(version, **gang(3)))
    kube.create(pods, pod("w1", here | MEMBER))
    words = f"gang {namespace}/g has 2 of 3 members; waits for 1 more"
    kube.eventually(f"{pods}/w0", lambda obj: waits(obj) == words)
    kube.eventually(f"{groups}/g", lambda obj: condition(version)(obj) == "False")
    kube.create(pods, pod("w2", here | MEMBER))
    for i in range(3):
        kube.eventually(f"{pods}/w{i}", lambda obj: obj["spec"].get("nodeName"))
    kube.eventually(f"{groups}/g", lambda obj: condition(version)(obj) == "True")


def test_pods_of_a_basic_group_are_placed_as_they_come(
    kube: Any, pods: str, groups: str, version: str, here: dict[str, Any]
) -> None:
    kube.create(groups, a_group(version, schedulingPolicy={"basic": {}}))
    for i in range(2):
        kube.create(pods, pod(f"w{i}", here | MEMBER))
        kube.eventually(f"{pods}/w{i}", lambda obj: obj["spec"].get("nodeName"))


def test_a_gang_that_is_recreated_with_another_minimum(
    kube: Any, pods: str, namespace: str, groups: str, version: str, here: dict[str, Any]
) -> None:
    kube.create(groups, a_group(version, **gang(9)))
    for i in range(2):
        kube.create(pods, pod(f"w{i}", here | MEMBER))
    words = f"gang {namespace}/g has 2 of 9 members; waits for 7 more"
    kube.eventually(f"{pods}/w0", lambda obj: waits(obj) == words)
    kube.delete(f"{groups}/g")
    if not kube.is_local:  # protected while its pods exist
        kube.patch(f"{groups}/g", {"metadata": {"finalizers": None}})
    kube.create(groups, a_group(version, **gang(2)))
    for i in range(2):
        kube.eventually(f"{pods}/w{i}", lambda obj: obj["spec"].get("nodeName"))


def test_a_minimum_that_is_lowered(
    kube: Any, pods: str, namespace: str, groups: str, version: str, here: dict[str, Any]
) -> None:
    if version == "v1alpha2":
        pytest.skip("the minimum cannot be changed in v1alpha2")
    kube.create(groups, a_group(version, **gang(3)))
    for i in range(2):
        kube.create(pods, pod(f"w{i}", here | MEMBER))
    words = f"gang {namespace}/g has 2 of 3 members; waits for 1 more"
    kube.eventually(f"{pods}/w0", lambda obj: waits(obj) == words)
    kube.patch(f"{groups}/g", {"spec": gang(2)})
    for i in range(2):
        kube.eventually(f"{pods}/w{i}", lambda obj: obj["spec"].get("nodeName"))


def test_members_have_the_priority_of_their_group(
    kube: Any, pods: str, namespace: str, groups: str, version: str, here: dict[str, Any]
) -> None:
    """A pod without a class of its own, in a group with one, preempts."""
    name = f"class-{namespace}"
    kube.create(
        f"/apis/{GROUP}/v1/priorityclasses",
        {"apiVersion": f"{GROUP}/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 1000},
    )
    try:
        kube.create(pods, pod("low", here, cpu="3"))
        kube.eventually(f"{pods}/low", lambda obj: obj["spec"].get("nodeName"))
        made = kube.create(groups, a_group(version, priorityClassName=name, **gang(1)))
        if made["spec"].get("priority") != 1000:
            pytest.skip("the server's groups have no priority (feature gate WorkloadAwarePreemption)")
        kube.create(pods, pod("vip", here | MEMBER, cpu="3"))
        kube.eventually(f"{pods}/vip", lambda obj: obj["spec"].get("nodeName"), timeout_s=40.0)
    finally:
        kube.delete(f"/apis/{GROUP}/v1/priorityclasses/{name}")


def test_a_job_of_a_server_with_workload_with_job(
    kube: Any, pods: str, namespace: str, version: str, here: dict[str, Any]
) -> None:
    """Its controller makes the group, and the pods are placed."""
    if kube.is_local:
        pytest.skip("no controllers run in this server: tests/fault/local_controllers/test_job_groups.py has the case")
    template = {"spec": {**pod("w", here)["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    kube.create(jobs, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})

    def all_placed(found: Any) -> bool:
        return [bool(one["spec"].get("nodeName")) for one in found["items"]] == [True] * 3

    found = kube.eventually(pods, all_placed)
    if not all(one["spec"].get("schedulingGroup") for one in found["items"]):
        pytest.skip("the server's Jobs have no groups (feature gate WorkloadWithJob, kube-controller-manager)")
