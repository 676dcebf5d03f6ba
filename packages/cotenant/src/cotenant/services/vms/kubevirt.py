"""KubeVirt's machines by their objects.

The class of a machine is a ClusterColocationProfile that selects its launcher pods by the label that KubeVirt gives
them: the pods of the next start or migration have the class, and KubeVirt's objects stay as their owner wrote them.
Limits: that label is the machine's host name, so a machine that gets the same one later gets the class, too.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound, Refused
from cotenant.drivers.kube.client.objects import MERGE_PATCH, Objects, ServedKind
from cotenant.engine.vms.kubevirt import (
    LAUNCHER,
    VERSION,
    ApiRequest,
    failed_migration,
    machine_of,
    name_on_pods,
    request_of,
    why_kubevirt_not,
)
from cotenant.model.cluster.class_names import CLASSES
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.model.vms.machine import Machine, MachineSize, MachineVerb

MANAGER = "cotenant-vm"
NAME_ON_POD = "vm.kubevirt.io/name"  # label of launcher pods
_MACHINES = ServedKind(VERSION, "virtualmachines", True)
_INSTANCES = ServedKind(VERSION, "virtualmachineinstances", True)
_MIGRATIONS = ServedKind(VERSION, "virtualmachineinstancemigrations", True)
_PODS = ServedKind("v1", "pods", True)
_PROFILES = ServedKind("config.koordinator.sh/v1alpha1", "clustercolocationprofiles", False)

_PROFILES_NEEDED = "ClusterColocationProfiles: `cotenant crds` prints them"


class KubeVirt:
    """The machines of a cluster, as seen from one namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._objects = Objects(client, MANAGER)
        self._namespace = namespace
        self._migration = ""  # the one that was asked for last

    async def machines(self, everywhere: bool) -> list[Machine]:
        """Those with a VirtualMachine, and instances without one."""
        namespace = "" if everywhere else self._namespace
        vms = {_key(vm): vm for vm in await self._every(_MACHINES, namespace)}
        vmis = {_key(vmi): vmi for vmi in await self._every(_INSTANCES, namespace)}
        pods = await self._launchers(namespace)
        keys = sorted({*vms, *vmis})
        return [machine_of(vms.get(key), vmis.get(key), pods.get(key[0], ())) for key in keys]

    async def machine(self, name: str) -> Machine:
        """By its name in the namespace."""
        vm, vmi = await self._pair(name)
        if vm is None and vmi is None:
            raise InvalidInput("NAME", name, f"a machine of namespace {self._namespace}", "`cotenant vm list` has them")
        pods = await self._launchers(self._namespace) if vmi is not None else {}
        return machine_of(vm, vmi, pods.get(self._namespace, ()))

    async def tell(self, verb: MachineVerb, machine: Machine, to: MachineSize) -> None:
        """One request."""
        vm, vmi = await self._pair(machine.name)
        if vm is None and vmi is None:
            raise Permanent(f"{machine.key} is gone")
        why = why_kubevirt_not(verb, vm, vmi)
        if why:
            raise Permanent(f"{machine.key}: {why}")
        request = request_of(verb, vm, vmi, to)
        try:
            answer = await self._send(request)
        except Refused as error:
            raise Permanent(f"{machine.key}: KubeVirt refuses to {verb.value} it: {error}") from error
        if verb is MachineVerb.MIGRATE:
            self._migration = str(msgspec.json.decode(answer, type=dict)["metadata"]["name"])

    async def confirm(self, machine: Machine) -> None:
        """KubeVirt never asks."""

    async def failure(self) -> str:
        """Of a migration: it is an object of its own."""
        if not self._migration:
            return ""
        return failed_migration(await self._every(_MIGRATIONS, self._namespace), self._migration)

    async def set_class(self, machine: Machine, class_name: str) -> str:
        """A profile of the cluster, made, replaced or deleted."""
        name = f"vm-{machine.namespace}-{machine.name}"[:200] + "-" + sha256(machine.key.encode()).hexdigest()[:8]
        if not class_name:
            await self._objects.delete(_PROFILES, "", name)
        else:
            label = await self._own_label(machine)
            try:
                await self._objects.apply(_PROFILES, _profile(name, machine.namespace, label, class_name))
            except NotFound:
                raise Unsupported("a machine's class", _PROFILES_NEEDED) from None
        return "it takes hold where the machine starts or migrates next, by `cotenant webhook`"

    async def _own_label(self, machine: Machine) -> str:
        """The label of its launcher pods. Raises `Permanent` where another machine's pods have it."""
        label = name_on_pods(*await self._pair(machine.name))
        for vm in await self._every(_MACHINES, self._namespace):
            other = str(vm["metadata"]["name"])
            if other != machine.name and name_on_pods(vm, None) == label:
                raise Permanent(f"{machine.key}: {other} has the same host name, {label}: it would get the class, too")
        return label

    async def _pair(self, name: str) -> tuple[JsonObject | None, JsonObject | None]:
        vm = await self._objects.get(_MACHINES, self._namespace, name)
        return vm, await self._objects.get(_INSTANCES, self._namespace, name)

    async def _launchers(self, namespace: str) -> dict[str, list[JsonObject]]:
        """Launcher pods by namespace."""
        selector = ",".join(f"{key}={value}" for key, value in LAUNCHER.items())
        found: dict[str, list[JsonObject]] = {}
        for pod in await self._objects.every(_PODS, namespace, {"labelSelector": selector}):
            found.setdefault(str(pod["metadata"]["namespace"]), []).append(pod)
        return found

    async def _every(self, place: ServedKind, namespace: str) -> list[JsonObject]:
        try:
            return await self._objects.every(place, namespace)
        except NotFound:
            raise Unsupported("a list of virtual machines", f"a cluster with KubeVirt ({VERSION})") from None

    async def _send(self, request: ApiRequest) -> bytes:
        body = msgspec.json.encode(request.body)
        if request.method == "PATCH":
            query = {"fieldManager": MANAGER}
            return await self._client.request("PATCH", request.path, body, query=query, content_type=MERGE_PATCH)
        return await self._client.request(request.method, request.path, body)


def _profile(name: str, namespace: str, label: str, class_name: str) -> JsonObject:
    qos, priority = CLASSES[class_name]
    return {
        "apiVersion": _PROFILES.api_version,
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "selector": {"matchLabels": {**LAUNCHER, NAME_ON_POD: label}},
            "qosClass": qos,
            "priorityClassName": priority,
        },
    }


def _key(obj: JsonObject) -> tuple[str, str]:
    return str(obj["metadata"].get("namespace") or ""), str(obj["metadata"]["name"])
