"""Pods that are held by the disks are not placed beside one another, where that can be avoided.

Belongs here: what workloads want of a node's disks, by their profiles, and the sums by node. Not here: how that is
learned (policy/interference/bound.py, engine/workloads).
"""
