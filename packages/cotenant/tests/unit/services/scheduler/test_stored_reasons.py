"""What can be said of a pod without its scheduler."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.fakes.seal_keys import keys
from tests.fakes.servers.scripted_server import Reply, ScriptedServer, refusal

from cotenant.model.cluster.annotations import DECISION, TENANT
from cotenant.model.cluster.labels import QOS_CLASS
from cotenant.model.cluster.seal import SETTLED
from cotenant.model.decisions.record import CandidateNode, DecisionRecord
from cotenant.services.scheduler.decision_annotation import written
from cotenant.services.scheduler.stored_reasons import StoredReasons, changed_since, stored_reasons


def test_what_differs_from_the_statement_of_the_bind_is_named() -> None:
    stated = {SETTLED: keys()[0].statement("u", "a", {QOS_CLASS: "LS"})}
    assert changed_since({QOS_CLASS: "LS", "app": "web"}, stated) == ()
    assert changed_since({QOS_CLASS: "BE"}, {**stated, TENANT: "rich"}) == (
        "cotenant.io/tenant was changed since the pod was bound: none counts, not rich",
        "koordinator.sh/qosClass was changed since the pod was bound: LS counts, not BE",
    )
    assert changed_since({QOS_CLASS: "BE"}, {}) == ()
    assert changed_since({}, {SETTLED: "{ x"}) == ("cotenant.io/settled cannot be read",)


def reasons(tmp_path: Path, pod: dict[str, Any], events: Reply) -> StoredReasons:
    async def main() -> StoredReasons:
        async with ScriptedServer({"GET": [Reply(200, pod), events]}) as server:
            config = {
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            (tmp_path / "config").write_text(json.dumps(config))
            found = await asyncio.to_thread(stored_reasons, tmp_path / "config", "", "shop", "web")
            assert [path.partition("?")[0] for _, path in server.asked] == [
                "/api/v1/namespaces/shop/pods/web",
                "/api/v1/namespaces/shop/events",
            ]
            return found

    return asyncio.run(main())


def test_a_pod_that_waits_has_its_condition_and_its_newest_events(tmp_path: Path) -> None:
    pod = {
        "metadata": {"uid": "u"},
        "spec": {"schedulerName": "s"},
        "status": {
            "phase": "Pending",
            "nominatedNodeName": "n2",
            "conditions": [
                {"type": "Ready", "status": "False", "message": "not this"},
                {"type": "PodScheduled", "status": "False", "message": "no node fits"},
            ],
        },
    }
    events = [
        {"reason": f"R{i}", "message": "m", "count": i, "lastTimestamp": f"2026-01-0{i}"} for i in range(9, 1, -1)
    ]
    events += [{"reason": "New", "eventTime": "2026-02-01"}, {"message": "without a time"}]
    found = reasons(tmp_path, pod, Reply(200, {"items": events}))
    assert (found.pod, found.uid, found.scheduler, found.phase) == ("shop/web", "u", "s", "Pending")
    assert (found.node, found.promised, found.message) == ("", "n2", "no node fits")
    assert (found.decision, found.refused, found.changed) == (None, "", ())
    assert found.events == (
        *((f"2026-01-0{i}", i, f"R{i}", "m") for i in range(3, 10)),
        ("2026-02-01", 1, "New", ""),
    )
    assert found.plain()["promised"] == "n2"


def test_a_placed_pod_has_its_decision_and_what_its_node_said(tmp_path: Path) -> None:
    record = DecisionRecord("shop/web", 0.0, 3, "n1", candidates=(CandidateNode("n1", 7.0),), policy="spread")
    status = {
        "phase": "Failed",
        "reason": "OutOfcpu",
        "message": "needs 2, has 1.",
        "conditions": [{"type": "PodScheduled", "status": "True", "message": "placed"}],
    }
    pod = {
        "metadata": {"uid": "u", "annotations": {DECISION: written(record, 1.5, 2)}},
        "spec": {"nodeName": "n1"},
        "status": status,
    }
    found = reasons(tmp_path, pod, refusal(403))
    assert (found.node, found.message, found.events) == ("n1", "", ())
    assert found.decision is not None
    assert (found.decision.policy, found.decision.score, found.decision.attempts) == ("spread", 7.0, 2)
    assert found.refused.startswith("n1 refused it: OutOfcpu: needs 2, has 1. Another scheduler")
    for other in ({**status, "phase": "Running"}, {**status, "reason": "Evicted"}):
        assert reasons(tmp_path, {**pod, "status": other}, refusal(403)).refused == ""
