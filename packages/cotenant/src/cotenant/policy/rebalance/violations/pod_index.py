"""Pods by namespace and label, so that a selector is compared with few pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cotenant.model.cluster.labels import LabelSelector, SelectorOperator
from cotenant.policy.rebalance.violations.contract import PlacedPod


class PodIndex:
    """The pods of a cluster."""

    def __init__(self, pods: Iterable[PlacedPod]) -> None:
        self.namespaces: dict[str, list[PlacedPod]] = {}
        self._by_label: dict[tuple[str, str, str], list[PlacedPod]] = {}
        for pod in pods:
            self.namespaces.setdefault(pod.pod.namespace, []).append(pod)
            for key, value in pod.pod.labels:
                self._by_label.setdefault((pod.pod.namespace, key, value), []).append(pod)

    def selected(self, namespace: str, selector: LabelSelector | None) -> Iterator[PlacedPod]:
        """The pods of a namespace that the selector selects, each once; no selector selects none."""
        if selector is None:
            return
        exact = next(
            (requirement for requirement in selector.requirements if requirement.operator is SelectorOperator.IN), None
        )
        if exact is None:
            among = [self.namespaces.get(namespace, [])]
        else:
            among = [self._by_label.get((namespace, exact.key, value), []) for value in dict.fromkeys(exact.values)]
        for pods in among:
            for pod in pods:
                if selector.matches(pod.pod.labels):
                    yield pod
