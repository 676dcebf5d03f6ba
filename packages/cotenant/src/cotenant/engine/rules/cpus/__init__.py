"""CPUs and NUMA nodes: which nodes can give a pod exclusive CPUs, which CPUs they are, and which pods hold them.

Belongs here: the CPU account of each node over time. Not here: how CPUs are selected (policy/placement/cpus).
"""
