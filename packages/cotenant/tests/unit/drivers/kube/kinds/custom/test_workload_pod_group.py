"""PodGroups of the upstream Workload API: what is read, and the condition that is written."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.workload_pod_group import WorkloadPodGroupObject, read_workload_pod_group
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import K8S_GROUP, GangPhase, GangTopology, PodGroup, PodGroupStatus
from cotenant.policy.placement.gangs.phase import in_api_group
from cotenant.services.scheduler.actions.object_status import write_gang_status


def read(spec: dict[str, Any], *conditions: dict[str, str]) -> PodGroup:
    obj = {"metadata": {"name": "g", "namespace": "ml", "uid": "u"}, "spec": spec, "status": {"conditions": conditions}}
    return read_workload_pod_group(msgspec.convert(obj, WorkloadPodGroupObject))


def test_a_gang_in_one_domain() -> None:
    constraints = {"topologyConstraints": [{"topologyKey": "rack"}]}
    group = read({"schedulingPolicy": {"gang": {"minCount": 4}}, "schedulingConstraints": constraints})
    assert (group.key, group.min_member, group.api_group) == ("ml/g", 4, K8S_GROUP)
    assert group.notes.topology == GangTopology(("rack",), True)


def test_the_basic_policy_has_a_minimum_of_one() -> None:
    assert read({"schedulingPolicy": {"basic": {}}}).min_member == 1


def test_a_group_without_a_name() -> None:
    with pytest.raises(InvalidInput):
        read_workload_pod_group(WorkloadPodGroupObject())


@pytest.mark.parametrize(("phase", "status"), [(GangPhase.RUNNING, "True"), (GangPhase.SCHEDULING, "False")])
def test_the_condition_that_is_written_is_read_as_the_same_status(phase: GangPhase, status: str) -> None:
    bodies: list[Any] = []

    class Writes:
        async def patch_status(self, kind: Any, namespace: str, name: str, body: Any) -> None:
            bodies.append((kind.group, namespace, name, body))

    wanted = in_api_group(PodGroupStatus("ml/g", "u", phase, 3, 2, 1, 0, K8S_GROUP))
    asyncio.run(write_gang_status(Writes(), wanted))  # type: ignore[arg-type]
    ((group, namespace, name, body),) = bodies
    assert (group, namespace, name, body["metadata"]) == (K8S_GROUP, "ml", "g", {"uid": "u"})
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodGroupScheduled", status)
    assert read({}, condition).status == wanted
