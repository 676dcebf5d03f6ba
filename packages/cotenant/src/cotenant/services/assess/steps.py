"""The three next steps of least risk, each a command with its way back."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cotenant.model.assess.report import NextStep

TRIAL_LABEL = "cotenant.io/lends"
LENDING = json.dumps(
    {
        "enable": True,
        "cpuCalculatePolicy": "peak",
        "memoryCalculatePolicy": "peak",
        "nodeConfigs": [
            {
                "name": "all-others",
                "nodeSelector": {"matchExpressions": [{"key": TRIAL_LABEL, "operator": "DoesNotExist"}]},
                "enable": False,
            }
        ],
    },
    separators=(",", ":"),
)
_CONFIG_MAP = "configmap slo-controller-config -n koordinator-system"


def next_steps(nodes: Sequence[str]) -> tuple[NextStep, ...]:
    """From what changes nothing to what changes two nodes. `nodes`: the ones to begin with."""
    two = " ".join(nodes[:2]) or "NODE1 NODE2"
    return (
        NextStep(
            "See what would change in your manifests",
            "cotenant lint *.yaml",
            "nothing to take back: it reads files",
            "none: nothing is sent to a cluster",
        ),
        NextStep(
            "Decide beside your scheduler for a day, and compare",
            "cotenant scheduler --shadow --shadow-of default-scheduler",
            "stop it: it has written nothing",
            "it lists and watches; nothing is bound, written or evicted",
        ),
        NextStep(
            "Lend on two nodes, with the manager and the agents of the chart",
            f"kubectl label node {two} {TRIAL_LABEL}=trial && "
            f"kubectl create {_CONFIG_MAP} --from-literal=colocation-config='{LENDING}'",
            "without the ConfigMap nothing is lent; batch pods that run go on",
            "batch pods that request batch-cpu may use what is idle there; agents take it back when services need it",
            f"kubectl delete {_CONFIG_MAP} && kubectl label node {two} {TRIAL_LABEL}-",
        ),
    )
