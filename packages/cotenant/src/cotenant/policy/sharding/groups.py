"""The group by which a pod has its shard: what must be judged by one engine has one key.

A quota's tree is one account, a gang is placed as a whole, and the replicas of a workload spread with regard to one
another. A pod that names its node (of a DaemonSet) goes with the node, since any other shard would have to borrow it.
Limits: rules between pods of different workloads are judged by two shards, each of which learns of the other's
decisions by the watch.
"""

from __future__ import annotations

from typing import NamedTuple

_NODE = "node:"


class Belonging(NamedTuple):
    """What a pod belongs to; empty = nothing of that kind. `gangs`: those that are placed together."""

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
    return f"workload:{pod.workload}" if pod.workload else f"pod:{pod.uid}"


def node_of(group: str) -> str:
    """The node with which a group goes; empty for others."""
    return group.removeprefix(_NODE) if group.startswith(_NODE) else ""


def in_words(group: str) -> str:
    """A group, for a person."""
    kind, _, name = group.partition(":")
    if kind == "quota":
        return f"the quota tree {name}" if name else "the default quota tree"
    return f"{kind} {name}"
