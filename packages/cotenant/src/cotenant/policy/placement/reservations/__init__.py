"""Reservations: owners, amounts drawn, the choice among several, and the life cycle.

Belongs here: pure rules about one reservation or one node's reservations. Not here: reservations of a cluster over time
(engine/plugins/reservations).
"""
