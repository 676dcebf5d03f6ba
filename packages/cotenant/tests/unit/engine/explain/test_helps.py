"""What would help, as a whole: gangs, quotas, reservations, devices, other pods in the queue, and what is never
proposed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from tests.fakes.cluster import cpu_cluster, gang_world, quota_world, reservation_world
from tests.fakes.cluster.questions import carry_out, cluster, node, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.framework.instructions import Evict
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.resizes.plugin import DeferredResizes
from cotenant.engine.registry import PluginRegistry
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.model.claims.requests import DeviceClass
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm, PodTerm
from cotenant.model.cluster.demands import Holdings
from cotenant.model.cluster.extender import Extender
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Taint
from cotenant.model.decisions.answers import PodAnswer, WaitExplanation, WhatIf
from cotenant.model.devices.allocation import DeviceAllocation
from cotenant.model.devices.device import Device, DeviceType
from cotenant.model.devices.inventory import NodeDevices
from cotenant.model.machine.node_metric import NodeMetric, Use
from cotenant.model.resources import BATCH_CPU, GPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, NVIDIA_GPU, Amounts
from cotenant.policy.overcommit.predicted_use import PredictedUseSettings
from cotenant.policy.placement.load_aware.settings import LoadAwareSettings

WHOLE = Amounts.of({GPU_CORE: 100, GPU_MEMORY_RATIO: 100, GPU_MEMORY: 16 << 30})


def asked(c: Cluster, key: str, *changes: str, now_s: float = 1.0) -> tuple[PodAnswer, WaitExplanation]:
    answer = c.why.pod(key, now_s, WhatIf.parse(changes))
    assert answer is not None
    assert answer.waiting is not None
    return answer, answer.waiting


def helps(c: Cluster, key: str, *changes: str) -> list[str]:
    return [entry.words for entry in asked(c, key, *changes)[1].helps]


# ---- gangs


def test_a_gangs_help_is_for_all_of_its_members() -> None:
    c = gang_world.cluster(2, cpu=5000)
    gang_world.see(c, *gang_world.members("g", 3, cpu=4000))
    gang_world.settle(c, 0.0)
    (words,) = helps(c, "default/g-0")  # a member alone fits as it is: each of the two nodes has 5 cpu
    assert words == "ask for 2500m cpu instead of 4 for each of 3 pods: gang default/g fits then"


def test_a_gangs_cordons_are_named_as_far_as_they_are_needed() -> None:
    c = gang_world.cluster(4)
    for name in ("n1", "n2", "n3"):
        there = gang_world.node(name)
        c.node_seen(type(there)(name, there.allocatable, there.labels, unschedulable=True))
    gang_world.see(c, *gang_world.members("g", 3, cpu=1000))
    gang_world.settle(c, 0.0)
    assert helps(c, "default/g-0")[0] == "uncordon n2, n3: gang default/g fits then"


def test_a_what_if_is_for_all_members_and_says_no_node_where_the_gang_waits() -> None:
    c = gang_world.cluster(2, cpu=5000)
    gang_world.see(c, *gang_world.members("g", 3, cpu=4000))
    gang_world.settle(c, 0.0)
    answer, waiting = asked(c, "default/g-1")
    assert (waiting.passing, answer.candidates) == (2, ())
    answer, _ = asked(c, "default/g-1", "cpu=3")
    assert answer.headline.startswith("with cpu 3 for each of 3 pods it would wait: gang default/g: 2 of 3 members fit")
    answer, _ = asked(c, "default/g-1", "cpu=2")
    assert answer.headline == "with cpu 2 for each of 3 pods, 2 of 2 nodes would take it, n0 first"
    answer, _ = asked(c, "default/g-1", "node=n0")
    assert answer.asked_about is not None
    assert answer.asked_about.alone


# ---- quotas


def test_a_quotas_help_fits_the_quota_and_no_pod_would_be_evicted_from_a_node() -> None:
    world = quota_world.World(quota_world.node("a", 64))
    world.write(quota_world.quota("team", 2, 4))
    world.create(quota_world.pod("runs", 3, "team", on="a"), quota_world.pod("x", 2, "team", preempts=False))
    world.go()
    answer, waiting = asked(world.cluster, "work/x")
    assert (waiting.passing, answer.candidates) == (1, ())
    assert [entry.words for entry in waiting.helps] == ["ask for 1 cpu instead of 2: a fits then"]
    answer, _ = asked(world.cluster, "work/x", "cpu=1")
    assert answer.headline == "with cpu 1, 1 of 1 nodes would take it, a first"
    answer, _ = asked(world.cluster, "work/x", "cpu=1500m")
    assert answer.headline.startswith("with cpu 1500m it would wait: it would be over by 500m cpu")


def overused(**settings: object) -> quota_world.World:
    """Quota lent uses 6 of 8 cpu while it may use 4 when owner asks for its share."""
    world = quota_world.World(quota_world.node("a", 8), revoke_after_s=60.0, **settings)
    world.write(quota_world.quota("lent", 4, 8), quota_world.quota("owner", 4, 8))
    world.create(*(quota_world.pod(f"l{i}", 2, "lent") for i in range(3)))
    world.go()
    return world


def test_an_overused_quota_says_who_is_evicted_only_if_that_will_happen() -> None:
    world = overused()
    world.create(quota_world.pod("o", 4, "owner"))
    world.go()
    world.go(1.0)  # overuse is looked for once a second
    world.go(20.0)
    concern = world.cluster.why.quota("lent", world.now_s)
    assert concern is not None
    (line,) = [name for name in concern.lines if "uses more than its runtime" in name]
    assert " is evicted in about 40 s unless that changes" in line
    victim = line.split(": ")[1].split(" is evicted")[0]
    assert [instruction.victim.key for instruction in world.go(45.0) if isinstance(instruction, Evict)] == [victim]
    world = overused(revoke=False)
    world.create(quota_world.pod("o", 4, "owner"))
    world.go()
    concern = world.cluster.why.quota("lent", world.now_s)
    assert concern is not None
    assert not any("evicted in about" in name for name in concern.lines)


# ---- reservations


def test_room_that_a_reservation_holds_is_named_with_the_reservation() -> None:
    world = reservation_world.World(reservation_world.node("a"))
    world.see(reservation_world.reservation("r", 3000))
    world.go()
    world.see(reservation_world.pod("x", 2000))
    world.go()
    _, waiting = asked(world.cluster, "default/x")
    assert waiting.notes == ("a: 3 cpu, 3000Mi memory is held by reservation r",)
    assert [entry.words for entry in waiting.helps] == [
        "ask for 1 cpu instead of 2 and 1000Mi memory instead of 2000Mi: a fits then"
    ]


# ---- devices


def test_gpus_get_the_help_that_cpus_get() -> None:
    c = cluster(node("a", 64000), node("b", 64000))
    for name, count in (("a", 2), ("b", 4)):
        cards = [Device(DeviceType.GPU, minor, WHOLE, id=f"{name}-{minor}") for minor in range(count)]
        c.plugins.devices.seen(NodeDevices(name, tuple(cards)))
    for name, count in (("one", 1), ("many", 6)):
        size = Amounts.of({"cpu": 1000, "memory": 1 << 30, NVIDIA_GPU: count})
        c.pod_seen(ObservedPod(Pod(name, requests=size), f"uid-{name}", "cotenant", 0.0), 0.0)
        carry_out(c, c.decide(0.0), 0.0)
    (words,) = helps(c, "default/many")
    assert words.startswith(f"ask for 4 {NVIDIA_GPU} instead of 6: b fits then")


@pytest.mark.parametrize(
    ("held", "asks", "words"),
    [
        ((60,), 100, "ask for 40 koordinator.sh/gpu instead of 100: a fits then"),
        ((60, 30), 100, "ask for 70 koordinator.sh/gpu instead of 100: a fits then"),
        ((60, 0), 200, "ask for 100 koordinator.sh/gpu instead of 200: a fits then"),
        ((60, 70), 50, "ask for 40 koordinator.sh/gpu instead of 50: a fits then"),
    ],
)
def test_a_share_of_a_gpu_is_lowered_to_the_largest_that_is_left(held: tuple[int, ...], asks: int, words: str) -> None:
    c = cluster(node("a", 64000))
    cards = tuple(Device(DeviceType.GPU, minor, WHOLE, id=f"a-{minor}") for minor in range(len(held)))
    c.plugins.devices.seen(NodeDevices("a", cards))
    for minor, share in enumerate(held):
        if share:
            part = {GPU_CORE: share, GPU_MEMORY_RATIO: share, GPU_MEMORY: share * (16 << 30) // 100}
            holds = Holdings(devices=(DeviceAllocation(DeviceType.GPU, minor, Amounts.of(part)),))
            resident = pod(f"r{minor}", 100, on="a")
            size = Amounts.of({"cpu": 100, "memory": 1 << 20, GPU: share})
            c.pod_seen(replace(resident, pod=replace(resident.pod, requests=size), holds=holds), 0.0)
    size = Amounts.of({"cpu": 1000, "memory": 1 << 30, GPU: asks})
    c.pod_seen(ObservedPod(Pod("x", requests=size), "uid-x", "cotenant", 0.0), 0.0)
    carry_out(c, c.decide(0.0), 0.0)
    assert words in helps(c, "default/x")


def test_a_resource_that_no_node_has_is_named_and_gets_no_help() -> None:
    c = cluster(node("a"))
    size = Amounts.of({"cpu": 100, "memory": 1 << 20, "example.com/tpu": 1})
    c.pod_seen(ObservedPod(Pod("x", requests=size), "uid-x", "cotenant", 0.0), 0.0)
    c.decide(0.0)
    _, waiting = asked(c, "default/x")
    assert (waiting.notes, waiting.helps) == (("no node has example.com/tpu",), ())


# ---- labels, selectors, taints, cordons


def test_what_identifies_a_node_is_never_to_be_changed_and_cordons_and_selectors_come_first() -> None:
    c = cluster(
        node("a", 4000),
        node("b", 4000, unschedulable=True),
        node("d", 2000, labels={"disk": "ssd"}),
        node("e", 4000, labels={"disk": "ssd"}, taints=(Taint("team", "a"),)),
    )
    c.pod_seen(pod("named", 1000, node_selector=Labels.of({HOSTNAME: "z"})), 0.0)
    c.pod_seen(pod("picky", 3000, node_selector=Labels.of({"disk": "ssd"})), 0.0)
    c.pod_seen(pod("both", 1000, node_selector=Labels.of({"disk": "ssd", ZONE: "1"})), 0.0)
    c.pod_seen(pod("cordoned", 3000, node_selector=Labels.of({HOSTNAME: "b"})), 0.0)
    c.decide(0.0)
    assert helps(c, "default/named") == [f"drop its requirement {HOSTNAME}=z: 2 nodes fit (a, d) then"]
    assert helps(c, "default/picky") == [
        "label disk=ssd: a fits then",
        "tolerate the taint {team: a}: e fits then",
        "ask for 2 cpu instead of 3 and 2000Mi memory instead of 3000Mi: d fits then",
    ]
    assert helps(c, "default/both") == [f"drop its requirement {ZONE}=1: d fits then"]
    assert helps(c, "default/cordoned")[0] == "uncordon: b fits then"
    assert not any(
        "label" in words and ("hostname" in words or "zone" in words) for words in helps(c, "default/cordoned")
    )


def test_labels_to_remove_are_named() -> None:
    c = cluster(node("a", labels={"old": "1"}))
    term = NodeSelectorTerm(
        (Requirement("old", SelectorOperator.DOES_NOT_EXIST), Requirement("rack", SelectorOperator.GT, ("3",)))
    )
    c.pod_seen(pod("x", node_affinity=NodeAffinity(NodeSelector((term,)))), 0.0)
    c.decide(0.0)
    assert helps(c, "default/x") == ["label rack above 3 and remove the label old: a fits then"]


def test_a_pod_for_one_node_gets_a_note_and_no_selector_to_drop() -> None:
    c = cluster(node("a", 1000), node("b", 4000))
    only = NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, ("a",)),))
    c.pod_seen(pod("x", 2000, node_affinity=NodeAffinity(NodeSelector((only,)))), 0.0)
    c.decide(0.0)
    _, waiting = asked(c, "default/x")
    assert waiting.notes == ("its node affinity is for the node a only",)
    assert [entry.what for entry in waiting.helps] == ["request"]


# ---- affinity between pods


def test_affinity_reasons_name_the_rule_and_a_pod() -> None:
    c = cluster(node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}))
    web = Labels.of({"app": "web"})
    selector = LabelSelector.of({"app": "web"})
    c.pod_seen(pod("web-1", labels=web, on="a"), 0.0)
    c.pod_seen(pod("hermit", labels=Labels.of({"app": "h"}), on="b", anti_affinity=(PodTerm(ZONE, selector),)), 0.0)
    c.pod_seen(
        pod("apart", anti_affinity=(PodTerm(HOSTNAME, selector),), node_selector=Labels.of({HOSTNAME: "a"})), 0.0
    )
    c.pod_seen(pod("web-2", labels=web, node_selector=Labels.of({HOSTNAME: "b"})), 0.0)
    c.pod_seen(pod("near", affinity=(PodTerm(HOSTNAME, LabelSelector.of({"app": "db"})),)), 0.0)
    c.decide(0.0)
    assert asked(c, "default/apart")[1].notes == (
        f"its anti-affinity (app=web per {HOSTNAME}) excludes a: default/web-1 is on a",
    )
    assert asked(c, "default/web-2")[1].notes == (
        f"the anti-affinity (app=web per {ZONE}) of default/hermit, on b, excludes this pod from b",
    )
    assert asked(c, "default/near")[1].notes == (f"its affinity (app=db per {HOSTNAME}): no pod on a node matches",)
    about = asked(c, "default/apart", "node=a")[0].asked_about
    assert about is not None
    assert "default/web-1 is on a" in about.refusals[0].missing


# ---- other pods


def test_help_that_a_pod_before_it_would_take_says_so() -> None:
    c = cluster(node("a", 4000, unschedulable=True))
    c.pod_seen(pod("first", 3000, priority=5), 0.0)
    c.pod_seen(pod("x", 3000), 0.0)
    c.decide(0.0)
    assert helps(c, "default/first") == ["uncordon: a fits then"]
    assert helps(c, "default/x")[0] == "uncordon: a fits then, unless a pod before it in the queue takes the room"


class Frozen(Plugin):
    """A plugin of others, with a fact of its own."""

    name = "Frozen"

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def capture(self) -> Callable[[], Plugin]:
        namespace = self.namespace
        return lambda: Frozen(namespace)


def test_a_captured_registry_has_the_facts_of_every_member_and_reads_nothing_of_it_later() -> None:
    members = PluginRegistry(
        load_aware=LoadAware(LoadAwareSettings()),
        predicted_use=PredictedUse(PredictedUseSettings()),
        extenders=Extenders((Extender("http://e", filter_verb="filter"),)),
        deferred_resizes=DeferredResizes(is_on=True),
        more=(Frozen("team-a"),),
    )
    lends = replace(node("a"), allocatable=node("a").allocatable + Amounts.of({BATCH_CPU: 4000}))
    c = cluster(lends, plugins=members)
    members.devices.seen(NodeDevices("a", (Device(DeviceType.GPU, 0, WHOLE, id="a-0"),)))
    members.claims.facts.class_seen(DeviceClass("gpu"))
    members.cpus.topology_seen(cpu_cluster.tells("a"), 0.0)
    members.quotas.quota_seen(quota_world.quota("team", 1, 4), 0.0)
    members.gangs.pod_group_seen(gang_world.group("g", 2), 0.0)
    members.reservations.seen(reservation_world.reservation("r"), 0.0)
    members.load_aware.metric_seen(NodeMetric("a", 0.0, 60, Use(1000, 1 << 30), pods=None), 0.0)
    members.predicted_use.metric_seen(NodeMetric("a", 5.0, 60, Use(1000, 1 << 30), system=Use(300, 0)), 0.0)
    for _ in range(3):
        members.lent_for_stay.stays.ended("default/Job/a", 5.0)
    make = members.capture()
    for _ in range(20):
        members.lent_for_stay.stays.ended("default/Job/a", 900.0)
    members.predicted_use.metric_gone("a", 0.0)
    members.quotas.quota_gone("quotas/team", 0.0)
    members.claims.facts.class_gone("gpu")
    members.reservations.gone("r", 0.0)
    made = make()
    cluster(lends, plugins=made)
    assert made.devices.describe("a") is not None
    assert made.claims.facts.classes == {"gpu": DeviceClass("gpu")}
    assert made.cpus.nodes() == ("a",)
    assert "team" in made.quotas.names()
    assert made.gangs.describe("default/g") is not None
    assert made.reservations.names() == ("r",)
    assert made.load_aware.is_on
    assert made.load_aware.describe("a") == members.load_aware.describe("a")
    view = made.predicted_use.describe("a")
    assert view is not None
    assert (view.system.cpu_m, view.measured_age_s) == (300, 5.0)
    assert made.lent_for_stay.stays.expected_s("default/Job/a") == 5.0
    assert made.deferred_resizes is not members.deferred_resizes
    assert made.deferred_resizes.is_on
    assert made.extenders is not members.extenders
    assert made.extenders.extenders == members.extenders.extenders
    (other,) = made.more
    assert isinstance(other, Frozen)
    assert other is not members.more[0]
    assert other.namespace == "team-a"
    assert {field.name for field in fields(PluginRegistry)} == {
        "claims",
        "devices",
        "cpus",
        "quotas",
        "gangs",
        "reservations",
        "load_aware",
        "predicted_use",
        "lent_for_stay",
        "neighbours",  # its capture is tested beside it
        "extenders",
        "deferred_resizes",
        "more",
    }  # a new member is to be captured as well: add its facts above
    c.validate()
