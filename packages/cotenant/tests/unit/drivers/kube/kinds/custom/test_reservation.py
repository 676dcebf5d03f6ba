"""Reservations as an API server has them, read and written."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest
import yaml

from cotenant.drivers.kube.kinds.custom.definitions import manifests
from cotenant.drivers.kube.kinds.custom.reservation import ReservationObject, ReservationReader
from cotenant.drivers.kube.kinds.custom.reservation_writing import holdings_patch, manifest, written_status
from cotenant.drivers.kube.kinds.pod.demands import read_demands, read_holdings, written_holdings
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodAnnotations, PodObject
from cotenant.model.cluster.demands import GPU_SHARE, NO_DEMANDS, NO_HOLDINGS, Holdings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import OwnedBy
from cotenant.model.cpus.spec import RESOURCE_STATUS, ResourceStatus
from cotenant.model.devices.allocation import DEVICE_ALLOCATED, DeviceAllocation
from cotenant.model.devices.device import DeviceType
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.reservation import (
    AllocatePolicy,
    ControllerOwner,
    CurrentOwner,
    Reservation,
    ReservationCondition,
    ReservationOwner,
    ReservationPhase,
)
from cotenant.model.groups.reservation_notes import (
    AFFINITY,
    ALLOCATED,
    EXACT_MATCH,
    RESTRICTED_OPTIONS,
    AllocatedReservation,
)
from cotenant.model.resources import Amounts
from cotenant.policy.placement.reservations.migration import reservation_for

SPEC = {
    "template": {
        "metadata": {"namespace": "team", "labels": {"app": "web"}},
        "spec": {
            "schedulerName": "cotenant",
            "priority": 7,
            "nodeName": "n1",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
        },
    },
    "owners": [{"controller": {"kind": "ReplicaSet", "name": "web-1", "namespace": "team"}}, {"labelSelector": {}}],
    "ttl": "1h30m",
    "allocatePolicy": "Restricted",
    "allocateOnce": False,
    "taints": [{"key": "k", "effect": "NoSchedule"}],
}


def read(spec: Any, status: Any = None, **meta: Any) -> Reservation:
    obj = {"metadata": {"name": "r", "uid": "u", "creationTimestamp": "2026-01-31T12:00:00Z", **meta}, "spec": spec}
    if status is not None:
        obj["status"] = status
    return ReservationReader().read(msgspec.json.decode(json.dumps(obj), type=ReservationObject))


def test_everything_is_read() -> None:
    status = {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "1"},
        "allocated": {"cpu": "0"},
        "currentOwners": [{"namespace": "team", "name": "p", "uid": "p1"}],
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Available", "lastTransitionTime": "2026-01-31T12:00:01Z"}
        ],
    }
    annotations = {RESTRICTED_OPTIONS: '{"resources": ["cpu"]}'}
    labels = {"scheduling.koordinator.sh/reservation-order": "3"}
    made = read(SPEC, status, annotations=annotations, labels=labels)
    assert made.wrong == ()
    assert (made.pod.namespace, made.pod.priority, made.pod.labels) == ("team", 7, Labels.of({"app": "web"}))
    assert made.pod.requests == made.allocatable == Amounts.of({"cpu": 2000, "memory": 1 << 30})
    assert made.pod.pinned == "n1"
    assert made.owners[0] == ReservationOwner(controller=ControllerOwner("web-1", "team", kind="ReplicaSet"))
    assert (made.ttl_s, made.allocate_once, made.policy, made.order, made.restricted) == (
        5400.0,
        False,
        AllocatePolicy.RESTRICTED,
        3,
        ("cpu",),
    )
    assert (made.phase, made.node, made.allocated, made.current) == (
        ReservationPhase.AVAILABLE,
        "n1",
        Amounts(),
        (CurrentOwner("team", "p", "p1"),),
    )
    assert made.changed_s == made.created_s + 1.0
    assert len(made.taints) == 1


def test_what_it_was_given_counts_once_it_has_its_node() -> None:
    given = '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
    notes = {DEVICE_ALLOCATED: given, RESOURCE_STATUS: '{"cpuset":"0-1"}', ALLOCATED: '{"name":"other","uid":"o"}'}
    made = read(SPEC, {"phase": "Available", "nodeName": "n1"}, annotations=notes)
    device = DeviceAllocation(DeviceType.GPU, 1, Amounts.of({"koordinator.sh/gpu-core": 100}))
    assert made.holds == Holdings(cpus=ResourceStatus((0, 1)), devices=(device,))
    bad = {DEVICE_ALLOCATED: "[]"}
    assert "device-allocated" in read(SPEC, {"phase": "Available", "nodeName": "n1"}, annotations=bad).wrong[0]
    assert read(SPEC, {}, annotations=bad).wrong == ()


def test_what_it_is_given_is_written_and_what_it_was_given_before_goes() -> None:
    patch = holdings_patch("u", Holdings(cpus=ResourceStatus((0, 1))))
    assert patch["metadata"] == {
        "uid": "u",
        "annotations": {DEVICE_ALLOCATED: None, GPU_SHARE: None, RESOURCE_STATUS: '{"cpuset":"0-1"}'},
    }


def test_defaults() -> None:
    made = read({"template": SPEC["template"], "owners": SPEC["owners"]})
    assert (made.ttl_s, made.allocate_once, made.policy, made.phase) == (
        86_400.0,
        True,
        AllocatePolicy.DEFAULT,
        ReservationPhase.PENDING,
    )
    assert read({**SPEC, "ttl": "0"}).ends_s == inf
    assert read({**SPEC, "ttl": "0s"}).ends_s == inf
    assert read({**SPEC, "expires": "2026-01-31T12:00:10Z"}).ends_s == made.created_s + 10.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"owners": []}, "spec.owners"),
        ({"owners": [{}]}, "spec.owners[0]"),
        ({"owners": [{"object": {}}]}, "spec.owners[0]"),
        ({"owners": "me"}, "spec:"),
        ({"ttl": "soon"}, "spec.ttl"),
        ({"expires": "tomorrow"}, "spec.expires"),
        ({"allocatePolicy": "Greedy"}, "spec.allocatePolicy"),
        ({"preAllocation": True, "preAllocationPolicy": {"mode": "Some"}}, "spec.preAllocationPolicy.mode"),
        (
            {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}},
            "spec.template",
        ),
        ({"template": 5}, "spec.template"),
        ({"taints": [{"key": "k", "effect": "Sometimes"}]}, "spec.taints"),
    ],
)
def test_what_is_wrong_is_told_on_the_object(change: dict[str, Any], said: str) -> None:
    made = read({**SPEC, **change})
    assert any(said in sentence for sentence in made.wrong), made.wrong


def test_wrong_labels_annotations_and_status() -> None:
    labels = {"scheduling.koordinator.sh/reservation-order": "first"}
    made = read(
        SPEC, {"phase": "Done", "allocatable": {"cpu": "x"}}, labels=labels, annotations={RESTRICTED_OPTIONS: "["}
    )
    assert len(made.wrong) == 4
    assert read(SPEC, "broken").wrong
    with pytest.raises(InvalidInput):
        read(SPEC, uid="")


def test_a_status_is_written_as_it_is_read() -> None:
    conditions = (ReservationCondition("Ready", False, "Expired", "its time is over", 1_769_860_800.0),)
    owners = (CurrentOwner("team", "p", "p1"),)
    granted = Amounts.of({"cpu": 2000, "memory": 1 << 30})
    told = written_status(ReservationPhase.FAILED, "n1", granted, Amounts.of({"cpu": 500}), owners, conditions)
    assert told["allocated"] == {"cpu": "500m", "memory": "0"}
    made = read(SPEC, told)
    assert (made.phase, made.node, made.allocatable, made.allocated) == (
        ReservationPhase.FAILED,
        "n1",
        granted,
        Amounts.of({"cpu": 500}),
    )
    assert (made.current, made.conditions, made.changed_s) == (owners, conditions, 1_769_860_800.0)


def test_what_pods_say_about_reservations() -> None:
    wrong: list[str] = []
    affinity = {
        "name": "r",
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "reservationSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
        },
        "reservationSelector": {"c": "d"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    told = read_demands(PodAnnotations(reservation_affinity=json.dumps(affinity)), wrong).reservation_affinity
    assert told is not None
    assert (told.name, told.selector, len(told.tolerations)) == ("r", Labels.of({"c": "d"}), 1)
    assert told.required is not None
    assert told.required.matches("r", Labels.of({"a": "b"}))
    assert wrong == []
    exact = '{"resourceNames": ["cpu", "nvidia.com/gpu", "cpu"]}'
    assert read_demands(PodAnnotations(exact_match_reservation=exact), wrong).exact_match == ("cpu", "nvidia.com/gpu")
    assert read_demands(PodAnnotations(exact_match_reservation="{}"), wrong) is NO_DEMANDS
    assert wrong == []
    holds = Holdings(reservation=AllocatedReservation("r", "u"))
    assert read_holdings(PodAnnotations(reservation_allocated=written_holdings(holds)[ALLOCATED]), wrong) == holds
    stale = written_holdings(NO_HOLDINGS, (ALLOCATED,))  # a copied note is emptied with the bind
    assert read_holdings(PodAnnotations(reservation_allocated=stale[ALLOCATED]), wrong) == NO_HOLDINGS
    for text in ("[", "5", '{"tolerations": 1}'):
        read_demands(PodAnnotations(reservation_affinity=text), wrong)
        read_holdings(PodAnnotations(reservation_allocated=text), wrong)
    assert [sentence.split(":")[0] for sentence in wrong] == [f"annotation {AFFINITY}", f"annotation {ALLOCATED}"] * 3
    wrong.clear()
    for text in ("[", '{"resourceNames": "cpu"}', '{"resourceNames": [1]}'):
        read_demands(PodAnnotations(exact_match_reservation=text), wrong)
    assert [sentence.split(":")[0] for sentence in wrong] == [f"annotation {EXACT_MATCH}"] * 3


def test_a_moved_pod_s_reservation_as_a_manifest() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    spec = {
        **SPEC["template"]["spec"],  # type: ignore[index]
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
    }
    obj = {
        "metadata": {
            "name": "web-1-x",
            "namespace": "team",
            "uid": "p",
            "labels": {"app": "web"},
            "ownerReferences": [owner],
        },
        "spec": spec,
    }
    pod = msgspec.convert(obj, PodObject)
    seen = PodReader().pod(pod)
    assert seen.owned_by == (OwnedBy("apps/v1", "ReplicaSet", "web-1", "rs", True),)
    wanted = reservation_for(seen, "move", 0.0)
    written = manifest(wanted, pod)
    made = read(written["spec"], name="move")
    assert made.wrong == ()
    assert (made.owners, made.ttl_s, made.allocate_once) == (wanted.owners, 300.0, True)
    assert made.pod == replace(wanted.pod, name="move")
    assert made.scheduler == "cotenant"


def test_the_definition_is_upstream_s() -> None:
    text = dict(manifests())["reservations"]
    definition = yaml.safe_load(text)
    assert definition["metadata"]["name"] == "reservations.scheduling.koordinator.sh"
    assert definition["spec"]["scope"] == "Cluster"
