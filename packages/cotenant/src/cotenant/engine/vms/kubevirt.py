"""KubeVirt's objects as machines, and each verb as the request that KubeVirt documents for it.

A VirtualMachine is what is wanted; its VirtualMachineInstance exists while it runs, with the phase, the node and the
conditions; a pod named virt-launcher-* runs it, two during a migration.
Limits: a machine without a VirtualMachine object (a bare instance) can be shown, paused and migrated, not started.
What KubeVirt refuses, and the label and `activePods` of launcher pods, were read in its source at 008b6e6b
(virt-api's rest handlers, virt-controller's pod template).
Source: KubeVirt user guide, "Run Strategies", "Lifecycle", "Live Migration", "Instance types and preferences"; API
kubevirt.io/v1 and subresources.kubevirt.io/v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.quantities import whole
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb

VERSION = "kubevirt.io/v1"
LAUNCHER = {"kubevirt.io": "virt-launcher"}
_SUBRESOURCES = "/apis/subresources.kubevirt.io/v1"
_BEFORE = {"Pending": MachineState.WAITING, "Scheduling": MachineState.WAITING, "Scheduled": MachineState.STARTING}
_ENDED = {"Succeeded": MachineState.STOPPED, "Failed": MachineState.FAILED}
_OF_PHASE = {**_BEFORE, "Running": MachineState.RUNNING, **_ENDED}
_MANUAL_START = frozenset({"Halted", "Manual", "RerunOnFailure"})
_MAX_LABEL = 63  # characters
_RESTARTS = frozenset({"Always", "Manual", "RerunOnFailure"})


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API server."""

    method: str
    path: str
    body: JsonObject


def machine_of(vm: JsonMapping | None, vmi: JsonMapping | None, pods: Sequence[JsonMapping] = ()) -> Machine:
    """A machine by its VirtualMachine, its instance, or both; `pods`: of its namespace."""
    metadata = (vm or vmi or {})["metadata"]
    status = _part(vmi, "status")
    pod = _launcher(vmi, pods)
    labels = _part(_part(pod, "metadata"), "labels")
    return Machine(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        uid=str(metadata.get("uid") or ""),
        state=_state(vm, vmi),
        size=_size(vm, vmi),
        node=str(status.get("nodeName") or ""),
        incarnation=str(_part(vmi, "metadata").get("uid") or ""),
        why=_why(vm, vmi, pod),
        class_name=str(labels.get(QOS_CLASS) or ""),
        pod=str(_part(pod, "metadata").get("name") or ""),
        pending=_message(_condition(vm, "RestartRequired")) if _holds(vm, "RestartRequired") else "",
    )


def why_kubevirt_not(verb: MachineVerb, vm: JsonMapping | None, vmi: JsonMapping | None) -> str:
    """What KubeVirt has against a verb beyond the machine's state; empty = nothing."""
    strategy = run_strategy(vm)
    if vm is None and verb in (MachineVerb.START, MachineVerb.RESTART, MachineVerb.RESIZE):
        return "it is an instance without a VirtualMachine, which would be gone once it is stopped"
    if verb is MachineVerb.START and strategy not in _MANUAL_START:
        return f"its runStrategy is {strategy}, with which KubeVirt starts nothing on request"
    if verb is MachineVerb.START and strategy == "RerunOnFailure" and _part(vmi, "status").get("phase") == "Failed":
        return "it has failed, and its runStrategy is RerunOnFailure: KubeVirt starts it again by itself"
    if verb is MachineVerb.RESTART and strategy not in _RESTARTS:
        return f"its runStrategy is {strategy}, with which KubeVirt restarts nothing"
    if verb is MachineVerb.MIGRATE:
        condition = _condition(vmi, "LiveMigratable")
        if condition.get("status") != "True":
            return f"it cannot migrate live: {_message(condition) or 'KubeVirt has not said that it can'}"
    if verb is MachineVerb.PAUSE and _part(_part(vmi, "spec"), "livenessProbe"):
        return "it has a liveness probe, which would kill it while it is paused"
    return ""


def request_of(verb: MachineVerb, vm: JsonMapping | None, vmi: JsonMapping | None, to: MachineSize) -> ApiRequest:
    """The request; `to` is read for a resize. Raises `InvalidInput`."""
    metadata = (vm or vmi or {})["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    if verb is MachineVerb.RESIZE:
        path = f"/apis/{VERSION}/namespaces/{namespace}/virtualmachines/{name}"
        return ApiRequest("PATCH", path, _resized(vm or {}, to))
    if verb is MachineVerb.STOP and vm is None:
        return ApiRequest("DELETE", f"/apis/{VERSION}/namespaces/{namespace}/virtualmachineinstances/{name}", {})
    if verb is MachineVerb.MIGRATE:
        body: JsonObject = {
            "apiVersion": VERSION,
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"generateName": f"{name}-"},
            "spec": {"vmiName": name},
        }
        return ApiRequest("POST", f"/apis/{VERSION}/namespaces/{namespace}/virtualmachineinstancemigrations", body)
    plural = "virtualmachineinstances" if verb in (MachineVerb.PAUSE, MachineVerb.UNPAUSE) else "virtualmachines"
    return ApiRequest("PUT", f"{_SUBRESOURCES}/namespaces/{namespace}/{plural}/{name}/{verb.value}", {})


def run_strategy(vm: JsonMapping | None) -> str:
    """Its runStrategy; the older field `running` in its words."""
    spec = _part(vm, "spec")
    strategy = spec.get("runStrategy")
    if strategy:
        return str(strategy)
    return "Always" if spec.get("running") is True else "Halted"


def name_on_pods(vm: JsonMapping | None, vmi: JsonMapping | None) -> str:
    """The value of `vm.kubevirt.io/name` on its launcher pods: its host name, which two machines may share."""
    spec = _part(_part(_part(vm, "spec"), "template"), "spec") or _part(vmi, "spec")
    name = str((vm or vmi or {})["metadata"]["name"])
    return str(spec.get("hostname") or name.partition(".")[0][:_MAX_LABEL])


def failed_migration(migrations: Sequence[JsonMapping], name: str) -> str:
    """Why a migration that was asked for failed, empty while it has not. `name`: of the migration."""
    for migration in migrations:
        status = _part(migration, "status")
        if migration["metadata"]["name"] == name and status.get("phase") == "Failed":
            reason = _part(status, "migrationState").get("failureReason")
            return f"the migration {name} failed" + (f": {reason}" if reason else "")
    return ""


def _resized(vm: JsonMapping, to: MachineSize) -> JsonObject:
    """The merge patch. A size by name replaces the name; a size in numbers is for machines that state numbers."""
    spec = _part(vm, "spec")
    named = spec.get("instancetype")
    if to.flavor:
        if not isinstance(named, dict):
            raise InvalidInput("--flavor", to.flavor, "a machine with an instance type", "give --vcpus and --memory")
        return {"spec": {"instancetype": {"name": to.flavor, "revisionName": None}}}
    if isinstance(named, dict):
        hint = f"its instance type is {named.get('name')}: give --flavor"
        raise InvalidInput("--vcpus", to.vcpus, "a machine without an instance type", hint)
    domain: JsonObject = {}
    if to.vcpus:
        cpu = _part(_part(_part(_part(spec, "template"), "spec"), "domain"), "cpu")
        each = _count(cpu.get("cores"), 1) * _count(cpu.get("threads"), 1)
        if to.vcpus % each:
            raise InvalidInput("--vcpus", to.vcpus, f"a multiple of {each}", f"a socket of it has {each} vCPUs")
        domain["cpu"] = {"sockets": to.vcpus // each}
    if to.memory_mib:
        domain["memory"] = {"guest": f"{to.memory_mib}Mi"}
    return {"spec": {"template": {"spec": {"domain": domain}}}}


def _state(vm: JsonMapping | None, vmi: JsonMapping | None) -> MachineState:
    if vmi is None:
        if run_strategy(vm) == "Halted" or _part(vm, "status").get("printableStatus") in ("Stopped", None):
            return MachineState.STOPPED
        return MachineState.WAITING
    phase = str(_part(vmi, "status").get("phase") or "")
    if vmi["metadata"].get("deletionTimestamp") and phase not in ("Succeeded", "Failed"):
        return MachineState.STOPPING
    if phase == "Running":
        migration = _part(_part(vmi, "status"), "migrationState")
        if migration and not (migration.get("completed") or migration.get("failed")):
            return MachineState.MIGRATING
        if _holds(vmi, "Paused"):
            return MachineState.PAUSED
    return _OF_PHASE.get(phase, MachineState.UNKNOWN if phase else MachineState.WAITING)


def _why(vm: JsonMapping | None, vmi: JsonMapping | None, pod: JsonMapping | None) -> str:
    """What holds it: the pod's own reason first, which the scheduler writes, then what KubeVirt says."""
    for obj, kind in ((pod, "PodScheduled"), (vmi, "PodScheduled"), (vmi, "Synchronized"), (vm, "Failure")):
        condition = _condition(obj, kind)
        if condition.get("status") == ("True" if kind == "Failure" else "False"):
            return _message(condition)
    printable = str(_part(vm, "status").get("printableStatus") or "")
    return printable if printable.startswith(("Err", "Crash", "DataVolume", "WaitingFor")) else ""


def _launcher(vmi: JsonMapping | None, pods: Sequence[JsonMapping]) -> JsonMapping | None:
    """The pod that runs it, by what KubeVirt's controller states: labels and owners of a pod are its writer's words."""
    status = _part(vmi, "status")
    node, active = status.get("nodeName") or "", _part(status, "activePods")
    return next((pod for pod in pods if active.get(str(pod["metadata"].get("uid"))) == node), None)


def _size(vm: JsonMapping | None, vmi: JsonMapping | None) -> MachineSize:
    """What the instance has, else what the machine asks for."""
    named = _part(_part(vm, "spec"), "instancetype").get("name")
    spec = _part(vmi, "spec") or _part(_part(_part(vm, "spec"), "template"), "spec")
    domain = _part(spec, "domain")
    cpu, memory = _part(domain, "cpu"), _part(domain, "memory").get("guest")
    if memory is None:
        memory = _part(_part(domain, "resources"), "requests").get("memory")
    vcpus = _count(cpu.get("sockets"), 1) * _count(cpu.get("cores"), 1) * _count(cpu.get("threads"), 1)
    return MachineSize(vcpus if cpu or not named else 0, _mib(memory), str(named or ""))


def _mib(memory: object) -> int:
    try:
        return whole(memory) >> 20 if isinstance(memory, str | int | float) else 0
    except InvalidInput:
        return 0


def _count(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _condition(obj: JsonMapping | None, kind: str) -> JsonMapping:
    conditions = _part(obj, "status").get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == kind:
            return condition
    return {}


def _holds(obj: JsonMapping | None, kind: str) -> bool:
    return _condition(obj, kind).get("status") == "True"


def _message(condition: JsonMapping) -> str:
    return str(condition.get("message") or condition.get("reason") or "")


def _part(obj: JsonMapping | None, name: str) -> JsonMapping:
    found = (obj or {}).get(name)
    return found if isinstance(found, dict) else {}
