"""A node's hardware threads: topology, what a pod asks of them, and what a node reports of them.

Belongs here: values of CPUs and NUMA nodes. Not here: choosing CPUs (policy/placement/cpus).
"""
