"""Kinds of low_node_load.json and low_node_load_more.json: thresholds, classes, detector, orders, targets and
rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from tests.conformance.reading import Unreadable, one_of, only, plain, set_amounts

from cotenant.drivers.kube.kinds.managed_node import read_managed_node
from cotenant.drivers.kube.kinds.node import NodeObject
from cotenant.model.cluster.annotations import RAW_ALLOCATABLE
from cotenant.model.cluster.labels import Labels, LabelSelector
from cotenant.model.cluster.qos import (
    KubernetesQoS,
    PriorityClass,
    QoSClass,
    class_of_priority,
    effective_class,
    effective_qos,
)
from cotenant.model.errors import InvalidInput
from cotenant.policy.overcommit.selection import read_selector
from cotenant.policy.rebalance.loads.detector import AnomalyCondition, Detector, Detectors
from cotenant.policy.rebalance.loads.low_node_load import Landing, LowNodeLoad, RoundResult
from cotenant.policy.rebalance.loads.order import LoadPod, excess_of, node_score, pod_score, sorted_pods
from cotenant.policy.rebalance.loads.pools import NodeLoads, NodePool, members
from cotenant.policy.rebalance.loads.thresholds import (
    Percentages,
    classify,
    excesses,
    floor_percent,
    thresholds,
)
from cotenant.policy.rebalance.migration.evictable import EvictionFacts, EvictionFilter

_NAMES = {"cpu_m": "cpu"}
_THEIRS = {"cpu": "cpu_m"}


def _ours(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {_NAMES.get(name, name): value for name, value in (values or {}).items() if value is not None}


def _theirs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_THEIRS.get(name, name): value for name, value in values.items()}


def _percentages(given: Mapping[str, Any], suffix: str = "") -> Percentages:
    return Percentages(
        _ours(given[f"low{suffix}"]),
        _ours(given[f"high{suffix}"]),
        _ours(given[f"prod_low{suffix}"]),
        _ours(given[f"prod_high{suffix}"]),
        given.get("use_deviation", False),
    )


def _columns(names: Sequence[str], rows: Sequence[Mapping[str, int]]) -> Any:
    return np.array([[row.get(name, 0) for name in names] for row in rows], dtype=np.int64)


class _FirstFit:
    """The first target whose labels match; at most so many moves in all."""

    def __init__(self, most: int | None = None, refusing: Mapping[str, Sequence[str]] | None = None) -> None:
        self.left = most
        self.examined = 0
        self._refusing = refusing or {}

    def admit(self, pod: LoadPod, node: str) -> str:
        self.examined += 1
        return "no more evictions in this round" if self.left == 0 else ""

    def land(self, pod: LoadPod, node: str, targets: Sequence[str]) -> Landing:
        for target in targets:
            if pod.key not in self._refusing.get(target, ()):
                if self.left is not None:
                    self.left -= 1
                return Landing(target)
        return Landing("", "no target matches")


def _round(given: Mapping[str, Any], choice: _FirstFit | None = None) -> RoundResult:
    percentages = _percentages(given, "_thresholds_pct")
    nodes, names = given["nodes"], percentages.names
    usage: dict[str, dict[str, int]] = {node["name"]: {"pods": 0} for node in nodes}
    prod: dict[str, dict[str, int]] = {node["name"]: {"pods": 0} for node in nodes}
    pods: dict[str, list[LoadPod]] = {}
    within = given.get("namespaces", {})
    evicts = EvictionFilter(
        checks_replicas=False, include=tuple(within.get("include") or ()), exclude=tuple(within.get("exclude") or ())
    )
    bound = []
    for pod in given.get("pods", ()):
        used = _ours(pod["usage"])
        kind = PriorityClass(pod.get("priority_class", "prod"))
        facts = EvictionFacts(
            pod.get("namespace", "default"),
            Labels(),
            2_000_000_000 if pod["system_critical"] else 0,
            pod["owner"] or "",
            is_static=bool(pod["mirror"]),
            has_local_storage=bool(pod["local_storage"]),
        )
        order = pod.get("priority", 0), KubernetesQoS(pod.get("kube_qos", "BestEffort")), QoSClass(pod.get("qos", ""))
        made = LoadPod(pod["name"], pod["name"], used, kind, *order, refused=evicts.refuses(facts))
        pods.setdefault(pod["node"], []).append(made)
        if plain(pod["node_selector"]) or plain(pod["node_affinity"]):
            bound.append(pod["name"])
        for into in (usage, prod) if kind is PriorityClass.PROD else (usage,):
            for name, amount in {**used, "pods": 1}.items():
                into[pod["node"]][name] = into[pod["node"]].get(name, 0) + amount
    refusing = {node["name"]: bound for node in nodes if node["matches_pod_selectors"] is False}
    loads = NodeLoads(
        tuple(node["name"] for node in nodes),
        tuple(Labels() for _ in nodes),
        names,
        _columns(names, [_ours(node["allocatable"]) for node in nodes]),
        _columns(names, [usage[node["name"]] for node in nodes]),
        _columns(names, [prod[node["name"]] for node in nodes]),
        np.array([bool(node["unschedulable"]) for node in nodes]),
    )
    anomaly = AnomalyCondition(given.get("consecutive_abnormalities", 1))
    policy = LowNodeLoad([NodePool("p", percentages, anomaly=anomaly)], node_fit=given.get("node_fit", True))
    return policy.round(
        loads, lambda node: pods.get(node, []), choice or _FirstFit(given["max_evict_total"], refusing), 0.0
    )


def balance(case: Any) -> Iterator[tuple[str, Any, Any]]:
    found = _round(case.given)
    yield "evicted_count", case.expect["evicted_count"], len(found.moves)
    for kind, wanted in case.expect.get("classes_derived", {}).items():
        pool = found.pools[0]
        got = [name for name, node_class in zip(pool.considered, pool.classes, strict=True) if node_class == kind]
        if kind != "prod_low":  # upstream's listing leaves out middle nodes where no production threshold is set
            yield f"classes_derived.{kind}", wanted, got


def anomaly(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    abnormal, normal = given.get("consecutive_abnormalities", 5), given.get("consecutive_normalities", 3)
    detectors = Detectors(AnomalyCondition(abnormal, normal))
    for node, marks in given.get("prior_abnormal_marks", {}).items():
        for _ in range(marks or 0):
            detectors.mark(node, 0.0)
    got: list[str] = []
    for _ in range(given.get("extra_rounds_before_check", 0) + 1):
        got = [node for node in given.get("overloaded_nodes_each_round", ()) if detectors.mark(node, 0.0)]
    yield "abnormal_nodes", case.expect["abnormal_nodes"], got


def _more_than(text: str) -> int:
    sign, number = text.split()
    if sign not in (">", ">="):
        raise Unreadable(f"{text!r} is not of the form '> 3' or '>= 3'")
    return int(number) - (sign == ">=")


def anomaly_detector(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    detector = Detector(
        AnomalyCondition(
            _more_than(given["anomaly_when_consecutive_abnormal"]),
            _more_than(given["ok_when_consecutive_normal"]),
            given["timeout_s"],
        )
    )
    got = []
    for entry in given["marks"]:
        at_s = entry["at_s"]
        if one_of(entry, "mark", ("abnormal", "normal", "reset", "look")) == "reset":
            detector.reset(at_s)
        elif entry["mark"] != "look":
            detector.mark(normal=entry["mark"] == "normal", now_s=at_s)
        got.append("anomaly" if detector.is_anomalous(at_s) else "ok")
    yield "state_after", case.expect["state_after"], got


def anomaly_bypass(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given["anomaly_condition"]
    condition = None
    if given is not None:
        abnormal, normal = given.get("consecutive_abnormalities", 5), given.get("consecutive_normalities", 3)
        condition = AnomalyCondition(abnormal, normal, given.get("timeout_s", 60))
    detectors = Detectors(condition)
    yield (
        "abnormal",
        case.expect["abnormal"],
        [node for node in case.given.get("over", ()) if detectors.mark(node, 0.0)],
    )


def usage_percent(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = floor_percent(*_amounts(case.given, "usage", "allocatable"))
    yield "floor_pct", case.expect["floor_pct"], got


def sort_nodes(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    allocatable, weights = _amounts(given, "allocatable", "weights")
    got = sorted(
        given["nodes"],
        key=lambda node: node_score(set_amounts(node["usage"]), allocatable, weights),
        reverse=not given.get("ascending", True),
    )
    yield "order", case.expect["order"], [node["name"] for node in got]


def _amounts(given: Mapping[str, Any], *keys: str) -> list[Any]:
    return [set_amounts(given[key]) for key in keys]


def node_scores(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    yield "score", case.expect["score"], node_score(*_amounts(given, "usage", "allocatable", "weights"))


def pod_scores(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    yield "score", case.expect["score"], pod_score(*_amounts(given, "usage", "excess", "weights"))


def _load_pod(pod: Mapping[str, Any]) -> LoadPod:
    kubernetes = KubernetesQoS(pod.get("kube_qos", "BestEffort"))
    priority = pod.get("priority", 0)
    qos = QoSClass(pod.get("qos", ""))
    return LoadPod(
        pod["name"],
        pod["name"],
        None if pod["usage"] is None else set_amounts(pod["usage"]),
        effective_class(class_of_priority(priority), effective_qos(qos, kubernetes)),
        priority,
        kubernetes,
        qos,
        pod.get("deletion_cost", 0),
        pod.get("eviction_cost", 0),
        pod.get("created_s", 0.0),
    )


def sort_pods(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    got = [pod.key for pod in sorted_pods(list(map(_load_pod, given["pods"])), *_amounts(given, "excess", "weights"))]
    tied = {name: tuple(sorted(tie)) for tie in case.expect.get("ties", ()) for name in tie}
    yield "order", [tied.get(name, name) for name in case.expect["order"]], [tied.get(name, name) for name in got]
    yield "ties", len(case.expect["order"]), len(set(got))


def sort_pods_of_node(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    node_usage, high, weights = _amounts(given, "node_usage", "high", "weights")
    got = sorted_pods(list(map(_load_pod, given["pods"])), excess_of(node_usage, high), weights)
    yield "order", case.expect["order"], [pod.key for pod in got]


def _relieved(
    sources: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    pods: Sequence[Mapping[str, Any]],
    choice: _FirstFit,
) -> RoundResult:
    """One round with given amounts as thresholds: every node has 100 000 of each resource, and thresholds are of
    the same node.
    """
    every = [*sources, *targets]
    names = tuple(sorted({*every[0]["high"]}))
    whole = {name: 100 * max([*(node["high"][name] for node in every), 1]) for name in names}
    high = {name: max(node["high"][name] for node in every) * 100.0 / whole[name] for name in names}
    loads = NodeLoads(
        tuple(node.get("name", f"source-{i}") for i, node in enumerate(every)),
        tuple(Labels() for _ in every),
        (*names, *(() if "memory" in names else ("memory",))),
        _columns((*names, *(() if "memory" in names else ("memory",))), [{"memory": 100, **whole} for _ in every]),
        _columns((*names, *(() if "memory" in names else ("memory",))), [node["usage"] for node in every]),
        _columns((*names, *(() if "memory" in names else ("memory",))), [{} for _ in every]),
        np.zeros(len(every), dtype=np.bool_),
    )
    low = {name: max([0, *(node["usage"][name] for node in targets)]) * 100.0 / whole[name] for name in names}
    pool = NodePool("p", Percentages(low, high), anomaly=None)
    made = [_load_pod(pod) for pod in pods]
    return LowNodeLoad([pool]).round(loads, lambda node: made, choice, 0.0)


def fits_target(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    given = {key: set_amounts(given[key]) for key in ("usage", "high", "pod_usage")} | {
        "node_matches": given["node_matches"]
    }
    choice = _FirstFit(refusing={} if given["node_matches"] is not False else {"t": ["p"]})
    source = {"name": "s", "usage": {name: 3 * amount for name, amount in given["high"].items()}, "high": given["high"]}
    target = {"name": "t", "usage": given["usage"], "high": given["high"]}
    found = _relieved([source], [target], [{"name": "p", "usage": given["pod_usage"]}], choice)
    yield "fits", case.expect["fits"], bool(found.moves)
    if "target_usage_after" in case.expect:
        names = sorted(given["high"])
        yield (
            "target_usage_after",
            case.expect["target_usage_after"],
            dict(zip(names, found.usage[1].tolist(), strict=False)),
        )


def fits_target_sequence(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = {
        "targets": [only(node, "name", "usage", "high") for node in case.given["targets"]],
        "pods": [only(pod, "name", "usage") for pod in case.given["pods"]],
    }
    names = sorted(given["targets"][0]["high"])
    much = {name: 1000 * max(node["high"][name] for node in given["targets"]) for name in names}
    source = {"name": "s", "usage": much, "high": given["targets"][0]["high"]}
    pods = [{**pod, "priority": i} for i, pod in enumerate(given["pods"])]  # considered in the given order
    found = _relieved([source], given["targets"], pods, _FirstFit())
    placed = {move.pod.key: move.target for move in found.moves}
    yield "placed", case.expect["placed"], {pod["name"]: placed.get(pod["name"]) for pod in given["pods"]}


def no_target(case: Any) -> Iterator[tuple[str, Any, Any]]:
    known, choice = ("name", "usage", "high"), _FirstFit()
    source, targets = only(case.given["source"], *known), [only(node, *known) for node in case.given["targets"]]
    found = _relieved([{"name": "s", **source}], targets, [{"name": "p", "usage": {}}], choice)
    yield "pods_examined", case.expect["pods_examined"], choice.examined
    yield "evicted", case.expect["evicted"], len(found.moves)


def balance_limited(case: Any) -> Iterator[tuple[str, Any, Any]]:
    yield "evicted_count", case.expect["evicted_count"], len(_round(case.given).moves)


def eviction_reason(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    names = tuple(given["allocatable"])
    one_of(given, "scope", ("node", "prod"), "node")  # worded alike; the usage is that of the scope
    size = _columns(names, [given["allocatable"]])
    high = size * np.array([given["high_pct"][name] for name in names]) // 100
    found = excesses(names, size[0], _columns(names, [given["usage"]])[0], high[0])
    got = [
        {
            "resource": excess.resource,
            "usage_pct": f"{excess.used_percent:.2f}",
            "threshold_pct": f"{excess.threshold_percent:.2f}",
        }
        for excess in found
    ]
    yield "over", case.expect["over"], got


def _selector(written: Mapping[str, Any] | None) -> LabelSelector | None:
    """None = all nodes. Raises `InvalidInput` for one that cannot be used."""
    return None if written is None else read_selector(plain(written), "selector")


def node_pool_members(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    names = [node["name"] for node in given["nodes"]]
    labels = [Labels.of(plain(node.get("labels", {}))) for node in given["nodes"]]
    processed = set(given.get("processed", ()))
    try:
        rows = members(_selector(given["selector"]), names, labels, processed).tolist()
        is_wrong = False
    except InvalidInput:
        rows, is_wrong = [], True
    yield "nodes", case.expect["nodes"] or [], [names[row] for row in rows]
    yield "error", case.expect["error"], is_wrong


def node_pools(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    nodes = given["nodes"]
    pools = [
        NodePool(pool["name"], _percentages(pool), _selector(pool["selector"]), anomaly=None) for pool in given["pools"]
    ]
    loads = NodeLoads(
        tuple(node["name"] for node in nodes),
        tuple(Labels.of(plain(node.get("labels", {}))) for node in nodes),
        ("cpu", "memory"),
        _columns(("cpu", "memory"), [{"cpu": 100, "memory": 100} for _ in nodes]),
        _columns(
            ("cpu", "memory"), [{"cpu": node.get("cpu_pct", 0), "memory": node.get("memory_pct", 0)} for node in nodes]
        ),
        _columns(("cpu", "memory"), [{} for _ in nodes]),
        np.zeros(len(nodes), dtype=np.bool_),
    )
    found = LowNodeLoad(pools).round(loads, lambda node: [], _FirstFit(), 0.0)
    yield "considered", case.expect["considered"], {pool.name: list(pool.considered) for pool in found.pools}
    yield "sources", case.expect["sources"], {pool.name: list(pool.sources) for pool in found.pools}


def effective_percent(case: Any) -> Iterator[tuple[str, Any, Any]]:
    got = _percentages(case.given).completed()
    for key in ("low", "high", "prod_low", "prod_high"):
        yield key, case.expect[key], _theirs(getattr(got, key))


def node_thresholds(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    percentages, nodes = _percentages(given), given["nodes"]
    names = percentages.names
    size = _columns(names, [_ours(node["allocatable"]) for node in nodes])
    usage = _columns(names, [_ours(node["usage"]) for node in nodes])
    found = thresholds(percentages, names, size, usage, np.zeros_like(usage))
    got = {
        node["name"]: {
            "low": _theirs(dict(zip(names, found.low[row].tolist(), strict=True))),
            "high": _theirs(dict(zip(names, found.high[row].tolist(), strict=True))),
        }
        for row, node in enumerate(nodes)
    }
    yield "thresholds", case.expect["thresholds"], got


def node_classify(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    percentages, node = _percentages(given["thresholds"]), given["node"]
    if not given.get("percent", True):
        raise Unreadable("usage that is not a percentage needs the node's size")
    names = percentages.names
    size = _columns(names, [dict.fromkeys(names, 100)])
    usage, prod = _columns(names, [_ours(node["usage"])]), _columns(names, [_ours(node["prod"])])
    limits = thresholds(percentages, names, size, usage, prod)
    (got,) = classify(limits, usage, prod, np.array([bool(node["unschedulable"])]))
    yield "class", case.expect["class"], str(got)


def raw_allocatable(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    annotation, amounts = plain(given["raw_annotation"]), _ours(given["allocatable"])
    written = (
        {}
        if annotation is None
        else {RAW_ALLOCATABLE: annotation if isinstance(annotation, str) else json.dumps(annotation)}
    )
    node = {
        "metadata": {"name": "n", "annotations": written},
        "status": {"allocatable": {"cpu": f"{amounts['cpu']}m", "memory": str(amounts["memory"])}},
    }
    found = read_managed_node(msgspec.convert(node, NodeObject)).allocatable
    yield "base", case.expect["base"], {"cpu_m": found.cpu_m, "memory": found.memory_bytes}


KINDS = {
    "balance": balance,
    "anomaly": anomaly,
    "anomaly_detector": anomaly_detector,
    "anomaly_bypass": anomaly_bypass,
    "usage_percent": usage_percent,
    "sort_nodes": sort_nodes,
    "node_score": node_scores,
    "pod_score": pod_scores,
    "sort_pods": sort_pods,
    "sort_pods_of_node": sort_pods_of_node,
    "fits_target": fits_target,
    "fits_target_sequence": fits_target_sequence,
    "no_target": no_target,
    "balance_limited": balance_limited,
    "eviction_reason": eviction_reason,
    "node_pool_members": node_pool_members,
    "node_pools": node_pools,
    "effective_percent": effective_percent,
    "node_thresholds": node_thresholds,
    "node_classify": node_classify,
    "raw_allocatable": raw_allocatable,
}
