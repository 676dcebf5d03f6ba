"""The group by which a pod has its shard: what must be judged by one engine has one key.

A quota's tree is one account, a gang is placed as a whole, and replicas that have rules about one another beyond a node
are judged in turn. A pod that names its node (of a DaemonSet) goes with the node, since any other shard would have to
borrow it. Every other pod goes by its own UID, so that a large workload is divided as nodes are: with one shard for all
of its replicas they crowd that shard's nodes while others' are empty. UIDs are put into lots first, whose shards can be
remembered: to find the shard of each by itself costs more than the rest of its events.
Limits: rules between pods of different workloads are judged by two shards, each of which learns of the other's
decisions by the watch.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from cotenant.model.cluster.labels import HOSTNAME
from cotenant.model.cluster.pod import Pod

_NODE = "node:"
_LOTS = 4096  # 64 or more for each shard, so that they have nearly as many pods


class Belonging(NamedTuple):
    """What a pod belongs to; empty = nothing of that kind. `gangs`: those that are placed together. `workload`: only
    where its pods are judged together.
    """

    uid: str
    quota_tree: str | None = None
    gangs: tuple[str, ...] = ()
    node: str = ""  # the only one that it may be on
    workload: str = ""
    reservation: str = ""  # it stands for this one


def group_of(pod: Belonging) -> str:
    """The key of the pod's group."""
    if pod.reservation:
        return f"reservation:{pod.reservation}"
    if pod.quota_tree is not None:
        return f"quota:{pod.quota_tree}"
    if pod.gangs:
        return f"gang:{min(pod.gangs)}"
    if pod.node:
        return f"{_NODE}{pod.node}"
    return f"workload:{pod.workload}" if pod.workload else f"lot:{crc32(pod.uid.encode()) % _LOTS}"


def is_judged_with_its_workload(pod: Pod, has_claims: bool) -> bool:
    """Whether something that the pod asks for depends on pods on other nodes, of which its replicas are the likeliest:
    spread, affinity, anti-affinity beyond a node, and claims of volumes or devices, which replicas share.
    """
    if pod.affinity or pod.spread or has_claims or pod.default_selector is not None:
        return True
    return any(term.topology_key != HOSTNAME for term in pod.anti_affinity)


def node_of(group: str) -> str:
    """The node with which a group goes; empty for others."""
    return group.removeprefix(_NODE) if group.startswith(_NODE) else ""


def in_words(group: str) -> str:
    """A group, for a person."""
    kind, _, name = group.partition(":")
    if kind == "quota":
        return f"the quota tree {name}" if name else "the default quota tree"
    if kind == "lot":
        return "its UID"
    return f"{kind} {name}"
