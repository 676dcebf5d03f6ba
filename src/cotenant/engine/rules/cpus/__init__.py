"""CPUs and NUMA nodes: which nodes can give a pod CPUs of its own, which they are, and who holds them.

Belongs here: each node's account of CPUs over time. Not here: how CPUs are chosen (policy/placement/cpus).
"""
