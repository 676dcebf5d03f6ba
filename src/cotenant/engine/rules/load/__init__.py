"""Load-aware placement: which nodes use too much, or soon will, and which use least.

Belongs here: every node's room by load, kept up to date. Not here: thresholds and estimates (policy/placement/load_aware).
"""
