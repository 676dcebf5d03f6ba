"""Kind `admission`: create and update validation of a pod's QoS class, priority and resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cotenant.model.cluster.admission import Declared, Operation, admit
from cotenant.model.cluster.qos import PriorityClass, class_of_priority, qos_of_label
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts, kubernetes_name


def declared(pod: dict[str, Any]) -> Declared:
    names = {"cpu_m": CPU_NAME, "memory": MEMORY_NAME}
    requests = {names.get(key) or kubernetes_name(key): amount for key, amount in pod["requests"].items()}
    label = pod["priority_class"]
    return Declared(
        qos=qos_of_label(pod["qos"]),
        priority_class=PriorityClass(label) if label else class_of_priority(pod["priority"]),
        sub_priority=pod["sub_priority"],
        requests=Amounts.of(requests),
    )


def admission(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    violations = admit(
        Operation(given["operation"]),
        declared(given["new"]),
        declared(given["old"]) if given["old"] is not None else None,
        given["skip_sub_priority_check"],
    )
    yield "allowed", case.expect["allowed"], not violations
    if "violations_derived" in case.expect:
        yield "violations_derived", sorted(case.expect["violations_derived"]), sorted(v.rule for v in violations)


KINDS = {"admission": admission}
