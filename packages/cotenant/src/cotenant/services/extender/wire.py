"""The scheduler extender protocol, as kube-scheduler writes and reads it.

The protocol's Go structs have no JSON tags, so its keys are capitalised, unused ones are null, and an answer that
kube-scheduler does not expect fails a pod's whole cycle. Strict structs of what we use; a node is kept as the bytes
that came, so that an answer in full-node mode returns exactly what was given.
Limits: the deprecated `Nodes` of a preemption is refused with what to change.

Source: Kubernetes, staging/src/k8s.io/kube-scheduler/extender/v1/types.go (v1.36); real requests in reference form in
tests/kube.
"""

from __future__ import annotations

import msgspec

LARGEST_SCORE = 10  # MaxExtenderPriority: kube-scheduler multiplies by weight x 10


NULL = msgspec.Raw(b"null")


class NodeList(msgspec.Struct, frozen=True):
    """A v1.NodeList whose nodes stay encoded."""

    items: list[msgspec.Raw] | None = None


class ExtenderArgs(msgspec.Struct, frozen=True, rename="pascal"):
    """`ExtenderArgs`: exactly one of the two lists is set, by the configuration's `nodeCacheCapable`. All three
    stay encoded.
    """

    pod: msgspec.Raw = NULL
    nodes: msgspec.Raw = NULL
    node_names: msgspec.Raw = NULL


class FilterAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    """`ExtenderFilterResult`. Its lists are encoded already."""

    nodes: msgspec.Raw = NULL
    node_names: msgspec.Raw = NULL
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class BindingArgs(msgspec.Struct, frozen=True):
    """`ExtenderBindingArgs`; its UID is written in capitals."""

    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class BindingAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    """`ExtenderBindingResult`."""

    error: str = ""


class MetaPod(msgspec.Struct, frozen=True):
    """A victim by its UID."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(msgspec.Struct, frozen=True):
    """Victims of one node, named by UID (names mode)."""

    pods: list[MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class Victims(msgspec.Struct, frozen=True):
    """Victims of one node with their whole objects (full-node mode)."""

    pods: list[msgspec.Raw] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class PreemptionArgs(msgspec.Struct, frozen=True, rename="pascal"):
    """`ExtenderPreemptionArgs`: one of the two maps is set."""

    pod: msgspec.Raw = msgspec.Raw(b"null")
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class PreemptionAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    """`ExtenderPreemptionResult`: always by UID."""

    node_name_to_meta_victims: dict[str, MetaVictims]
