"""Pods found by a selector, against a look at every pod."""

from __future__ import annotations

import numpy as np

from cotenant.model.cluster.labels import Labels, LabelSelector, Requirement, SelectorOperator
from cotenant.model.cluster.pod import Pod
from cotenant.policy.rebalance.loads.order import LoadPod
from cotenant.policy.rebalance.violations.contract import PlacedPod
from cotenant.policy.rebalance.violations.pod_index import PodIndex


def made(name: str, namespace: str, labels: dict[str, str]) -> PlacedPod:
    pod = Pod(name, namespace, labels=Labels.of(labels))
    return PlacedPod(LoadPod(pod.key, name, None), pod, "n")


def test_a_selector_finds_each_pod_that_it_selects_once() -> None:
    rng = np.random.default_rng(2)
    pods = [
        made(
            f"p{i}",
            str(rng.choice(["x", "y"])),
            {key: str(rng.integers(3)) for key in ("app", "tier") if rng.random() < 0.8},
        )
        for i in range(80)
    ]
    index = PodIndex(pods)
    requirements = [
        Requirement("app", SelectorOperator.IN, ("0",)),
        Requirement("app", SelectorOperator.IN, ("1", "0", "1")),
        Requirement("tier", SelectorOperator.IN, ("2",)),
        Requirement("tier", SelectorOperator.NOT_IN, ("2",)),
        Requirement("app", SelectorOperator.EXISTS),
        Requirement("tier", SelectorOperator.DOES_NOT_EXIST),
    ]
    selectors = [LabelSelector()] + [
        LabelSelector((one, *more)) for one in requirements for more in ((), *((other,) for other in requirements))
    ]
    for namespace in ("x", "y", "z"):
        assert list(index.selected(namespace, None)) == []
        for selector in selectors:
            expected = [p for p in pods if p.pod.namespace == namespace and selector.matches(p.pod.labels)]
            found = list(index.selected(namespace, selector))
            assert sorted(p.pod.name for p in found) == sorted(p.pod.name for p in expected), selector
