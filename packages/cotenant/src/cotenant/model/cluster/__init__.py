"""Pods and nodes as a scheduler sees them: demands, labels, taints, affinity, topology, QoS, reports.

Belongs here: values about one pod, one node, or other API objects that scheduling needs. Not here: groups of pods
(model/groups), devices (model/devices), or a node as its agent sees it (model/machine).
"""
