"""What schedulers that share a cluster agree on: who they are, since when, and which nodes are lent.

Belongs here: the values that are stored. Not here: who owns what by them (policy/sharding), and how they change
(engine/sharding).
"""
