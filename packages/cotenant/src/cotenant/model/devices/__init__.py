"""Devices that are allocated in parts: a node's inventory, a pod's request, its allocation.

Belongs here: values of devices. Not here: device allocation (policy/placement/devices).
"""
