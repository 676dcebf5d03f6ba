"""Kinds of events that may help refused pods, and which refusals each may help.

Trying every pending pod after every event takes all of the scheduler's time, and missing the event that would help
leaves a pod pending for minutes. Refusals by a row-local filter are tried again exactly when the filter passes on a
changed row; refusals by other filters after the kinds of event listed here, refusals by plugins after those that they
name (`Plugin.events`).
Source: the queueing hints of kube-scheduler's plugins.
Limits: kinds, not contents: a pod that waits for affinity is tried after any assignment. The values are
kube-scheduler's event names.
"""

from __future__ import annotations

from enum import StrEnum

EVERYTHING = "*"


class EventKind(StrEnum):
    """A kind of event."""

    NODE_ADDED = "NodeAdd"
    NODE_CHANGED = "NodeUpdate"
    NODE_GONE = "NodeDelete"
    POD_ASSIGNED = "AssignedPodAdd"
    POD_CHANGED = "AssignedPodUpdate"
    POD_GONE = "AssignedPodDelete"
    NAMESPACE = "NamespaceUpdate"
    TOPOLOGY = "NodeResourceTopologyUpdate"
    QUOTA = "ElasticQuotaUpdate"
    NODE_STORAGE = "CSINodeUpdate"  # a node may attach more volumes than before
    NODE_LOAD = "NodeMetricUpdate"  # a node may take more than before
    GANG = "PodGroupUpdate"  # a gang may spare members, or may be evicted whole, that could not before
    CLAIM = "ResourceClaimUpdate"  # devices may be free that were not
    DEVICES = "ResourceSliceUpdate"  # other devices, or classes of devices, than before
    BUDGET = "PodDisruptionBudgetUpdate"  # a whole gang may be evicted that could not be before


NODES = frozenset({EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.NODE_GONE})
_HELPING = {
    "PodTopologySpread": NODES | {EventKind.POD_ASSIGNED, EventKind.POD_CHANGED, EventKind.POD_GONE},
    "InterPodAffinity": NODES
    | {EventKind.POD_ASSIGNED, EventKind.POD_CHANGED, EventKind.POD_GONE, EventKind.NAMESPACE},
    "NodePorts": frozenset({EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.POD_GONE}),
    "VolumeBinding": frozenset({EventKind.NODE_ADDED, EventKind.NODE_CHANGED, EventKind.POD_GONE}),
    "VolumeRestrictions": frozenset({EventKind.NODE_ADDED, EventKind.NODE_GONE, EventKind.POD_GONE}),
    "NodeVolumeLimits": frozenset(
        {
            EventKind.NODE_ADDED,
            EventKind.NODE_STORAGE,
            EventKind.POD_ASSIGNED,  # with the same volume: it is attached there then
            EventKind.POD_CHANGED,
            EventKind.POD_GONE,
        }
    ),
    "VolumeZone": frozenset({EventKind.NODE_ADDED, EventKind.NODE_CHANGED}),
}


def helping(plugin: str) -> frozenset[EventKind]:
    """Events after which a refusal by this filter may not stand; all of them for a filter that is not listed."""
    return _HELPING.get(plugin, frozenset(EventKind))
