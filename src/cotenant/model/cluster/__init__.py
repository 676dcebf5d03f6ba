"""Pods and nodes as a scheduler knows them: demands, labels, taints, affinity, topology, QoS, reports.

Belongs here: values about one pod, one node, or what the API server says of a cluster. Not here: groups of pods, devices, or a node from inside.
"""
