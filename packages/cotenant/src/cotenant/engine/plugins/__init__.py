"""Plugins: engine components with state of their own besides assignments. One folder each: gangs, quotas, reservations.

Belongs here: what gates, admits, holds or releases pods independently of the node. Not here: requirements on a node
(engine/rules).
"""
