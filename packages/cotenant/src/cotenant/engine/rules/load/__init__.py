"""Load-aware placement: which nodes use too much or will soon, and which use the least.

Belongs here: the room of every node by load, kept up to date. Not here: thresholds and estimates
(policy/placement/load_aware).
"""
