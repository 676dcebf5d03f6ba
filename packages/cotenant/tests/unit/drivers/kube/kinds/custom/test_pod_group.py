"""PodGroups and the annotations of gangs: what is read, what falls back, and what is written back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.kinds.custom.pod_group import PodGroupObject, read_pod_group, write_pod_group
from cotenant.drivers.kube.kinds.pod.gang import read_gang
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.gang import X_GROUP, GangMode, GangPhase, GangTopology, MatchPolicy, PodGroup, PodGroupStatus
from cotenant.model.resources import Amounts

G = "gang.scheduling.koordinator.sh/"


def read(spec: dict[str, Any], annotations: dict[str, str] | None = None, **status: Any) -> PodGroup:
    meta = {"name": "train", "namespace": "ml", "uid": "u1", "annotations": annotations or {}}
    return read_pod_group(msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PodGroupObject))


def test_everything_that_a_pod_group_may_say() -> None:
    group = read(
        {"minMember": 8, "scheduleTimeoutSeconds": 90, "minResources": {"cpu": "8"}},
        {
            G + "mode": "NonStrict",
            G + "total-number": "10",
            G + "groups": '["ml/train", "ml/parameters"]',
            G + "match-policy": "waiting-and-running",
            "cotenant.io/gang-topology": '{"keys": ["rack", "block"], "required": true}',
        },
        phase="Scheduling",
        scheduled=3,
        occupiedBy="somebody",
    )
    assert (group.key, group.uid, group.min_member, group.wait_s) == ("ml/train", "u1", 8, 90.0)
    assert group.notes.mode is GangMode.NON_STRICT
    assert group.notes.total == 10
    assert group.notes.groups == ("ml/train", "ml/parameters")
    assert group.notes.match_policy is MatchPolicy.WAITING_AND_RUNNING
    assert group.notes.topology == GangTopology(("rack", "block"), True)
    assert group.status == PodGroupStatus("ml/train", "u1", GangPhase.SCHEDULING, 3)


def test_the_match_policy_has_a_second_name() -> None:
    group = read(
        {"minMember": 2}, {"pod-group.scheduling.sigs.k8s.io/match-policy": "only-waiting", G + "mode": "Strict"}
    )
    assert group.notes.match_policy is MatchPolicy.ONLY_WAITING
    assert group.notes.mode is GangMode.STRICT


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (G + "mode", "strict", "expected one of Strict, NonStrict"),
        (G + "total-number", "-1", "a whole number"),
        (G + "waiting-time", "soon", "a duration"),
        (G + "groups", "ml/train", "a JSON list"),
        (G + "match-policy", "never", "expected one of only-waiting"),
        ("cotenant.io/gang-topology", '{"keys": []}', "a JSON object"),
        ("cotenant.io/gang-topology", '{"keys": ["a"], "wide": 1}', "a JSON object"),
        ("cotenant.io/gang-topology", '{"keys": ["a"], "required": 1}', "a JSON object"),
        ("cotenant.io/gang-topology", "[", "a JSON object"),
    ],
)
def test_what_cannot_be_used_falls_back_and_is_said(name: str, text: str, words: str) -> None:
    group = read({"minMember": 2}, {name: text})
    (said,) = group.notes.wrong
    assert name in said
    assert words in said
    assert (group.notes.mode, group.notes.total, group.notes.topology, group.notes.groups) == (None, None, None, ())


def test_a_pod_s_bad_annotation_is_no_obstacle_by_itself() -> None:
    notes = read_gang(PodAnnotations(gang_name="a", gang_min_available="many"))
    assert notes.min_available is None
    assert "min-available" in notes.wrong[0]


def test_a_phase_that_nobody_knows_is_unknown_and_a_pod_group_has_a_name() -> None:
    assert read({}, phase="Dancing").status.phase is GangPhase.UNKNOWN
    with pytest.raises(InvalidInput, match="a name and a UID"):
        read_pod_group(msgspec.convert({"metadata": {"namespace": "x"}}, PodGroupObject))


def test_a_pod_group_of_the_newer_api_group() -> None:
    meta = {"name": "train", "namespace": "ml", "uid": "u1"}
    obj = {
        "metadata": meta,
        "spec": {"minMember": 8, "minResources": {"cpu": "8", "memory": "1Gi"}},
        "status": {"running": 2},
    }
    group = read_pod_group(msgspec.convert(obj, PodGroupObject), X_GROUP)
    assert (group.api_group, group.status.api_group) == (X_GROUP, X_GROUP)
    assert group.min_resources == Amounts.of({"cpu": 8000, "memory": 1 << 30})
    assert group.status.running == 2


def test_resources_that_cannot_be_parsed_are_reported() -> None:
    group = read({"minMember": 2, "minResources": {"cpu": "many", "memory": "1Gi"}})
    assert group.min_resources == Amounts.of({"memory": 1 << 30})
    (message,) = group.notes.wrong
    assert "spec.minResources.cpu" in message


def test_the_status_is_written_for_that_object_only() -> None:
    written: list[Any] = []

    class Writes:
        async def set_status(self, *args: Any, **more: Any) -> None:
            written.append((args, more))

    status = PodGroupStatus("ml/train", "u1", GangPhase.RUNNING, 8, 7, 1, 0)
    asyncio.run(write_pod_group(Writes(), status))  # type: ignore[arg-type]
    (((kind, namespace, name, uid, told), more),) = written
    assert (kind.name, namespace, name, uid) == ("PodGroup", "ml", "train", "u1")
    assert told == {"phase": "Running", "scheduled": 8, "running": 7, "succeeded": 1, "failed": 0}
    assert more == {"keeps": True}  # occupiedBy is others'
    asyncio.run(write_pod_group(Writes(), replace(status, api_group=X_GROUP)))  # type: ignore[arg-type]
    ((kind, _, _, _, fields), _) = written[1]
    assert kind.group == "scheduling.x-k8s.io"
    assert fields == {"phase": "Running", "running": 7, "succeeded": 1, "failed": 0}
