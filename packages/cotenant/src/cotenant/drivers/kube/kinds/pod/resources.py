"""What a pod takes of a node: its requests and limits, summed over containers, sidecars and init containers.

Each amount that cannot be read counts as absent and is reported. A container that is being resized in place counts for
the largest of what is asked, allocated and in place, and so do amounts of the pod as a whole; a resize that is
infeasible does not count.
Source: KEP-753 (sidecars and init containers); KEP-1287 and KEP-5419 (resizes in place of containers and of pods);
kube-scheduler's sums over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from cotenant.drivers.kube.kinds.kind import Quantities
from cotenant.drivers.kube.kinds.parts import Condition, Resources
from cotenant.drivers.kube.kinds.pod.schema import Container, PodSpec, PodStatus
from cotenant.model.cluster.qos import KubernetesQoS, kubernetes_qos
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import CPU_NAME, MEMORY_NAME, NOTHING, PODS_NAME, Amounts, ContainerAmounts, pod_requests

MAX_RESOURCES = 128  # of a pod: more are not scheduled, since each would be a column of every node for good


def read_requests(
    spec: PodSpec, status: PodStatus, attempt: Callable[[Amounts, Callable[[], Amounts]], Amounts]
) -> Amounts:
    """What the pod takes of a node. Each amount that cannot be read counts as absent, and `attempt` reports it."""
    is_infeasible = any(
        c.type == "PodResizePending" and c.status == "True" and c.reason == "Infeasible"
        for c in status.conditions or ()
    )
    on_node = {s.name: s for s in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}

    def amounts(written: Quantities, field: str) -> Amounts:
        found: list[tuple[str, int]] = []
        if written is not None and len(written) > MAX_RESOURCES:  # reading them all would take a second
            names = len(written)
            attempt(NOTHING, lambda: _too_many(field, names))
            written = {name: written[name] for name in (CPU_NAME, MEMORY_NAME) if name in written}
        if written and PODS_NAME not in written:
            with suppress(InvalidInput):  # name by name below, so that the others count
                return Amounts.parse(written, field)
        for name, text in (written or {}).items():
            if name != PODS_NAME:
                found += attempt(NOTHING, lambda name=name, text=text: Amounts.parse({name: text}, field))  # type: ignore[misc]
        return Amounts.of(found) if found else NOTHING

    def container(written: Container, field: str) -> ContainerAmounts:
        resources = written.resources or Resources()
        asked = ContainerAmounts(
            amounts(resources.requests, f"{field}.resources.requests"),
            amounts(resources.limits, f"{field}.resources.limits"),
            written.restart_policy == "Always",
        )
        found = on_node.get(written.name)
        if found is None or (found.resources is None and found.allocated_resources is None):
            return asked
        there = amounts(found.allocated_resources, f"{field}: status.allocatedResources").maximum(
            amounts(found.resources.requests if found.resources is not None else None, f"{field}: status.resources")
        )
        return ContainerAmounts(
            there if is_infeasible else asked.effective().maximum(there), is_sidecar=asked.is_sidecar
        )

    def containers(written: Iterable[Container] | None, field: str) -> list[ContainerAmounts]:
        return [container(c, f"{field}[{i}]") for i, c in enumerate(written or ())]

    def pod_level() -> Amounts:
        """Of the resources that are asked for the pod as a whole. What a kubelet says of it has the overhead in it."""
        whole = spec.resources or Resources()
        requests, limits = whole.requests, whole.limits
        asked = ContainerAmounts(
            amounts(requests, "spec.resources.requests"), amounts(limits, "spec.resources.limits")
        ).effective()
        if not asked or (status.resources is None and status.allocated_resources is None):
            return asked
        in_place = status.resources.requests if status.resources is not None else None
        there = amounts(status.allocated_resources, "status.allocatedResources").maximum(
            amounts(in_place, "status.resources.requests")
        )
        found: list[tuple[str, int]] = []
        for name, amount in asked:
            has = there.get(name) - overhead.get(name) if name in there else -1
            found.append((name, has if is_infeasible and has >= 0 else max(amount, has)))
        return Amounts.of(found)

    overhead = amounts(spec.overhead, "spec.overhead")
    # Sums of amounts that are each allowed may still exceed what any machine has.
    total = attempt(
        NOTHING,
        lambda: pod_requests(
            containers(spec.containers, "spec.containers"),
            containers(spec.init_containers, "spec.initContainers"),
            overhead,
            pod_level(),
        ),
    )
    if len(total.items) <= MAX_RESOURCES:
        return total
    attempt(NOTHING, lambda: _too_many("resources", len(total.items)))
    return Amounts.of(sorted(total, key=lambda entry: entry[0] not in (CPU_NAME, MEMORY_NAME))[:MAX_RESOURCES])


def _too_many(field: str, names: int) -> Amounts:
    raise InvalidInput(field, f"{names} names", f"at most {MAX_RESOURCES}", "each is a column of every node")


def read_limits(spec: PodSpec) -> Amounts:
    """The limits of the pod as a whole, as its requests are summed; what cannot be read is named where requests are
    read.
    """

    def amounts(written: Container) -> ContainerAmounts:
        limits = written.resources.limits if written.resources is not None else None
        return ContainerAmounts(_readable(limits), is_sidecar=written.restart_policy == "Always")

    if not any(
        c.resources is not None and c.resources.limits
        for c in (*(spec.containers or ()), *(spec.init_containers or ()))
    ) and (spec.resources is None):
        return NOTHING
    whole = _readable(spec.resources.limits) if spec.resources is not None else NOTHING
    try:
        return pod_requests(
            [amounts(c) for c in spec.containers or ()],
            [amounts(c) for c in spec.init_containers or ()],
            pod_level=whole,
        )
    except InvalidInput:
        return NOTHING  # their sum is more than any machine has


def has_whole_cpus(spec: PodSpec) -> bool:
    """Whether a kubelet with the static policy gives CPUs to every container: the pod is Guaranteed, and each that
    stays has whole CPUs.
    """

    def amounts(written: Container) -> ContainerAmounts:
        resources = written.resources or Resources()
        is_sidecar = written.restart_policy == "Always"
        return ContainerAmounts(_readable(resources.requests), _readable(resources.limits), is_sidecar)

    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        limits = (container.resources.limits if container.resources is not None else None) or {}
        if CPU_NAME not in limits or MEMORY_NAME not in limits:
            return False  # most pods end here, unread
    containers = [amounts(container) for container in spec.containers or ()]
    first = [amounts(container) for container in spec.init_containers or ()]
    if kubernetes_qos([*containers, *first]) is not KubernetesQoS.GUARANTEED:
        return False
    staying = [*containers, *(entry for entry in first if entry.is_sidecar)]
    return all(entry.effective().get(CPU_NAME) % 1000 == 0 for entry in staying)


def _readable(written: Quantities) -> Amounts:
    found: list[tuple[str, int]] = []
    if written is not None and len(written) > MAX_RESOURCES:
        written = {name: written[name] for name in (CPU_NAME, MEMORY_NAME) if name in written}
    if written and PODS_NAME not in written:
        with suppress(InvalidInput):
            return Amounts.parse(written)
    for name, text in (written or {}).items():
        if name != PODS_NAME:
            with suppress(InvalidInput):
                found += Amounts.parse({name: text})
    return Amounts.of(found) if found else NOTHING


def is_deferred(conditions: Iterable[Condition]) -> bool:
    """Whether a kubelet keeps a resize for later, since its node has no room for it."""
    return any(c.type == "PodResizePending" and c.status == "True" and c.reason == "Deferred" for c in conditions)


def resized(status: PodStatus) -> object:
    """What of a status decides how much the pod takes; None for a pod that runs nowhere."""
    if status.container_statuses is None and status.init_container_statuses is None and status.resources is None:
        return None
    statuses = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    said = any(entry.resources is not None or entry.allocated_resources is not None for entry in statuses)
    if not said and status.resources is None and status.allocated_resources is None:
        return None
    pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
    whole = (status.resources, status.allocated_resources)
    return (status.container_statuses, status.init_container_statuses, *whole, pending)
