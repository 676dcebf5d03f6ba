"""Allocation of CPUs and NUMA nodes of one node: demands, the ledger, the choice of CPUs, NUMA amounts.

Belongs here: pure functions over one node's CPUs. Not here: alignment with other resources (placement/numa.py),
accounts of all nodes (engine/rules/cpus).
"""
