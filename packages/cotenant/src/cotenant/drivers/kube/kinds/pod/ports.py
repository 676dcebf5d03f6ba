"""Ports of a pod that are its node's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cotenant.drivers.kube.kinds.pod.schema import PodSpec
from cotenant.model.cluster.pod import HostPort


def host_ports(
    spec: PodSpec, attempt: Callable[[HostPort | None, Callable[[], HostPort]], HostPort | None]
) -> tuple[HostPort, ...]:
    """Ports of containers and sidecars; in the host's network every port is one of the host. What is no port is
    named by `attempt`.
    """
    sidecars = (c for c in spec.init_containers or () if c.restart_policy == "Always")
    found: dict[HostPort, None] = {}
    for container in (*(spec.containers or ()), *sidecars):
        for port in container.ports or ():
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                made = partial(HostPort, number, port.protocol or "TCP", port.host_ip or "0.0.0.0")
                taken = attempt(None, made)
                if taken is not None:
                    found[taken] = None
    return tuple(found)
