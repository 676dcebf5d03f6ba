"""The Autonomy objects of a cluster, asked by every mover before it acts.

Belongs here: which objects there are. Not here: what a mover does while it may not act (its own engine).
"""
