"""Node policies: pure functions from a node's state to the desired values of its knobs and to evictions.

Belongs here: one folder per resource or mechanism, and the text of reasons. Not here: writing knobs (engine/leases),
reading the node (drivers), or placement of pods on nodes (policy/placement).
"""
