"""Room for a pod that waits, and nodes that can be emptied.

Belongs here: which sets of pods free enough of a node, and which nodes to empty first. Not here: where the pods land
(engine/rebalancer).
"""
