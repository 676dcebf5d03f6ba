"""Elastic quotas: how a tree of quotas divides resources, and which pods it admits, revokes or reclaims. Pure functions
and values.

Belongs here: runtimes, validation, headroom, preemption within a quota, revocation, reclaim. Not here: pods and objects
of a cluster over time (engine/plugins/quotas).
"""
