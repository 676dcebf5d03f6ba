"""Groups of the Workload API: what is read in each version, and the condition that is written."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.workload_pod_group import (
    POD_GROUP_VERSIONS,
    WorkloadPodGroupObject,
    read_composite_pod_group,
    read_workload_pod_group,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import (
    K8S_GROUP,
    Disruption,
    GangMode,
    GangPhase,
    GangTopology,
    MatchPolicy,
    PodGroup,
    PodGroupStatus,
)
from cotenant.policy.placement.gangs.phase import in_api_group
from cotenant.services.scheduler.actions.object_status import write_gang_status

VERSIONS = tuple(POD_GROUP_VERSIONS)
GANG = {"schedulingPolicy": {"gang": {"minCount": 4}}}


def an_object(spec: dict[str, Any], *conditions: dict[str, str]) -> WorkloadPodGroupObject:
    obj = {"metadata": {"name": "g", "namespace": "ml", "uid": "u"}, "spec": spec, "status": {"conditions": conditions}}
    return msgspec.convert(obj, WorkloadPodGroupObject)


def read(spec: dict[str, Any], *conditions: dict[str, str], version: str = "v1beta1") -> PodGroup:
    return read_workload_pod_group(an_object(spec, *conditions), version)


def test_the_newest_version_is_first() -> None:
    assert VERSIONS == ("v1beta1", "v1alpha3", "v1alpha2")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gang_in_one_domain(version: str) -> None:
    group = read(GANG | {"schedulingConstraints": {"topology": [{"key": "rack"}]}}, version=version)
    assert (group.key, group.min_member, group.api_group, group.version) == ("ml/g", 4, K8S_GROUP, version)
    assert group.notes.topology == GangTopology(("rack",), True)
    assert group.notes.match_policy is MatchPolicy.WAITING_AND_RUNNING


def test_with_the_basic_policy_pods_are_placed_one_by_one() -> None:
    group = read({"schedulingPolicy": {"basic": {}}})
    assert (group.min_member, group.notes.mode, group.disruption) == (1, GangMode.NON_STRICT, Disruption.SINGLE)
    group = read({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{"key": "rack"}]}})
    assert (group.min_member, group.notes.mode) == (1, GangMode.STRICT)


@pytest.mark.parametrize(
    ("mode", "disruption"),
    [
        (None, Disruption.SINGLE),
        ("Pod", Disruption.SINGLE),
        ("PodGroup", Disruption.ALL),
        ({"single": {}}, Disruption.SINGLE),
        ({"all": {}}, Disruption.ALL),
    ],
)
def test_the_disruption_mode_in_both_forms(mode: Any, disruption: Disruption) -> None:
    group = read(GANG | {"disruptionMode": mode})
    assert group.disruption is disruption
    assert group.disrupted_with == (("ml/g",) if disruption is Disruption.ALL else ())


def test_a_priority_that_nobody_asked_for_is_none() -> None:
    assert read(GANG | {"priority": 0}).priority is None  # admission writes it into every group
    assert read(GANG | {"priority": 0, "priorityClassName": "low"}).priority == 0
    assert read(GANG | {"priority": 7}).priority == 7
    assert not read(GANG | {"preemptionPolicy": "Never"}).preempts


def test_the_workload_and_the_parent_of_a_group() -> None:
    group = read(GANG | {"workloadRef": {"workloadName": "w"}, "parentCompositePodGroupName": "top"})
    assert (group.workload, group.parent) == ("w", "ml/top")
    group = read(GANG | {"podGroupTemplateRef": {"workload": {"workloadName": "w"}}}, version="v1alpha2")
    assert group.workload == "w"


def test_a_composite_group() -> None:
    found = read_composite_pod_group(
        an_object(
            {
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "block"}, {"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "workloadRef": {"workloadName": "w", "templateName": "t"},
            }
        )
    )
    assert (found.key, found.min_groups, found.topology_key, found.all_together) == ("ml/g", 2, "block", True)
    assert "only block is considered" in found.wrong[0]
    assert read_composite_pod_group(an_object({"schedulingPolicy": {"basic": {}}})).min_groups is None


def test_a_group_without_a_name() -> None:
    with pytest.raises(InvalidInput):
        read_workload_pod_group(WorkloadPodGroupObject())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("phase", "status"), [(GangPhase.RUNNING, "True"), (GangPhase.SCHEDULING, "False")])
def test_the_condition_that_is_written_is_read_as_the_same_status(phase: GangPhase, status: str, version: str) -> None:
    bodies: list[Any] = []

    class Writes:
        async def patch_status(self, kind: Any, namespace: str, name: str, body: Any) -> None:
            bodies.append((kind.api_version, namespace, name, body))

    wanted = in_api_group(PodGroupStatus("ml/g", "u", phase, 3, 2, 1, 0, K8S_GROUP, version))
    asyncio.run(write_gang_status(Writes(), wanted))  # type: ignore[arg-type]
    ((api_version, namespace, name, body),) = bodies
    assert (api_version, namespace, name, body["metadata"]) == (f"{K8S_GROUP}/{version}", "ml", "g", {"uid": "u"})
    (condition,) = body["status"]["conditions"]
    names = {"v1alpha2": "PodGroupScheduled", "v1alpha3": "PodGroupInitiallyScheduled"}
    assert (condition["type"], condition["status"]) == (names.get(version, "PodGroupInitiallyScheduled"), status)
    assert read({}, condition, version=version).status == wanted
