"""KubeVirt's and OpenStack's machines by stand-ins of their servers: what is read, asked for and refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import NotFound, Refused
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.vms.machine import Machine, MachineSize, MachineState, MachineVerb
from cotenant.services.vms import kubevirt
from cotenant.services.vms.kubevirt import KubeVirt
from cotenant.services.vms.openstack import OpenStack

NO_SIZE = MachineSize()
SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/shop"


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def play() -> Any:
        return await work()

    return asyncio.run(play())


# ---- KubeVirt


def vm(name: str, namespace: str = "shop", strategy: str = "Always", hostname: str = "") -> dict[str, Any]:
    template = {"spec": {"hostname": hostname}} if hostname else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"},
        "spec": {"runStrategy": strategy, "template": template},
    }


def vmi(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"i-{name}"},
        "status": {
            "phase": "Running",
            "nodeName": "n1",
            "activePods": {f"pod-{name}": "n1"},
            "conditions": [{"type": "LiveMigratable", "status": "True"}],
        },
    }


def launcher(of: str, namespace: str = "shop") -> dict[str, Any]:
    labels = {"koordinator.sh/qosClass": "BE"}
    return {
        "metadata": {"name": f"virt-launcher-{of}", "namespace": namespace, "uid": f"pod-{of}", "labels": labels},
        "spec": {"nodeName": "n1"},
    }


class Cluster:
    """The objects of KubeVirt, and what was sent. `lacks`: kinds that are not installed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **kinds: list[dict[str, Any]]) -> None:
        self.kinds: dict[str, list[dict[str, Any]]] = kinds
        self.lacks: set[str] = set()
        self.sent: list[tuple[str, str, Any, dict[str, Any]]] = []
        self.profiles: dict[str, dict[str, Any]] = {}
        self.refuses = False
        monkeypatch.setattr(kubevirt, "Objects", lambda client, manager: self)
        self.machines = KubeVirt(cast(Any, self), "shop")

    async def every(self, place: Any, namespace: str, query: dict[str, str] | None = None) -> list[dict[str, Any]]:
        if place.plural in self.lacks:
            raise NotFound(place.plural)
        if place.plural == "pods":
            assert query == {"labelSelector": "kubevirt.io=virt-launcher"}
        found = self.kinds.get(place.plural, [])
        return [one for one in found if not namespace or one["metadata"]["namespace"] == namespace]

    async def get(self, place: Any, namespace: str, name: str) -> dict[str, Any] | None:
        found = [one for one in await self.every(place, namespace) if one["metadata"]["name"] == name]
        return found[0] if found else None

    async def delete(self, place: Any, namespace: str, name: str) -> None:
        assert (place.plural, namespace) == ("clustercolocationprofiles", "")
        self.profiles.pop(name, None)

    async def apply(self, place: Any, obj: dict[str, Any]) -> None:
        if place.plural in self.lacks:
            raise NotFound(place.plural)
        self.profiles[obj["metadata"]["name"]] = obj

    async def request(self, method: str, path: str, body: bytes, **how: Any) -> bytes:
        if self.refuses:
            raise Refused("the webhook says no")
        self.sent.append((method, path, msgspec.json.decode(body), how))
        return b'{"metadata": {"name": "migration-1"}}'

    def machine(self, name: str) -> Machine:
        found: Machine = run(lambda: self.machines.machine(name))
        return found

    def tell(self, verb: MachineVerb, name: str = "db", to: MachineSize = NO_SIZE) -> None:
        given = Machine("shop", name, "u", MachineState.RUNNING, NO_SIZE)
        run(lambda: self.machines.tell(verb, given, to))


def test_machines_are_those_with_an_object_and_instances_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(
        monkeypatch,
        virtualmachines=[vm("db"), vm("idle", strategy="Halted"), vm("far", "ops")],
        virtualmachineinstances=[vmi("db"), vmi("bare")],
        pods=[launcher("db"), launcher("bare", "ops")],
    )
    here = run(lambda: cluster.machines.machines(False))
    assert [(one.name, one.state, one.pod) for one in here] == [
        ("bare", MachineState.RUNNING, ""),  # a pod of its UID is in another namespace
        ("db", MachineState.RUNNING, "virt-launcher-db"),
        ("idle", MachineState.STOPPED, ""),
    ]
    assert [one.key for one in run(lambda: cluster.machines.machines(True))] == [
        "ops/far",
        "shop/bare",
        "shop/db",
        "shop/idle",
    ]
    assert (cluster.machine("db").class_name, cluster.machine("idle").pod) == ("BE", "")
    with pytest.raises(InvalidInput, match="a machine of namespace shop"):
        cluster.machine("far")


def test_a_cluster_without_kubevirt_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.lacks = {"virtualmachines"}
    with pytest.raises(Unsupported, match="a cluster with KubeVirt"):
        run(lambda: cluster.machines.machines(False))


def test_each_verb_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, virtualmachines=[vm("db")], virtualmachineinstances=[vmi("db")])
    cluster.tell(MachineVerb.PAUSE)
    cluster.tell(MachineVerb.MIGRATE)
    cluster.tell(MachineVerb.RESIZE, to=MachineSize(vcpus=4))
    methods = [(method, path.removeprefix(SUBRESOURCES)) for method, path, _, _ in cluster.sent]
    assert methods[0] == ("PUT", "/virtualmachineinstances/db/pause")
    assert methods[1][0] == "POST"
    assert "virtualmachineinstancemigrations" in methods[1][1]
    method, path, _, how = cluster.sent[2]
    assert (method, path) == ("PATCH", "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/db")
    assert how == {"query": {"fieldManager": "cotenant-vm"}, "content_type": "application/merge-patch+json"}
    assert cluster.sent[0][3] == {}


def test_what_kubevirt_would_refuse_is_not_sent_and_what_it_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, virtualmachines=[vm("db")], virtualmachineinstances=[vmi("db")])
    with pytest.raises(Permanent, match="shop/db: its runStrategy is Always"):
        cluster.tell(MachineVerb.START)
    with pytest.raises(Permanent, match="shop/gone is gone"):
        cluster.tell(MachineVerb.STOP, "gone")
    assert cluster.sent == []
    cluster.refuses = True
    with pytest.raises(Permanent, match=r"shop/db: KubeVirt refuses to pause it: .*the webhook says no"):
        cluster.tell(MachineVerb.PAUSE)


def test_a_migration_that_failed_is_found_by_its_own_object(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = {
        "metadata": {"name": "migration-1", "namespace": "shop"},
        "status": {"phase": "Failed", "migrationState": {"failureReason": "no room"}},
    }
    cluster = Cluster(
        monkeypatch,
        virtualmachines=[vm("db")],
        virtualmachineinstances=[vmi("db")],
        virtualmachineinstancemigrations=[failed],
    )
    assert run(lambda: cluster.machines.failure()) == ""  # none was asked for
    cluster.tell(MachineVerb.PAUSE)
    assert run(lambda: cluster.machines.failure()) == ""
    cluster.tell(MachineVerb.MIGRATE)
    assert run(lambda: cluster.machines.failure()) != ""
    failed["status"] = {"phase": "Running"}
    assert run(lambda: cluster.machines.failure()) == ""
    machine = cluster.machine("db")
    assert run(lambda: cluster.machines.confirm(machine)) is None


def test_a_class_is_a_profile_of_the_machines_launcher_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, virtualmachines=[vm("db", hostname="primary"), vm("web")])
    machine = cluster.machine("db")
    said = run(lambda: cluster.machines.set_class(machine, "batch"))
    assert said.startswith("it takes hold where the machine starts or migrates next")
    ((name, profile),) = cluster.profiles.items()
    assert name.startswith("vm-shop-db-")
    assert profile["spec"]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    assert profile["spec"]["selector"]["matchLabels"] == {
        "kubevirt.io": "virt-launcher",
        "vm.kubevirt.io/name": "primary",
    }
    assert profile["spec"]["qosClass"] == "BE"
    run(lambda: cluster.machines.set_class(machine, ""))
    assert cluster.profiles == {}


def test_a_class_is_refused_where_another_machine_would_get_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Cluster(monkeypatch, virtualmachines=[vm("db"), vm("web", hostname="db")])
    machine = shared.machine("db")
    with pytest.raises(Permanent, match="shop/db: web has the same host name, db"):
        run(lambda: shared.machines.set_class(machine, "batch"))
    without = Cluster(monkeypatch, virtualmachines=[vm("db")])
    without.lacks = {"clustercolocationprofiles"}
    with pytest.raises(Unsupported, match="ClusterColocationProfiles"):
        run(lambda: without.machines.set_class(machine, "batch"))


# ---- OpenStack


def server(name: str, uid: str, **more: Any) -> dict[str, Any]:
    return {"id": uid, "name": name, "tenant_id": "shop", "status": "ACTIVE", **more}


class Compute:
    """Servers, and what was asked of them."""

    def __init__(self, *servers: dict[str, Any]) -> None:
        self.all = list(servers)
        self.elsewhere = [server("far", "u-far", tenant_id="ops")]
        self.acts: list[tuple[str, Any]] = []
        self.classes: list[tuple[str, str, str]] = []

    async def groups(self) -> list[dict[str, Any]]:
        return []

    async def servers(self, everywhere: bool = False) -> list[dict[str, Any]]:
        return [*self.all, *(self.elsewhere if everywhere else ())]

    async def flavors(self) -> list[dict[str, Any]]:
        return [{"id": "f1", "name": "small"}, {"id": "f2", "name": "large"}]

    async def act(self, uid: str, body: Any) -> None:
        self.acts.append((uid, body))

    async def set_metadata(self, uid: str, key: str, value: str) -> None:
        self.classes.append((uid, key, value))


def cloud(*servers: dict[str, Any]) -> tuple[OpenStack, Compute]:
    compute = Compute(*servers)
    return OpenStack(cast(Any, compute)), compute


def test_servers_are_machines_of_the_project_or_of_all() -> None:
    machines, _ = cloud(server("web", "u2"), server("db", "u1"))
    assert [one.key for one in run(lambda: machines.machines(False))] == ["shop/db", "shop/web"]
    assert [one.key for one in run(lambda: machines.machines(True))] == ["ops/far", "shop/db", "shop/web"]
    assert run(lambda: machines.machine("db")).uid == run(lambda: machines.machine("u1")).uid == "u1"
    assert run(lambda: machines.failure()) == ""


def test_a_name_that_none_or_two_have_is_refused() -> None:
    machines, _ = cloud(server("db", "u1"), server("db", "u2"))
    with pytest.raises(InvalidInput, match="one server, not 2: give its id"):
        run(lambda: machines.machine("db"))
    with pytest.raises(InvalidInput, match="a server of the project"):
        run(lambda: machines.machine("far"))


@pytest.mark.parametrize(
    ("verb", "status", "body"),
    [
        (MachineVerb.START, "SHUTOFF", {"os-start": None}),
        (MachineVerb.RESTART, "ACTIVE", {"reboot": {"type": "SOFT"}}),
        (MachineVerb.RESTART, "ERROR", {"reboot": {"type": "HARD"}}),
        (MachineVerb.RESIZE, "ACTIVE", {"resize": {"flavorRef": "f2"}}),
    ],
)
def test_a_verb_is_one_action(verb: MachineVerb, status: str, body: Any) -> None:
    machines, compute = cloud(server("db", "u1", status=status))
    machine = run(lambda: machines.machine("db"))
    run(lambda: machines.tell(verb, machine, MachineSize(flavor="large")))
    run(lambda: machines.confirm(machine))
    assert compute.acts == [("u1", body), ("u1", {"confirmResize": None})]


def test_what_nova_would_refuse_is_not_sent() -> None:
    machines, compute = cloud(server("db", "u1", locked=True))
    machine = run(lambda: machines.machine("db"))
    with pytest.raises(Permanent, match="shop/db: it is locked"):
        run(lambda: machines.tell(MachineVerb.STOP, machine, NO_SIZE))
    compute.all[0]["locked"] = False
    for flavor, said in (("", "OpenStack has no sizes in numbers"), ("huge", "one of large, small")):
        with pytest.raises(InvalidInput, match=said):
            run(lambda flavor=flavor: machines.tell(MachineVerb.RESIZE, machine, MachineSize(flavor=flavor)))
    assert compute.acts == []
    run(lambda: machines.tell(MachineVerb.RESIZE, machine, MachineSize(flavor="f1")))
    assert compute.acts == [("u1", {"resize": {"flavorRef": "f1"}})]


def test_a_class_stands_in_the_servers_metadata_and_is_taken_back_only_where_it_is() -> None:
    machines, compute = cloud(server("db", "u1"))
    machine = run(lambda: machines.machine("db"))
    assert run(lambda: machines.set_class(machine, "")) == "it stands in the server's metadata"
    assert compute.classes == []
    run(lambda: machines.set_class(machine, "batch"))
    ((uid, key, value),) = compute.classes
    assert (uid, value) == ("u1", "batch")
    compute.all[0]["metadata"] = {key: "batch"}
    classed = run(lambda: machines.machine("db"))
    assert classed.class_name == "batch"
    run(lambda: machines.set_class(classed, ""))
    assert compute.classes[-1] == ("u1", key, "")
