"""Kind `admission`: create and update validation of a pod's QoS class, priority and resources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.reading import one_of

from cotenant.model.cluster.admission import AdmissionOperation, Declared, admit
from cotenant.model.cluster.qos import PriorityClass, class_of_priority, qos_of_label
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, Amounts, kubernetes_name


def declared(pod: dict[str, Any]) -> Declared:
    names = {"cpu_m": CPU_NAME, "memory": MEMORY_NAME}
    requests = {names.get(key) or kubernetes_name(key): amount or 0 for key, amount in pod.get("requests", {}).items()}
    label, of_number = pod["priority_class"], class_of_priority(pod["priority"])
    sub_priority = pod["sub_priority"]
    return Declared(
        qos=qos_of_label(pod["qos"]),
        priority_class=PriorityClass(label) if label else of_number,
        sub_priority=None if sub_priority is None else str(sub_priority),
        requests=Amounts.of(requests),
    )


def admission(case: Any) -> Iterator[tuple[str, Any, Any]]:
    given = case.given
    operation = one_of(given, "operation", ("create", "update", "delete"))
    new, old = given["new"] or given["old"], given["old"]
    violations = (
        ()
        if operation == "delete"
        else admit(
            AdmissionOperation(operation),
            declared(new),
            None if old is None else declared(old),
            given.get("skip_sub_priority_check", False),
        )
    )
    yield "allowed", case.expect["allowed"], not violations
    if "violations_derived" in case.expect:
        yield "violations_derived", sorted(case.expect["violations_derived"]), sorted(v.rule for v in violations)


KINDS = {"admission": admission}
