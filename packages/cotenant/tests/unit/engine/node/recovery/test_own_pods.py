"""The product's own pods open no incident, however long they wait for a CPU, unless somebody gave them an objective;
nor do pods that are services by their label only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import health, in_use, node

from cotenant.engine.node.recovery.policy import RecoveryMemory, decide
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.qos import QoSClass

PRODUCT = Labels.of({"app.kubernetes.io/part-of": "cotenant"})
CALM_S, WAITS_S = 15, 6


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        ({}, True),
        ({"ours": True}, False),
        ({"labels": PRODUCT}, False),
        ({"labels": PRODUCT, "objective_p99_us": 1000, "health": health(9000, over=900)}, True),
        ({"is_unconfirmed": True}, False),
        ({"is_unconfirmed": True, "objective_p99_us": 1000, "health": health(9000, over=900)}, False),
    ],
    ids=[
        "anybody's",
        "the agent's own",
        "another part of the product",
        "one with an objective",
        "a service by its label only",
        "one that reports on itself",
    ],
)
def test_the_products_own_pods_open_no_incident_without_an_objective(fields: dict[str, Any], opens: bool) -> None:
    memory = RecoveryMemory()
    for second in range(CALM_S + WAITS_S):
        waited_ppm = 1_000 if second < CALM_S else 400_000
        of_pod = {name: value for name, value in fields.items() if name != "is_unconfirmed"}
        waiting = in_use("agent", 100, signals={"run_delay_ppm": waited_ppm}, **of_pod)
        waiting = replace(waiting, is_unconfirmed=fields.get("is_unconfirmed", False))
        state = node([waiting, in_use("batch", 1500, QoSClass.BE)], cpus=2, at_s=float(second + 1))
        _, memory = decide(state, RecoverySettings(), memory)
    assert (memory.opened > 0) == opens
