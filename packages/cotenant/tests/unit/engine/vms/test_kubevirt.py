"""KubeVirt's objects read as machines, odd ones too."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.engine.vms.kubevirt import machine_of, name_on_pods, request_of, run_strategy, why_kubevirt_not
from cotenant.model.errors import InvalidInput
from cotenant.model.vms.machine import MachineSize, MachineState, MachineVerb

META = {"namespace": "shop", "name": "db", "uid": "u1"}


def vm(spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec if spec is not None else {"runStrategy": "Always"}, "status": status}


def vmi(phase: Any = "Running", *, spec: Any = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {**META, "uid": "i1"}, "spec": spec or {}, "status": {"phase": phase, **status}}


def pod(name: str, node: str, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "uid": f"uid-{name}", "namespace": "shop", "labels": {"koordinator.sh/qosClass": "BE"}}
    return {"metadata": meta, "spec": {"nodeName": node}, "status": status}


@pytest.mark.parametrize(
    ("objects", "state"),
    [
        ((vm({"runStrategy": "Halted"}), None), MachineState.STOPPED),
        ((vm({"running": False}), None), MachineState.STOPPED),
        ((vm(printableStatus="Provisioning"), None), MachineState.WAITING),
        ((vm(printableStatus="Stopped"), None), MachineState.STOPPED),
        ((vm(), vmi("Pending")), MachineState.WAITING),
        ((vm(), vmi("Scheduled")), MachineState.STARTING),
        ((vm(), vmi()), MachineState.RUNNING),
        ((vm(), vmi(conditions=[{"type": "Paused", "status": "True"}])), MachineState.PAUSED),
        ((vm(), vmi(migrationState={"targetNode": "b"})), MachineState.MIGRATING),
        ((vm(), vmi(migrationState={"completed": True})), MachineState.RUNNING),
        ((vm(), vmi(migrationState={"failed": True})), MachineState.RUNNING),
        ((vm(), vmi("Failed")), MachineState.FAILED),
        ((vm(), vmi("Succeeded")), MachineState.STOPPED),
        ((vm(), vmi("WaitForSync")), MachineState.UNKNOWN),
        ((None, vmi()), MachineState.RUNNING),
        ((vm(), vmi(None)), MachineState.WAITING),
    ],
)
def test_states(objects: tuple[Any, Any], state: MachineState) -> None:
    assert machine_of(*objects).state is state


def test_an_instance_that_is_being_deleted_stops() -> None:
    going = vmi()
    going["metadata"] = {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert machine_of(vm(), going).state is MachineState.STOPPING


def test_the_pod_is_the_one_that_kubevirt_states_on_the_instance_s_node() -> None:
    pods = [pod("target", "b"), pod("forged", "a"), pod("now", "a")]
    active = {"uid-target": "b", "uid-now": "a"}
    machine = machine_of(vm(), vmi(nodeName="a", activePods=active), pods)
    assert (machine.pod, machine.node, machine.class_name) == ("now", "a", "BE")
    assert machine_of(vm(), vmi(nodeName="a"), pods).pod == ""


def test_why_it_waits_is_the_scheduler_s_sentence() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0 of 3 nodes fit: cpu"}
    waiting = vmi("Scheduling", activePods={"uid-p": ""})
    assert machine_of(vm(), waiting, [pod("p", "", conditions=[condition])]).why == "0 of 3 nodes fit: cpu"
    assert machine_of(vm(printableStatus="ErrorPvcNotFound"), None).why == "ErrorPvcNotFound"


def test_the_name_on_its_pods_is_its_host_name() -> None:
    long = {**META, "name": "db.shop." + "x" * 70}
    assert name_on_pods({"metadata": long, "spec": {}}, None) == "db"
    assert name_on_pods({"metadata": {**META, "name": "y" * 70}, "spec": {}}, None) == "y" * 63
    assert name_on_pods(vm({"template": {"spec": {"hostname": "primary"}}}), None) == "primary"
    assert name_on_pods(None, vmi(spec={"hostname": "bare"})) == "bare"


@pytest.mark.parametrize("odd", [None, [], "x", 7, {"cores": "two"}, {"cores": True, "sockets": -1}])
def test_odd_sizes_are_read_as_one(odd: Any) -> None:
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"cpu": odd, "memory": {"guest": "lots"}}}}}
    assert machine_of(vm(spec), None).size == MachineSize(1, 0)


def test_conditions_of_any_form() -> None:
    for conditions in (None, {}, "x", [None, 3, {"type": 3}]):
        assert machine_of(vm(conditions=conditions), vmi(conditions=conditions)).state is MachineState.RUNNING


@pytest.mark.parametrize(
    ("verb", "strategy", "part"),
    [
        (MachineVerb.START, "Always", "starts nothing on request"),
        (MachineVerb.START, "Once", "starts nothing on request"),
        (MachineVerb.RESTART, "Halted", "restarts nothing"),
        (MachineVerb.RESTART, "Once", "restarts nothing"),
        (MachineVerb.START, "Manual", ""),
        (MachineVerb.RESTART, "RerunOnFailure", ""),
    ],
)
def test_run_strategies(verb: MachineVerb, strategy: str, part: str) -> None:
    why = why_kubevirt_not(verb, vm({"runStrategy": strategy}), vmi())
    assert part in why if part else why == ""


def test_what_an_instance_says_against_a_verb() -> None:
    assert "has not said that it can" in why_kubevirt_not(MachineVerb.MIGRATE, vm(), vmi())
    probed = vmi(spec={"livenessProbe": {"tcpSocket": {"port": 80}}})
    assert "liveness probe" in why_kubevirt_not(MachineVerb.PAUSE, vm(), probed)
    failed = why_kubevirt_not(MachineVerb.START, vm({"runStrategy": "RerunOnFailure"}), vmi("Failed"))
    assert "starts it again by itself" in failed
    assert "without a VirtualMachine" in why_kubevirt_not(MachineVerb.START, None, vmi())
    assert run_strategy({"spec": {"running": True}}) == "Always"


def test_requests() -> None:
    start = request_of(MachineVerb.START, vm(), None, MachineSize())
    base = "/apis/subresources.kubevirt.io/v1/namespaces/shop"
    assert (start.method, start.path) == ("PUT", f"{base}/virtualmachines/db/start")
    assert request_of(MachineVerb.PAUSE, vm(), vmi(), MachineSize()).path == f"{base}/virtualmachineinstances/db/pause"
    assert request_of(MachineVerb.STOP, None, vmi(), MachineSize()).method == "DELETE"
    resized = request_of(
        MachineVerb.RESIZE, vm({"instancetype": {"name": "s", "revisionName": "r"}}), None, MachineSize(flavor="l")
    )
    assert resized.body == {"spec": {"instancetype": {"name": "l", "revisionName": None}}}
    with pytest.raises(InvalidInput, match="a machine with an instance type"):
        request_of(MachineVerb.RESIZE, vm({}), None, MachineSize(flavor="l"))
