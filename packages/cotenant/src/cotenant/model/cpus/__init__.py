"""Hardware threads of a node: their topology, a pod's demands on them, and what the node reports about them.

Belongs here: values of CPUs and NUMA nodes. Not here: CPU allocation (policy/placement/cpus).
"""
