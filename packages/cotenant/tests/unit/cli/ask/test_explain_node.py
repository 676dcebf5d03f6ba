"""`cotenant explain node`: sums that hold, differences that are said, and objects that cannot be read."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from tests.fakes.seal_keys import keys

from cotenant.cli.ask.explain_node import lines
from cotenant.drivers.kube.client.errors import Forbidden
from cotenant.drivers.kube.kinds.custom.cpu_report import CPU_REPORTS
from cotenant.drivers.kube.kinds.custom.device import DEVICES
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.drivers.kube.kinds.pod.schema import PODS
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.cluster.labels import PRIORITY_CLASS, QOS_CLASS
from cotenant.model.cluster.seal import SETTLED
from cotenant.services.offers.explaining import NodeOfferView, answer, node_view

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


def _pod(name: str, phase: str = "Running", **requests: str) -> Any:
    names = {"batch": "kubernetes.io/batch-cpu", "cpu": "cpu", "memory": "memory"}
    amounts = {names[key]: value for key, value in requests.items()}
    return {
        "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
        "status": {"phase": phase},
    }


def _view(
    written: object = WRITTEN,
    data: dict[str, str] | None = CONFIG,
    pods: tuple[Any, ...] = (),
    seals: Seals = NO_SEALS,
    **allocatable: str,
) -> NodeOfferView:
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
        read(json.dumps(node), type=NODES.form),
        [read(json.dumps(pod), type=PODS.form) for pod in pods],
        read(json.dumps(metric), type=NODE_METRICS.form),
        data,
        seals=seals,
    )


def test_a_pod_is_of_the_class_that_it_was_bound_with() -> None:
    at_bind, later = {QOS_CLASS: "BE", PRIORITY_CLASS: "koord-batch"}, {QOS_CLASS: "LS", PRIORITY_CLASS: "koord-prod"}
    sealer, seals = keys()
    pod = _pod("b", cpu="40", memory="1Gi")
    pod["metadata"] |= {"labels": later, "annotations": {SETTLED: sealer.statement("b", "n", at_bind)}}
    assert [lender.pod for lender in _view(pods=(pod,)).lenders] == ["a/b"]
    assert _view(pods=(pod,), seals=seals).lenders == ()


def test_the_sum_that_is_printed_holds() -> None:
    view = _view()
    text = "\n".join(lines(view))
    assert "node n: lent; measured 0 s ago, strategy: cluster" in text
    assert "batch-cpu 42000m, by usage" in text
    assert "  42000m  = batch-cpu" in text
    assert "by the formula it would be 40000m now" in text


def test_a_busy_node_says_in_a_sentence_what_leaves_nothing_to_lend() -> None:
    terms = [["capacity", 2000], ["margin above 60 %", -800], ["system", -1961], ["use of prod and mid pods", -307]]
    floor = ["floor at zero", 1068]
    written = {"amounts": {"batch-cpu": {"policy": "usage", "value": 0, "terms": [*terms, floor]}}}
    why = (
        "nothing is lent: of 2000m, 1961m are used by work outside of pods, 800m are kept free (margin above 60 %), "
        "307m are used by prod and mid pods"
    )
    assert why in "\n".join(lines(_view(written, **{"kubernetes.io/batch-cpu": "0"})))
    assert "nothing is lent" not in "\n".join(lines(_view()))


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


def test_the_pods_that_hold_an_amount_are_listed_and_those_whose_idle_requests_it_is() -> None:
    view = _view(
        pods=(
            _pod("b", cpu="40", memory="2Gi"),
            _pod("small", batch="2000"),
            _pod("large", batch="30000"),
            _pod("done", phase="Succeeded", batch="5000"),
        )
    )
    text = "\n".join(lines(view))
    assert "  32000m held by 2 pods\n    30000m  a/large\n     2000m  a/small" in text
    assert "prod and mid pods that use less than they request\n  a/b  CPU 20000m of 40000m, memory 1Gi of 2Gi" in text
    assert "no pod on the node holds any" in "\n".join(lines(_view()))


def test_gpus_and_zones_are_shown_with_their_terms() -> None:
    read = msgspec.json.decode
    gpus = {
        name: {"value": 200, "terms": [["2 GPUs of 100", 200]]}
        for name in ("koordinator.sh/gpu", "koordinator.sh/gpu-core")
    }
    node: Any = {
        "metadata": {"name": "n", "uid": "u", "annotations": {"cotenant.io/gpu-totals": json.dumps(gpus)}},
        "status": {
            "allocatable": {
                "cpu": "100",
                "memory": "100Gi",
                "koordinator.sh/gpu": "200",
                "koordinator.sh/gpu-core": "100",
            }
        },
    }
    amount = {"policy": "usage", "value": 7000, "terms": [["capacity", 50000], ["margin above 60 %", -43000]]}
    resources = [
        {"name": name, "capacity": text, "allocatable": text, "available": text}
        for name, text in (("cpu", "50"), ("memory", "50Gi"), ("kubernetes.io/batch-cpu", "7000"))
    ]
    topology: Any = {
        "metadata": {
            "name": "n",
            "annotations": {"cotenant.io/lent": json.dumps({"zones": {"node-0": {"batch-cpu": amount}}})},
        },
        "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
    }
    device: Any = {
        "metadata": {"name": "n"},
        "spec": {
            "devices": [
                {"type": "gpu", "minor": i, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
                for i in range(2)
            ]
        },
    }
    view = answer(
        read(json.dumps(node), type=NODES.form),
        [],
        None,
        None,
        read(json.dumps(topology), type=CPU_REPORTS.form),
        read(json.dumps(device), type=DEVICES.form),
    )
    text = "\n".join(lines(view))
    assert "koordinator.sh/gpu-core 100, by healthy GPUs" in text
    assert "200  2 GPUs of 100" in text
    assert "another writer has changed it since" in text  # 100 is on the node
    assert "of this in NUMA zone node-0" in text
    assert "  batch-cpu 7000m, by usage" in text


def test_annotations_that_cannot_be_read_hide_no_zone_and_no_gpu() -> None:
    read = msgspec.json.decode
    node: Any = {
        "metadata": {"name": "n", "annotations": {"cotenant.io/gpu-totals": '{"koordinator.sh/gpu": 3}'}},
        "status": {"allocatable": {"cpu": "100", "memory": "100Gi"}},
    }
    device: Any = {
        "metadata": {"name": "n"},
        "spec": {
            "devices": [{"type": "gpu", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}]
        },
    }
    view = answer(
        read(json.dumps(node), type=NODES.form), [], None, None, None, read(json.dumps(device), type=DEVICES.form)
    )
    assert [gpu.resource for gpu in view.gpus] == ["koordinator.sh/gpu", "koordinator.sh/gpu-core"]
    assert "computed now; nothing was written" in "\n".join(lines(view))


class AsTheAgent:
    """An API server's answers to an agent's account: it may list nodes and pods, and get nothing else."""

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        raise Forbidden(f"GET {kind.plural}/{name}: 403 no right")

    async def all_of(self, kind: Any, fields: str) -> list[Any]:
        assert (kind, fields) == (NODES, "metadata.name=n")
        return [
            msgspec.json.decode(
                b'{"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": {"cpu": "100", "memory": "1Gi"}}}',
                type=NODES.form,
            )
        ]

    async def request(self, method: str, path: str, query: object) -> bytes:
        return json.dumps({"items": [_pod("one", batch="1000")]}).encode()


def test_what_may_not_be_read_is_named_and_the_rest_is_answered() -> None:
    view = asyncio.run(node_view(AsTheAgent(), "n"))  # type: ignore[arg-type]
    assert view.node == "n"
    assert [name.partition(", so")[0] for name in view.ignored] == [
        "not readable: NodeMetric",
        "not readable: ConfigMap koordinator-system/slo-controller-config",
    ]
    assert any("not readable: NodeMetric" in line for line in lines(view))
