"""Pods that violate a hard rule where they are: node affinity, taints, anti-affinity between pods, topology spread.

Belongs here: which pods violate a rule now, and the order in which they move until it holds. Not here: whether a pod
may move and where it lands (engine/rebalancer), and the rules at placement (policy/placement/topology).
"""
