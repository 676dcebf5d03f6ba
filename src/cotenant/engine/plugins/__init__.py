"""Plugins: what has a memory of its own beside the assignments. A folder each: gangs, quotas, reservations.

Belongs here: what gates, admits, holds or releases pods. Not here: what a node must have (engine/rules).
"""
