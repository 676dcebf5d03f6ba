"""When a pod that waits is tried again: by its state, its group's standing, and the events that may help."""

from __future__ import annotations

import pytest
from tests.fakes.cluster import quota_world
from tests.fakes.cluster.questions import cluster, node, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.cycle.placing import ROW_LOCAL
from cotenant.engine.explain.retry import retry
from cotenant.engine.framework import events
from cotenant.engine.framework.events import EVERYTHING, EventKind
from cotenant.engine.framework.pod_state import PodInfo, SchedulingState
from cotenant.engine.framework.queueing import PlacementVerdict, QueuedGroup, QueueStanding
from cotenant.engine.framework.settings import EngineSettings
from cotenant.model.cluster.observed import Attachment, ClaimBinding, NodeStorage, VolumeNeed, VolumeOption
from cotenant.model.decisions.answers import PodRetry
from cotenant.model.decisions.record import DecisionRecord

SETTINGS = EngineSettings(flush_s=300.0)
ROOM = "a node has room and labels for it"
ATTACHED = (
    "when a node is added or can attach more volumes, or a pod is placed or leaves its node, or a placed pod changes"
)


def info(state: SchedulingState = SchedulingState.QUEUED, **more: float) -> PodInfo:
    return PodInfo(pod("x"), state, **more)  # type: ignore[arg-type]


def told(entry: PodInfo, group: QueuedGroup | None, nominated: bool = False) -> PodRetry:
    return retry(entry, group, nominated, SETTINGS, events.helping, 7.0)


def refused(*filters: str, record: DecisionRecord | None = None) -> QueuedGroup:
    verdict = PlacementVerdict(record, "m", frozenset(filters))  # type: ignore[arg-type]
    return QueuedGroup("g", 0, 0, standing=QueueStanding.UNSCHEDULABLE, since_s=10.0, verdict=verdict)


def test_states_outside_of_the_queue() -> None:
    assert told(info(SchedulingState.GATED), None) == PodRetry("gated", "when its scheduling gates are removed")
    assert told(info(SchedulingState.BLOCKED), None) == PodRetry("blocked", "as soon as that changes")
    assert told(info(), None) == PodRetry("queued", "it does not wait in the queue")
    for failures in (0, 1, 3):
        held = told(info(SchedulingState.HELD, since_s=5.0, failures=failures), None)
        assert held.standing == "held"
        assert held.at_s == 5.0 + SETTINGS.backoff.rest_s(failures)


def test_standings_in_the_queue() -> None:
    def group(standing: QueueStanding, overruns: int = 0) -> QueuedGroup:
        return QueuedGroup("g", 0, 0, standing=standing, until_s=20.0, since_s=10.0, overruns=overruns)

    assert told(info(), group(QueueStanding.ACTIVE)) == PodRetry("active", "in the next scheduling round", 7.0)
    assert told(info(), group(QueueStanding.ACTIVE, 1)).standing == "active"
    rests = told(info(), group(QueueStanding.BACKOFF))
    assert (rests.standing, rests.at_s) == ("backoff", 20.0)
    apart = told(info(), group(QueueStanding.BACKOFF, 2))
    assert (apart.standing, apart.at_s) == ("set aside", 20.0)
    promised = told(info(), refused("NodePorts"), nominated=True)
    words = "when the pods that were evicted for it have terminated"
    assert promised == PodRetry("unschedulable", words, 10.0 + SETTINGS.flush_s)


@pytest.mark.parametrize(
    ("filters", "words"),
    [
        ((), f"when {ROOM}"),
        (("NodeResourcesFit",), f"when {ROOM}"),
        (("NodePorts",), "when a node is added or changes, or a pod leaves its node"),
        (("NodeVolumeLimits",), ATTACHED),
        (("NodeResourcesFit", "VolumeZone"), f"when {ROOM}, or a node is added or changes"),
        (
            ("PodTopologySpread",),
            "when a node is added, changes or is deleted, or a pod is placed or leaves its node, "
            "or a placed pod changes",
        ),
        ((EVERYTHING,), "when anything changes"),
        (("of somebody else",), "when anything changes"),
    ],
)
def test_events_that_may_help_are_in_words(filters: tuple[str, ...], words: str) -> None:
    assert "NodeResourcesFit" in ROW_LOCAL
    assert told(info(), refused(*filters)) == PodRetry("unschedulable", words, 310.0)


@pytest.mark.parametrize("event", EventKind)
def test_every_event_has_words(event: EventKind) -> None:
    found = retry(info(), refused("f"), False, SETTINGS, lambda _: frozenset({event}), 7.0)
    assert found.words.startswith("when ")
    assert found.words != "when anything changes"


def test_no_event_of_its_own_means_that_members_are_missing() -> None:
    found = retry(info(), refused("f"), False, SETTINGS, lambda _: frozenset(), 7.0)
    assert found.words == "when more of its gang is there"


def asked(c: Cluster, key: str) -> str:
    answer = c.why.pod(key, 1.0)
    assert answer is not None
    assert answer.waiting is not None
    assert answer.waiting.retry is not None
    return answer.waiting.retry.words


def test_a_refusal_by_a_plugin_is_tried_again_after_the_events_that_the_plugin_names() -> None:
    world = quota_world.World(quota_world.node("n", 9))
    world.write(quota_world.quota("a", 1, 1))
    world.create(quota_world.pod("one", 1, "a"), quota_world.pod("two", 1, "a"))
    world.go()
    waits = next(name for name, seen in world.pods.items() if not seen.node)
    expected = "when its quota has room, or a gang can spare members, or a disruption budget changes"
    assert asked(world.cluster, world.pods[waits].pod.key) == expected


def test_a_pod_that_no_node_can_attach_a_volume_for_is_explained() -> None:
    c = cluster(node("a"))
    c.node_storage_seen(NodeStorage("a", (("csi", 1),), frozenset({Attachment("csi", "other")})))
    need = VolumeNeed("default/d", ClaimBinding.BOUND, (VolumeOption("pv", None),), attachment=Attachment("csi", "pv"))
    c.pod_seen(pod("x", volumes=(need,)), 0.0)
    c.decide(0.0)
    assert asked(c, "default/x") == ATTACHED
