"""Partitions of the last-level cache and of memory bandwidth, through Linux' resctrl file system.

Belongs here: classes, their schemata and monitoring. Not here: which group gets which class (policy/nodeqos/memory).
"""
