"""In which steps a container gets another size in place: CPU and more memory first, less memory last, if at all.

CPU can be given back within a second and more memory hurts nobody on the pod's side, so both come first. Less memory
comes alone, so that harm has one cause, and only where no restart is needed: a kubelet lowers a limit without one, a
`resizePolicy` may ask for one, and an owner who wrote that did not ask us for restarts. For the same reason CPU stays
where its policy asks for a restart. A Guaranteed pod stays Guaranteed in every step, as its amounts of one resource
change together.
Source: KEP-1287; Kubernetes documentation "Resize CPU and Memory Resources assigned to Containers".
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.model.sizes.container import ContainerSize, SizedContainer


def reachable(container: SizedContainer, goal: ContainerSize) -> tuple[ContainerSize, tuple[str, ...]]:
    """What of the goal can be had without a restart, and sentences on what cannot."""
    now, found = container.size, goal
    why: list[str] = []
    if container.cpu_needs_restart and _cpu(found) != _cpu(now):
        found = replace(found, cpu_request_m=now.cpu_request_m, cpu_limit_m=now.cpu_limit_m)
        why.append("CPU stays: its resizePolicy asks for a restart")
    if container.memory_needs_restart and _memory(found) != _memory(now):
        found = _with_memory(found, now)
        why.append("memory stays: its resizePolicy asks for a restart")
    if _was_unset(now, found):
        found = ContainerSize(
            *(value if before is not None else None for before, value in zip(_all(now), _all(found), strict=True))
        )
        why.append("what is not set stays unset: a new request would change the pod's QoS class")
    return found, tuple(why)


def next_step(now: ContainerSize, goal: ContainerSize) -> ContainerSize | None:
    """The size after the next step; None where the goal is reached."""
    if now == goal:
        return None
    first = _with_memory(goal, now)
    if not _lowers_memory(now, goal):
        return goal
    return first if first != now else goal


def _lowers_memory(now: ContainerSize, goal: ContainerSize) -> bool:
    return any(
        before is not None and after is not None and after < before
        for before, after in zip(_memory(now), _memory(goal), strict=True)
    )


def _was_unset(now: ContainerSize, goal: ContainerSize) -> bool:
    return any(before is None and after is not None for before, after in zip(_all(now), _all(goal), strict=True))


def _with_memory(size: ContainerSize, of: ContainerSize) -> ContainerSize:
    return replace(size, memory_request_bytes=of.memory_request_bytes, memory_limit_bytes=of.memory_limit_bytes)


def _cpu(size: ContainerSize) -> tuple[int | None, int | None]:
    return size.cpu_request_m, size.cpu_limit_m


def _memory(size: ContainerSize) -> tuple[int | None, int | None]:
    return size.memory_request_bytes, size.memory_limit_bytes


def _all(size: ContainerSize) -> tuple[int | None, int | None, int | None, int | None]:
    return (*_cpu(size), *_memory(size))
