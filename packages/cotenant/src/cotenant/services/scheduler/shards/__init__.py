"""One scheduler of several that all act: its slot, the table on which they agree, and what follows for its engine.

Belongs here: requests and wiring. Not here: what a member may decide (engine/sharding).
"""
