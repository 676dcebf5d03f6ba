"""`cotenant explain node`: sums that hold, differences that are said, and objects that cannot be read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cotenant.cli.cluster.explain_node import lines
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.services.manager.explaining import NodeView, answer

WRITTEN = {
    "strategy": "cluster",
    "amounts": {
        "batch-cpu": {
            "policy": "usage",
            "value": 42000,
            "terms": [["capacity", 100000], ["margin above 60 %", -40000], ["system", 0], ["use", -18000]],
        }
    },
}
CONFIG = {"colocation-config": '{"enable": true}'}


def _view(written: object = WRITTEN, data: dict[str, str] | None = CONFIG, **allocatable: str) -> NodeView:
    sizes = {
        "cpu": "100",
        "memory": "100Gi",
        **({"kubernetes.io/batch-cpu": "42000"} if written else {}),
        **allocatable,
    }
    note = {"cotenant.io/lent": written if isinstance(written, str) else json.dumps(written)} if written else {}
    node: Any = {"metadata": {"name": "n", "uid": "u", "annotations": note}, "status": {"allocatable": sizes}}
    metric: Any = {
        "metadata": {"name": "n"},
        "status": {
            "updateTime": datetime.now(UTC).isoformat(),
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "20", "memory": "1Gi"}}},
            "podsMetric": [{"namespace": "a", "name": "b", "podUsage": {"resources": {"cpu": "20", "memory": "1Gi"}}}],
        },
    }
    read = msgspec.json.decode
    return answer(
        read(json.dumps(node), type=NODES.form), [], read(json.dumps(metric), type=NODE_METRICS.form), data
    )  # fmt: skip


def test_the_sum_that_is_printed_holds() -> None:
    view = _view()
    text = "\n".join(lines(view))
    assert "node n: lent; measured 0 s ago, strategy: cluster" in text
    assert "batch-cpu 42000m, by usage" in text
    assert "  42000m  = batch-cpu" in text
    assert "by the formula it would be 40000m now" in text


def test_what_another_writer_changed_is_said() -> None:
    view = _view(**{"kubernetes.io/batch-cpu": "5"})
    assert "another writer has changed it since" in "\n".join(lines(view))


@pytest.mark.parametrize("written", ["{", '{"amounts": {"batch-cpu": 3}}', "[]"])
def test_an_annotation_that_cannot_be_read_does_not_hide_the_node(written: str) -> None:
    text = "\n".join(lines(_view(written)))
    assert "computed now; nothing was written" in text


def test_a_refused_config_is_said() -> None:
    view = _view(data={"colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 700}'})
    text = "\n".join(lines(view))
    assert "cpuReclaimThresholdPercent: 700" in text
    assert "node n: lent (by the last good configuration)" in text


def test_a_node_that_lends_nothing() -> None:
    text = "\n".join(lines(_view(None, None)))
    assert "withdrawn (colocation is off)" in text
    assert "It offers no batch and mid resources." in text
