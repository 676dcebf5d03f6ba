"""`--on`: the Ray cluster on which a command's runs are done, for as long as it needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cotenant.model.errors import InvalidInput

if TYPE_CHECKING:
    from cotenant_lab.ray_cluster import RayCluster


@contextmanager
def cluster_at(address: str | None) -> Iterator[RayCluster | None]:
    """The cluster at `address`, connected; None without an address: this machine."""
    if address is None:
        yield None
        return
    from cotenant_lab.ray_cluster import connect

    cluster = connect(address)
    try:
        yield cluster
    finally:
        cluster.close()


def cpus_of(cluster: RayCluster) -> int:
    """How many runs it does at once. Raises `InvalidInput` for none."""
    if cluster.cpus < 1:
        hint = "--jobs says how many runs to submit at once where an autoscaler adds nodes"
        raise InvalidInput("--on", cluster.address, "a cluster with CPUs", hint)
    return cluster.cpus
