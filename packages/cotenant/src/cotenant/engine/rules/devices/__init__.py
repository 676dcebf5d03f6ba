"""Devices: which nodes can satisfy a request for GPUs and other cards, which pods hold which part, and what blocks a
pod.

Belongs here: the device account of each node over time. Not here: how devices are selected (policy/placement/devices).
"""
