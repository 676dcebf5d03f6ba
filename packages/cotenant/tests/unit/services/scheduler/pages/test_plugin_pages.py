"""Pages of the plugins, and what they say about a pod, with the members that the plugins has."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.cluster import cpu_cluster
from tests.fakes.cluster.questions import carry_out, cluster, node, pod
from tests.fakes.cluster.reservation_world import World, reservation, web
from tests.fakes.cluster.reservation_world import node as reserved_node
from tests.fakes.cluster.reservation_world import pod as stranger
from tests.fakes.servers.serving import server

from cotenant.engine.cluster import Cluster
from cotenant.engine.explain.pages import PAGES, pages
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.model.cluster.demands import NO_HOLDINGS, Demands
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.decisions.answers import PodAnswer, WhatIf
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.groups.gang import GangNotes
from cotenant.model.groups.quota import NAME, ROOT_QUOTA, Quota, QuotaObject
from cotenant.model.resources import BATCH_CPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings
from cotenant.services.routes import SERVICES

WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 8 << 30})


def asked(c: Cluster, key: str, *supposed: str) -> PodAnswer:
    found = c.why.pod(key, 5.0, WhatIf.parse(supposed))
    assert found is not None
    return found


def with_quota() -> Cluster:
    """team-a may use 4 CPU, and uses 3."""
    c = cluster(node("a", 16000))
    made = Quota("team-a", Amounts.of({"cpu": 4000}), Amounts.of({"cpu": 1000}), ROOT_QUOTA)
    c.plugins.quotas.quota_seen(QuotaObject(key="quotas/team-a", uid="uid-team-a", quota=made), 0.0)
    c.pod_seen(pod("runs", 3000, labels=Labels.of({NAME: "team-a"})), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    c.pod_seen(pod("waits", 2000, labels=Labels.of({NAME: "team-a"})), 1.0)
    carry_out(c, c.decide(1.0), 1.0)
    return c


def test_every_enabled_plugin_has_its_pages_and_the_index_lists_them() -> None:
    c = cluster(node("a"))
    there = {page.pattern for page, _ in pages(c.plugins)}
    assert there <= set(server(c).json(SERVICES)["GET"])
    members = {page.member for page in PAGES}
    present = {name for name in members if hasattr(c.plugins, name)}
    assert {page.member for page, _ in pages(c.plugins)} == present - {"load_aware", "predicted_use"}  # which are off
    switched_on = type("On", (), {"load_aware": object()})()
    assert [page.plugin for page, _ in pages(switched_on)] == ["LoadAwareScheduling"]


def test_unknown_names_are_sentences() -> None:
    served = server(cluster(node("a")))
    for page, _ in pages(served.cluster.plugins):
        path = "/".join("nobody" if part.startswith(":") else part for part in page.pattern.split("/"))
        status, text = served.ask(path)
        if ":" in page.pattern:
            assert (status, "is not known to this scheduler" in text) == (404, True), (path, text)
        else:
            assert (status, text) == (200, "[]\n"), (path, text)
    assert served.ask("/debug/explain/quotas/nobody") == (404, "quota nobody is not known to this scheduler\n")
    assert served.ask("/debug/explain/gangs/default/nobody")[0] == 404


def test_a_quota_that_holds_a_pod_says_by_how_much_and_each_term() -> None:
    c = with_quota()
    answer = asked(c, "default/waits")
    (concern,) = [entry for entry in answer.concerns if entry.kind == "quota"]
    assert (concern.name, concern.holds) == ("team-a", True)
    assert concern.words.startswith("it would be over by 1 cpu; 1 of its pods run, 1 wait")
    assert any("minimum 1" in line for line in concern.lines)
    assert answer.waiting is not None
    assert (answer.waiting.held, answer.waiting.passing) == (True, 1)
    assert "uota" in answer.headline
    less = asked(c, "default/waits", "cpu=1")
    assert less.headline == "with cpu 1, 1 of 1 nodes would take it, a first"
    more = asked(c, "default/waits", "cpu=3")
    assert more.headline.startswith("with cpu 3 it would wait: it would be over by 2 cpu")
    c.validate()


def test_a_quota_has_its_pages() -> None:
    served = server(with_quota())
    told = served.json("/apis/v1/plugins/ElasticQuota/quota/team-a")
    assert (told["name"], told["isUsed"], dict(told["used"])["cpu"]) == ("team-a", True, 3000)
    assert [entry["name"] for entry in served.json("/apis/v1/plugins/ElasticQuota/quotas") if entry["object"]] == [
        "team-a"
    ]
    concern = served.json("/debug/explain/quotas/team-a")
    assert any(line.startswith("    start ") for line in concern["lines"])


def test_cpus_of_a_node_are_told_in_the_founding_form() -> None:
    c = cluster()
    c.node_seen(cpu_cluster.node("a"))
    c.plugins.cpus.topology_seen(cpu_cluster.tells("a", kept=(0,)), 0.0)
    c.pod_seen(cpu_cluster.pod("x", 2), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    served = server(c)
    told = served.json("/apis/v1/plugins/NodeNUMAResource/cpuTopologyOptions/a")
    topology = told["cpuTopology"]
    assert (topology["numCPUs"], topology["numCores"], topology["numNodes"], topology["numSockets"]) == (8, 4, 2, 1)
    assert topology["cpuDetails"]["5"] == {"cpuID": 5, "coreID": 2, "nodeID": 1, "socketID": 0}
    assert told["reserved"] == {"kubelet": "0"}
    told = served.json("/apis/v1/plugins/NodeNUMAResource/availableCPUs/a")
    (holder,) = told["allocated"]
    assert (holder["pod"].partition("/")[2], len(told["availableCPUs"]) > 0) == ("x", True)
    (concern,) = [entry for entry in asked(c, holder["pod"]).concerns if entry.kind == "cpus"]
    assert concern.words == f"exclusive CPUs {holder['cpus']}"
    node_page = served.json("/apis/v1/nodes/a")
    assert node_page["pods"][0]["cpus"] == holder["cpus"]


def with_gpus(c: Cluster) -> Cluster:
    for name in ("a", "b"):
        devices = tuple(Device(DeviceType.GPU, i, WHOLE, True, numa=0, pcie="0", id=f"{name}-{i}") for i in range(2))
        c.plugins.devices.seen(NodeDevices(name, devices))
    return c


def sharing(name: str, percent: int, **more: object) -> ObservedPod:
    seen = pod(name, 100, **more)
    asks = Amounts.of({GPU_CORE: percent, GPU_MEMORY_RATIO: percent})
    return replace(seen, pod=replace(seen.pod, requests=seen.pod.requests + asks))


def test_devices_of_nodes_are_told_and_supposed_of() -> None:
    c = with_gpus(cluster(node("a"), node("b")))
    for i in range(4):
        c.pod_seen(sharing(f"p{i}", 60), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    c.pod_seen(sharing("x", 60), 1.0)
    carry_out(c, c.decide(1.0), 1.0)
    served = server(c)
    told = served.json("/apis/v1/plugins/DeviceShare/nodeDeviceSummaries/a")
    assert [len(entry["holders"]) for entry in told["devices"]] == [1, 1]
    assert len(served.json("/apis/v1/plugins/DeviceShare/nodeDeviceSummaries")) == 2
    answer = asked(c, "default/x")
    assert answer.waiting is not None
    assert answer.waiting.passing == 0
    assert {rejection.filter for rejection in answer.waiting.rejections} == {"DeviceShare"}
    assert answer.waiting.nearest[0].startswith("2 nodes fit but for ")
    less = asked(c, "default/x", f"{GPU_CORE}=40", f"{GPU_MEMORY_RATIO}=40")
    assert less.waiting is not None
    assert less.waiting.passing == 2
    placed = asked(c, "default/p0")
    assert len(placed.candidates) == 1  # its own GPU counts as free for it, the others' do not
    (concern,) = [entry for entry in placed.concerns if entry.kind == "devices"]
    assert concern.words.startswith("gpu ")
    c.validate()
    assert c.find("default/p0") is not None
    assert c.find("default/p0").holds != NO_HOLDINGS  # type: ignore[union-attr]


def test_pods_that_are_gone_hold_nothing_also_before_the_next_round() -> None:
    c = with_gpus(cluster(node("a"), node("b")))
    for i in range(4):
        c.pod_seen(sharing(f"p{i}", 60), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    served, page = server(c), "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"
    assert [len(device["holders"]) for of in served.json(page) for device in of["devices"]] == [1, 1, 1, 1]
    for i in range(4):
        c.pod_gone(f"uid-p{i}", 1.0)
    assert [device["holders"] for device in served.json(f"{page}/a")["devices"]] == [[], []]


def test_a_question_leaves_devices_and_cpus_as_they_were() -> None:
    c = with_gpus(cluster(node("a"), node("b")))
    c.plugins.cpus.topology_seen(cpu_cluster.tells("a"), 0.0)
    for i in range(3):
        c.pod_seen(sharing(f"p{i}", 60), 0.0)
    c.pod_seen(cpu_cluster.pod("own", 2), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    served = server(c)
    paths = [
        "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries",
        "/apis/v1/plugins/NodeNUMAResource/availableCPUs/a",
        "/apis/v1/nodes/a",
        "/apis/v1/nodes/b",
    ]
    before = [served.ask(path) for path in paths]
    for entry in list(c._pods.by_uid.values()):
        for supposed in ((), ("cpu=1",), (f"{GPU_CORE}=50", f"{GPU_MEMORY_RATIO}=50"), ("cpu=3", "priority=9")):
            asked(c, entry.seen.pod.key, *supposed)
    assert [served.ask(path) for path in paths] == before
    c.validate()
    c.rebuild(2.0)
    c.validate()


def with_gang() -> Cluster:
    """Room for two of three members."""
    c = cluster(node("a", 1000), node("b", 1000))
    for i in range(3):
        notes = GangNotes(name="workers", min_available=3)
        c.pod_seen(replace(pod(f"w{i}", 800), demands=Demands(gang=notes)), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    return c


def test_a_gang_that_waits_says_for_whom() -> None:
    c = with_gang()
    answer = asked(c, "default/w1")
    (concern,) = [entry for entry in answer.concerns if entry.kind == "gang"]
    assert (concern.name, concern.holds) == ("default/workers", True)
    assert any(line.startswith("0 placed, 0 hold a node and wait, 3 have none; at least 3") for line in concern.lines)
    assert answer.waiting is not None
    assert answer.waiting.held
    served = server(c)
    told = served.json("/apis/v1/plugins/Coscheduling/gang/default/workers")
    assert (told["key"], told["spec"]["minAvailable"], len(told["members"])) == ("default/workers", 3, 3)
    assert len(served.json("/apis/v1/plugins/Coscheduling/gangs")) == 1
    assert served.json("/debug/explain/gangs/default/workers")["words"] == concern.words
    c.validate()


def test_an_owner_is_judged_with_what_is_reserved_for_it() -> None:
    w = World(reserved_node("a"))
    w.see(reservation())
    w.go()
    w.see(stranger("stranger", 2000))
    w.go()
    c = w.cluster
    why = asked(c, "default/stranger").waiting
    assert why is not None
    assert why.passing == 0
    owner = web("owner", 3500)
    c.pod_seen(owner, w.now_s)
    answer = asked(c, "default/owner")
    assert answer.waiting is not None
    assert answer.waiting.passing == 1
    (concern,) = [entry for entry in answer.concerns if entry.kind == "reservation"]
    assert concern.words.startswith("the pod may use it on a: cpu 3")
    (told,) = server(c).json("/apis/v1/plugins/Reservation/nodeReservations/a")
    assert (told["name"], told["left"]["cpu"], told["waiting"]) == ("r", "3", ["default/owner"])
    assert [entry.what for entry in why.helps if entry.what == "priority"] == []
    c.validate()


def test_devices_that_are_kept_are_told_and_an_owner_is_judged_with_them() -> None:
    w = World(reserved_node("a"))
    w.devices(NodeDevices("a", (Device(DeviceType.GPU, 0, WHOLE, id="a0"),)))
    card = Amounts.of({NVIDIA_GPU: 1})
    w.see(reservation(also=card))
    w.go()
    for observed_pod in (stranger("stranger", 500, also=card), web("owner", 500, also=card)):
        w.cluster.pod_seen(observed_pod, w.now_s)
    passing = {}
    for name in ("stranger", "owner"):
        waiting = asked(w.cluster, f"default/{name}").waiting
        assert waiting is not None
        passing[name] = waiting.passing
    assert passing == {"stranger": 0, "owner": 1}
    (concern,) = [entry for entry in asked(w.cluster, "default/owner").concerns if entry.kind == "reservation"]
    assert concern.lines[0].startswith("kept: gpu 0: koordinator.sh/gpu-core 100")
    (told,) = server(w.cluster).json("/apis/v1/plugins/Reservation/nodeReservations/a")
    assert [entry["minor"] for entry in told["holds"]["devices"]] == [0]
    w.cluster.validate()


def test_the_predicted_use_of_a_node_has_a_page_where_it_counts() -> None:
    c = cluster(plugins=PluginRegistry(predicted_use=PredictedUse(PredictedUseSettings())))
    plain = node("a")
    c.node_seen(replace(plain, allocatable=plain.allocatable + Amounts.of({BATCH_CPU: 4000})))
    lent = pod("x", 0)
    c.pod_seen(replace(lent, pod=replace(lent.pod, requests=Amounts.of({BATCH_CPU: 1000}))), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    told = server(c).json("/apis/v1/plugins/PredictedUse/node/a")
    assert told["predicted"] == [1000, 0]
    assert [entry["pod"] for entry in told["holders"]] == ["default/x"]
    assert [concern.kind for concern in asked(c, "default/x").concerns] == ["lent", "predicted use"]


def test_the_load_of_a_node_has_a_page_where_it_is_looked_at() -> None:
    off = cluster(node("a"))
    assert not any("LoadAware" in entry for entry in server(off).json(SERVICES)["GET"])
    c = cluster(node("a"), plugins=PluginRegistry(load_aware=LoadAware(LoadAwareSettings())))
    c.pod_seen(pod("x", 1000), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    served = server(c)
    assert any("LoadAware" in entry for entry in served.json(SERVICES)["GET"])
    told = served.json("/apis/v1/plugins/LoadAwareScheduling/node/a")
    assert told["node"] == "a"
    assert [concern.kind for concern in asked(c, "default/x").concerns] == ["load"]
    c.validate()
