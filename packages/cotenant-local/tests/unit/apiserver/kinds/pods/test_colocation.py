"""Warnings about pods that a cluster with Koordinator would refuse."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_local.apiserver.kinds.pods.colocation import warnings

QOS, CLASS, SUB = "koordinator.sh/qosClass", "koordinator.sh/priority-class", "koordinator.sh/priority"


def pod(labels: dict[str, str] | None = None, cpu: str = "1", priority: int = 0, **requests: str) -> dict[str, Any]:
    asked = {"cpu": cpu, **{name.replace("_", "/"): text for name, text in requests.items()}}
    return {
        "metadata": {"name": "p", "labels": labels},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": asked}}]},
    }


@pytest.mark.parametrize(
    "accepted",
    [
        pod(),
        pod({"app": "web"}, cpu="1500m"),
        pod({QOS: "BE", CLASS: "koord-batch"}),
        pod({QOS: "BE"}, priority=5500),
        pod({QOS: "LSR", CLASS: "koord-prod"}, cpu="2"),
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
    ],
)
def test_other_pods_have_no_warnings(accepted: dict[str, Any]) -> None:
    assert warnings(accepted, None) == []
    assert warnings(accepted, accepted) == []


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (pod({QOS: "BE"}), ["QoS class BE needs priority mid, batch or free, not none"]),
        (pod({QOS: "BE", CLASS: "koord-prod"}), ["QoS class BE needs priority mid, batch or free, not prod"]),
        (pod({QOS: "LSR", CLASS: "koord-batch"}), ["QoS class LSR needs priority prod, not batch"]),
        (pod({QOS: "LSE", CLASS: "koord-prod"}, cpu="1500m"), ["QoS class LSE pins whole CPUs"]),
        (
            pod({}, **{"kubernetes.io_batch-cpu": "1000"}),
            ["batch resources are for QoS class BE only, not for none"],
        ),
        (
            pod({QOS: "LSR"}, cpu="500m"),
            ["QoS class LSR needs priority prod, not none", "QoS class LSR pins whole CPUs"],
        ),
    ],
)
def test_each_broken_rule_is_a_warning(refused: dict[str, Any], words: list[str]) -> None:
    found = warnings(refused, None)
    assert len(found) == len(words)
    for warning, part in zip(found, words):
        assert warning.startswith("Koordinator refuses this pod: ")
        assert part in warning


def test_an_update_warns_of_what_it_changes() -> None:
    before = pod({QOS: "BE", CLASS: "koord-batch"})
    changed = pod({QOS: "BE", CLASS: "koord-free", SUB: "7"})
    found = warnings(changed, before)
    assert [name.partition(": ")[2].partition(" cannot")[0] for name in found] == [
        "the priority class",
        "the priority within the class",
    ]
    wrong = pod({QOS: "BE"})
    assert warnings({**wrong, "metadata": {**wrong["metadata"], "annotations": {"a": "b"}}}, wrong) == []


def test_a_pod_that_breaks_a_rule_is_stored_with_warnings(serve: Any, pod: Any) -> None:
    async def case(server: Any) -> None:
        manifest = pod()
        manifest["metadata"]["labels"] = {QOS: "BE"}
        answer = await server.api.create(server.at("pods"), manifest)
        assert len(answer.warnings) == 1
        assert "needs priority mid, batch or free" in answer.warnings[0]

    serve(case)
