"""LowNodeLoad: which pods of overloaded nodes should move, by measured use.

Belongs here: thresholds, classes of nodes, the anomaly detector, orders of nodes and pods, and one round of choices.
Not here: which moves may happen at the same time (migration/), and where a pod lands (engine/rebalancer).
"""
