"""What is asked of an API server to explain a node, what each answer becomes, and what is said where one is missing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cotenant.drivers.kube.client.errors import Forbidden, NotFound, Unavailable
from cotenant.drivers.kube.kinds.config_map import CONFIG_MAPS
from cotenant.drivers.kube.kinds.custom.autonomy import AUTONOMIES
from cotenant.drivers.kube.kinds.custom.cpu_report import CPU_REPORTS
from cotenant.drivers.kube.kinds.custom.device import DEVICES
from cotenant.drivers.kube.kinds.custom.node_metric import NODE_METRICS
from cotenant.drivers.kube.kinds.custom.pool_lending import POOL_LENDINGS
from cotenant.drivers.kube.kinds.node import NODES
from cotenant.model.errors import Permanent, Transient
from cotenant.services.offers import explaining
from cotenant.services.offers.explaining import AmountView, NodeOfferView, TermView, explain_node, node_view

MODE = '{"enable": true, "lendMode": "approve"}'
ON = {"colocation-config": '{"enable": true}'}


def node(lent: object = None, **allocatable: str) -> dict[str, Any]:
    note = {} if lent is None else {"cotenant.io/lent": lent if isinstance(lent, str) else json.dumps(lent)}
    return {
        "metadata": {"name": "n", "uid": "u", "annotations": note},
        "status": {"allocatable": {"cpu": "100", "memory": "100Gi", **allocatable}},
    }


def metric(age_s: float = 5.0, cpu: str = "20") -> dict[str, Any]:
    use = {"resources": {"cpu": cpu, "memory": "10Gi"}}
    pod = {"namespace": "a", "name": "b", "podUsage": use}
    return {
        "metadata": {"name": "n"},
        "status": {
            "updateTime": (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat(),
            "nodeMetric": {"nodeUsage": use},
            "podsMetric": [pod],
        },
    }


def pod(name: str, created: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    amounts = {"cpu": "40", "memory": "20Gi"}
    resources = {"requests": amounts, "limits": amounts}
    return {
        "metadata": {"name": name, "namespace": "a", "uid": name, "creationTimestamp": created},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": resources}], **more},
        "status": {"phase": "Running"},
    }


def lending(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "cluster", "uid": "u"},
        "spec": {"approved": "94c7f133-0", "approvedBy": "ada"},
        "status": status,
    }


class Server:
    """Objects by the plural of their kind, or the error that asking for one gives; what was asked is kept."""

    def __init__(self, **objects: Any) -> None:
        self.objects = objects
        self.asked: list[str] = []

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        self.asked.append(f"{kind.plural} {namespace}/{name}")
        return self._read(kind, self._found(kind.plural, name))

    async def all_of(self, kind: Any, fields: str = "") -> list[Any]:
        self.asked.append(f"{kind.plural} {fields}")
        found = self.objects.get(f"all {kind.plural}", [])
        if isinstance(found, Exception):
            raise found
        return [self._read(kind, one) for one in found]

    async def request(self, method: str, path: str, query: dict[str, str]) -> bytes:
        self.asked.append(f"{method} {path} {query}")
        found = self.objects.get("pods", [])
        if isinstance(found, Exception):
            raise found
        return json.dumps({"items": found}).encode()

    def _found(self, plural: str, name: str) -> Any:
        found = self.objects.get(plural, NotFound(f"{plural} {name}"))
        if isinstance(found, Exception):
            raise found
        return found

    @staticmethod
    def _read(kind: Any, found: Any) -> Any:
        return msgspec.json.decode(json.dumps(found), type=kind.form)


def explained(server: Server) -> NodeOfferView:
    return asyncio.run(node_view(server, "n", "ns", "settings"))  # type: ignore[arg-type]


def of(amounts: Iterable[AmountView], resource: str) -> AmountView:
    (found,) = (amount for amount in amounts if amount.resource == resource)
    return found


def test_each_object_is_asked_for_once_where_it_is() -> None:
    server = Server(nodes=node(), nodemetrics=metric(), configmaps={"data": ON})
    view = explained(server)
    assert server.asked == [
        f"{NODES.plural} /n",
        "GET /api/v1/pods {'fieldSelector': 'spec.nodeName=n'}",
        f"{NODE_METRICS.plural} /n",
        f"{CONFIG_MAPS.plural} ns/settings",
        f"{CPU_REPORTS.plural} /n",
        f"{DEVICES.plural} /n",
    ]
    # 60 % of 100 cores less the 20 in use by nobody
    assert (view.state, of(view.amounts, "batch-cpu").computed_now) == ("lent", 40_000)
    assert view.metric_age_seconds == pytest.approx(5.0, abs=60.0)
    assert view.ignored == ()


def test_a_pod_that_is_measured_and_lends() -> None:
    view = explained(Server(nodes=node(), nodemetrics=metric(), configmaps={"data": ON}, pods=[pod("b")]))
    (lender,) = view.lenders
    assert (lender.pod, lender.requested_cpu, lender.used_cpu) == ("a/b", 40_000, 20_000)
    assert view.ignored == ()
    assert of(view.amounts, "batch-cpu").computed_now == 40_000  # its use is the node's whole use


def test_a_measurement_or_devices_that_cannot_be_read_are_named() -> None:
    broken = metric()
    broken["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = "lots"
    devices = {"metadata": {"name": "n"}, "spec": {"devices": [{"type": "gpu", "minor": -5, "health": True}]}}
    view = explained(Server(nodes=node(), nodemetrics=broken, configmaps={"data": ON}, devices=devices))
    assert any("lots" in entry for entry in view.ignored)
    assert any("-5" in entry for entry in view.ignored)
    assert view.metric_age_seconds is None


def test_approvals_are_asked_for_only_where_a_mode_of_lending_wants_them() -> None:
    plain = Server(nodes=node(), nodemetrics=metric(), configmaps={"data": ON})
    explained(plain)
    assert not any(POOL_LENDINGS.plural in asked for asked in plain.asked)
    objects: dict[str, Any] = {
        "nodes": node(),
        "nodemetrics": metric(),
        "configmaps": {"data": {"colocation-config": MODE, "other": "{}"}},
    }
    waiting = Server(**objects)
    assert explained(waiting).state == "suggested"
    assert waiting.asked[-2:] == [f"{POOL_LENDINGS.plural} ", f"{AUTONOMIES.plural} "]
    view = explained(Server(**objects, **{f"all {POOL_LENDINGS.plural}": [lending()]}))
    assert (view.state, view.ignored) == ("lent", ())
    refused = explained(Server(**objects, **{f"all {POOL_LENDINGS.plural}": Forbidden("403")}))
    assert refused.ignored == ("not readable: PoolLendings or Autonomy objects, so approvals do not count: 403",)
    unknown = explained(Server(**objects, **{f"all {POOL_LENDINGS.plural}": NotFound("404")}))
    assert (unknown.state, unknown.ignored) == ("suggested", ())


@pytest.mark.parametrize("data", [None, {}])
def test_settings_without_content_are_those_of_nobody(data: dict[str, str] | None) -> None:
    view = explained(Server(nodes=node(), configmaps={"data": data}))
    assert (view.state, view.config_error) == ("withdrawn", "")


def test_what_may_not_be_read_is_named_first() -> None:
    refused = Forbidden("403")
    objects = {"nodes": node(), "pods": refused, "nodemetrics": refused, "configmaps": refused}
    view = explained(Server(**objects, devices=refused, noderesourcetopologies=refused))
    assert view.ignored == (
        "not readable: pods, so what they hold and lend is not shown: 403",
        "not readable: NodeMetric, so nothing is computed anew: 403",
        "not readable: ConfigMap ns/settings, so lending counts as not configured: 403",
    )


def test_an_account_that_may_only_list_nodes_hears_of_one_that_is_not_there() -> None:
    server = Server(nodes=Forbidden("403"))
    with pytest.raises(Permanent, match="no node n"):
        explained(server)
    assert server.asked == [f"{NODES.plural} /n", f"{NODES.plural} metadata.name=n"]


REFUSED = {"colocation-config": '{"enable": true, "cpuReclaimThresholdPercent": 700}'}
WRITTEN = {
    "strategy": "pool a",
    "amounts": {"batch-cpu": {"policy": "peak", "value": 7, "terms": [["capacity", 9], ["peak", -2]]}},
}


def test_what_was_written_is_shown_with_its_terms_and_what_differs_beside_it() -> None:
    lent = node(WRITTEN, **{"kubernetes.io/batch-cpu": "5"})
    view = explained(Server(nodes=lent, nodemetrics=metric(), configmaps={"data": ON}))
    found = of(view.amounts, "batch-cpu")
    assert (found.on_node, found.written, found.policy) == (5, 7, "peak")
    assert found.terms == (TermView("capacity", 9), TermView("peak", -2))
    assert found.computed_now == 40_000
    other = of(view.amounts, "batch-memory")
    assert (other.on_node, other.written, other.policy) == (None, None, "usage")
    assert other.terms[0] == TermView("capacity", 100 << 30)
    assert other.computed_now == sum(term.amount for term in other.terms)


def test_by_the_peak_policy_there_is_no_amount_of_now() -> None:
    data = {"colocation-config": '{"enable": true, "cpuCalculatePolicy": "peak", "memoryCalculatePolicy": "usage"}'}
    view = explained(Server(nodes=node(WRITTEN), nodemetrics=metric(), configmaps={"data": data}))
    assert of(view.amounts, "batch-memory").computed_now is not None
    if view.config_error == "":
        assert of(view.amounts, "batch-cpu").computed_now is None


def test_an_old_measurement_has_its_age() -> None:
    view = explained(Server(nodes=node(), nodemetrics=metric(4_000.0), configmaps={"data": ON}))
    assert view.metric_age_seconds is not None
    assert 4_000 <= view.metric_age_seconds < 8_000


@pytest.mark.parametrize(
    ("lent", "strategy", "written"),
    [
        (WRITTEN, "pool a", 7),
        ({**WRITTEN, "amounts": {}}, "", None),
        ({"strategy": "x", "amounts": {"batch-cpu": {"value": 1, "terms": [["a"]]}}}, "", None),
        ({"strategy": "x", "amounts": {"batch-cpu": {"value": 1}}}, "", None),
        ({"strategy": "x", "amounts": {"batch-cpu": {"terms": [["a", "many"]]}}}, "", None),
        ("[" * 100_000, "", None),
    ],
)
def test_without_a_view_of_now_the_written_strategy_counts_where_all_of_it_can_be_read(
    lent: object, strategy: str, written: int | None
) -> None:
    view = explained(Server(nodes=node(lent, **{"kubernetes.io/batch-cpu": "7"}), configmaps={"data": REFUSED}))
    assert view.strategy == strategy
    assert of(view.amounts, "batch-cpu").written == written
    assert (view.state, view.reason) == ("lent", "by the last good configuration")


def zone(name: str, batch: str | None = None) -> dict[str, Any]:
    sizes = {"cpu": "50", "memory": "50Gi", **({"kubernetes.io/batch-cpu": batch} if batch else {})}
    resources = [{"name": key, "capacity": size, "allocatable": size, "available": size} for key, size in sizes.items()]
    return {"name": name, "type": "Node", "resources": resources}


@pytest.mark.parametrize("note", ['{"zones": 3}', "{", '{"zones": {"node-0": {"batch-cpu": {"terms": 3}}}}', "{}"])
def test_zones_whose_note_cannot_be_read_show_what_is_there(note: str) -> None:
    report = {
        "metadata": {"name": "n", "annotations": {"cotenant.io/lent": note}},
        "zones": [zone("node-0", "7000"), zone("node-1")],
    }
    server = Server(nodes=node(), **{CPU_REPORTS.plural: report})
    (shown,) = explained(server).zones
    assert shown.zone == "node-0"
    assert [(amount.resource, amount.on_node, amount.written) for amount in shown.amounts] == [
        ("batch-cpu", 7000, None)
    ]


def test_errors_of_the_whole_question_name_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **config}))
    raised: list[Exception] = []
    given: list[Any] = []

    async def view(client: Any, *rest: Any) -> NodeOfferView:
        given.extend(rest)
        raise raised.pop()

    monkeypatch.setattr(explaining, "node_view", view)
    for error, kind, said in (
        (Unavailable("GET /api: refused"), Transient, "the API server http://127.0.0.1:9 does not answer: refused"),
        (Unavailable("gone"), Transient, "the API server http://127.0.0.1:9 does not answer: gone"),
        (NotFound("nodes n"), Permanent, "http://127.0.0.1:9 has no node n"),
    ):
        raised.append(error)
        with pytest.raises(kind) as found:
            explain_node(file, "", "n", "ns", "settings")
        assert str(found.value) == said
    assert given[:3] == ["n", "ns", "settings"]
