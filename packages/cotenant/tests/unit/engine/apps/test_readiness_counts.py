"""How workloads stand, over every combination of small counts."""

from __future__ import annotations

from itertools import product

from cotenant.engine.apps.readiness import standing_of
from cotenant.model.counted import counted
from cotenant.model.json_object import JsonObject

FEW = (0, 1, 2, 3)


def live(kind: str, spec: JsonObject, **status: object) -> JsonObject:
    return {"kind": kind, "metadata": {"name": "x"}, "spec": spec, "status": status}


def test_a_deployment_is_ready_when_all_are_new_and_available() -> None:
    for wanted, total, updated, available in product((0, 1, 2), FEW, FEW, FEW):
        if updated > total or available > total:
            continue
        counts = {"replicas": total, "updatedReplicas": updated, "availableReplicas": available}
        found = standing_of(live("Deployment", {"replicas": wanted}, **counts))
        old = total - updated
        assert found.is_ready == (updated >= wanted and available >= wanted and not old)
        assert found.wanted == wanted
        # at least so many of the new ones are available, however the old ones are
        assert found.ready == min(updated, max(0, available - old))
        assert found.reasons == ((counted(old, "pod") + " of its former version",) if old else ())
        assert not found.failed


def test_a_deployment_that_makes_no_progress_or_no_pods_says_so() -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    assert standing_of(live("Deployment", {}, conditions=[late])).failed == "no progress within 600 s"
    assert standing_of(live("Deployment", {"progressDeadlineSeconds": 5}, conditions=[late])).failed.endswith("5 s")
    fine = {**late, "reason": "ReplicaSetUpdated"}
    assert not standing_of(live("Deployment", {}, conditions=[fine])).failed
    for kind in ("Deployment", "ReplicaSet"):
        failure = {"type": "ReplicaFailure", "status": "True", "message": "quota"}
        assert standing_of(live(kind, {}, conditions=[failure])).reasons == ("pods cannot be made: quota",)
        assert standing_of(live(kind, {}, conditions=[{**failure, "status": "False"}])).reasons == ()


def test_a_stateful_set_is_ready_when_all_are_and_what_is_to_be_updated_is() -> None:
    for wanted, ready, updated, partition in product(FEW, FEW, FEW, FEW):
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        counts = {"readyReplicas": ready, "updatedReplicas": updated}
        spec = {"replicas": wanted, "updateStrategy": strategy}
        found = standing_of(live("StatefulSet", spec, currentRevision="1", updateRevision="2", **counts))
        lacking = max(0, wanted - partition - updated)
        assert (found.ready, found.wanted) == (ready, wanted)
        assert found.is_ready == (ready >= wanted and lacking == 0)
        assert found.reasons == ((counted(lacking, "pod") + " of its former version",) if lacking else ())
        same = standing_of(live("StatefulSet", spec, currentRevision="2", updateRevision="2", **counts))
        by_hand = {"replicas": wanted, "updateStrategy": {"type": "OnDelete"}}
        hand = standing_of(live("StatefulSet", by_hand, currentRevision="1", updateRevision="2", **counts))
        assert (same.is_ready, same.reasons) == (hand.is_ready, hand.reasons) == (ready >= wanted, ())


def test_a_daemon_set_is_ready_when_each_node_has_an_updated_pod() -> None:
    for wanted, ready, updated in product(FEW, FEW, FEW):
        counts = {"desiredNumberScheduled": wanted, "numberAvailable": ready, "updatedNumberScheduled": updated}
        found = standing_of(live("DaemonSet", {}, **counts))
        assert (found.ready, found.wanted) == (min(ready, updated), wanted)
        assert found.is_ready == (ready >= wanted and updated >= wanted)
        hand = standing_of(live("DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, **counts))
        assert (hand.ready, hand.is_ready) == (min(ready, wanted), ready >= wanted)


def test_a_job_stands_by_what_succeeded_or_is_ready() -> None:
    for completions, succeeded, ready in product((1, 2, 3), FEW, FEW):
        counts = {"succeeded": succeeded, "ready": ready}
        found = standing_of(live("Job", {"completions": completions}, **counts))
        assert (found.ready, found.wanted) == (min(completions, succeeded + ready), completions)
        assert found.is_ready == (succeeded + ready > 0)
    assert standing_of(live("Job", {"suspend": True})).is_ready
    assert standing_of(live("Job", {}, conditions=[{"type": "Complete", "status": "True"}])).is_ready
    assert not standing_of(live("Job", {}, conditions=[{"type": "Complete", "status": "False"}])).is_ready


def test_only_a_status_of_the_same_generation_or_a_later_one_counts() -> None:
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        for observed, is_seen in ((None, False), (1, False), (2, True), (3, True)):
            given = live(kind, {"replicas": 2}, observedGeneration=observed)
            given["metadata"]["generation"] = 2
            found = standing_of(given)
            assert (found.reasons == ("its controller has not seen it",)) is not is_seen
            if not is_seen:
                assert (found.ready, found.wanted, found.is_ready) == (0, 2, False)
    job = live("Job", {"suspend": True})
    job["metadata"]["generation"] = 2
    assert standing_of(job).is_ready


def test_kinds_that_are_only_there_are_ready() -> None:
    assert standing_of(live("ConfigMap", {})).is_ready
    missing = standing_of(None)
    assert (missing.ready, missing.wanted, missing.is_ready, missing.reasons) == (0, 1, False, ("it is not there",))
