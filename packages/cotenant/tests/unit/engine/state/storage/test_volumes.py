"""Claims get volumes where their pod is placed; chosen volumes are held until the pod is unassigned."""

from __future__ import annotations

from cotenant.engine.cycle.rejections import Rejector
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.state.narrowing import Narrowing
from cotenant.engine.state.storage.volumes import REASON_CONFLICT, REASON_EXCLUSIVE, REASON_NONE, VolumeChoice
from cotenant.model.cluster.affinity import NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ClaimBinding, VolumeNeed, VolumeOption
from cotenant.model.cluster.pod import Pod
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

SIZE = Amounts.of({"cpu": 1000, "memory": 1000})


def on(key: str, *values: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm((Requirement(key, SelectorOperator.IN, values),)),))


class Cluster:
    """Three nodes, two in zone a."""

    def __init__(self) -> None:
        self.encoder = Encoder(half_node_cores=1.0)
        for name, zone in (("n0", "a"), ("n1", "a"), ("n2", "b")):
            self.encoder.add_node(Node(name, SIZE, Labels.of({HOSTNAME: name, ZONE: zone})))
        self.narrowing = Narrowing(self.encoder)

    def add(self, name: str, *needs: VolumeNeed) -> int:
        number, shape = self.encoder.add_pod(Pod(name))
        self.narrowing.add_pod(number, Pod(name), shape, needs)
        return number

    def rows(self, number: int) -> list[bool]:
        return self.narrowing.allowed(number).tolist()

    def reason(self, number: int) -> list[str]:
        told = Rejector(self.encoder, self.narrowing, profile("first-fit")).explain(number)
        return [rejection.reason for rejection in told.rejections]


def static(claim: str, *options: VolumeOption) -> VolumeNeed:
    return VolumeNeed(claim, ClaimBinding.STATIC, options)


def test_a_bound_volume_restricts_the_nodes() -> None:
    cluster = Cluster()
    pod = cluster.add("p", VolumeNeed("default/c", ClaimBinding.BOUND, (VolumeOption("v", on(ZONE, "b")),)))
    assert cluster.rows(pod) == [False, False, True]
    assert cluster.reason(pod) == [REASON_CONFLICT]
    assert cluster.narrowing.choices(pod, 2) == ()  # nothing to bind


def test_a_claim_may_move_all_others_on() -> None:
    """Each claim takes its first volume, until the last wants the first of all: a pod of so many claims must not
    end the process.
    """
    cluster, many = Cluster(), 1200
    volumes = [VolumeOption(f"v{i}", None) for i in range(many + 1)]
    needs = [static(f"default/c{i}", volumes[i], volumes[i + 1]) for i in range(many)]
    pod = cluster.add("p", *needs, static("default/last", volumes[0]))
    chosen = [choice.volume for choice in cluster.narrowing.choices(pod, 0)]
    assert chosen == [*(f"v{i + 1}" for i in range(many)), "v0"]
    beyond = cluster.add("q", *needs, static("default/last", volumes[0]), static("default/one-more", volumes[1]))
    assert cluster.narrowing.choices(beyond, 0) == ()


def test_two_claims_agree_on_a_node_and_take_two_volumes() -> None:
    cluster = Cluster()
    small, large = VolumeOption("small", on(HOSTNAME, "n0")), VolumeOption("large", on(ZONE, "a"))
    # a greedy choice would give `small`, the second claim's only option, to the first
    pod = cluster.add("p", static("default/one", small, large), static("default/two", small))
    assert cluster.rows(pod) == [True, False, False]
    assert cluster.narrowing.choices(pod, 0) == (
        VolumeChoice("default/one", "large"),
        VolumeChoice("default/two", "small"),
    )
    both = cluster.add("q", static("default/three", small), static("default/four", small))
    assert cluster.rows(both) == [False, False, False]
    assert cluster.reason(both) == [REASON_NONE]


def test_a_held_volume_is_not_available_until_its_pod_is_unassigned() -> None:
    cluster = Cluster()
    only = VolumeOption("v", None)
    first, second = cluster.add("p", static("default/a", only)), cluster.add("q", static("default/b", only))
    cluster.narrowing.assign(first, 1)
    assert cluster.rows(second) == [False, False, False]
    cluster.narrowing.unassign(first)
    assert cluster.rows(second) == [True, True, True]


def test_pods_of_one_claim_use_the_volume_held_for_it() -> None:
    cluster = Cluster()
    made = VolumeNeed("default/c", ClaimBinding.PROVISIONED, (VolumeOption("", on(ZONE, "a")),))
    first, second = cluster.add("p", made), cluster.add("q", made)
    assert cluster.rows(second) == [True, True, False]
    cluster.narrowing.assign(first, 1)
    assert cluster.rows(second) == [False, True, False]
    # once the claim is bound, its volume restricts the nodes
    bound = VolumeNeed("default/c", ClaimBinding.BOUND, (VolumeOption("pv", on(ZONE, "a")),))
    cluster.narrowing.update_volumes(first, (bound,))
    cluster.narrowing.update_volumes(second, (bound,))
    assert cluster.rows(second) == [True, True, False]


def test_an_exclusive_claim_has_one_user_on_any_node() -> None:
    cluster = Cluster()
    alone = VolumeNeed("default/c", ClaimBinding.BOUND, (VolumeOption("v", None),), exclusive=True)
    first, second = cluster.add("p", alone), cluster.add("q", alone)
    cluster.narrowing.assign(first, 0)
    assert cluster.rows(second) == [False, False, False]
    assert cluster.reason(second) == [REASON_EXCLUSIVE]
    cluster.narrowing.remove_pod(first)
    assert cluster.rows(second) == [True, True, True]


def test_a_pod_waits_with_its_claim_and_gives_the_reason() -> None:
    cluster = Cluster()
    waits = VolumeNeed(
        "default/c", ClaimBinding.BOUND, (), waits_for="pod has unbound immediate PersistentVolumeClaims"
    )
    pod = cluster.add("p", waits)
    assert cluster.rows(pod) == [False, False, False]
    assert cluster.reason(pod) == ["pod has unbound immediate PersistentVolumeClaims"]


def test_label_changes_change_the_nodes_of_a_volume() -> None:
    cluster = Cluster()
    pod = cluster.add("p", static("default/c", VolumeOption("v", on(ZONE, "b"))))
    assert cluster.rows(pod) == [False, False, True]
    cluster.encoder.update_node(Node("n0", SIZE, Labels.of({ZONE: "b"})))
    assert cluster.rows(pod) == [True, False, True]


def test_a_volume_that_another_claim_holds_is_no_way_out_for_two_claims() -> None:
    cluster = Cluster()
    both = VolumeOption("v1", None), VolumeOption("v2", None)
    holder = cluster.add("holder", static("default/h", both[0]))
    cluster.narrowing.assign(holder, 0)
    pod = cluster.add("p", static("default/a", *both), static("default/b", *both))
    assert cluster.rows(pod) == [False] * 3
    cluster.narrowing.unassign(holder)
    assert cluster.rows(pod) == [True] * 3


def test_a_profile_without_the_filter_lets_a_pod_go_where_its_volume_is_not() -> None:
    cluster = Cluster()
    bound = VolumeNeed("default/c", ClaimBinding.BOUND, (VolumeOption("v", on(ZONE, "b")),))
    for unfiltered, rows in (("VolumeBinding", [True] * 3), ("NodeAffinity", [False, False, True])):
        what = Pod(f"p-{unfiltered}", unfiltered=frozenset({unfiltered}))
        number, shape = cluster.encoder.add_pod(what)
        cluster.narrowing.add_pod(number, what, shape, (bound,))
        found = cluster.rows(number)
        assert (found or [True] * 3) == rows
