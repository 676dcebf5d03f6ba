"""The selector of a pod's fellows, as kube-scheduler's DefaultSelector deduces it."""

from __future__ import annotations

import msgspec
import pytest

from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.drivers.kube.kinds.pod.by_scheduler import IgnoredResources, PodsOfScheduler, with_added
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.drivers.kube.kinds.spread_selectors import (
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    MatchingObject,
    SelectingObject,
    SpreadSelectors,
)
from cotenant.model.cluster.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts

OWNER = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", controller=True)


def service(selector: dict[str, str] | None) -> MatchingObject:
    return msgspec.convert({"metadata": {"name": "s"}, "spec": {"selector": selector}}, MatchingObject)


def replica_set(match: dict[str, str], *expressions: dict[str, object]) -> SelectingObject:
    selector = {"matchLabels": match, "matchExpressions": list(expressions)}
    return msgspec.convert({"metadata": {"name": "web"}, "spec": {"selector": selector}}, SelectingObject)


def test_selectors_of_services_and_of_the_owner_are_merged() -> None:
    known = SpreadSelectors()
    assert known.of("d", {"app": "web"}, (OWNER,)) is None
    assert known.put_service("d/a", service({"app": "web"}))
    assert known.put_service("d/b", service({"tier": "front"}))
    assert known.put_service("d/other", service({"app": "api"}))
    assert known.put_service("e/a", service({"app": "web", "tier": "front"}))
    assert known.put_controller("ReplicaSet", "d/web", replica_set({"hash": "1"}, {"key": "x", "operator": "Exists"}))
    assert known.of("d", {"app": "web"}, ()) == LabelSelector.of({"app": "web"})
    assert known.of("d", {"app": "web", "tier": "front"}, (OWNER,)) == LabelSelector.of(
        {"app": "web", "tier": "front"},
        (Requirement("hash", SelectorOperator.IN, ("1",)), Requirement("x", SelectorOperator.EXISTS)),
    )
    known.put_service("d/a", None)
    known.put_controller("ReplicaSet", "d/web", None)
    assert known.of("d", {"app": "web"}, (OWNER,)) is None


def test_a_service_without_selector_selects_nothing() -> None:
    known = SpreadSelectors()
    assert not known.put_service("d/a", service(None))
    assert known.of("d", {}, ()) is None


def test_only_controllers_that_upstream_knows_count() -> None:
    known = SpreadSelectors()
    known.put_controller("ReplicaSet", "d/web", replica_set({"app": "web"}))
    foreign = OwnerReference(api_version="example.com/v1", kind="ReplicaSet", name="web", uid="u", controller=True)
    not_controlling = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u")
    assert known.of("d", {"app": "web"}, (foreign,)) is None
    assert known.of("d", {"app": "web"}, (not_controlling,)) is None
    rc = OwnerReference(api_version="v1", kind="ReplicationController", name="old", uid="u", controller=True)
    known.put_controller("ReplicationController", "d/old", service({"app": "old"}))
    assert known.of("d", {"app": "old"}, (rc,)) == LabelSelector.of({"app": "old"})
    assert known.depends_on("d", (rc,)) == ("Services of d", "ReplicationController d/old")


def test_only_changes_of_a_selector_are_news() -> None:
    known = SpreadSelectors()
    assert known.put_service("d/a", service({"app": "web"}))
    assert not known.put_service("d/a", service({"app": "web"}))
    assert known.put_service("d/a", service({"app": "api"}))
    assert not known.put_service("d/none", None)
    assert known.put_controller("ReplicaSet", "d/web", replica_set({"app": "web"}))
    assert not known.put_controller("ReplicaSet", "d/web", replica_set({"app": "web"}))
    assert (REPLICA_SETS.api_version, REPLICATION_CONTROLLERS.api_version) == ("apps/v1", "v1")


def test_a_selector_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"ReplicaSet d/web: spec.selector"):
        SpreadSelectors().put_controller("ReplicaSet", "d/web", replica_set({}, {"key": "x", "operator": "Near"}))


def pod_of(spec: dict[str, object], own: PodsOfScheduler, selectors: bool = True) -> Pod:
    reader = PodReader(by_scheduler={"s": own})
    reader.spread_selectors.is_on = selectors
    reader.spread_selectors.put_service("d/a", service({"app": "web"}))
    written = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "labels": {"app": "web"}},
        "spec": {"schedulerName": "s", **spec},
    }
    return reader.pod(msgspec.convert(written, PodObject)).pod


LIST = (SpreadConstraint("rack", None, 2, WhenUnsatisfiable.DO_NOT_SCHEDULE),)
SELECTOR = LabelSelector.of({"app": "web"})


def test_defaults_reach_pods_without_constraints_only() -> None:
    by_list = pod_of({}, PodsOfScheduler(constraints=LIST))
    assert by_list.spread == (SpreadConstraint("rack", SELECTOR, 2),)
    assert by_list.default_selector is None
    by_system = pod_of({}, PodsOfScheduler(spread_replicas=True))
    assert (by_system.spread, by_system.default_selector) == ((), SELECTOR)
    own = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]}
    for settings in (PodsOfScheduler(constraints=LIST), PodsOfScheduler(spread_replicas=True)):
        pod = pod_of(own, settings)
        assert [constraint.topology_key for constraint in pod.spread] == ["zone"]
        assert pod.default_selector is None
    unknown = pod_of({}, PodsOfScheduler(constraints=LIST), selectors=False)
    assert unknown.spread == ()


def test_what_a_scheduler_adds_and_leaves_out() -> None:
    added = NodeAffinity(NodeSelector((NodeSelectorTerm((Requirement("a", SelectorOperator.EXISTS),)),)))
    own = NodeAffinity(
        NodeSelector(
            (
                NodeSelectorTerm((Requirement("b", SelectorOperator.EXISTS),)),
                NodeSelectorTerm((Requirement("c", SelectorOperator.EXISTS),)),
            )
        )
    )
    both = with_added(own, added)
    assert both is not None
    assert both.required is not None
    for labels in ({}, {"a": "1"}, {"b": "1"}, {"a": "1", "b": "1"}, {"a": "1", "c": "1"}, {"b": "1", "c": "1"}):
        held = Labels.of(labels)
        assert own.required is not None
        assert added.required is not None
        expected = own.required.matches("n", held) and added.required.matches("n", held)
        assert both.required.matches("n", held) == expected
    assert with_added(None, added) == added
    assert with_added(own, None) == own
    ignored = IgnoredResources(frozenset({"example.com/a"}), frozenset({"other.org"}))
    amounts = Amounts.of({"cpu": 1, "example.com/a": 2, "example.com/b": 3, "other.org/c": 4})
    assert ignored.without(amounts) == Amounts.of({"cpu": 1, "example.com/b": 3})
